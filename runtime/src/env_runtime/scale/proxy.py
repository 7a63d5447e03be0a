"""A proxy that sends each request to the shard of its session."""

import asyncio
import hashlib
import itertools
import json
import re
import urllib.parse
import uuid
from typing import Any

from fastapi import HTTPException
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..episode.declaration import declared
from ..resources_server import over_mcp
from ..resources_server.cookies import MAX_ID_CHARACTERS, SEEDED, SessionCookies
from ..resources_server.http import (
    ComplicatedError,
    read_body,
    refusal,
    too_complicated,
)
from ..resources_server.store import FULL
from ..settings import ShardSettings
from .client import LostError, NotDeliveredError, ShardClient
from .shard import ABOUT_PATH

VERIFY_SECONDS = 1800.0  # long, because a grader may ask a model
MAX_PLACES = 100_000

# Paths that the proxy answers itself, because they belong to no session.
OWN_PATHS = frozenset(
    ["/", "/health", "/healthz", "/livez", "/readyz", "/metrics", "/stats", "/tools"]
    + ["/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"]
    + ["/aggregate_metrics", "/reverify_mode", ABOUT_PATH]
)
OWN_ID = re.compile(r"\d+-[0-9a-f]{8}-[0-9a-f]{32}")  # shard, incarnation, random


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
            await self._pass_on(scope, body, session, send)
        except ComplicatedError as error:
            path, lowest = scope["path"], self.server.lowest_reward
            await too_complicated(error, path, lowest)(scope, receive, send)
        except HTTPException as error:
            await refusal(error)(scope, receive, send)
        except ClientDisconnect:
            pass

    async def _pass_on(
        self, scope: Scope, body: bytes, session: dict[str, Any], send: Send
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
        usual = self.server.limits.tool_seconds
        # A call may wait for a thread as long as it may take.
        seconds = (
            2 * declared(self.server.domain_class).longest_call(usual) + self._silence
        )
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
        await self.app(scope, _receive_once(body), send)

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


def _receive_once(body: bytes) -> Receive:
    """A `receive` that gives a body already read, and then no disconnect."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        return await asyncio.get_running_loop().create_future()

    return receive


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
