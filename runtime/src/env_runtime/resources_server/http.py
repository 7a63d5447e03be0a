"""The layers around the routes, the outermost first.

RequestGuard checks the API token, foreign browser pages, and limits on each request.
SessionCookies says which session a request is of. LargeBodies needs to know that: it
has bodies parsed one after the other, and counts those of each session. ToolCalls is inside of
FastAPI: it takes calls of tools past routing and dependencies, which cost more than most tools.

They are plain ASGI. NeMo Gym's own layers use Starlette's BaseHTTPMiddleware, which costs
more than the rest of a call.
"""

import asyncio
import contextlib
import functools
import json
import logging
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import itsdangerous
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Match, NoMatchFound
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..auth import access_problem
from ..gym_series import SESSION_ID_KEY
from ..settings import Limits, ServerSettings
from .cookies import NOT_FOR_SESSIONS, READ, SEEDED, cookie_refused
from .endpoints import post_routes
from .store import SessionStore, lost_because, remember
from .verdict import lowest_verdict

log = logging.getLogger(__name__)

LARGE = ("/verify", "/aggregate_metrics")  # their bodies hold a trajectory
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
        cookies: "SessionCookies",
        lowest_reward: float = 0.0,
    ) -> None:
        self.app, self.settings, self.cookies = app, settings, cookies
        self.lowest_reward = lowest_reward
        self._most = limits.max_body_bytes
        self._most_at = dict.fromkeys(LARGE, limits.max_trajectory_bytes)
        self._most_at["/seed_session"] = limits.max_seed_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if problem := access_problem(scope, self.settings):
            status, detail = problem
            await JSONResponse({"detail": detail}, status)(scope, receive, send)
            return
        most = self._most_at.get(scope["path"], self._most)
        deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        exchange = Exchange(self.cookies, scope, receive, send, most, deadline)
        try:
            refusal = self._refused_by_head(scope, most)
            await (refusal or self.app)(scope, exchange.receive, exchange.send)
        except Exception:
            if not exchange.answered:
                failure = JSONResponse({"detail": "the server failed"}, 500)
                await failure(scope, receive, exchange.send)
            raise

    def _refused_by_head(self, scope: Scope, most: int) -> JSONResponse | None:
        """The answer to a request whose headers are enough to refuse it."""
        headers, path = dict(scope["headers"]), scope["path"]
        cookies = [value for name, value in scope["headers"] if name == b"cookie"]
        if sum(map(len, cookies)) > MAX_COOKIE_BYTES:
            detail = f"the request's cookies are over {MAX_COOKIE_BYTES} bytes"
            return JSONResponse({"detail": detail}, 431)
        if not path.isprintable():
            # Routes also match `/seed_session\n`, but layers compare the exact path.
            return JSONResponse({"detail": "Not Found"}, 404)
        if int(headers.get(b"content-length", b"0")) <= most:
            return None
        error = TooMuchError(413, f"the request body is over {most} bytes")
        if path == "/verify":
            log.warning("/verify: %s; the episode earns no reward", error.detail)
        return error_answer(error, path, self.lowest_reward)


@dataclass
class Exchange:
    """A request whose body is received within limits, and its answer with a cookie."""

    cookies: "SessionCookies"
    scope: Scope
    receive_part: Receive
    send_on: Send
    most: int  # bytes of the body
    deadline: float  # of the body, in the loop's time
    received: int = 0
    complete: bool = False
    answered: bool = False  # whether the answer began

    async def receive(self) -> Message:
        """Raise HTTPException if the body is too long or too slow."""
        if self.complete:  # the next message is the client's disconnect
            return await self.receive_part()
        try:
            async with asyncio.timeout_at(self.deadline):
                part = await self.receive_part()
        except TimeoutError:
            detail = f"the body took over {BODY_SECONDS:g} s"
            raise HTTPException(408, detail) from None
        self.received += len(part.get("body", b""))
        self.complete = not part.get("more_body")
        if self.received > self.most:
            raise HTTPException(413, f"the request body is over {self.most} bytes")
        return part

    async def send(self, message: Message) -> None:
        """Add the request's cookie to an answer that sets none."""
        if message["type"] == "http.response.start":
            self.answered = True
            headers = list(message.get("headers", []))
            cookie, session = self.cookies.read(self.scope)
            if session and b"set-cookie" not in dict(headers):
                headers.append(self.cookies.header(session, session, cookie))
            message = {**message, "headers": headers}
        await self.send_on(message)


