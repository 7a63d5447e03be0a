"""The proxy, which sends each request to the shard of its session, and its client."""

import asyncio
import contextlib
import errno
import hashlib
import io
import itertools
import json
import logging
import re
import string
import urllib.parse
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from typing import Any, NamedTuple

import aiohttp
import yarl
from fastapi import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import shortage
from ..gym_series import SESSION_ID_KEY
from ..resources_server import over_mcp
from ..resources_server.cookies import MAX_ID_CHARACTERS, SEEDED
from ..resources_server.http import SessionCookies, error_answer, read_body, received
from ..resources_server.store import FULL
from ..settings import ShardSettings
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
VERIFY_SECONDS = 1800.0  # long, because a grader may ask a model
MAX_PLACES = 100_000

# Paths that the proxy answers itself, because they belong to no session.
OWN_PATHS = frozenset(
    ["/", "/health", "/healthz", "/livez", "/readyz", "/metrics", "/stats", "/tools"]
    + ["/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"]
    + ["/aggregate_metrics", "/reverify_mode", ABOUT_PATH]
)
OWN_ID = re.compile(r"\d+-[0-9a-f]{8}-[0-9a-f]{32}")  # shard, incarnation, random

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
    totals: Counter[str] = Counter()
    idle: list[str] = []
    for each in up:
        totals.update({k: n for k, n in each.items() if isinstance(n, int)})
        idle += each.get("longest_idle", [])
    totals.update(shards=len(shards), shards_up=len(up))
    # A shard that has room takes the sessions of one that has none.
    problems = [each["no_room"] for each in up if "no_room" in each]
    more: dict[str, Any] = {"longest_idle": idle} if idle else {}
    if len(problems) == len(up):
        more["no_room"] = problems[0]
    return {"status": "ok", **totals, **more}


