"""The layers around the server's app: cookies, the API token, limits of bodies, figures.

Plain ASGI: NeMo Gym's own layers are Starlette's BaseHTTPMiddleware, which costs more
than all the rest of a call.
"""

import asyncio
import functools
import hmac
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import itsdangerous
from fastapi import HTTPException
from fastapi.responses import JSONResponse, Response
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbing.records import as_response
from plumbing.sessions import Limits

log = logging.getLogger(__name__)

# In the signed cookie of a session that was seeded, beside its id. It outlives what the
# server remembers: such a session is never seeded again, and if it is unknown, it is lost.
SEEDED = "seeded"

# Of an id that a harness gives a session.
MAX_ID_CHARACTERS = 200

# On an answer with 503: no session began, for want of room. Another shard may have some.
FULL = b"x-no-room"


class SessionCookies:
    """Gives every request its `request.session`, with an id in SESSION_ID_KEY.

    Does what Starlette's SessionMiddleware does, but not for every request anew: what a
    cookie holds is remembered, and a session that did not change keeps its cookie.
    """

    def __init__(self, app: ASGIApp, secret: str, name: str) -> None:
        self.app = app
        self.name = name
        self._signer = itsdangerous.URLSafeSerializer(secret, salt=name)
        self._read = functools.lru_cache(maxsize=10_000)(self._signer.loads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookie, given = self.read(scope)
        session = scope["session"] = dict(given)
        session.setdefault(SESSION_ID_KEY, str(uuid.uuid4()))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append(self.header(session, given, cookie))
            await send(message)

        await self.app(scope, receive, answer)

    def read(self, scope: Scope) -> tuple[str, dict[str, Any]]:
        """A request's cookie, and what it holds: nothing if the signature is wrong."""
        cookie = self._cookie(scope)
        try:
            return cookie, self._read(cookie) if cookie else {}
        except itsdangerous.BadSignature:
            return cookie, {}

    def header(
        self, session: dict[str, Any], given: dict[str, Any], cookie: str
    ) -> tuple[bytes, bytes]:
        """The header that sets `session`; `cookie` held `given` before."""
        text = cookie if session == given else str(self._signer.dumps(session))
        line = f"{self.name}={text}; path=/; httponly; samesite=lax"
        return b"set-cookie", line.encode()

    def _cookie(self, scope: Scope) -> str:
        for header, value in scope["headers"]:
            if header == b"cookie":
                for pair in value.decode("latin-1").split(";"):
                    name, _, text = pair.strip().partition("=")
                    if name == self.name:
                        return text
        return ""


class Gate:
    """Refuses requests without the API token, and bodies that are too long or too slow.

    Every answer sets the cookie that the request had, if no other layer did: there are
    agents that keep only the cookies of the last answer. A policy that loses its cookie
    could seed an episode of its own.
    """

    def __init__(
        self, app: ASGIApp, limits: Limits, token: str | None, cookies: SessionCookies
    ) -> None:
        self.app = app
        self.limits = limits
        self.authorization = f"Bearer {token}".encode() if token else None
        self.cookies = cookies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        cookie, given = self.cookies.read(scope)
        started = False

        async def answer(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = list(message.get("headers", []))
                if given and all(name != b"set-cookie" for name, _ in headers):
                    headers.append(self.cookies.header(given, given, cookie))
                message = {**message, "headers": headers}
            await send(message)

        try:
            await self._admit(scope, receive, answer)
        except Exception:
            if not started:
                refusal = JSONResponse({"detail": "the server failed"}, 500)
                await refusal(scope, receive, answer)
            raise

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        path = scope["path"]
        if self.authorization and path != "/health":
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, self.authorization):
                refusal = JSONResponse(
                    {"detail": "this server wants Authorization: Bearer <API_TOKEN>"},
                    401,
                )
                await refusal(scope, receive, send)
                return
        large = path.endswith(("/seed_session", "/verify", "/aggregate_metrics"))
        limit = self.limits.trajectory_bytes if large else self.limits.body_bytes
        message = f"the request body is over {limit} bytes"
        if int(headers.get(b"content-length", b"0")) > limit:
            refusal = JSONResponse({"detail": message}, 413)
            if path == "/verify":
                log.warning("/verify: %s; the episode earns 0.0", message)
                refusal = unread(message)
            await refusal(scope, receive, send)
            return
        deadline = asyncio.get_running_loop().time() + self.limits.body_seconds
        received, whole = 0, False

        async def counted() -> Message:
            nonlocal received, whole
            if whole:  # the message to come is the client's disconnect
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    part = await receive()
            except TimeoutError:
                seconds = f"{self.limits.body_seconds:g} s (BODY_SECONDS)"
                raise HTTPException(408, f"the body took over {seconds}") from None
            received += len(part.get("body", b""))
            whole = not part.get("more_body")
            if received > limit:
                raise HTTPException(413, message)
            return part

        await self.app(scope, counted, send)


def unread(reason: str) -> JSONResponse:
    """The verdict on a trajectory that is too long to be read: 0.0.

    Refused, it would go ungraded, and a policy has its length in hand.
    """
    verdict = {
        "responses_create_params": {"input": []},
        "response": as_response("", [], []),
        "reward": 0.0,
        "mask_sample": False,
        "failure_reason": reason,
    }
    return JSONResponse(verdict)


class Metrics:
    """Counts calls, and answers GET /metrics in the text format of Prometheus.

    `paths()` are the POST routes; other paths count as one, so that nobody can make up
    names. `health()` is what /health answers. Raises RuntimeError without
    prometheus-client.
    """

    def __init__(
        self,
        app: ASGIApp,
        paths: Callable[[], set[str]],
        health: Callable[[], Awaitable[dict[str, Any]]],
    ) -> None:
        try:
            import prometheus_client as prometheus
        except ImportError:
            raise RuntimeError(
                "METRICS=1 needs prometheus-client: `uv add prometheus-client`"
            ) from None
        self.app, self.paths, self.health = app, paths, health
        self._known: set[str] | None = None
        self._registry = prometheus.CollectorRegistry()
        named: dict[str, Any] = {"registry": self._registry}
        self._write = prometheus.generate_latest
        self._type = prometheus.CONTENT_TYPE_LATEST
        self._gauge = functools.partial(prometheus.Gauge, **named)
        self._gauges: dict[str, Any] = {}
        self._calls = prometheus.Counter(
            "env_calls", "Requests, by path and status", ["path", "status"], **named
        )
        self._errors = prometheus.Counter(
            "env_errors", "Answers that told the policy of an error", ["path"], **named
        )
        self._seconds = prometheus.Histogram(
            "env_call_seconds",
            "Time from request to answer",
            ["path"],
            buckets=[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5]
            + [1, 2, 5, 10, 20, 60],
            **named,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path == "/metrics":
            await self._answer(scope, receive, send)
            return
        if self._known is None:
            self._known = self.paths()
        label = path if path in self._known else "other"
        started, status = time.perf_counter(), 500

        async def counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message.get("body", b"").startswith(b'{"output": "error: '):
                self._errors.labels(label).inc()
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            self._calls.labels(label, str(status)).inc()
            self._seconds.labels(label).observe(time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            health = await self.health()
        except HTTPException:  # no shard is up
            health = {"sessions": 0, "hung_calls": 0, "shards_up": 0}
        for name, value in health.items():
            if isinstance(value, int):
                if name not in self._gauges:
                    self._gauges[name] = self._gauge(
                        f"env_{name}", f"{name} of /health"
                    )
                self._gauges[name].set(value)
        text = self._write(self._registry)
        await Response(text, media_type=self._type)(scope, receive, send)
