"""The layers around the server's app: session cookies, the API token, the body's limits.

Plain ASGI: NeMo Gym's own layers are Starlette's BaseHTTPMiddleware, which costs more
than all the rest of a call.
"""

import asyncio
import functools
import hmac
import uuid
from typing import Any

import itsdangerous
from fastapi import HTTPException
from fastapi.responses import JSONResponse
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbing.sessions import Limits


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
        cookie = self._cookie(scope)
        try:
            given: dict[str, Any] = self._read(cookie) if cookie else {}
        except itsdangerous.BadSignature:
            given = {}
        session = scope["session"] = dict(given)
        session.setdefault(SESSION_ID_KEY, str(uuid.uuid4()))

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Every answer carries the cookie, because there are agents that keep
                # only those of the last answer.
                text = cookie if session == given else str(self._signer.dumps(session))
                header = f"{self.name}={text}; path=/; httponly; samesite=lax"
                message["headers"].append((b"set-cookie", header.encode()))
            await send(message)

        await self.app(scope, receive, answer)

    def _cookie(self, scope: Scope) -> str:
        for header, value in scope["headers"]:
            if header == b"cookie":
                for pair in value.decode("latin-1").split(";"):
                    name, _, text = pair.strip().partition("=")
                    if name == self.name:
                        return text
        return ""


class Gate:
    """Refuses requests without the API token, and bodies that are too long or too slow."""

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None) -> None:
        self.app = app
        self.limits = limits
        self.authorization = f"Bearer {token}".encode() if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
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
            await JSONResponse({"detail": message}, 413)(scope, receive, send)
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
