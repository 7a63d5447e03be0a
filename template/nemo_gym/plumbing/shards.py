"""Sessions in several processes, on one machine or on a Ray cluster, behind one address.

With `SHARDS=N` the HTTP process is a `Front`. It checks the API token and the size of
bodies, reads the cookie, and hands every request whole to the shard of its session. A
shard is a process with a complete session server, see `Shard`. `SHARDS_ON=ray` (the
default) runs the shards as Ray actors, `SHARDS_ON=processes` as child processes.

The id of a session begins with its shard's number and the shard's birth mark, so a
front needs no table, and knows that a restarted shard has lost an id. New sessions go to
the shards in turn. An id that a harness named is looked for in all shards, and begins in
the one that rendezvous hashing puts first.

A front and a shard talk in frames over one connection: a fixed header, a head in JSON,
and the body as it is. Both prove first that they know a key made of SESSION_SECRET.
Nothing is sent twice once it may have arrived. A shard that answers no ping for
SHARD_SECONDS is killed, and started again.
"""

import asyncio
import collections
import contextlib
import hashlib
import hmac
import importlib.util
import itertools
import json
import logging
import os
import re
import secrets
import struct
import sys
import urllib.parse
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from fastapi import HTTPException
from fastapi.responses import JSONResponse
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbing.asgi import FULL, MAX_ID_CHARACTERS, SEEDED, SessionCookies

log = logging.getLogger(__name__)

Address = str | tuple[str, int]  # a Unix socket's path, or host and port
Order = dict[str, Any]  # what a shard is started with: plain JSON

HANDSHAKE_SECONDS = 10.0
VERIFY_SECONDS = 1800.0  # a grader may ask a model; other calls have TOOL_SECONDS

# What a front answers by itself: nothing here belongs to a session.
OWN_PATHS = frozenset(
    ["/", "/health", "/healthz", "/livez", "/readyz", "/metrics", "/stats", "/tools"]
    + ["/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"]
    + ["/aggregate_metrics", "/reverify_mode"]
)
OWN_ID = re.compile(r"(\d+)-([0-9a-f]{8})-[0-9a-f]{32}")  # shard, birth mark, random


class NotDeliveredError(Exception):
    """The shard certainly did not get the request."""


class LostError(Exception):
    """The shard may have got the request, and will not answer."""


def wanted(configured: int | None) -> int:
    """The number of shards: SHARDS, else what configs/<env>.yaml says; 0 if neither.

    Raises ValueError if SHARDS is not a positive integer.
    """
    text = os.environ.get("SHARDS")
    if not text:
        return configured or 0
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"SHARDS must be a positive integer, got {text!r}")
    return int(text)


def kind() -> str:
    """SHARDS_ON: ray or processes. Raises ValueError if it is something else."""
    text = os.environ.get("SHARDS_ON") or "ray"
    if text not in ("ray", "processes"):
        raise ValueError(f"SHARDS_ON must be ray or processes, got {text!r}")
    return text


def seconds_of_silence() -> float:
    """SHARD_SECONDS: a shard that answers no ping for so long is killed."""
    return positive("SHARD_SECONDS", 30.0)


def positive(variable: str, default: float) -> float:
    """A positive number out of an environment variable. Raises ValueError."""
    text = os.environ.get(variable)
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"{variable} must be a positive number, got {text!r}")
    return value


def key_of(secret: str) -> bytes:
    """What fronts and shards prove to each other, out of SESSION_SECRET."""
    return hmac.digest(secret.encode(), b"shards", "sha256")


# ---------------------------------------------------------------------- frames

_FRAME = struct.Struct("!IBII")  # bytes after this header, kind, number, bytes of head
HELLO, REQUEST, ANSWER, CANCEL, PING, FIND = range(6)
MOST_BYTES = 1 << 30


class Wire(asyncio.Protocol):
    """Frames over one connection, in both directions."""

    def __init__(
        self,
        on_frame: Callable[[int, int, bytes, bytes], None],
        on_end: Callable[[], None],
        greeting: bytes = b"",
    ) -> None:
        self.most = 1024  # bytes of a frame, until the other side is known
        self.free = asyncio.Event()  # whether more may be written
        self.free.set()
        self.transport: Any = None
        self._on_frame, self._on_end, self._greeting = on_frame, on_end, greeting
        self._buffer = bytearray()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        if self._greeting:
            self.send(HELLO, 0, self._greeting)

    def connection_lost(self, exc: Exception | None) -> None:
        self.free.set()
        self._on_end()

    def pause_writing(self) -> None:
        self.free.clear()

    def resume_writing(self) -> None:
        self.free.set()

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _FRAME.size:
            length, kind, number, head = _FRAME.unpack_from(buffer)
            if length > self.most or head > length:
                self.transport.abort()
                return
            end, middle = _FRAME.size + length, _FRAME.size + head
            if len(buffer) < end:
                return
            with memoryview(buffer) as view:
                parts = bytes(view[_FRAME.size : middle]), bytes(view[middle:end])
            del buffer[:end]
            self._on_frame(kind, number, *parts)

    def send(
        self, kind: int, number: int, head: bytes = b"", body: bytes = b""
    ) -> None:
        header = _FRAME.pack(len(head) + len(body), kind, number, len(head))
        self.transport.write(b"".join((header, head, body)))


