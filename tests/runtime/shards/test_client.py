"""The proxy's client of a shard: what it passes on, and what it never sends twice."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncGenerator

import pytest
from env_runtime.scale.proxy import LostError, NotDeliveredError, ShardClient

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CUT = [b"", ANSWER[:20], ANSWER[:-1]]  # what a shard that ends may have sent


class Shard:
    """A server on a Unix socket. It hangs up after an answer that is cut."""

    def __init__(self, *answers: bytes):
        self.answers, self.requests, self.connections = list(answers), [], 0
        self.hold = asyncio.Event()  # until it is set, no answer is written
        self.hold.set()

    async def __call__(self, reader, writer):
        self.connections += 1
        with contextlib.closing(writer), contextlib.suppress(EOFError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode("latin-1").split("\r\n")[:-2]
                headers = [tuple(line.split(": ", 1)) for line in lines]
                length = int(dict(headers).get("Content-Length", 0))
                body = await reader.readexactly(length)
                self.requests.append((first, headers, body))
                await self.hold.wait()
                answer = self.answers.pop(0)
                writer.write(answer)
                if answer in CUT:
                    return


@contextlib.asynccontextmanager
async def client_of(shard, path) -> AsyncGenerator[ShardClient]:
    server = await asyncio.start_unix_server(shard, path)
    client = ShardClient(0, "the key", lambda number: str(path), 1)
    client.up = True
    await client.connect_to(str(path))
    try:
        yield client
    finally:
        await client.close()
        server.close()


@pytest.fixture
def played(tmp_path, monkeypatch):
    """Runs `play(client, shard)` with a shard that has these answers."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    def run(play, *answers):
        async def main():
            shard = Shard(*answers)
            async with client_of(shard, tmp_path / "0") as client:
                await play(client, shard)

        asyncio.run(main())

    return run


def test_a_request_and_its_answer_are_passed_on_as_they_are(played):
    packed = gzip.compress(b"packed")
    head = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Encoding: gzip\r\n"
    head += b"Set-Cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nKeep-Alive: 5\r\n"
    head += b"Content-Length: %d\r\n\r\n" % len(packed)
    given = [(b"host", b"game:80"), (b"cookie", b'x="1"; y=2'), (b"x-own", b"\xc3\xa9")]
    own = [(b"connection", b"close"), (b"expect", b"100-continue"), (b"te", b"gzip")]
    own += [(b"x-shard-key", b"guessed"), (b"content-length", b"7")]

    async def play(client, shard):
        target = b"/odd%20name/../%2F?a=%26&b=\xe9"
        answer = await client.send("POST", target, [*given, *own], b"\0body", 5)
        assert answer.status == 302
        assert answer.body == packed
        assert answer.headers == [
            (b"location", b"/elsewhere"),
            (b"content-encoding", b"gzip"),
            (b"set-cookie", b"a=1; Path=/"),
            (b"set-cookie", b"b=2"),
            (b"content-length", b"%d" % len(packed)),
        ]
        await client.send("GET", b"/", [], b"", 5)
        (first, headers, body), (_, later, _) = shard.requests
        assert first == "POST /odd%20name/../%2F?a=%26&b=%E9 HTTP/1.1"
        assert body == b"\0body"
        assert sorted(headers) == [
            *[("Content-Length", "5"), ("cookie", 'x="1"; y=2'), ("host", "game:80")],
            *[("x-own", b"\xc3\xa9".decode("latin-1")), ("x-shard-key", "the key")],
        ]
        # The answer's cookies are the client's own: nothing of them is kept here.
        assert sorted(later) == [("Host", "shard"), ("x-shard-key", "the key")]
        assert shard.connections == 1

    played(play, head + packed, ANSWER)


def test_a_large_body_arrives_whole(played):
    async def play(client, shard):
        body = bytes(range(256)) * 20_000
        await client.send("POST", b"/verify", [], body, 5)
        assert shard.requests[0][2] == body

    played(play, ANSWER)


@pytest.mark.parametrize("answer", CUT)
def test_a_post_that_a_shard_may_have_got_is_lost(played, answer):
    """It is not sent again, on a new connection or on a kept one."""

    async def play(client, shard):
        for number in (1, 2):
            if number == 2:
                await client.send("POST", b"/kept", [], b"", 5)
            with pytest.raises(LostError, match="shard 0 has ended"):
                await client.send("POST", b"/move", [], b"", 5)
        assert [first.split()[1] for first, *_ in shard.requests] == [
            *("/move", "/kept", "/move")
        ]

    played(play, answer, ANSWER, answer)


def test_nothing_is_waited_for_longer_than_said(played):
    async def play(client, shard):
        shard.hold.clear()
        with pytest.raises(LostError, match=r"did not answer within 0\.1 s"):
            await client.send("POST", b"/move", [], b"", 0.1)
        # A shard that is gone fails what is under way, and never mind its deadline.
        sending = asyncio.create_task(client.send("POST", b"/move", [], b"", 60))
        await asyncio.sleep(0.1)
        watching = asyncio.create_task(client.watch())
        with pytest.raises(LostError, match="shard 0 has ended"):
            await asyncio.wait_for(sending, 10)
        assert not client.up
        watching.cancel()
        shard.hold.set()

    played(play, *4 * [b""])


def test_without_a_shard_nothing_is_delivered(played, tmp_path):
    async def play(client, shard):
        await client.connect_to(str(tmp_path / "nobody"))
        with pytest.raises(NotDeliveredError):
            await client.send("POST", b"/move", [], b"", 5)
        await client.close()
        with pytest.raises(NotDeliveredError):
            await client.send("POST", b"/move", [], b"", 5)

    played(play)
