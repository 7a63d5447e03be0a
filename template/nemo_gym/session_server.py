"""Sessions, limits and serving under a NeMo Gym resources server.

`SessionServer` is NeMo Gym's `SimpleResourcesServer` with an episode behind every
session cookie. A server derives from it, names its environment class, and registers one
endpoint per tool with `self.tool(method)`. An endpoint written by hand works too. Each
`POST /<tool>`

- plays the session's episode: the one that `/seed_session` started, or one with default
  task data if the session was not seeded;
- runs in the episode's own thread, one call at a time, with a time limit. A class with
  `async def` methods, or with `blocking = False`, is called on the event loop instead;
- answers `{"output": "error: ..."}`, which the policy can read, if the class raises.

A policy can post to every route here with its session's cookie. So a cookie is good for
one seeded episode, and nothing that a policy posts can replace it.

Sessions end at `/verify`, `/close_session`, the idle limit and the server's exit. They
live in this process, so there is one worker. Settings are environment variables, see
`Limits`. Only this file knows NeMo Gym's release series: 0.4 and 0.7 differ in how
sessions are seeded and in what `run_webserver` sets up.
"""

import asyncio
import contextlib
import functools
import hmac
import inspect
import json
import logging
import os
import queue
import secrets
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import AggregateMetricsRequest, BaseServerConfig
from nemo_gym.server_utils import SESSION_ID_KEY, ServerClient
from omegaconf import OmegaConf
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    PrivateAttr,
    field_validator,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbing.environment import episodes

try:  # NeMo Gym 0.7, whose environment servers name the sessions that they seed
    from nemo_gym.base_resources_server import (
        ResourcesCloseSessionRequest,
        ResourcesCloseSessionResponse,
        ResourcesSeedSessionRequest,
        ResourcesSeedSessionResponse,
    )
except ImportError:  # NeMo Gym 0.4
    ResourcesSeedSessionRequest = ResourcesCloseSessionRequest = None

log = logging.getLogger(__name__)

# Routes of the server's own; every other POST route is a tool.
OWN_ROUTES = ["/seed_session", "/close_session", "/verify", "/aggregate_metrics"]

# In the signed cookie of a session that was seeded, beside its id. It outlives what the
# server remembers: such a session is never seeded again, and if it is unknown, it is lost.
SEEDED = "seeded"
USED_COOKIE = "this cookie has had its episode: take a new one for the next"
MAX_ID_CHARACTERS = 200

# Tells a gate, and no policy, what went wrong in a tool without the class meaning it.
FAULT = "X-Tool-Error"