# ---------------------------------------------------------------------- in the shard


class Shard:
    """Plays what fronts send on the app of a session server.

    `app` takes requests whose `scope["session"]` is set: the front read the cookie.
    """

    def __init__(
        self, app: ASGIApp, number: int, key: bytes, birth: str, server: Any
    ) -> None:
        self.app, self.number, self.birth, self.server = app, number, birth, server
        self._key = key
        self._playing: set[asyncio.Task] = set()

    def connection(self) -> Wire:
        """A connection from a front, for `loop.create_server`."""
        nonce, running = secrets.token_bytes(16), dict[int, asyncio.Task]()
        loop = asyncio.get_running_loop()

        def ended() -> None:
            late.cancel()

        def frame(kind: int, number: int, head: bytes, body: bytes) -> None:
            if wire.most < MOST_BYTES:  # the other side has yet to prove itself
                theirs, proof = head[:16], head[16:]
                expected = hmac.digest(self._key, b"front" + nonce + theirs, "sha256")
                if kind != HELLO or not hmac.compare_digest(proof, expected):
                    wire.transport.abort()
                    return
                late.cancel()
                wire.most = MOST_BYTES
                proof = hmac.digest(self._key, b"shard" + theirs + nonce, "sha256")
                me = {"number": self.number, "birth": self.birth, "pid": os.getpid()}
                wire.send(HELLO, 0, proof + json.dumps(me).encode())
            elif kind == CANCEL:
                if number in running:
                    running[number].cancel()
            else:
                task = loop.create_task(answer(kind, number, head, body))
                running[number] = task
                self._playing.add(task)
                task.add_done_callback(self._playing.discard)

        async def answer(kind: int, number: int, head: bytes, body: bytes) -> None:
            try:
                try:
                    parts = await self.answer(kind, head, body)
                except Exception:  # else the front would wait for its deadline
                    log.exception("a request of kind %d failed", kind)
                    parts = orjson.dumps([500, [], None]), b""
                await wire.free.wait()
                if not wire.transport.is_closing():
                    wire.send(ANSWER, number, *parts)
            finally:
                running.pop(number, None)

        wire = Wire(frame, ended, nonce)
        late = loop.call_later(HANDSHAKE_SECONDS, lambda: wire.transport.abort())
        return wire

    async def answer(self, kind: int, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """The head and the body of the answer to a frame."""
        if kind == PING:
            return orjson.dumps(await self.server.health()), b""
        if kind == FIND:
            return orjson.dumps(self.server.knows(head.decode())), b""
        return await self._play(head, body)

    async def _play(self, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        """One HTTP request as an ASGI call."""
        method, path, query, headers, session = orjson.loads(head)
        given = dict(session)
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "root_path": "",
            "path": urllib.parse.unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers],
            "server": ("shard", 0),
            "client": None,
            "state": {},
            "session": session,
        }
        status, answered, after, parts = 500, [], None, []
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if messages:
                return messages.pop()
            return await asyncio.get_running_loop().create_future()  # no disconnect

        async def send(message: Message) -> None:
            nonlocal status, answered, after
            if message["type"] == "http.response.start":
                status = message["status"]
                answered = message.get("headers", [])
                after = session if session != given else None
            else:
                parts.append(message.get("body", b""))

        try:
            await self.app(scope, receive, send)
        except Exception:  # it is answered with 500 already
            log.exception("%s %s failed", method, path)
        lines = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in answered]
        return orjson.dumps([status, lines, after]), b"".join(parts)


async def serve_shard(
    order: Order,
    listen: Callable[[Callable[[], Wire]], Awaitable[Address]],
    ready: Callable[[Address], None],
    stop: asyncio.Event,
) -> None:
    """Serve one shard until `stop`, then close all its episodes."""
    birth = secrets.token_hex(4)
    server = load_class(order["file"], order["class"]).in_shard(order, birth)
    app = server.setup_webserver()
    server.expose(app)
    key = key_of(order["secret"])
    shard = Shard(app, order["number"], key, birth, server)
    async with app.router.lifespan_context(app):
        ready(await listen(shard.connection))
        await stop.wait()


