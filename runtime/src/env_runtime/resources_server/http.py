"""The outermost layer: the API token, foreign browser pages, and limits on each request.

A connection, a head, a body and a trajectory all have limits before anything reads them.

It is plain ASGI. NeMo Gym's own layers use Starlette's BaseHTTPMiddleware, which costs
more than the rest of a call.
"""

import asyncio
import functools
import json
import logging
import resource
from typing import Any

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .. import auth, gym_series
from ..settings import Limits, ServerSettings
from .cookies import SEEDED, SessionCookies, cookie_refused
from .store import SessionStore, lost_because, remember
from .verdict import lowest_verdict, replays

log = logging.getLogger(__name__)

# Routes whose bodies hold a trajectory.
LARGE = ("/verify", "/aggregate_metrics")
BODY_SECONDS = 60.0  # a slower body is answered with 408
MAX_COOKIE_BYTES = 1 << 12  # FastAPI parses all cookies of each request


class RequestGuard:
    """Refuses requests without the API token, and bodies that are too long or too slow.

    Without a token, it refuses requests that web pages of other sites made.

    Every other answer sets the cookie that the request had, if no other layer did: some agents
    keep only the cookies of the last answer. A policy that loses its cookie could seed
    an episode of its own.
    """

    def __init__(
        self,
        app: ASGIApp,
        limits: Limits,
        settings: ServerSettings,
        cookies: SessionCookies,
        lowest_reward: float = 0.0,
    ) -> None:
        self.app = app
        self.limits, self.settings, self.cookies = limits, settings, cookies
        self.lowest_reward = lowest_reward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if refusal := self._first_refusal(scope):  # before its cookies are read
            await refusal(scope, receive, send)
            return
        cookie, session = self.cookies.read(scope)
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message.get("headers", []))
                if session and all(name != b"set-cookie" for name, _ in headers):
                    headers.append(self.cookies.header(session, session, cookie))
                message = {**message, "headers": headers}
            await send(message)

        try:
            if refusal := self._refusal(scope):
                await refusal(scope, receive, answer)
            else:
                await self.app(scope, self._bounded(scope, receive), answer)
        except Exception:
            if not started:
                failure = JSONResponse({"detail": "the server failed"}, 500)
                await failure(scope, receive, answer)
            raise

    def _first_refusal(self, scope: Scope) -> JSONResponse | None:
        """The answer to a client without the API token, or with too many cookies."""
        if refused := auth.refusal(scope, self.settings):
            status, detail = refused
            return JSONResponse({"detail": detail}, status)
        cookies = (value for name, value in scope["headers"] if name == b"cookie")
        if sum(map(len, cookies)) > MAX_COOKIE_BYTES:
            detail = f"the request's cookies are over {MAX_COOKIE_BYTES} bytes"
            return JSONResponse({"detail": detail}, 431)
        return None

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        """The answer to a request whose headers are enough to refuse it."""
        headers, path = dict(scope["headers"]), scope["path"]
        if not path.isprintable():
            # Routes also match `/seed_session\n`, but layers compare the exact path.
            return JSONResponse({"detail": "Not Found"}, 404)
        if int(headers.get(b"content-length", b"0")) <= self._limit(scope):
            return None
        error = TooMuchError(413, self._too_long(scope))
        if path == "/verify":
            log.warning("/verify: %s; the episode earns no reward", error.detail)
        return refusal(error, path, self.lowest_reward)

    def _limit(self, scope: Scope) -> int:
        if scope["path"].endswith("/seed_session"):
            return self.limits.max_seed_bytes
        large = scope["path"].endswith(LARGE)
        return self.limits.max_trajectory_bytes if large else self.limits.max_body_bytes

    def _too_long(self, scope: Scope) -> str:
        return f"the request body is over {self._limit(scope)} bytes"

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """A `receive` that raises HTTPException if the body is too long or too slow."""
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        received, complete = 0, False

        async def counted() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the client's disconnect
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    part = await receive()
            except TimeoutError:
                detail = f"the body took over {BODY_SECONDS:g} s"
                raise HTTPException(408, detail) from None
            received += len(part.get("body", b""))
            complete = not part.get("more_body")
            if received > self._limit(scope):
                raise HTTPException(413, self._too_long(scope))
            return part

        return counted


LARGE_BYTES = 1 << 16  # a shorter body is read immediately

