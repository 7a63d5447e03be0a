"""A front's HTTP client of one shard.

It uses asyncio's streams. aiohttp's client takes five times as much CPU for a call,
which made two shards slower than one process for a tool that does little.
"""

import asyncio
import contextlib
import logging
import urllib.parse
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import orjson
from fastapi import HTTPException

from .shard import ABOUT_PATH, KEY_HEADER

log = logging.getLogger(__name__)

START_SECONDS = 10.0
HEALTH_SECONDS = 2.0
MAX_HEADERS = 1 << 20  # the most bytes in the headers of an answer
MAX_IDLE = 1000  # connections that are kept for later requests
# Headers of one connection, which a proxy does not pass on
HOP_BY_HOP = frozenset(
    [b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"trailer"]
    + [b"transfer-encoding", b"upgrade", b"proxy-connection", KEY_HEADER.encode()]
)

Address = str | tuple[str, int]  # a Unix socket's path, or host and port
Headers = list[tuple[bytes, bytes]]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NotDeliveredError(Exception):
    """The shard certainly did not get the request."""


class LostError(Exception):
    """The shard may have got the request, and will not answer."""


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class Link:
    """Sends requests to one shard, and watches whether it is up.

    `locate(number)` returns its address. It may block, and raise anything. The shard is
    down once nobody listens there, or if a ping and all other requests stay unanswered
    for `silence` seconds. A shard that answers one of them is only busy.
    """

    def __init__(
        self, number: int, key: str, locate: Callable[[int], Address], silence: float
    ) -> None:
        self.number, self.up = number, False
        self.prefix = ""  # the start of all ids that the shard makes
        self._key, self._locate, self._silence = key, locate, silence
        self._address: Address | None = None
        self._idle: list[Stream] = []  # connections that are kept alive
        self._used: set[Stream] = set()  # connections that a request uses now
        self._failed = asyncio.Event()  # a request failed: ping at once
        self._last_answer = 0.0  # in the loop's time

    async def keep(self) -> None:
        """Watch the shard, until the task is cancelled."""
        now, was_up = asyncio.get_running_loop().time, False
        while True:
            asked = now()
            try:
                if not self.up:
                    self._address = await asyncio.to_thread(self._locate, self.number)
                self.prefix = (await self.about(self._silence))["prefix"]
                self.up = self.prefix.startswith(f"{self.number}-")
            except Exception as error:  # noqa: BLE001 - it may be starting
                log.debug("shard %d: %r", self.number, error)
                silent = now() - max(asked, self._last_answer) >= self._silence
                gone = ConnectionRefusedError | FileNotFoundError
                if silent or isinstance(error.__cause__, gone):
                    self.up = False
            if was_up and not self.up:
                log.error("shard %d (%s) is gone, or hangs", self.number, self.prefix)
                for _, writer in {*self._idle, *self._used}:
                    writer.transport.abort()
            was_up = self.up
            self._failed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    min(self._silence / 4, 5) if self.up else 0.2
                ):
                    await self._failed.wait()

    async def about(self, seconds: float, session: str = "") -> dict[str, Any]:
        """The `prefix` of the shard's ids, its `health`, and if it `knows` a session.

        Raises NotDeliveredError, LostError, and ValueError if the key is refused.
        """
        name = urllib.parse.quote(session, safe="", errors="replace")
        target = f"{ABOUT_PATH}?{name}".encode()
        answer = await self.send("GET", target, [], b"", seconds)
        if answer.status != 200:
            raise ValueError("it refused the key: is SESSION_SECRET the same?")
        return orjson.loads(answer.body)

    async def send(
        self, method: str, target: bytes, headers: Headers, body: bytes, seconds: float
    ) -> Answer:
        """The shard's answer to a request; `target` is the quoted path, with the query.

        Raises NotDeliveredError if the shard certainly did not get the request, and
        LostError if it does not answer, after `seconds` at the latest.
        """
        lines = [b"%s %s HTTP/1.1\r\n" % (method.encode(), target)]
        if all(name != b"host" for name, _ in headers):
            lines.append(b"host: shard\r\n")
        lines += [b"%s: %s\r\n" % line for line in headers if line[0] not in HOP_BY_HOP]
        own = f"{KEY_HEADER}: {self._key}\r\ncontent-length: {len(body)}\r\n\r\n"
        request = b"".join((*lines, own.encode(), body))
        stream: Stream | None = None
        answer: Answer | None = None
        try:
            async with asyncio.timeout(seconds):
                stream = await self._open()
                self._used.add(stream)
                answer = await _exchange(stream, request, method)
        except (OSError, EOFError, ValueError) as error:
            self._failed.set()
            reason = f"shard {self.number} has ended"
            if isinstance(error, TimeoutError):
                reason = f"shard {self.number} did not answer within {seconds:g} s"
            raise (LostError if stream else NotDeliveredError)(reason) from error
        finally:
            if stream:
                self._used.discard(stream)
                if answer and len(self._idle) < MAX_IDLE:
                    self._idle.append(stream)
                else:
                    stream[1].transport.abort()
        self._last_answer = asyncio.get_running_loop().time()
        return answer

    async def _open(self) -> Stream:
        """A connection that takes a request. Raises OSError."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and reader.exception() is None:
                return reader, writer
        if self._address is None:
            raise FileNotFoundError
        if isinstance(self._address, str):
            return await asyncio.open_unix_connection(self._address, limit=MAX_HEADERS)
        return await asyncio.open_connection(*self._address, limit=MAX_HEADERS)


async def _exchange(stream: Stream, request: bytes, method: str) -> Answer:
    """The answer to a request. Raises OSError, EOFError or ValueError."""
    reader, writer = stream
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    headers = [(name.lower(), value.strip()) for name, _, value in pairs]
    parts = []
    if (b"transfer-encoding", b"chunked") in headers:
        while size := int(await reader.readline(), 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
    elif method != "HEAD":
        length = int(dict(headers).get(b"content-length", b"0"))
        parts.append(await reader.readexactly(length))
    own = HOP_BY_HOP - {b"content-length"}
    passed_on = [line for line in headers if line[0] not in own]
    return Answer(int(first.split()[1]), passed_on, b"".join(parts))


@contextlib.asynccontextmanager
async def connected(links: list[Link]) -> AsyncGenerator[None]:
    """Watch shards in the with block. It does not wait long for them to be up."""
    tasks = [asyncio.create_task(link.keep()) for link in links]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not all(link.up for link in links):
                await asyncio.sleep(0.01)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def health(links: list[Link]) -> dict[str, Any]:
    """Report that the server answers, with its shards, open sessions and hung calls.

    Raises HTTPException with 503 if no shard is up.
    """
    pings = (link.about(HEALTH_SECONDS) for link in links if link.up)
    answers = await asyncio.gather(*pings, return_exceptions=True)
    up = [about["health"] for about in answers if isinstance(about, dict)]
    if not up:
        raise HTTPException(503, f"none of {len(links)} shards is up")
    totals = {key: sum(each[key] for each in up) for key in ("sessions", "hung_calls")}
    return {"status": "ok", **totals, "shards": len(links), "shards_up": len(up)}