def load_class(file: str, name: str) -> Any:
    """A class of a Python file, which is imported as Python imports a script."""
    path = Path(file)
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    module = sys.modules.get(path.stem)
    if module is None or getattr(module, "__file__", None) != file:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part)
    return found


def class_place(server_class: type) -> dict[str, str]:
    """Where a shard finds a class again. Raises ValueError if it cannot."""
    module = sys.modules[server_class.__module__]
    file, name = getattr(module, "__file__", None), server_class.__qualname__
    if not file or "<locals>" in name:
        raise ValueError(
            f"{name} cannot be served in shards: other processes must find it at the "
            "top level of a Python file, as in server.py"
        )
    return {"file": str(Path(file).resolve()), "class": name}


def run_loop(main: Any) -> None:
    """As asyncio.run, on uvicorn's faster loop if that is installed."""
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.run(main)
        return
    asyncio.run(main)


# ---------------------------------------------------------------------- in the front


class Link:
    """A front's connection to one shard, which is made again whenever it ends.

    `home` knows where the shard is (`locate(number)`, in a thread, may raise), and ends
    one that hangs (`kill(number, pid)`).
    """

    def __init__(self, number: int, key: bytes, home: Any, silence: float) -> None:
        self.number, self.birth = number, ""
        self.health: dict[str, Any] = {}  # as of the last ping
        self._key, self._home, self._silence = key, home, silence
        self._wire: Wire | None = None
        self._pending: dict[int, asyncio.Future[tuple[bytes, bytes]]] = {}
        self._last = 0
        self._pid: int | None = None

    @property
    def up(self) -> bool:
        return self._wire is not None

    async def keep(self) -> None:
        """Stay connected, for as long as nobody cancels it."""
        pause = 0.05
        while True:
            try:
                address = await asyncio.to_thread(self._home.locate, self.number)
                async with self._connected(address) as ended:
                    pause = 0.05
                    await self._watch(ended)
                log.warning("shard %d (%s) is gone", self.number, self.birth)
            except Exception as error:  # noqa: BLE001 - it may be starting
                log.debug("shard %d: %r", self.number, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1)

    @contextlib.asynccontextmanager
    async def _connected(self, address: Address) -> Any:
        """Connects. Raises OSError, TimeoutError or ConnectionError if it cannot."""
        loop = asyncio.get_running_loop()
        ended, welcome = asyncio.Event(), loop.create_future()
        nonce, met = secrets.token_bytes(16), []

        def end() -> None:
            if self._wire is wire:
                self._wire = None
                for pending in self._pending.values():
                    if not pending.done():
                        pending.set_exception(LostError(self.ended()))
            if not welcome.done():
                refusal = "it refused: is SESSION_SECRET the same?"
                welcome.set_exception(ConnectionError(refusal))
            ended.set()

        def frame(kind: int, number: int, head: bytes, body: bytes) -> None:
            if kind == HELLO and not met:
                met.append(head)
                proof = hmac.digest(self._key, b"front" + head + nonce, "sha256")
                wire.send(HELLO, 0, nonce + proof)
            elif kind == HELLO:
                proof = hmac.digest(self._key, b"shard" + nonce + met[0], "sha256")
                if hmac.compare_digest(head[:32], proof) and not welcome.done():
                    wire.most = MOST_BYTES
                    welcome.set_result(json.loads(head[32:]))
                else:
                    wire.transport.abort()
            elif wire.most == MOST_BYTES:
                pending = self._pending.get(number)
                if pending is not None and not pending.done():
                    pending.set_result((head, body))

        wire = Wire(frame, end)
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            if isinstance(address, str):
                await loop.create_unix_connection(lambda: wire, address)
            else:
                await loop.create_connection(lambda: wire, *address)
        try:
            try:
                async with asyncio.timeout(max(HANDSHAKE_SECONDS, self._silence)):
                    me = await welcome
            except TimeoutError:  # it hangs
                await asyncio.to_thread(self._home.kill, self.number, None)
                raise
            if me["number"] != self.number:
                raise ConnectionError(f"this is shard {me['number']}")
            self.birth, self._pid, self._wire = me["birth"], me["pid"], wire
            yield ended
        finally:
            wire.transport.abort()
            end()

    async def _watch(self, ended: asyncio.Event) -> None:
        """Ping until the connection ends. Kills a shard that does not answer."""
        while not ended.is_set():
            try:
                await self.ping(self._silence)
            except LostError:
                if not ended.is_set():  # so the shard's process exists, and hangs
                    log.error(
                        "shard %d answers nothing for %g s (SHARD_SECONDS): killed",
                        self.number,
                        self._silence,
                    )
                    await asyncio.to_thread(self._home.kill, self.number, self._pid)
                return
            except NotDeliveredError:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._silence / 4, 5)):
                    await ended.wait()

    def ended(self) -> str:
        return f"shard {self.number} has ended"

    async def ping(self, seconds: float) -> dict[str, Any]:
        """The /health of the shard's server. Raises NotDeliveredError or LostError."""
        head, _ = await self.ask(PING, b"", b"", seconds)
        self.health = orjson.loads(head)
        return self.health

    async def ask(
        self, kind: int, head: bytes, body: bytes, seconds: float
    ) -> tuple[bytes, bytes]:
        """Head and body of the shard's answer.

        Raises NotDeliveredError if the shard certainly did not get the question, and
        LostError if it does not answer, after `seconds` at the latest.
        """
        wire, sent = self._wire, False
        self._last = number = (self._last + 1) & 0xFFFFFFFF
        answer = asyncio.get_running_loop().create_future()
        self._pending[number] = answer
        try:
            async with asyncio.timeout(seconds):
                if wire is not None and not wire.free.is_set():
                    await wire.free.wait()
                if wire is None or wire.transport.is_closing():
                    raise NotDeliveredError(self.ended())
                sent = True
                wire.send(kind, number, head, body)
                return await answer
        except TimeoutError:
            if not sent:
                raise NotDeliveredError(f"shard {self.number} takes nothing") from None
            raise LostError(
                f"shard {self.number} did not answer within {seconds:g} s"
            ) from None
        finally:
            del self._pending[number]
            if sent and wire and not answer.done() and not wire.transport.is_closing():
                wire.send(CANCEL, number)