@dataclass(frozen=True)
class Limits:
    """What one server allows, each out of an environment variable."""

    max_sessions: int = 1000
    idle_seconds: float = 1800
    tool_seconds: float = 60
    close_seconds: float = 10
    body_bytes: int = 1 << 20
    trajectory_bytes: int = 1 << 25

    VARIABLES: ClassVar[dict[str, str]] = {
        "max_sessions": "MAX_SESSIONS",  # one more open session is answered with 503
        "idle_seconds": "SESSION_IDLE_SECONDS",  # a session that waits longer is closed
        "tool_seconds": "TOOL_SECONDS",  # a longer tool call ends with an error output
        "close_seconds": "CLOSE_SECONDS",  # a longer close() is no longer waited for
        "body_bytes": "MAX_BODY_BYTES",  # a longer request body is answered with 413
        "trajectory_bytes": "MAX_TRAJECTORY_BYTES",  # the same for rows and trajectories
    }

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ValueError if a variable is not a positive number."""
        values: dict[str, Any] = {}
        for name, variable in cls.VARIABLES.items():
            if text := os.environ.get(variable):
                whole = not name.endswith("_seconds")
                try:
                    values[name] = int(text) if whole else float(text)
                except ValueError:
                    values[name] = 0
                if not values[name] > 0:
                    kind = "integer" if whole else "number"
                    raise ValueError(
                        f"{variable} must be a positive {kind}, got {text!r}"
                    )
        return cls(**values)


# ---------------------------------------------------------------------- sessions


class EpisodeThread:
    """A thread that runs the jobs of one episode, one after the other.

    A daemon thread: a job that hangs must not hold up the server's exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._work, name="episode", daemon=True).start()

    def run(self, job: Callable[[], Any]) -> asyncio.Future:
        """The job's result. Cancelling it before the job starts drops the job."""
        future: Future = Future()
        self._jobs.put((future, job))
        return asyncio.wrap_future(future)

    def stop(self) -> None:
        """End the thread after the jobs that it has."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(job())
                except BaseException as error:  # noqa: BLE001 - whoever waits has it
                    future.set_exception(error)
            del item, future, job  # an idle thread keeps no finished call alive


@dataclass
class Session:
    """One episode: the task it was seeded with (ground_truth[0]), and its object."""

    task: dict[str, Any]
    seeded: bool  # by a harness, with a task
    owner: Any = None  # the episode_id of NeMo Gym 0.7's typed seed
    thread: EpisodeThread | None = None  # None: the class is called on the event loop
    episode: episodes.Episode | None = None  # None while it is made
    metrics: dict[str, float] = field(default_factory=dict)  # beside the reward
    used: float = field(default_factory=time.monotonic)
    busy: int = 0  # calls in progress
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def environment(self) -> Any:
        """The object of the environment class that plays the episode."""
        assert self.episode is not None
        return self.episode.environment

    @property
    def calls(self) -> list[episodes.Call]:
        """The tool calls so far, as this server saw them."""
        return self.episode.calls if self.episode else []

    async def perform(
        self, job: Callable[[], Any], seconds: float, *, on_loop: bool = False
    ) -> Any:
        """The result of `job`, a function or a coroutine function, run alone.

        Raises TimeoutError after `seconds`. A job that has not started by then never
        does. One that runs in the thread goes on, because nothing can stop it, and
        later jobs wait for its end. `on_loop` keeps a job out of the thread.
        """
        self.busy += 1
        try:
            async with asyncio.timeout(seconds), self.lock:
                if self.thread is not None and not on_loop:
                    return await self.thread.run(lambda: _finish(job()))
                value = job()
                return await value if inspect.isawaitable(value) else value
        finally:
            self.busy -= 1
            self.used = time.monotonic()

    async def reward(self, seconds: float = 60) -> float:
        """The episode's grade, from 0 to 1: the class's own reward(), else whether the
        environment printed the row's `expected_output`. See Episode.reward.
        """

        async def grade() -> float:
            assert self.episode is not None
            reward = await self.episode.reward()
            self.metrics = await self.episode.metrics()
            return reward

        try:
            return await self.perform(grade, seconds)
        except TimeoutError:
            assert self.episode is not None
            self.episode.failure = f"the grade took more than {seconds:g} s"
            return 0.0

    async def close(self, seconds: float) -> None:
        """Close the episode, after the calls that wait and what hangs in the thread.

        Raises TimeoutError after `seconds`; a thread closes the episode even then, as
        soon as it can.
        """

        async def close_episode() -> None:
            if self.episode is not None:
                await self.episode.close()

        async with self.lock:
            if self.thread is None:
                async with asyncio.timeout(seconds):
                    await close_episode()
                return
            closing = self.thread.run(lambda: _finish(close_episode()))
            self.thread.stop()
            await asyncio.wait_for(asyncio.shield(closing), seconds)


def _finish(value: Any) -> Any:
    return episodes.run(value) if inspect.iscoroutine(value) else value


@dataclass(frozen=True)
class Ended:
    """What is remembered of a session that ended."""

    reason: str
    task: dict[str, Any]
    # The answer of /verify, without the trajectory that it repeats.
    verdict: dict[str, Any] | None = None


class ToolResponse(BaseModel):
    """What a tool answers: the text that the policy reads, and what goes beside it."""

    model_config = ConfigDict(extra="allow")

    output: str


class VerifyRequest(BaseVerifyRequest):
    """A finished trajectory and the row's ground_truth."""

    ground_truth: list[dict[str, Any]] = Field(min_length=1)


