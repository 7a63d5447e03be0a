"""The outermost layer: the API token, foreign browser pages, and limits on a body.

It is plain ASGI. NeMo Gym's own layers use Starlette's BaseHTTPMiddleware, which costs
more than the rest of a call.
"""

import asyncio
import hmac
import logging

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .. import auth
from ..settings import Limits, ServerSettings
from .cookies import SessionCookies
from .verdict import lowest_verdict

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
        self.limits = limits
        self.settings = settings
        token = settings.api_token
        self.authorization = f"Bearer {token}".encode() if token else None
        self.cookies = cookies
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
        headers = dict(scope["headers"])
        if self.authorization is None:
            if reason := auth.origin_problem(scope, self.settings):
                return JSONResponse({"detail": reason}, 403)
        elif scope["path"] != "/health":
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self.authorization):
                detail = "this server needs Authorization: Bearer <API_TOKEN>"
                return JSONResponse({"detail": detail}, 401)
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
        message = self._too_long(scope)
        if path == "/verify":
            log.warning("/verify: %s; the episode earns no reward", message)
            return lowest_verdict(message, self.lowest_reward)
        return JSONResponse({"detail": message}, 413)

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