class Proxy:
    """Sends each request to the shard of its session, in place of the cookies' layer.

    `app` is the app of `server`, which has no sessions. It answers OWN_PATHS, and the
    requests of lost sessions.
    """

    def __init__(
        self,
        app: ASGIApp,
        cookies: SessionCookies,
        shards: list[ShardClient],
        server: Any,
    ) -> None:
        self.app, self.cookies, self.shards, self.server = app, cookies, shards, server
        self._silence = ShardSettings.read().shard_seconds
        self._turns = itertools.count()
        # For each id that a harness chose: its shard, and the shard's prefix
        self._places: dict[str, tuple[ShardClient, str]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        _, session = self.cookies.read(scope)
        if scope["path"] in OWN_PATHS or not scope["path"].startswith("/"):
            scope["session"] = {SESSION_ID_KEY: uuid.uuid4().hex, **session}
            await self.app(scope, receive, send)
            return
        try:
            body, _ = await read_body(receive, scope["path"])
            await self._pass_on(scope, body, session, receive, send)
        except HTTPException as error:
            answer = error_answer(error, scope["path"], self.server.lowest_reward)
            await answer(scope, receive, send)
        except ClientDisconnect:
            pass

    async def _pass_on(
        self,
        scope: Scope,
        body: bytes,
        session: dict[str, Any],
        receive: Receive,
        send: Send,
    ) -> None:
        """Pass a request on to a shard. Raises HTTPException if no shard takes it.

        The request goes to another shard only if the first one did not get it, or had
        no room for a new session.
        """
        path, headers = scope["path"], scope["headers"]
        shards, name, new = await self._route(scope, body, session)
        if new and session:  # the session of the cookie is lost
            headers = [line for line in headers if line[0] != b"cookie"]
        target = scope.get("raw_path") or urllib.parse.quote(path).encode()
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        seconds = self.server._store.longest_call() + self._silence
        if path == "/verify":
            seconds = VERIFY_SECONDS
        reason, sent = "its shard has ended", False
        for shard in shards:
            try:
                answer = await shard.send(
                    scope["method"], target, headers, body, seconds
                )
            except NotDeliveredError:
                continue
            except LostError as error:
                reason, sent = str(error), True
                break
            full = answer.status == 503 and FULL.encode() in dict(answer.headers)
            if full and (new or name) and shard is not shards[-1]:
                continue
            if name:
                self._remember(name, shard)
            start = {"status": answer.status, "headers": answer.headers}
            await send({"type": "http.response.start", **start})
            await send({"type": "http.response.body", "body": answer.body})
            return
        seeds = path == "/seed_session" and not session.get(SEEDED)
        if seeds or (new and not sent):
            detail = f"no shard took the request: {reason}; try again"
            raise HTTPException(503, detail, {"Retry-After": "2"})
        # The same answer as of a session server that does not know a seeded session
        scope["session"] = {SESSION_ID_KEY: "", **session, SEEDED: True}
        scope["lost"] = reason
        await self.app(scope, received(body, receive), send)

    async def _route(
        self, scope: Scope, body: bytes, session: dict[str, Any]
    ) -> tuple[list[ShardClient], str, bool]:
        """The shards to try, the id that a harness chose, and if the session is new."""
        chosen = _name_in(scope["path"], body)
        name = chosen or session.get(SESSION_ID_KEY, "")
        if scope["path"].startswith("/mcp"):
            name = over_mcp.session_of(self.server, scope) or name
        if not name:
            return self._in_turn(), "", True
        if OWN_ID.fullmatch(name):
            shards = [one for one in self._up() if name.startswith(one.prefix)]
            name = ""
        else:
            shards = await self._find(name)
        if chosen and not shards:
            shards = self._ranked(chosen)
        seeds = scope["path"] == "/seed_session" and not session.get(SEEDED)
        if seeds and not shards:
            return self._in_turn(), "", True
        return shards, name, False

    def _up(self) -> list[ShardClient]:
        return [shard for shard in self.shards if shard.up]

    def _in_turn(self) -> list[ShardClient]:
        """The shards that are up. Each comes first in turn, for an equal load."""
        up = self._up()
        first = next(self._turns) % (len(up) or 1)
        return up[first:] + up[:first]

    def _ranked(self, name: str) -> list[ShardClient]:
        """The shards that are up, in the order that rendezvous hashing gives `name`."""

        def score(shard: ShardClient) -> bytes:
            text = f"{shard.number} {name}".encode("utf-8", "replace")
            return hashlib.blake2b(text, digest_size=8).digest()

        return sorted(self._up(), key=score)

    async def _find(self, name: str) -> list[ShardClient]:
        """The shard that knows a session; all shards, ranked, if none does."""
        shard, prefix = self._places.get(name, (None, ""))
        if shard is not None and shard.up and shard.prefix == prefix:
            return [shard]
        # The hash alone is not enough: its first choice may have been down, or full,
        # when the session began.
        ranked = self._ranked(name)
        questions = (shard.about(self._silence, name) for shard in ranked)
        answers = await asyncio.gather(*questions, return_exceptions=True)
        for shard, about in zip(ranked, answers, strict=True):
            if isinstance(about, dict) and about["knows"]:
                return [shard]
        return ranked

    def _remember(self, name: str, shard: ShardClient) -> None:
        if len(self._places) >= MAX_PLACES:
            self._places.clear()  # a session that is open is found again
        self._places[name] = shard, shard.prefix


def _name_in(path: str, body: bytes) -> str:
    """The session that a seed or a close of NeMo Gym 0.7 names in its body, or "".

    A name that is too long counts as "": the session's shard refuses it.
    """
    seeds_or_closes = path in ("/seed_session", "/close_session")
    if not seeds_or_closes or b"resources_session_id" not in body:
        return ""
    try:
        name = json.loads(body)["resources_session_id"]
        name.encode()  # a lone surrogate cannot be sent on
        return name if len(name) <= MAX_ID_CHARACTERS else ""
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return ""