class SessionCookies:
    """Gives every request its `request.session`, with an id in SESSION_ID_KEY.

    It replaces Starlette's SessionMiddleware, and works less for each request: it
    remembers what a cookie holds, and a session that did not change keeps its cookie.
    """

    def __init__(
        self,
        app: ASGIApp,
        secret: str,
        name: str,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.app, self.name, self._new_id = app, name, new_id
        # A search is cheap even if a client sends thousands of cookies.
        self._pair = re.compile(rb"(?:^|;)\s*%s=([^;]*)" % re.escape(name.encode()))
        self._signer = itsdangerous.URLSafeSerializer(secret, salt=name)
        self._load = functools.lru_cache(maxsize=10_000)(self._signer.loads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookie, before = self.read(scope)
        session = scope["session"] = dict(before)
        if SESSION_ID_KEY not in session:
            session[SESSION_ID_KEY] = self._new_id()
            if cookie and scope["path"] != "/seed_session":
                # A default episode would grade 0.0 for an episode that was lost.
                session[SEEDED] = True
                scope["lost"] = (
                    "its cookie is from another server, or from before a restart"
                )

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append(self.header(session, before, cookie))
            await send(message)

        await self.app(scope, receive, answer)

    def read(self, scope: Scope) -> tuple[str, dict[str, Any]]:
        """A request's cookie and its content, {} if the signature is wrong.

        Several layers need them. The first one that asks keeps them in the scope.
        """
        if READ not in scope:
            cookie, content = "", {}
            for header, value in scope["headers"]:
                if header == b"cookie" and (found := self._pair.search(value)):
                    cookie = found[1].decode("latin-1").rstrip()
                    with contextlib.suppress(itsdangerous.BadSignature):
                        content = self._load(cookie) if cookie else {}
                    break
            scope[READ] = cookie, content
        return scope[READ]

    def header(
        self, session: dict[str, Any], before: dict[str, Any], cookie: str
    ) -> tuple[bytes, bytes]:
        """The header that sets `session`. `before` is the content of `cookie`."""
        text = cookie if session == before else str(self._signer.dumps(session))
        line = f"{self.name}={text}; path=/; httponly; samesite=lax"
        return b"set-cookie", line.encode()


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
    """Has large bodies parsed one after the other, with time for others in between."""

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
        answer = None
        if large or scope["path"] in NOT_FOR_SESSIONS:
            answer = self._refused_by_session(scope, large)
        if answer is None and large:
            try:
                body, separators = await read_body(receive, scope["path"])
            except ClientDisconnect:
                return
            except HTTPException as error:
                answer = error_answer(error, scope["path"], self.store.lowest_reward)
            else:
                receive = received(body, receive)
                if separators + len(body) // BYTES_PER_SEPARATOR > MANY_SEPARATORS:
                    await self._in_turn(scope, receive, send)
                    return
        await (answer or self.app)(scope, receive, send)

    def _refused_by_session(self, scope: Scope, large: bool) -> JSONResponse | None:
        """The answer to a request that is refused whatever its body; else None."""
        path, cookie = scope["path"], scope["session"]
        name = cookie[SESSION_ID_KEY]
        session = self.store.sessions.get(name)
        # A harness that names its sessions may repeat a seed.
        named = session is not None and session.owner is not None
        refused = cookie_refused(path, cookie)
        if refused and not (named and path == "/seed_session"):
            return error_answer(refused, path, self.store.lowest_reward)
        if path == "/verify" and large:
            if session is None and name not in self.store.ended:
                return self._without_session(scope)
            posted = self._large_posts.get(name, 0)
            remember(self._large_posts, name, 0, self.store.remembered)
            self._large_posts[name] = posted + 1
            if posted >= MAX_VERDICTS:
                reason = f"over {MAX_VERDICTS} large bodies were posted to /verify"
                return lowest_verdict(reason, self.store.lowest_reward)
        return None

    def _without_session(self, scope: Scope) -> JSONResponse | None:
        lowest, cookie = self.store.lowest_reward, scope["session"]
        if cookie.get(SEEDED):
            reason = lost_because(scope)
            label = self.store.label(cookie[SESSION_ID_KEY])
            log.warning("%s: the session was lost: %s", label, reason)
            reason = f"the session was lost: {reason} ({label})"
            return lowest_verdict(reason, lowest, mask=True)
        if self.store.replays:
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


def error_answer(error: HTTPException, path: str, lowest_reward: float) -> JSONResponse:
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


# ---------------------------------------------------------------------- calls of tools


class ToolCalls(BaseRoute):
    """The route before all others. It takes each call that FastAPI would take as it is.

    Every other request goes to the route that it would have without this one: so do calls
    whose body is large, or refused by FastAPI, and its answer is the only one that there
    is. So do all calls of a tool that server.py wraps, or gives a dependency, a limit or a
    kind of route.
    """

    def __init__(self, app: FastAPI) -> None:
        self._routes = {
            route.path: route
            for route in post_routes(app)
            if _is_plain(route) and _first(app, route.path) is route
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None or scope["method"] != "POST" or scope.get("root_path"):
            return Match.NONE, {}
        types = (value for name, value in scope["headers"] if name == b"content-type")
        if next(types, b"") != b"application/json":
            return Match.NONE, {}
        return Match.FULL, {
            "endpoint": route.endpoint,
            "path_params": {},
            "route": route,
        }

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        raise NoMatchFound(name, path_params)  # the router asks the next route

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, parts, more = scope["route"], list[bytes](), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":  # nobody reads the answer
                raise HTTPException(400, "There was an error parsing the body")
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        text = b"".join(parts)
        if len(text) > LARGE_BYTES:  # what is refused here is parsed once more
            await route.handle(scope, received(text, receive), send)
            return
        try:
            body = route.endpoint.tool.arguments.model_validate(json.loads(text))
        except (ValueError, RecursionError):
            await route.handle(scope, received(text, receive), send)
            return
        response = await route.endpoint(Request(scope, receive), body)
        await response(scope, receive, send)


def _is_plain(route: APIRoute) -> bool:
    """Whether a route does nothing but call a tool's own endpoint.

    A decorator of server.py copies `tool` from the endpoint that it wraps. Only newer
    releases of FastAPI have `max_body_size`.
    """
    endpoint = route.endpoint
    own = hasattr(endpoint, "tool") and not hasattr(endpoint, "__wrapped__")
    limited = getattr(route, "max_body_size", None) is not None
    return own and type(route) is APIRoute and not (route.dependencies or limited)


def _first(app: FastAPI, path: str) -> BaseRoute | None:
    """The route that answers a POST to a path."""
    scope: Scope = {"type": "http", "method": "POST", "path": path, "headers": []}
    found = (route for route in app.routes if route.matches(scope)[0] == Match.FULL)
    return next(found, None)