class VerifyResponse(BaseVerifyResponse):
    """The grade, with the class's metrics beside it.

    NeMo Gym 0.7 leaves a sample with `mask_sample` out of its scores.
    """

    model_config = ConfigDict(extra="allow")

    mask_sample: bool = False
    failure_reason: str | None = None


class SeedSessionRequest(BaseModel):
    """A dataset row, as NeMo Gym's agents post it: only its ground_truth counts."""

    model_config = ConfigDict(extra="allow")

    ground_truth: list[dict[str, Any]] = []


class CloseSessionRequest(BaseModel):
    """Closes the session that the cookie names."""


class SessionResponse(BaseModel):
    """Seeding and closing answer with a cookie, and nothing else."""


SeedRequest: Any = SeedSessionRequest
SeedResponse: Any = SessionResponse
CloseRequest: Any = CloseSessionRequest
CloseResponse: Any = SessionResponse
if ResourcesSeedSessionRequest is not None:
    SeedRequest = ResourcesSeedSessionRequest | SeedSessionRequest
    SeedResponse = ResourcesSeedSessionResponse | SessionResponse
    CloseRequest = ResourcesCloseSessionRequest | CloseSessionRequest
    CloseResponse = ResourcesCloseSessionResponse | SessionResponse


# ---------------------------------------------------------------------- ASGI layers

# Plain ASGI: NeMo Gym's own layers are Starlette's BaseHTTPMiddleware, which costs more
# than all the rest of a call.


