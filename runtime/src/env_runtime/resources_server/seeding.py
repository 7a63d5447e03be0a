"""/seed_session and /close_session: a cookie is good for one episode."""

import itertools
import json
from collections.abc import Callable
from typing import Any

from fastapi import HTTPException, Request
from nemo_gym.server_utils import SESSION_ID_KEY

from .. import gym_series
from ..episode.tasks import check_task, task_place
from .cookies import MAX_ID_CHARACTERS, SEEDED, used_cookie
from .messages import CloseSessionRequest, SeedSessionRequest, SessionResponse
from .store import SessionStore

# The keys that name a row, in the order of preference. The first is NeMo Gym's number.
ROW_IDS = ("_ng_task_index", "id", "uuid")


class Seeding:
    """Starts and closes sessions. `new_id` makes the id of a session."""

    def __init__(self, store: SessionStore, new_id: Callable[[], str]) -> None:
        self.store, self._new_id = store, new_id

    async def seed(self, request: Request, body: Any) -> Any:
        """Start an episode of the row's task. Raises HTTPException (409) if seeded."""
        if not isinstance(body, SeedSessionRequest):
            return await self._seed_by_name(request, body)
        name = request.session[SESSION_ID_KEY]
        session = self.store.sessions.get(name)
        if request.session.get(SEEDED) or (session is not None and session.seeded):
            raise used_cookie()
        if session is not None or name in self.store.ended:
            self.store.end(name, "a seed")
            name = request.session[SESSION_ID_KEY] = self._new_id()
        await self._start(name, body)
        request.session[SEEDED] = True
        return SessionResponse()

    async def _seed_by_name(self, request: Request, body: Any) -> Any:
        """Start a session that NeMo Gym 0.7 names itself. It may repeat a seed."""
        name = _checked_id(body.resources_session_id)
        cookie, session = request.session, self.store.sessions.get(name)
        if cookie.get(SEEDED) and (session is None or cookie[SESSION_ID_KEY] != name):
            raise used_cookie()
        if name in self.store.ended or self.store.closed_unseeded(name):
            raise HTTPException(409, "this session has ended")
        if session is not None and session.owner != body.episode_id:
            raise HTTPException(409, "this session is another episode's")
        row = SeedSessionRequest.model_validate(body.task_data)
        if session is not None and session.task != row.task:
            detail = "this session has another row's task: name another session for it"
            raise HTTPException(409, detail)
        if session is None:
            await self._start(name, row, owner=body.episode_id)
        request.session[SESSION_ID_KEY] = name
        request.session[SEEDED] = True
        return gym_series.SeededByName(resources_session_id=name)

    async def close(self, request: Request, body: Any) -> Any:
        """End the session. Closing a session that is not open is not an error."""
        if isinstance(body, CloseSessionRequest):
            self.store.end(request.session[SESSION_ID_KEY], "closed")
            return SessionResponse()
        name = _checked_id(body.resources_session_id)
        session = self.store.sessions.get(name)
        if session is not None and session.owner != body.episode_id:
            raise HTTPException(409, "this session is another episode's")
        if session is None and name not in self.store.ended:
            self.store.close_unseeded(name)
        self.store.end(name, "closed")
        return gym_series.ClosedByName(resources_session_id=name)

    async def _start(
        self, name: str, row: SeedSessionRequest, owner: Any = None
    ) -> None:
        task = row.task
        try:
            if task:
                place = task_place({"ground_truth": row.ground_truth})
                check_task(self.store.domain_class, task, place)
            await self.store.open(name, task, owner, _label(row, task))
        except ValueError as error:
            raise HTTPException(422, str(error)) from error


def _label(row: SeedSessionRequest, task: dict[str, Any]) -> str:
    """The row's name in the log."""
    keys = row.model_extra or {}
    names = [f"{key} {keys[key]!r:.80}" for key in ROW_IDS if key in keys]
    start = itertools.islice(json.JSONEncoder().iterencode(task), 80)
    return names[0] if names else f"task {''.join(start):.80}"


def _checked_id(name: str) -> str:
    """The id that a harness gave a session. Raises HTTPException if it is too long."""
    if len(name) > MAX_ID_CHARACTERS:
        detail = f"a session's id has {MAX_ID_CHARACTERS} characters at most"
        raise HTTPException(422, detail)
    return name