class Front:
    """Hands each request to the shard of its session. Takes the place of sessions.

    `app` is the app of a session server without any session. It answers what belongs to
    no session, and speaks for sessions that are lost: whatever it does not know, and the
    cookie calls seeded, is lost. `mcp_session` reads a session's id off the headers.
    """

    def __init__(
        self,
        app: ASGIApp,
        cookies: SessionCookies,
        links: list[Link],
        tool_seconds: float,
        silence: float,
        mcp_session: Callable[[Scope], str | None],
    ) -> None:
        self.app, self.cookies, self.links = app, cookies, links
        self._seconds = tool_seconds + silence
        self._find_seconds = silence
        self._mcp_session = mcp_session
        self._turns = itertools.count()
        # Where ids are that a harness named. They are found again without it.
        self._places: collections.OrderedDict[str, tuple[Link, str]] = (
            collections.OrderedDict()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookie, given = self.cookies.read(scope)
        if path in OWN_PATHS:
            scope["session"] = {SESSION_ID_KEY: uuid.uuid4().hex, **given}
            await self.app(scope, receive, send)
            return
        try:
            body = await _whole(receive)
        except HTTPException as error:  # of the gate's: too long, or too slow
            refusal = JSONResponse({"detail": error.detail}, error.status_code)
            await refusal(scope, receive, send)
            return
        if body is None:
            return
        seeds = path == "/seed_session"
        named = _named(path, body)
        name = named or given.get(SESSION_ID_KEY)
        if path.startswith("/mcp"):
            name = self._mcp_session(scope) or name
        homes = await self._homes(name) if name else []
        if named and not homes:
            homes = self._ranked(named)
        new = not name or (seeds and not homes and not given.get(SEEDED))
        random = uuid.uuid4().hex if new else ""
        if new:
            homes = self._in_turn()
        seconds = VERIFY_SECONDS if path == "/verify" else self._seconds
        reason, delivered = "its shard has ended", False
        for link in homes:
            session = given
            if new:
                own = f"{link.number}-{link.birth}-{random}"
                session = {**given, SESSION_ID_KEY: own}
            try:
                head, answer = await link.ask(
                    REQUEST, _request(scope, session), body, seconds
                )
            except NotDeliveredError:
                continue
            except LostError as error:
                reason, delivered = str(error), True
                break
            status, headers, after = orjson.loads(head)
            lines = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers]
            full = status == 503 and any(k == FULL for k, _ in lines)
            if full and (new or named) and link is not homes[-1]:
                continue
            if name and not new and not OWN_ID.fullmatch(name):
                self._keep(name, link)
            lines.append(self.cookies.header(after or session, given, cookie))
            start = {"type": "http.response.start", "status": status, "headers": lines}
            await send(start)
            await send({"type": "http.response.body", "body": answer})
            return
        if (seeds and not given.get(SEEDED)) or (new and not delivered):
            detail = f"no shard took the request: {reason}; try again"
            retry = {"Retry-After": "2"}
            await JSONResponse({"detail": detail}, 503, retry)(scope, receive, send)
            return
        await self._lost(scope, body, send, reason, given, cookie)

    async def _lost(
        self,
        scope: Scope,
        body: bytes,
        send: Send,
        reason: str,
        given: dict[str, Any],
        cookie: str,
    ) -> None:
        """What a session server answers of a session that it does not know."""
        name = given.get(SESSION_ID_KEY, "")
        scope["session"] = {**given, SESSION_ID_KEY: name, SEEDED: True}
        scope["lost"] = reason
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if messages:
                return messages.pop()
            return await asyncio.get_running_loop().create_future()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and cookie:
                message["headers"].append(self.cookies.header(given, given, cookie))
            await send(message)

        await self.app(scope, receive, answer)

    def _in_turn(self) -> list[Link]:
        """The shards that are up, beginning with each in turn: all get as many sessions."""
        up = [link for link in self.links if link.up]
        first = next(self._turns) % (len(up) or 1)
        return up[first:] + up[:first]

    def _ranked(self, name: str) -> list[Link]:
        """The shards that are up, in the order that rendezvous hashing gives `name`."""

        def score(link: Link) -> bytes:
            text = f"{link.number} {name}".encode("utf-8", "replace")
            return hashlib.blake2b(text, digest_size=8).digest()

        return sorted((link for link in self.links if link.up), key=score)

    async def _homes(self, name: str) -> list[Link]:
        """The shard of a session; the shards that may have it if nobody knows it yet.

        None at all if it is known to be lost.
        """
        if own := OWN_ID.fullmatch(name):
            number, birth = int(own[1]), own[2]
            found = [link for link in self.links if link.number == number]
            return [link for link in found if link.up and link.birth == birth]
        if name in self._places:
            link, birth = self._places[name]
            if link.up and link.birth == birth:
                return [link]
            del self._places[name]
        # The hash alone is not enough: its first choice may have been down, or full,
        # when the session began.
        ranked, text = self._ranked(name), name.encode("utf-8", "replace")

        async def has(link: Link) -> bool:
            with contextlib.suppress(NotDeliveredError, LostError):
                head, _ = await link.ask(FIND, text, b"", self._find_seconds)
                return orjson.loads(head)
            return False

        known = await asyncio.gather(*map(has, ranked))
        return [link for link, has_it in zip(ranked, known, strict=True) if has_it][
            :1
        ] or ranked

    def _keep(self, name: str, link: Link) -> None:
        self._places[name] = link, link.birth
        self._places.move_to_end(name)
        if len(self._places) > 100_000:
            self._places.popitem(last=False)