class SessionIds:
    """Gives every request a session id in `request.session[SESSION_ID_KEY]`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # Assigned even if it is there already: that makes every answer carry the
            # cookie, which agents that keep only the last answer's cookies rely on.
            session = scope["session"]
            session[SESSION_ID_KEY] = session.get(SESSION_ID_KEY) or str(uuid.uuid4())
        await self.app(scope, receive, send)


class Gate:
    """Refuses requests without the API token, if one is set, and over-long bodies."""

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
        received = 0

        async def counted() -> Message:
            nonlocal received
            part = await receive()
            received += len(part.get("body", b""))
            if received > limit:
                raise HTTPException(413, message)
            return part

        await self.app(scope, counted, send)


# ---------------------------------------------------------------------- the server


class TaskRefused(ValueError):
    """The class could not be made of a task. Whoever wrote the task is to read why."""


class SessionServerConfig(BaseResourcesServerConfig):
    @field_validator("num_workers")
    @classmethod
    def one_worker(cls, value: int | None) -> int | None:
        if value is not None and value > 1:
            raise ValueError(
                f"num_workers must be 1, got {value}: an episode lives in the memory "
                "of one process, hidden from other workers; start more servers instead"
            )
        return value


class SessionServer(SimpleResourcesServer):
    """A resources server whose sessions are episodes of `domain_class`.

    `sessions` maps `request.session[SESSION_ID_KEY]` to the open `Session` of that id.
    """

    ray_enabled: ClassVar[bool | None] = False
    domain_class: ClassVar[type]

    config: SessionServerConfig  # type: ignore
    sessions: dict[str, InstanceOf[Session]] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits.from_environment)

    # Ids that ended, oldest first: a late call must not bring an episode back.
    _ended: dict[str, Ended] = PrivateAttr(default_factory=dict)
    # Ids that a harness closed before it seeded them. Kept apart: anybody can close
    # ids that nobody has, and must not drive out the memory of sessions that were.
    _unseeded: dict[str, None] = PrivateAttr(default_factory=dict)
    _closing: set[asyncio.Task] = PrivateAttr(default_factory=set)
    _secret: str = PrivateAttr(
        default_factory=lambda: (
            os.environ.get("SESSION_SECRET") or secrets.token_hex(32)
        )
    )

    # -------------------------------------------------------------- for server.py

    def tool(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The endpoint of a tool: `app.post("/look")(self.tool(MyEnv.look))`.

        Its request model comes from the method's signature, its description from the
        docstring. Raises ToolError if the method cannot be a tool.
        """
        tool = episodes.make_tool(method)

        async def endpoint(request: Request, body: BaseModel) -> Any:
            def call(episode: episodes.Episode) -> Any:
                return episode.call(tool, tool.keywords(body))

            return _reply(await self._play(request, call))

        # FastAPI, and NeMo Gym's MCP exposure, read the request and the answer off these.
        endpoint.__annotations__ |= {"body": tool.arguments, "return": ToolResponse}
        endpoint.__name__ = endpoint.__qualname__ = tool.name
        endpoint.__doc__ = tool.description
        setattr(endpoint, "tool", tool)  # noqa: B010 - functions take any attribute
        return endpoint

    def environment(self, request: Request) -> Any:
        """The object that plays the request's session, for an endpoint of your own.

        Raises ValueError if the session ended.
        """
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None:
            raise ValueError("this session has ended; POST /seed_session starts one")
        return session.environment

    def finished_session(self, request: Request, body: VerifyRequest) -> Session | None:
        """The request's session, for grading.

        None if it is gone, or if it was not seeded with the very task of the row: an
        episode of a task that the policy chose must not count.
        """
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None or not session.seeded or session.episode is None:
            return None
        return session if session.task == body.ground_truth[0] else None

    def verify_response(
        self, request: Request, body: VerifyRequest, reward: float
    ) -> VerifyResponse:
        """The answer of /verify. `reward` is from 0 to 1.

        If the environment failed rather than the policy, or if the session ended
        because it was idle, the sample is masked and the reason is in `failure_reason`.
        """
        name = request.session[SESSION_ID_KEY]
        session, ended = self.sessions.get(name), self._ended.get(name)
        failure = session.episode.failure if session and session.episode else None
        if ended is not None and ended.reason.startswith("idle"):
            failure = f"the session was lost: {ended.reason}"
        elif ended is None and session is None and request.session.get(SEEDED):
            failure = "the session was lost: this server does not know it"
        known = VerifyResponse.model_fields
        metrics = session.metrics if session else {}
        graded: dict[str, Any] = {k: v for k, v in metrics.items() if k not in known}
        return VerifyResponse.model_construct(
            None,
            **graded,
            responses_create_params=body.responses_create_params,
            response=body.response,
            reward=float(reward),
            mask_sample=failure is not None,
            failure_reason=failure,
        )

    async def aggregate_metrics(self, body: AggregateMetricsRequest) -> Any:
        """NeMo Gym's own, off the event loop: thousands of rows take minutes."""
        compute = super().aggregate_metrics
        try:
            return await asyncio.to_thread(lambda: asyncio.run(compute(body)))
        except Exception as error:
            log.exception("/aggregate_metrics failed")
            reason = f"these responses cannot be aggregated: {type(error).__name__}"
            raise HTTPException(422, reason) from error

    # -------------------------------------------------------------- session life

    async def verify(self, request: Request, body: Any) -> Any:  # type: ignore
        """server.py grades."""
        raise NotImplementedError

    async def seed_session(  # type: ignore
        self, request: Request, body: SeedRequest
    ) -> SeedResponse:
        """Start an episode of the row's task. A cookie is good for one episode."""
        if not isinstance(body, SeedSessionRequest):
            return await self._seed_by_name(request, body)
        name = request.session[SESSION_ID_KEY]
        session = self.sessions.get(name)
        if request.session.get(SEEDED) or (session is not None and session.seeded):
            raise HTTPException(409, USED_COOKIE)
        if session is not None or name in self._ended:
            self._end(name, "a seed")
            name = request.session[SESSION_ID_KEY] = str(uuid.uuid4())
        await self._seed(name, body)
        request.session[SEEDED] = True
        return SessionResponse()

    async def _seed_by_name(self, request: Request, body: Any) -> Any:
        # NeMo Gym 0.7 names the session itself and may repeat a seed.
        name = _checked(body.resources_session_id)
        cookie, known = request.session, self.sessions.get(name)
        if cookie.get(SEEDED) and (known is None or cookie[SESSION_ID_KEY] != name):
            raise HTTPException(409, USED_COOKIE)
        if name in self._ended or name in self._unseeded:
            raise HTTPException(409, f"the session {name!r} has ended")
        if known is not None and known.owner != body.episode_id:
            raise HTTPException(409, f"the session {name!r} is another episode's")
        if known is None:
            row = SeedSessionRequest.model_validate(body.task_data)
            await self._seed(name, row, owner=body.episode_id)
        request.session[SESSION_ID_KEY] = name
        request.session[SEEDED] = True
        return ResourcesSeedSessionResponse(resources_session_id=name)

    async def close_resources_session(  # type: ignore
        self, request: Request, body: CloseRequest
    ) -> CloseResponse:
        """End the session; closing one that is not open is not an error."""
        if isinstance(body, CloseSessionRequest):
            self._end(request.session[SESSION_ID_KEY], "closed")
            return SessionResponse()
        typed: Any = body
        name = _checked(typed.resources_session_id)
        session = self.sessions.get(name)
        if session is not None and session.owner != typed.episode_id:
            raise HTTPException(409, f"the session {name!r} is another episode's")
        if session is None and name not in self._ended:
            _remember(self._unseeded, name, None, 10 * self.limits.max_sessions)
        self._end(name, "closed")
        return ResourcesCloseSessionResponse(resources_session_id=name)

    async def _seed(
        self, name: str, row: SeedSessionRequest, owner: Any = None
    ) -> None:
        task = row.ground_truth[0] if row.ground_truth else {}
        try:
            if task:
                episodes.check_task(self.domain_class, task)
            await self._start(name, task, owner)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    async def _start(
        self, name: str, task: dict[str, Any], owner: Any = None
    ) -> Session:
        """Open a session. Raises ValueError if the class refuses the task."""
        self._end_idle()
        self._make_room()
        thread = None if episodes.runs_on_loop(self.domain_class) else EpisodeThread()
        session = Session(task, bool(task), owner, thread)
        self.sessions[name] = session

        def construct() -> None:
            session.episode = episodes.Episode(self.domain_class, task)

        try:
            await session.perform(construct, self.limits.tool_seconds)
        except (Exception, SystemExit) as error:
            if self.sessions.pop(name, None) is session:
                self._close_later(session)
            raise TaskRefused(self._refusal(error)) from error
        if self.sessions.get(name) is not session:  # it ended, and closes, meanwhile
            raise ValueError("this session ended while it started")
        return session

    def _refusal(self, error: BaseException) -> str:
        """Why the class could not be made of a task, in one line."""
        name = f"{self.domain_class.__name__}(task)"
        if isinstance(error, TimeoutError) and not str(error):
            return (
                f"{name} took more than {self.limits.tool_seconds:g} s (TOOL_SECONDS)"
            )
        if isinstance(error, ValueError):
            return f"{name}: {error}"
        log.error("%s failed", name, exc_info=error)
        return f"{name}: {type(error).__name__}: {error}"

    def _make_room(self) -> None:
        """Raises HTTPException if all sessions are in use.

        Sessions that nobody seeded are the first to go.
        """
        if len(self.sessions) < self.limits.max_sessions:
            return
        for name, session in self.sessions.items():
            if not session.seeded and not session.busy:
                self._end(name, "a server with too many sessions")
                return
        raise HTTPException(
            503,
            f"all {self.limits.max_sessions} sessions (MAX_SESSIONS) are in use",
            headers={"Retry-After": str(int(min(self.limits.idle_seconds, 60)) or 1)},
        )

    async def _session(self, request: Request) -> Session:
        """The request's open session; a default episode if the id is new.

        Raises ValueError if the session ended.
        """
        name = request.session[SESSION_ID_KEY]
        if ended := self._ended.get(name):
            raise ValueError(
                f"this session has ended ({ended.reason}); "
                "POST /seed_session with a new cookie starts another"
            )
        if (session := self.sessions.get(name)) is not None:
            return session
        if request.session.get(SEEDED):
            raise ValueError("this episode was lost: the server does not know it")
        return await self._start(name, {})

    def _end(
        self,
        name: str,
        reason: str,
        verdict: dict[str, Any] | None = None,
    ) -> None:
        """End a session: at once for clients, its episode is closed behind them."""
        session = self.sessions.pop(name, None)
        if session is not None:
            ended = Ended(reason, session.task, verdict)
            _remember(self._ended, name, ended, 10 * self.limits.max_sessions)
            self._close_later(session)

    def _close_later(self, session: Session) -> None:
        task = asyncio.ensure_future(self._close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, session: Session) -> None:
        try:
            await session.close(self.limits.close_seconds)
        except TimeoutError:
            log.warning(
                "%s.close() took more than %g s (CLOSE_SECONDS)",
                self.domain_class.__name__,
                self.limits.close_seconds,
            )

    def _end_idle(self) -> None:
        oldest = time.monotonic() - self.limits.idle_seconds
        for name, session in list(self.sessions.items()):
            if session.used < oldest and not session.busy:
                self._end(name, f"idle for more than {self.limits.idle_seconds:g} s")

    @contextlib.asynccontextmanager
    async def _lifespan(self, inner: Any) -> AsyncGenerator[Any, None]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(min(self.limits.idle_seconds / 2, 30))
                self._end_idle()

        watcher = asyncio.create_task(watch())
        try:
            async with inner as state:
                yield state
        finally:
            watcher.cancel()
            for name in list(self.sessions):
                self._end(name, "the server's exit")
            if self._closing:
                await asyncio.wait(self._closing, timeout=self.limits.close_seconds)

    # -------------------------------------------------------------- calls

    def _route(self, path: str, endpoint: Callable, **options: Any) -> APIRoute:
        """Makes every route of the app, with sessions around tools and /verify."""
        methods = options.get("methods") or ["GET"]
        if path == "/verify":
            # NeMo Gym's MCP exposure wraps the route's endpoint and routes it anew.
            if not hasattr(endpoint, "ends_session"):
                endpoint = self._verify_endpoint(endpoint)
        elif (
            "POST" in methods
            and path not in OWN_ROUTES
            and not hasattr(endpoint, "tool")
        ):
            endpoint = self._own_endpoint(path.lstrip("/"), endpoint)
        return APIRoute(path, endpoint, **options)

    async def _play(
        self,
        request: Request,
        call: Callable[[episodes.Episode], Any],
        *,
        on_loop: bool = False,
    ) -> Any:
        """What `call` returns for the session's episode; an Answer if it could not."""
        try:
            session = await self._session(request)

            def job() -> Any:
                assert session.episode is not None
                return call(session.episode)

            return await session.perform(job, self.limits.tool_seconds, on_loop=on_loop)
        except TimeoutError:
            text = (
                f"the call took more than {self.limits.tool_seconds:g} s (TOOL_SECONDS)"
            )
            return episodes.Answer(f"error: {text}", error="expected")
        except TaskRefused:
            text = (
                "this session was not seeded, and no episode can start without a task"
            )
            return episodes.Answer(f"error: {text}", error="expected")
        except ValueError as error:
            return episodes.Answer(f"error: {error}", error="expected")

    def _own_endpoint(self, tool: str, endpoint: Callable) -> Callable:
        """The endpoint that a user wrote, on the session's episode."""

        @functools.wraps(endpoint)
        async def played(**arguments: Any) -> Any:
            request = _one(arguments, Request)
            if request is None:
                raise TypeError(
                    f"the endpoint of tool {tool!r} has no parameter `request: Request`"
                )
            body = _one(arguments, BaseModel)
            given = {} if body is None else body.model_dump(mode="json")

            async def call(episode: episodes.Episode) -> Any:
                try:
                    response = endpoint(**arguments)
                    if inspect.isawaitable(response):
                        response = await response
                    answer = episodes.as_answer(str(getattr(response, "output", "")))
                except HTTPException:
                    raise
                except (Exception, SystemExit) as error:  # noqa: BLE001 - told
                    response = answer = episode.problem(tool, error)
                episode.keep(tool, given, answer)
                return response

            on_loop = inspect.iscoroutinefunction(endpoint)
            response = await self._play(request, call, on_loop=on_loop)
            return (
                _reply(response) if isinstance(response, episodes.Answer) else response
            )

        return played

    def _verify_endpoint(self, endpoint: Callable) -> Callable:
        @functools.wraps(endpoint)
        async def verify(**arguments: Any) -> Any:
            request = _one(arguments, Request)
            body = _one(arguments, BaseVerifyRequest)
            name = request.session[SESSION_ID_KEY]
            session = self.sessions.get(name)
            lock = session.verifying if session else contextlib.nullcontext()
            async with lock:
                # A client that saw no answer asks again.
                ended = self._ended.get(name)
                task = body.ground_truth[0]
                if ended and ended.verdict is not None and ended.task == task:
                    response = VerifyResponse.model_construct(
                        None,
                        responses_create_params=body.responses_create_params,
                        response=body.response,
                        **ended.verdict,
                    )
                    return _verdict(response)
                response = endpoint(**arguments)
                if inspect.isawaitable(response):
                    response = await response
                if (
                    isinstance(response, BaseModel)
                    and session is not None
                    and session.task == task
                ):
                    graded = {"responses_create_params", "response"}
                    verdict = {k: v for k, v in response if k not in graded}
                    self._end(name, "verified", verdict)
            return _verdict(response)

        setattr(verify, "ends_session", True)  # noqa: B010 - functions take any attribute
        return verify

    # -------------------------------------------------------------- serving

    def setup_webserver(self) -> FastAPI:
        """The app with NeMo Gym's routes and /health; a subclass adds its tools."""
        app = super().setup_webserver()
        if not any(
            getattr(route, "path", "") == "/close_session" for route in app.routes
        ):
            app.post("/close_session")(self.close_resources_session)
        app.get("/health")(_health)
        app.get("/tools")(lambda: {"tools": tool_definitions(app)})
        app.add_exception_handler(Exception, _as_json)
        app.add_exception_handler(RequestValidationError, _refused)
        inner = app.router.lifespan_context
        app.router.lifespan_context = lambda app: self._lifespan(inner(app))
        return app

    def setup_session_middleware(self, app: FastAPI) -> None:
        app.router.route_class = self._route  # type: ignore
        build = app.build_middleware_stack

        def stack() -> ASGIApp:
            # Around the app's own stack rather than in it: NeMo Gym's MCP exposure
            # refuses foreign middleware.
            sessions = SessionMiddleware(
                SessionIds(build()),
                secret_key=self._secret,
                session_cookie=type(self).__name__,
            )
            return Gate(sessions, self.limits, os.environ.get("API_TOKEN"))

        app.build_middleware_stack = stack

    def setup_exception_middleware(self, app: FastAPI) -> None:
        """Nothing: a handler of setup_webserver's answers exceptions, at no cost."""

    def get_session_middleware_key(self) -> str:
        """The key of NeMo Gym 0.7's MCP tokens; its default is anyone's to compute."""
        return hmac.digest(self._secret.encode(), b"mcp", "sha256").hex()

    @classmethod
    def build(cls, **limits: Any) -> Self:
        """A server configured by configs/<env>.yaml, without NeMo Gym's CLI and Ray."""
        name, config = _configured()
        return cls(
            config=SessionServerConfig(**config, name=name, host=_host(), port=_port()),
            server_client=ServerClient(
                head_server_config=BaseServerConfig(host="127.0.0.1", port=11000),
                global_config_dict=OmegaConf.create({}),
            ),
            limits=Limits(**limits) if limits else Limits.from_environment(),
        )

    @classmethod
    def main(cls) -> None:
        """Serve on HOST and PORT, or as the NeMo Gym command line wants it."""
        if os.environ.get("NEMO_GYM_CONFIG_PATH"):
            cls.run_webserver()
            return
        server = cls.build()
        app = server.setup_webserver()
        if getattr(server.config, "expose_tools_over_mcp", False):
            # NeMo Gym 0.7; here, because it costs every start 0.3 s.
            from nemo_gym.mcp_auto_exposure import maybe_auto_expose

            maybe_auto_expose(server, app)
        server.setup_liveness(app)
        for hook in ("notice", "missing_requirement"):
            if text := getattr(cls.domain_class, hook, lambda: None)():
                log.warning(text)
        uvicorn.run(
            app,
            host=server.config.host,
            port=server.config.port,
            access_log=False,
            timeout_graceful_shutdown=1,
        )