# A separator is a comma or a bracket; a colon counts as ten. 1,000,000 take 0.1 to 0.3 s.
MANY_SEPARATORS = 20_000  # bodies with more are parsed in turns
BYTES_PER_SEPARATOR = 50  # so many bytes of text take as long as one
MAX_SEPARATORS = 500_000
MOST_SEPARATORS = {
    "/verify": 2_000_000,  # a trainer also posts the ids of tokens
    "/aggregate_metrics": float("inf"),  # only a trainer posts here, all rows at once
}

MAX_VERDICTS = 100  # large bodies that one session may post to /verify


class LargeBodies:
    """The layer between the cookies and the app."""

    def __init__(self, app: ASGIApp, store: SessionStore) -> None:
        self.app, self.store = app, store
        self._turn = asyncio.Lock()
        self._turns: set[asyncio.Task] = set()
        self._large_posts: dict[str, int] = {}  # large posts to /verify, by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        large = not length or int(length) > LARGE_BYTES
        answer = self._refusal(scope, large)
        if answer is None and large:
            try:
                body, separators = await read_body(receive, scope["path"])
            except ClientDisconnect:
                return
            except HTTPException as error:
                answer = refusal(error, scope["path"], self.store.lowest_reward)
            else:
                receive = received(body, receive)
                if separators + len(body) // BYTES_PER_SEPARATOR > MANY_SEPARATORS:
                    await self._in_turn(scope, receive, send)
                    return
        await (answer or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, large: bool) -> JSONResponse | None:
        """The answer to a request that is refused whatever its body; else None."""
        path, cookie = scope["path"], scope["session"]
        name = cookie[SESSION_ID_KEY]
        session = self.store.sessions.get(name)
        # A harness that names its sessions may repeat a seed.
        named = session is not None and session.owner is not None
        refused = cookie_refused(path, cookie)
        if refused and not (named and path == "/seed_session"):
            return refusal(refused, path, self.store.lowest_reward)
        if path == "/verify" and large:
            if session is None and name not in self.store.ended:
                return self._without_session(scope)
            posted = self._large_posts.get(name, 0)
            remember(self._large_posts, name, 0, self.store.limits.remembered)
            self._large_posts[name] = posted + 1
            if posted >= MAX_VERDICTS:
                reason = f"over {MAX_VERDICTS} large bodies were posted to /verify"
                return lowest_verdict(reason, self.store.lowest_reward)
        return None

    def _without_session(self, scope: Scope) -> JSONResponse | None:
        lowest, cookie = self.store.lowest_reward, scope["session"]
        if cookie.get(SEEDED):
            reason, label = (
                lost_because(scope),
                self.store.label(cookie[SESSION_ID_KEY]),
            )
            log.warning("%s: the session was lost: %s", label, reason)
            reason = f"the session was lost: {reason} ({label})"
            return lowest_verdict(reason, lowest, mask=True)
        if replays(self.store.domain_class):
            return None
        return lowest_verdict("no session was seeded", lowest)

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app once no other large body is parsed."""
        now = asyncio.get_running_loop().time
        await self._turn.acquire()
        taken = asyncio.get_running_loop().create_future()
        ending = asyncio.create_task(self._end_turn(taken))
        self._turns.add(ending)
        ending.add_done_callback(self._turns.discard)

        async def take() -> Message:
            if not taken.done():
                taken.set_result(now())
            return await receive()

        try:
            await self.app(scope, take, send)
        finally:
            if not taken.done():  # refused unread
                taken.set_result(now())

    async def _end_turn(self, taken: asyncio.Future[float]) -> None:
        """End the turn once the body is parsed, after an equal pause for other work.

        FastAPI parses a body, and checks it, before it waits for anything else. So this
        goes on once it has.
        """
        started = await taken
        await asyncio.sleep(asyncio.get_running_loop().time() - started)
        self._turn.release()


class TooMuchError(HTTPException):
    """A body is too long, or has too many commas and brackets."""


def refusal(error: HTTPException, path: str, lowest_reward: float) -> JSONResponse:
    """The answer to a request, outside of FastAPI's own stack.

    A trajectory that is too much earns the lowest reward.
    """
    if path == "/verify" and isinstance(error, TooMuchError):
        return lowest_verdict(error.detail, lowest_reward)
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


async def read_body(receive: Receive, path: str) -> tuple[bytes, int]:
    """A request's body, and the number of its separators.

    Raises ClientDisconnect if the client leaves before the end, and TooMuchError if
    there are too many separators. The rest of such a body is received, and not kept.
    """
    most = MOST_SEPARATORS.get(path, MAX_SEPARATORS)
    separators, parts = 0, list[bytes]()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        if separators <= most:
            separators += count_separators(part, most - separators)
            parts.append(part)
        if separators > most:
            parts.clear()
        if not message.get("more_body"):
            break
    if separators > most:
        raise TooMuchError(413, f"the body has over {most} commas and brackets")
    return b"".join(parts), separators


def count_separators(text: bytes, most: float) -> int:
    """The number of separators in a JSON text: commas, brackets, and ten for each colon.

    Counting stops above `most`.
    """
    separators = 0
    for start in range(0, len(text), LARGE_BYTES):
        part = text[start : start + LARGE_BYTES]
        separators += part.count(b",") + part.count(b"[") + part.count(b"{")
        separators += 10 * part.count(b":")
        if separators > most:
            break
    return separators


def received(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body already read, and then what `receive` gives."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again


MAX_HEAD_BYTES = 1 << 14  # limit on a request's line and headers, and on trailers
HEADER_BYTES = 32  # added to each header's own, as HTTP/2 does: each one costs time
MAX_PIPELINED = 2  # requests that wait for the answer to an earlier one
HEAD_SECONDS = 30.0  # limit from the first byte of a head to its last
ANSWER_SECONDS = 60.0  # limit for a client to take enough of an answer for more
REFUSAL_SECONDS = 5.0  # time for a client to take a refusal before the close

HEAD_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
HEAD_TOO_LONG += b"connection: close\r\ncontent-length: 0\r\n\r\n"
# Files that connections beyond the limit use, each until it has its refusal
TURNED_AWAY = 0.1


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose client sends an endless head, or reads no answers.

    A parser's work on a head grows with the square of its length, and nothing else runs
    meanwhile.
    """

    _timer: asyncio.TimerHandle | None = None  # runs until a head is complete
    _unread: asyncio.TimerHandle | None = None  # runs until an answer is taken
    _unparsed = 0  # bytes since a head ended, or since a part of a body
    _full = False  # whether there were too many connections when it began
    _head = 0  # bytes of the path and of all complete headers of a request

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_head()
        self._full = len(self.connections) > most_connections()
        if len(self.connections) > most_connections() * (1 + TURNED_AWAY):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._full:  # a refusal before the request could get lost
            self._refuse(no_room())
        if self._full or self._head > MAX_HEAD_BYTES:  # it was refused
            return
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing() or self._head > MAX_HEAD_BYTES:
            return
        if self._unparsed > MAX_HEAD_BYTES:
            self._refuse()
        elif self._timer is None and (not self.cycle or self.cycle.response_complete):
            self._await_head()

    def on_message_begin(self) -> None:
        self._head = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + HEADER_BYTES)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._head_is_there()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests on one connection")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser refuses, or what a method here raised ValueError for."""
        if self._head > MAX_HEAD_BYTES:
            self._refuse()
        else:
            super().send_400_response(msg)

    def _count_head(self, size: int) -> None:
        """Count bytes of a head, which may be complete before anything else counts them.

        Raises ValueError if there are too many.
        """
        self._head += size
        if self._head > MAX_HEAD_BYTES:
            raise ValueError("the head is too long")

    def _refuse(self, answer: bytes = HEAD_TOO_LONG) -> None:
        """Answer 431: a policy may have chosen the path, and its agent needs an answer.

        An immediate close, with unread bytes, would discard the answer.
        """
        self.transport.write(answer)
        self.transport.pause_reading()
        self._head_is_there()
        self._timer = self.loop.call_later(REFUSAL_SECONDS, self.transport.abort)

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _head_is_there(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def no_room() -> bytes:
    """The answer to a client that is one too many."""
    detail = f"all {most_connections()} connections are in use: half of ulimit -n"
    body = json.dumps({"detail": detail}).encode()
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 2\r\n"
        b"x-no-room: 1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%s" % (len(body), body)
    )


@functools.cache
def most_connections() -> int:
    """Half of the files that this process may open: episodes need the other half."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class BoundedProtocolOfGym(BoundedProtocol, gym_series.Protocol):
    """The same for NeMo Gym 0.7, whose own protocol keeps TCP connections alive."""


def bound_connections_of_gym() -> None:
    """Have NeMo Gym's `run_webserver` serve with these limits."""
    gym_series.use_protocol(BoundedProtocolOfGym)
