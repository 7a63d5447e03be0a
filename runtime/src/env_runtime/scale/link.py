"""A front's HTTP client of one shard.

It is a protocol of asyncio's around the parser that uvicorn has, too. aiohttp's client
takes five times as much CPU for a call, which made two shards slower than one process
for a tool that does little.
"""

import asyncio
import contextlib
import logging
import urllib.parse
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple, cast

import httptools
import orjson
from fastapi import HTTPException

from ..errors import shortage
from .shard import ABOUT_PATH, KEY_HEADER

log = logging.getLogger(__name__)

START_SECONDS = 10.0
HEALTH_SECONDS = 2.0
MAX_IDLE = 1000  # connections that are kept for later requests
# Headers of one connection, which a proxy does not pass on
HOP_BY_HOP = frozenset(
    [b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"trailer"]
    + [b"transfer-encoding", b"upgrade", b"proxy-connection", KEY_HEADER.encode()]
)
OF_CONNECTION = HOP_BY_HOP - {b"content-length"}  # the same in an answer

Address = str | tuple[str, int]  # a Unix socket's path, or host and port
Headers = list[tuple[bytes, bytes]]


class NotDeliveredError(Exception):
    """The shard certainly did not get the request."""


class LostError(Exception):
    """The shard may have got the request, and will not answer."""


class ShardAnswer(NamedTuple):
    status: int
    headers: Headers
    body: bytes


class Connection(asyncio.Protocol):
    """A connection to a shard, for one request at a time."""

    def __init__(self) -> None:
        self.usable = True  # for the next request; not while one is under way
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[ShardAnswer] | None = None
        self._method = ""
        self._headers: Headers = []
        self._parts: list[bytes] = []

    async def exchange(self, request: bytes, method: str) -> ShardAnswer:
        """The answer to a request. Raises ConnectionError or HttpParserError."""
        self.usable = False
        self._method, self._headers, self._parts = method, [], []
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._waiting

    def close(self) -> None:
        """Close the connection at once. A request that is under way fails."""
        self.usable = False
        self._transport.abort()

    # -------------------------------------------------------------- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's is not an instance

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            self.close()  # an answer without a request
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the shard closed the connection"))

    def _fail(self, error: Exception) -> None:
        self.close()
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(error)

    # -------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        if self._waiting is None or self._waiting.done():
            self.close()  # an answer without a request

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._method == "HEAD":  # the parser waits for a body, and none comes
            self.on_message_complete()
            self.close()

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        closing = self._transport.is_closing()
        self.usable = self._parser.should_keep_alive() and not closing
        status, body = self._parser.get_status_code(), b"".join(self._parts)
        passed_on = [line for line in self._headers if line[0] not in OF_CONNECTION]
        if self._waiting and not self._waiting.done():
            self._waiting.set_result(ShardAnswer(status, passed_on, body))


class Link:
    """Sends requests to one shard, and watches whether it is up.

    `locate(number)` returns its address. It may block, and raise anything. The shard is
    down once nothing listens there, or if a ping and all other requests stay unanswered
    for `silence` seconds. A shard that answers one of them is only busy.
    """

    def __init__(
        self, number: int, key: str, locate: Callable[[int], Address], silence: float
    ) -> None:
        self.number, self.up = number, False
        self.prefix = ""  # the start of all ids that the shard makes
        self._key, self._locate, self._silence = key, locate, silence
        self._address: Address | None = None
        self._idle: list[Connection] = []  # kept for later requests
        self._used: set[Connection] = set()  # a request uses them now
        self._failed = asyncio.Event()  # a request failed: ping at once
        self._last_answer = 0.0  # in the loop's time

    async def keep(self) -> None:
        """Watch the shard, until the task is cancelled."""
        now, was_up = asyncio.get_running_loop().time, False
        while True:
            started = now()
            try:
                if not self.up:
                    self._address = await asyncio.to_thread(self._locate, self.number)
                self.prefix = (await self.about(self._silence))["prefix"]
                self.up = self.prefix.startswith(f"{self.number}-")
            except Exception as error:  # noqa: BLE001 - it may be starting
                log.debug("shard %d: %r", self.number, error)
                silent = now() - max(started, self._last_answer) >= self._silence
                gone = ConnectionRefusedError | FileNotFoundError
                if silent or isinstance(error.__cause__, gone):
                    self.up = False
            if was_up and not self.up:
                log.error("shard %d (%s) is gone, or hangs", self.number, self.prefix)
                for connection in {*self._idle, *self._used}:
                    connection.close()
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
    ) -> ShardAnswer:
        """The shard's answer to a request; `target` is the quoted path, with the query.

        Raises NotDeliveredError if the shard certainly did not get the request,
        LostError if it does not answer, after `seconds` at the latest, and
        HTTPException (503) if this process can open no more files.
        """
        lines = [b"%s %s HTTP/1.1\r\n" % (method.encode(), target)]
        if all(name != b"host" for name, _ in headers):
            lines.append(b"host: shard\r\n")
        lines += [b"%s: %s\r\n" % line for line in headers if line[0] not in HOP_BY_HOP]
        own = f"{KEY_HEADER}: {self._key}\r\ncontent-length: {len(body)}\r\n\r\n"
        request = b"".join((*lines, own.encode(), body))
        connection: Connection | None = None
        try:
            async with asyncio.timeout(seconds):
                connection = await self._open()
                self._used.add(connection)
                answer = await connection.exchange(request, method)
        except (OSError, httptools.HttpParserError) as error:
            if lack := shortage(error):
                raise HTTPException(503, lack, {"Retry-After": "2"}) from error
            self._failed.set()
            reason = f"shard {self.number} has ended"
            if isinstance(error, TimeoutError):
                reason = f"shard {self.number} did not answer within {seconds:g} s"
            raise (LostError if connection else NotDeliveredError)(reason) from error
        finally:
            if connection:
                self._used.discard(connection)
                if connection.usable and len(self._idle) < MAX_IDLE:
                    self._idle.append(connection)
                else:
                    connection.close()
        self._last_answer = asyncio.get_running_loop().time()
        return answer

    async def _open(self) -> Connection:
        """A connection that takes a request. Raises OSError."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        if self._address is None:
            raise FileNotFoundError
        loop = asyncio.get_running_loop()
        if isinstance(self._address, str):
            made = await loop.create_unix_connection(Connection, self._address)
        else:
            made = await loop.create_connection(Connection, *self._address)
        return made[1]


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

    `no_room` is there if no shard has room, and says why in one of them. Raises HTTPException with 503 if no shard is up.
    """
    pings = (link.about(HEALTH_SECONDS) for link in links if link.up)
    answers = await asyncio.gather(*pings, return_exceptions=True)
    up = [about["health"] for about in answers if isinstance(about, dict)]
    if not up:
        raise HTTPException(503, f"none of {len(links)} shards is up")
    totals = {key: sum(each[key] for each in up) for key in ("sessions", "hung_calls")}
    totals |= {"shards": len(links), "shards_up": len(up)}
    # A shard that has room takes the sessions of one that has none.
    problems = [each["no_room"] for each in up if "no_room" in each]
    full = {"no_room": problems[0]} if len(problems) == len(up) else {}
    return {"status": "ok", **totals, **full}