def tool_definitions(app: FastAPI) -> list[dict[str, Any]]:
    """An app's tools for the Responses API: its POST routes but for the server's own."""
    definitions = []
    for route in app.routes:
        if not isinstance(route, APIRoute) or "POST" not in (route.methods or ()):
            continue
        if route.path not in OWN_ROUTES:
            tool = getattr(route.endpoint, "tool", None)
            definitions.append(
                tool.definition() if tool else _own_definition(app, route.path)
            )
    return definitions


def _own_definition(app: FastAPI, path: str) -> dict[str, Any]:
    """The definition of a tool whose endpoint is written by hand."""
    openapi = app.openapi()
    operation = openapi["paths"][path]["post"]
    content = operation.get("requestBody", {}).get("content", {})
    schema = episodes.plain_schema(
        content.get("application/json", {}).get("schema", {}),
        openapi.get("components", {}).get("schemas", {}),
    )
    return episodes.function_definition(
        path.removeprefix("/"), operation.get("description", ""), schema
    )


def _remember(memory: dict[str, Any], name: str, value: Any, most: int) -> None:
    """Keep `value` under `name`, in a memory that forgets the oldest of too many."""
    memory.setdefault(name, value)
    while len(memory) > most:
        del memory[next(iter(memory))]


def _verdict(response: Any) -> Any:
    """The answer of /verify as JSON, which repeats the request.

    What a policy wrote may not be JSON: lone surrogates, or very deep nesting. The grade
    is then answered without it.
    """
    if not isinstance(response, BaseModel):
        return response
    try:
        text = response.model_dump_json(by_alias=True, warnings=False)
    except (PydanticSerializationError, UnicodeError, RecursionError):
        repeated = {"responses_create_params", "response"}
        graded = {name: value for name, value in response if name not in repeated}
        text = json.dumps(to_jsonable_python(graded))
    return Response(text, media_type="application/json")