async def health(links: list[Link]) -> dict[str, Any]:
    """That the server answers, its shards, their open sessions and hung calls.

    Raises HTTPException with 503 if no shard is up.
    """

    async def one(link: Link) -> dict[str, Any] | None:
        with contextlib.suppress(NotDeliveredError, LostError):
            return await link.ping(2)
        return None

    found = [one for one in await asyncio.gather(*map(one, links)) if one]
    if not found:
        raise HTTPException(503, f"none of {len(links)} shards is up")
    return {
        "status": "ok",
        "sessions": sum(one["sessions"] for one in found),
        "hung_calls": sum(one["hung_calls"] for one in found),
        "shards": len(links),
        "shards_up": len(found),
    }


async def _whole(receive: Receive) -> bytes | None:
    """A request's body; None if the client left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _request(scope: Scope, session: dict[str, Any]) -> bytes:
    """The head of a request frame."""
    path = scope.get("raw_path") or urllib.parse.quote(scope["path"]).encode()
    headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]]
    query = scope["query_string"].decode("latin-1")
    return orjson.dumps(
        [scope["method"], path.decode("latin-1"), query, headers, session]
    )


def _named(path: str, body: bytes) -> str | None:
    """The session that a seed or a close of NeMo Gym 0.7 names in its body.

    None also for one that is too long, which its shard refuses.
    """
    if path not in ("/seed_session", "/close_session"):
        return None
    with contextlib.suppress(ValueError, RecursionError, AttributeError):
        name = json.loads(body).get("resources_session_id")
        if isinstance(name, str) and 0 < len(name) <= MAX_ID_CHARACTERS:
            name.encode()  # a lone surrogate cannot be sent on
            return name
    return None
