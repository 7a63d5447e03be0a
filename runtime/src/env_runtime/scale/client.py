"""The proxy's HTTP client of one shard: aiohttp's, with a pool of connections."""

import asyncio
import contextlib
import errno
import io
import json
import logging
import string
import urllib.parse
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import aiohttp
import yarl
from fastapi import HTTPException

from ..errors import shortage
from .shard import ABOUT_PATH, KEY_HEADER

log = logging.getLogger(__name__)

START_SECONDS = 10.0
HEALTH_SECONDS = 2.0
# Headers of one connection, which a proxy does not pass on
HOP_BY_HOP = frozenset(
    [b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"trailer"]
    + [b"transfer-encoding", b"upgrade", b"proxy-connection", KEY_HEADER.encode()]
)
OF_CONNECTION = HOP_BY_HOP - {b"content-length"}  # the same in an answer
# aiohttp would add these to a request that lacks them.
NOT_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
GONE = (errno.ECONNREFUSED, errno.ENOENT)  # nothing listens at the address

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


class ShardClient:
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
        self._host = ""  # in URLs
        self._session: aiohttp.ClientSession | None = None
        self._running: set[asyncio.Timeout] = set()  # the deadlines of open requests
        self._failed = asyncio.Event()  # a request failed: ping at once
        self._last_answer = 0.0  # in the loop's time

    async def watch(self) -> None:
        """Watch the shard, until the task is cancelled."""
        now, was_up = asyncio.get_running_loop().time, False
        try:
            while True:
                started = now()
                try:
                    if not self.up:
                        address = await asyncio.to_thread(self._locate, self.number)
                        await self.connect_to(address)
                    self.prefix = (await self.about(self._silence))["prefix"]
                    self.up = self.prefix.startswith(f"{self.number}-")
                except Exception as error:  # noqa: BLE001 - it may be starting
                    log.debug("shard %d: %r", self.number, error)
                    silent = now() - max(started, self._last_answer) >= self._silence
                    if silent or getattr(error.__cause__, "errno", None) in GONE:
                        self.up = False
                if was_up and not self.up:
                    log.error(
                        "shard %d (%s) is gone, or hangs", self.number, self.prefix
                    )
                    for deadline in self._running:
                        if not deadline.expired():
                            deadline.reschedule(now())
                was_up = self.up
                self._failed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(
                        min(self._silence / 4, 5) if self.up else 0.2
                    ):
                        await self._failed.wait()
        finally:
            await self.close()

    async def connect_to(self, address: Address) -> None:
        """Send later requests to this address, on new connections."""
        await self.close()
        if isinstance(address, str):
            self._host = "shard"
            connector: Any = aiohttp.UnixConnector(address, limit=0)
        else:
            self._host = "{}:{}".format(*address)
            connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=NOT_ADDED,
            trust_env=False,
            # A request may take long, but not the connection to a shard.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._silence),
            max_line_size=1 << 16,
            max_field_size=1 << 16,
        )

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def about(self, seconds: float, session: str = "") -> dict[str, Any]:
        """The `prefix` of the shard's ids, its `health`, and if it `knows` a session.

        Raises NotDeliveredError, LostError, and ValueError if the key is refused.
        """
        name = urllib.parse.quote(session, safe="", errors="replace")
        target = f"{ABOUT_PATH}?{name}".encode()
        answer = await self.send("GET", target, [], b"", seconds)
        if answer.status != 200:
            raise ValueError("it refused the key: is SESSION_SECRET the same?")
        return json.loads(answer.body)

    async def send(
        self, method: str, target: bytes, headers: Headers, body: bytes, seconds: float
    ) -> ShardAnswer:
        """The shard's answer to a request; `target` is the quoted path, with the query.

        Raises NotDeliveredError if the shard certainly did not get the request,
        LostError if it does not answer, after `seconds` at the latest, and
        HTTPException (503) if this process can open no more files.
        """
        passed_on = [
            (name.decode("latin-1"), value.decode("utf-8", "replace"))
            for name, value in headers
            if name not in HOP_BY_HOP
        ]
        url = f"http://{self._host}{urllib.parse.quote(target, string.punctuation)}"
        deadline = asyncio.timeout(seconds)
        if self._session is None:
            raise NotDeliveredError(f"shard {self.number} has no address yet")
        try:
            async with deadline:
                self._running.add(deadline)
                # aiohttp repeats no POST. It repeats a GET or a PUT if its connection
                # was closed meanwhile, but only a shard that ends closes one.
                async with self._session.request(
                    method,
                    yarl.URL(url, encoded=True),
                    headers=[*passed_on, (KEY_HEADER, self._key)],
                    data=io.BytesIO(body) if body else None,
                    allow_redirects=False,
                ) as answer:
                    content = await answer.read()
        except (OSError, aiohttp.ClientError) as error:
            if lack := shortage(error):
                raise HTTPException(503, lack, {"Retry-After": "2"}) from error
            self._failed.set()
            reason = f"shard {self.number} has ended"
            if isinstance(error, TimeoutError) and self.up:
                reason = f"shard {self.number} did not answer within {seconds:g} s"
            unconnected = aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError
            kind = NotDeliveredError if isinstance(error, unconnected) else LostError
            raise kind(reason) from error
        finally:
            self._running.discard(deadline)
        self._last_answer = asyncio.get_running_loop().time()
        lines = [(name.lower(), value) for name, value in answer.raw_headers]
        kept = [line for line in lines if line[0] not in OF_CONNECTION]
        return ShardAnswer(answer.status, kept, content)


@contextlib.asynccontextmanager
async def connected(shards: list[ShardClient]) -> AsyncGenerator[None]:
    """Watch shards in the with block. It does not wait long for them to be up."""
    tasks = [asyncio.create_task(shard.watch()) for shard in shards]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            while not all(shard.up for shard in shards):
                await asyncio.sleep(0.01)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def health(shards: list[ShardClient]) -> dict[str, Any]:
    """Report that the server answers, with its shards, open sessions and hung calls.

    `no_room` is there if no shard has room, and says why in one of them. Raises
    HTTPException with 503 if no shard is up.
    """
    pings = (shard.about(HEALTH_SECONDS) for shard in shards if shard.up)
    answers = await asyncio.gather(*pings, return_exceptions=True)
    up = [about["health"] for about in answers if isinstance(about, dict)]
    if not up:
        raise HTTPException(503, f"none of {len(shards)} shards is up")
    totals = {key: sum(each[key] for each in up) for key in ("sessions", "hung_calls")}
    totals |= {"shards": len(shards), "shards_up": len(up)}
    # A shard that has room takes the sessions of one that has none.
    problems = [each["no_room"] for each in up if "no_room" in each]
    full = {"no_room": problems[0]} if len(problems) == len(up) else {}
    return {"status": "ok", **totals, **full}