def _checked(name: str) -> str:
    """The id that a harness gave a session. Raises HTTPException if it is too long."""
    if len(name) > MAX_ID_CHARACTERS:
        raise HTTPException(
            422, f"a session's id has {MAX_ID_CHARACTERS} characters at most"
        )
    return name


def _configured() -> tuple[str, dict[str, Any]]:
    """The name and the settings of the one resources server in configs/."""
    folder = Path(__file__).parent / "configs"
    for path in sorted(folder.glob("*.yaml")):
        loaded: Any = OmegaConf.to_container(OmegaConf.load(path))
        for name, value in loaded.items():
            if isinstance(value, dict) and "resources_servers" in value:
                [(_, settings)] = value["resources_servers"].items()
                return name, settings
    raise ValueError(f"no file in {folder} configures a resources server")


def _host() -> str:
    return os.environ.get("HOST") or "127.0.0.1"


def _port() -> int:
    """PORT, else 7860 on a Hugging Face Space, else 11000."""
    text = os.environ.get("PORT") or ("7860" if os.environ.get("SPACE_ID") else "11000")
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"PORT must be a number from 0 to 65535, got {text!r}")
    return int(text)


async def _health() -> dict[str, str]:
    """Whether the server answers."""
    return {"status": "ok"}


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """A malformed body, without its values: not all of them can be sent as JSON."""
    assert isinstance(error, RequestValidationError)
    problems = [
        {key: one[key] for key in ("type", "loc", "msg")} for one in error.errors()
    ]
    return JSONResponse({"detail": problems}, status_code=422)


async def _as_json(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": repr(error)}, status_code=500)


def _one(arguments: dict[str, Any], kind: type) -> Any:
    return next(
        (value for value in arguments.values() if isinstance(value, kind)), None
    )


def _reply(answer: episodes.Answer) -> Response:
    """A tool's answer over HTTP: always 200, because the policy is to read it."""
    text = json.dumps({"output": answer.output, **answer.extra}, ensure_ascii=False)
    body = text.encode("utf-8", "replace")  # lone surrogates
    headers = {FAULT: answer.fault} if answer.error == "unexpected" else None
    return Response(body, headers=headers, media_type="application/json")
