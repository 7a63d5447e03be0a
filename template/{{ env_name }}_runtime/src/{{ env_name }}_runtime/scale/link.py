"""A front's HTTP client of one shard."""

import asyncio
import contextlib
import functools
import logging
import urllib.parse
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import aiohttp
import orjson
from fastapi import HTTPException
from yarl import URL

from .shard import ABOUT_PATH, KEY_HEADER

log = logging.getLogger(__name__)

START_SECONDS = 10.0
HEALTH_SECONDS = 2.0
# Headers of one connection, which a proxy does not pass on. aiohttp writes its own.
HOP_BY_HOP = frozenset(
    [b"connection", b"content-length", b"expect", b"keep-alive", b"te", b"trailer"]
    + [b"transfer-encoding", b"upgrade", b"proxy-connection", KEY_HEADER.encode()]
)
AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

Address = str | tuple[str, int]  # a Unix socket's path, or host and port
Headers = list[tuple[bytes, bytes]]


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

    `locate(number)` is its address: it may block, and raise anything. The shard is down
    once nobody listens there, or if a ping and all other requests stay unanswered for
    `silence` seconds. If it answers any of them, it is busy.
    """

    def __init__(
        self, number: int, key: str, locate: Callable[[int], Address], silence: float
    ) -> None:
        self.number, self.up = number, False
        self.prefix = ""  # of the ids that the shard makes
        self._key, self._locate, self._silence = key, locate, silence
        self._client: Any = None
        self._failed = asyncio.Event()  # a request failed: ping at once
        self._last_answer = 0.0  # in the loop's time

    async def keep(self) -> None:
        """Watch the shard, until the task is cancelled."""
        now, was_up = asyncio.get_running_loop().time, False
        while True:
            asked = now()
            try:
                if not self.up:
                    await self._connect()
                self.prefix = (await self.about(self._silence))["prefix"]
                self.up = self.prefix.startswith(f"{self.number}-")
            except LostError:
                silent = now() - max(asked, self._last_answer) >= self._silence
                self.up = self.up and not silent
            except Exception as error:  # noqa: BLE001 - it may be starting
                log.debug("shard %d: %r", self.number, error)
                self.up = False
            if was_up and not self.up:
                log.error("shard %d (%s) is gone, or hangs", self.number, self.prefix)
            was_up = self.up
            self._failed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(
                    min(self._silence / 4, 5) if self.up else 0.2
                ):
                    await self._failed.wait()

    async def _connect(self) -> None:
        """Make a client for the shard's address. Ends the requests of the last one."""
        if self._client is not None:
            await self._client.close()
        address = await asyncio.to_thread(self._locate, self.number)
        connector: aiohttp.BaseConnector
        if isinstance(address, str):
            connector, address = aiohttp.UnixConnector(address, limit=0), ("shard", 80)
        else:
            connector = aiohttp.TCPConnector(limit=0)
        self._url = _url_maker(*address)
        self._client = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=AUTOMATIC,
            max_line_size=1 << 20,
            max_field_size=1 << 20,
        )

    async def about(self, seconds: float, session: str = "") -> dict[str, Any]:
        """The `prefix` of the shard's ids, its `health`, and if it `knows` a session.

        Raises NotDeliveredError, LostError, and ValueError if it refuses the key.
        """
        query = urllib.parse.quote(session, safe="", errors="replace")
        answer = await self.send("GET", ABOUT_PATH, query, [], b"", seconds)
        if answer.status != 200:
            raise ValueError("it refused the key: is SESSION_SECRET the same?")
        return orjson.loads(answer.body)

    async def send(
        self,
        method: str,
        path: str,
        query: str,
        headers: Headers,
        body: bytes,
        seconds: float,
    ) -> Answer:
        """The shard's answer to a request, whose `path` and `query` are quoted.

        Raises NotDeliveredError if the shard certainly did not get it, and LostError if
        it does not answer, after `seconds` at the latest.
        """
        client, ended = self._client, f"shard {self.number} has ended"
        if client is None or client.closed:
            raise NotDeliveredError(ended)
        lines = [(KEY_HEADER, self._key)]
        for name, value in headers:
            if name not in HOP_BY_HOP:
                lines.append((name.decode(), value.decode("utf-8", "replace")))
        try:
            async with client.request(
                method,
                self._url(path, query),
                headers=lines,
                data=body or None,
                allow_redirects=False,
                timeout=_timeout(seconds, self._silence),
            ) as response:
                content = await response.read()
        except aiohttp.ClientConnectorError as error:
            self._failed.set()
            raise NotDeliveredError(ended) from error
        except TimeoutError as error:
            message = f"shard {self.number} did not answer within {seconds:g} s"
            unsent = isinstance(error, aiohttp.ConnectionTimeoutError)
            raise (NotDeliveredError if unsent else LostError)(message) from error
        except (aiohttp.ClientError, OSError) as error:
            self._failed.set()
            raise LostError(ended) from error
        self._last_answer = asyncio.get_running_loop().time()
        answered = [(name.lower(), value) for name, value in response.raw_headers]
        passed_on = [line for line in answered if line[0] != b"transfer-encoding"]
        return Answer(response.status, passed_on, content)


@functools.lru_cache
def _timeout(seconds: float, connect: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=connect)


def _url_maker(host: str, port: int) -> Callable[[str, str], URL]:
    @functools.lru_cache(1000)
    def url(path: str, query: str) -> URL:
        place = {"scheme": "http", "host": host, "port": port}
        return URL.build(**place, path=path, query_string=query, encoded=True)

    return url


@contextlib.asynccontextmanager
async def connected(links: list[Link]) -> AsyncIterator[None]:
    """Watches shards. Begins without those that are not up soon."""
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
    """That the server answers, its shards, their open sessions and hung calls.

    Raises HTTPException with 503 if no shard is up.
    """
    pings = (link.about(HEALTH_SECONDS) for link in links if link.up)
    answers = await asyncio.gather(*pings, return_exceptions=True)
    up = [about["health"] for about in answers if isinstance(about, dict)]
    if not up:
        raise HTTPException(503, f"none of {len(links)} shards is up")
    totals = {key: sum(each[key] for each in up) for key in ("sessions", "hung_calls")}
    return {"status": "ok", **totals, "shards": len(links), "shards_up": len(up)}
