"""Session cookies: signed, and good for one seeded episode."""

import functools
import re
import uuid
from collections.abc import Callable
from typing import Any

import itsdangerous
from fastapi import HTTPException
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The key of a seeded session's cookie. The signed cookie outlives the server's memory: its
# session is never seeded again. If the server does not know it, it is lost.
SEEDED = "seeded"

# The key of the scope under which a request's cookie is kept, once it is read.
READ = "env_runtime.cookie"

# The longest id that a harness may give a session.
MAX_ID_CHARACTERS = 200


def cookie_refused(path: str, session: dict[str, Any]) -> HTTPException | None:
    """Why the cookie of a seeded session may not post to `path`; None if it may."""
    if not session.get(SEEDED):
        return None
    if path == "/seed_session":
        return used_cookie()
    if path == "/aggregate_metrics":
        return HTTPException(403, "session cookies may not call /aggregate_metrics")
    return None


def used_cookie() -> HTTPException:
    detail = "this session cookie was already used: take a new cookie for each episode"
    return HTTPException(409, detail)


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
            cookie = self._cookie(scope)
            try:
                scope[READ] = cookie, self._load(cookie) if cookie else {}
            except itsdangerous.BadSignature:
                scope[READ] = cookie, {}
        return scope[READ]

    def header(
        self, session: dict[str, Any], before: dict[str, Any], cookie: str
    ) -> tuple[bytes, bytes]:
        """The header that sets `session`. `before` is the content of `cookie`."""
        text = cookie if session == before else str(self._signer.dumps(session))
        line = f"{self.name}={text}; path=/; httponly; samesite=lax"
        return b"set-cookie", line.encode()

    def _cookie(self, scope: Scope) -> str:
        for header, value in scope["headers"]:
            if header == b"cookie" and (found := self._pair.search(value)):
                return found[1].decode("latin-1").rstrip()
        return ""
