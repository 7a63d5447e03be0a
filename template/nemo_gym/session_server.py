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
live in this process; with `SHARDS=N` in N others, see plumbing/shards.py. Settings are
environment variables, see `Limits`. Only this file knows NeMo Gym's release series: 0.4
and 0.7 differ in how sessions are seeded and in what `run_webserver` sets up.
"""

import asyncio
import contextlib
import dataclasses
import functools
import gc
import hmac
import inspect
import json
import logging
import logging.handlers
import os
import resource
import secrets
import signal
import sys
import threading
import time
import uuid
import weakref
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import plumbing.imports  # noqa: F401 - before NeMo Gym

# isort: split
import itsdangerous
import uvicorn
import yarl
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
from nemo_gym.server_utils import (
    SESSION_ID_KEY,
    ServerClient,
    initialize_ray,
    is_nemo_gym_fastapi_worker,
)
from omegaconf import OmegaConf
from pydantic import (
    BaseModel,
    ConfigDict,
    FailFast,
    Field,
    InstanceOf,
    PrivateAttr,
    model_validator,
)
from pydantic_core import (
    PydanticCustomError,
    PydanticSerializationError,
    to_jsonable_python,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from plumbing.asgi import (
    FULL,
    MAX_ID_CHARACTERS,
    SEEDED,
    Gate,
    Metrics,
    SessionCookies,
    unread,
)
from plumbing.environment import episodes
from plumbing.sessions import Ended, EpisodeThread, Limits, Session

try:  # NeMo Gym 0.7, whose environment servers name the sessions that they seed
    from nemo_gym.base_resources_server import (
        ResourcesCloseSessionRequest,
        ResourcesCloseSessionResponse,
        ResourcesSeedSessionRequest,
        ResourcesSeedSessionResponse,
        ReverifyMode,
    )
except ImportError:  # NeMo Gym 0.4
    ResourcesSeedSessionRequest = ResourcesCloseSessionRequest = None

log = logging.getLogger(__name__)

# Routes of the server's own; every other POST route is a tool.
OWN_ROUTES = ["/seed_session", "/close_session", "/verify", "/aggregate_metrics"]

USED_COOKIE = "this cookie has had its episode: take a new one for the next"

# Of the items in a trajectory, and what they hold: 300,000 malformed ones are checked for
# half a minute, in which nothing else runs. Lists of numbers are long, and cheap to check.
MAX_ITEMS = 10_000
MAX_LOGPROBS = 100_000
NUMBERS: dict[str, set[type]] = {
    "prompt_token_ids": {int},
    "generation_token_ids": {int},
    "generation_log_probs": {int, float},
}
TOO_LONG = "trajectory_too_long"

# Names of metrics in all verdicts together: NeMo Gym makes a column of each.
MAX_METRICS = 500

JSON = "application/json"
LOOPBACK = ("127.0.0.1", "::1", "localhost")

# Tells a gate, and no policy, what went wrong in a tool without the class meaning it.
FAULT = "X-Tool-Error"

# A row's own name for itself, in the order of preference; the first is NeMo Gym's number.
ROW_IDS = ("_ng_task_index", "id", "uuid")


class ToolResponse(BaseModel):
    """What a tool answers: the text that the policy reads, and what goes beside it."""

    model_config = ConfigDict(extra="allow")

    output: str


# A row's tasks, of which the first counts. Validation stops at one that is not an object.
GroundTruth = Annotated[list[dict[str, Any]], FailFast()]


class VerifyRequest(episodes.Arguments, BaseVerifyRequest):
    """A finished trajectory and the row's ground_truth."""

    ground_truth: GroundTruth = Field(min_length=1)

    @model_validator(mode="wrap")
    @classmethod
    def readable(cls, body: Any, validate: Any) -> Any:
        """Raises an error of the type TOO_LONG for a trajectory with too many items."""
        if isinstance(body, dict):
            _count_items([body.get("response"), body.get("responses_create_params")])
        try:
            return validate(body)
        except TypeError as error:  # of NeMo Gym's own validators: `"role": {}`
            raise ValueError(f"the trajectory cannot be read: {error}") from error


def _count_items(rest: list[Any]) -> None:
    """Raises PydanticCustomError if the lists inside hold too many items together."""
    items, logprobs = 0, list[Any]()
    while rest and items <= MAX_ITEMS:
        value = rest.pop()
        if isinstance(value, dict):
            for key, one in value.items():
                if key == "logprobs":
                    logprobs.append(one)
                elif not (
                    isinstance(one, list)
                    and NUMBERS.get(key, set()).issuperset(map(type, one))
                ):
                    rest.append(one)
        elif isinstance(value, list):
            items += len(value)
            rest += value[:MAX_ITEMS]
    tokens = 0
    while logprobs and tokens <= MAX_LOGPROBS:
        value = logprobs.pop()
        if isinstance(value, dict):
            logprobs += value.values()
        elif isinstance(value, list):
            tokens += len(value)
            logprobs += value[:MAX_LOGPROBS]
    if items > MAX_ITEMS or tokens > MAX_LOGPROBS:
        most = f"{MAX_ITEMS} items, or {MAX_LOGPROBS} in its logprobs"
        raise PydanticCustomError(
            TOO_LONG, "the trajectory has more than {most}", {"most": most}
        )


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

    ground_truth: GroundTruth = []


class AggregateRequest(AggregateMetricsRequest):
    """Verdicts of many episodes."""

    verify_responses: Annotated[list[dict[str, Any]], FailFast()]


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


# ---------------------------------------------------------------------- the server


class TaskRefused(ValueError):
    """The class could not be made of a task. Whoever wrote the task is to read why."""


class SessionServerConfig(BaseResourcesServerConfig):
    # Processes that hold the sessions, see plumbing/shards.py; None: this one does.
    shards: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def one_worker(self) -> Self:
        workers = self.num_workers or 1
        if workers > 1 and not (self.shards or os.environ.get("SHARDS")):
            raise ValueError(
                f"num_workers must be 1, got {workers}: an episode lives in the memory "
                "of one process, hidden from other workers; with SHARDS=N, N processes "
                "hold the episodes, and any number of workers may answer"
            )
        return self


class SessionServer(SimpleResourcesServer):
    """A resources server whose sessions are episodes of `domain_class`.

    `sessions` maps `request.session[SESSION_ID_KEY]` to the open `Session` of that id.
    """

    ray_enabled: ClassVar[bool | None] = False
    domain_class: ClassVar[type]
    # Whether `session.calls` holds the tool calls. None: if the class has no reward(), or
    # if verify() is seen to read them.
    keeps_calls: ClassVar[bool | None] = None

    config: SessionServerConfig  # type: ignore
    sessions: dict[str, InstanceOf[Session]] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits.from_environment)

    # Ids that ended, oldest first: a late call must not bring an episode back.
    _ended: dict[str, Ended] = PrivateAttr(default_factory=dict)
    # Ids that a harness closed before it seeded them. Kept apart: anybody can close
    # ids that nobody has, and must not drive out the memory of sessions that were.
    _unseeded: dict[str, None] = PrivateAttr(default_factory=dict)
    _closing: set[asyncio.Task] = PrivateAttr(default_factory=set)
    # Of open sessions, and of ended ones that a call still keeps.
    _threads: weakref.WeakSet = PrivateAttr(default_factory=weakref.WeakSet)
    _app: FastAPI | None = PrivateAttr(default=None)
    # In a front: its shards. Empty: the sessions are in this process.
    _links: list[Any] = PrivateAttr(default_factory=list)
    # In a shard: what the ids of its sessions begin with.
    _prefix: str = PrivateAttr(default="")
    # The shards of a process that serves, which main() ends.
    _home: ClassVar[Any] = None
    _serves: ClassVar[bool] = False
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
        episode of a task that the policy chose must not count. Nor does any if the policy
        called `seed_session`.
        """
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None or not session.seeded or session.episode is None:
            return None
        if _policy_seeds(body):
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
            failure = f"the session was lost: {_lost(request)}"
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

    async def aggregate_metrics(  # type: ignore
        self, request: Request, body: AggregateRequest
    ) -> Any:
        """NeMo Gym's own, off the event loop: thousands of rows take minutes."""
        if request.session.get(SEEDED):
            raise HTTPException(403, "a session's metrics are not its policy's to ask")
        names = set[str]().union(*body.verify_responses)
        if len(names) > MAX_METRICS:
            raise HTTPException(422, f"there are over {MAX_METRICS} names of metrics")
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
            name = request.session[SESSION_ID_KEY] = self._new_id()
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
        known = row.model_extra or {}
        ids = [f"{key} {known[key]!r:.80}" for key in ROW_IDS if key in known]
        label = ids[0] if ids else f"task {json.dumps(task):.80}"
        try:
            if task:
                episodes.check_task(self.domain_class, task)
            await self._start(name, task, owner, label)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error

    async def _start(
        self,
        name: str,
        task: dict[str, Any],
        owner: Any = None,
        label: str = "an episode that was not seeded",
    ) -> Session:
        """Open a session. Raises ValueError if the class refuses the task."""
        self._end_idle()
        self._make_room()
        thread = None if episodes.runs_on_loop(self.domain_class) else EpisodeThread()
        if thread is not None:
            self._threads.add(thread)
        session = Session(task, bool(task), owner, thread)
        self.sessions[name] = session
        keeps = self.keeps_calls
        if keeps is None:
            read = "calls" in type(self).verify.__code__.co_names
            keeps = read or episodes.grader(self.domain_class) is None

        def construct() -> None:
            session.episode = episodes.Episode(
                self.domain_class, task, keeps_calls=keeps, label=label
            )

        try:
            await session.perform(construct, self.limits.tool_seconds)
        except (Exception, SystemExit) as error:
            if self.sessions.pop(name, None) is session:
                self._close_later(session)
            raise TaskRefused(self._refusal(error, label)) from error
        if self.sessions.get(name) is not session:  # it ended, and closes, meanwhile
            raise ValueError("this session ended while it started")
        return session

    def _refusal(self, error: BaseException, label: str) -> str:
        """Why the class could not be made of a task, in one line."""
        name = f"{self.domain_class.__name__}(task)"
        if isinstance(error, TimeoutError) and not str(error):
            return (
                f"{name} took more than {self.limits.tool_seconds:g} s (TOOL_SECONDS)"
            )
        if isinstance(error, ValueError):
            return f"{name}: {error}"
        log.error("%s: %s failed", label, name, exc_info=error)
        return f"{name}: {type(error).__name__}: {error}"

    def _make_room(self) -> None:
        """Raises HTTPException if all sessions are in use, or too many calls hang.

        A session whose call hangs takes no room, and those that nobody seeded are the
        first to go.
        """
        limits = self.limits
        retry = {"Retry-After": str(int(min(limits.idle_seconds, 60)) or 1)}
        retry[FULL.decode()] = "1"
        if self._hung_calls() >= limits.max_hung_calls:
            reason = f"{limits.max_hung_calls} calls hang (MAX_HUNG_CALLS)"
            raise HTTPException(503, reason, headers=retry)
        if len(self.sessions) < limits.max_sessions:
            return
        for name, session in self.sessions.items():
            if not session.seeded and not session.busy:
                self._end(name, "a server with too many sessions")
                return
        hung = sum(one.hangs(limits.tool_seconds) for one in self.sessions.values())
        if len(self.sessions) - hung >= limits.max_sessions:
            reason = f"all {limits.max_sessions} sessions (MAX_SESSIONS) are in use"
            raise HTTPException(503, reason, headers=retry)

    def _new_id(self) -> str:
        return (
            f"{self._prefix}{uuid.uuid4().hex}" if self._prefix else str(uuid.uuid4())
        )

    def knows(self, name: str) -> bool:
        """Whether a session of that id is open, or has ended here."""
        return any(
            name in known for known in (self.sessions, self._ended, self._unseeded)
        )

    def _hung_calls(self) -> int:
        """How many calls run for longer than a call may, in threads of their own."""
        seconds = self.limits.tool_seconds
        return sum(thread.hangs(seconds) for thread in list(self._threads))

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
            raise ValueError(f"this episode was lost: {_lost(request)}")
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

        tasks = [asyncio.create_task(watch())]
        tasks += [asyncio.create_task(link.keep()) for link in self._links]
        try:
            async with inner as state:
                await self._until_connected()
                yield state
        finally:
            for task in tasks:
                task.cancel()
            for name in list(self.sessions):
                self._end(name, "the server's exit")
            if self._closing:
                await asyncio.wait(self._closing, timeout=self.limits.close_seconds)

    async def _until_connected(self) -> None:
        """Wait for the shards, but not for one that ended as soon as it had started."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(10):
                while not all(link.up for link in self._links):
                    await asyncio.sleep(0.01)

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
                    if _policy_seeds(body):
                        response.reward = 0.0
                    return _verdict(response)
                unknown = session is None and ended is None
                if unknown and not request.session.get(SEEDED) and self._replays():
                    return await self._replay(request)
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

    def _replays(self) -> bool:
        """Whether /verify grades an episode that is over by playing it once more."""
        deterministic = getattr(self.domain_class, "deterministic", True)
        return deterministic and os.environ.get("REVERIFY") == "1"

    async def _replay(self, request: Request) -> Response:
        """The verdict on a fresh episode, after the calls that the trajectory names.

        What they answered at the time is not read: a policy may have written it.
        """
        import httpx  # only here: it takes a moment

        assert self._app is not None
        body = await request.json()
        token = request.headers.get("authorization")
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app),
            base_url=str(_url_of("")),
            follow_redirects=True,  # as aiohttp does
            headers={"authorization": token} if token else {},
            timeout=None,
        ) as client:
            answer = await client.post("/seed_session", json=body)
            for item in body["response"]["output"]:
                if answer.is_success and item.get("type") == "function_call":
                    url = str(_url_of(item["name"]))
                    given = item["arguments"].encode("utf-8", "replace")
                    headers = {"content-type": "application/json"}
                    await client.post(url, content=given, headers=headers)
            if answer.is_success:
                answer = await client.post("/verify", json=body)
        return Response(answer.content, answer.status_code, media_type=JSON)

    async def get_reverify_mode(self) -> Any:
        """What NeMo Gym 0.7 asks before `gym eval reverify`."""
        return ReverifyMode.STATELESS if self._replays() else ReverifyMode.UNSUPPORTED

    # -------------------------------------------------------------- serving

    async def health(self) -> dict[str, Any]:
        """That the server answers, its open sessions, and the calls that hang."""
        if self._links:
            from plumbing import shards

            return await shards.health(self._links)
        hung = self._hung_calls()
        return {"status": "ok", "sessions": len(self.sessions), "hung_calls": hung}

    def setup_webserver(self) -> FastAPI:
        """The app with NeMo Gym's routes and /health; a subclass adds its tools."""
        app = self._app = super().setup_webserver()
        if not any(
            getattr(route, "path", "") == "/close_session" for route in app.routes
        ):
            app.post("/close_session")(self.close_resources_session)
        app.get("/health")(self.health)
        app.get("/tools")(lambda: {"tools": tool_definitions(app)})
        app.add_exception_handler(Exception, _as_json)
        app.add_exception_handler(RequestValidationError, _refused)
        inner = app.router.lifespan_context
        app.router.lifespan_context = lambda app: self._lifespan(inner(app))
        if self._serves and not self._prefix:
            self._use_shards()
        return app

    def setup_session_middleware(self, app: FastAPI) -> None:
        app.router.route_class = self._route  # type: ignore
        build = app.build_middleware_stack

        def stack() -> ASGIApp:
            # Around the app's own stack rather than in it: NeMo Gym's MCP exposure
            # refuses foreign middleware.
            inner = build()
            cookies = SessionCookies(inner, self._secret, type(self).__name__)
            layers: ASGIApp = self._front(inner, cookies) if self._links else cookies
            if os.environ.get("METRICS") == "1" and not self._prefix:
                layers = Metrics(layers, lambda: _post_paths(app), self.health)
            token = os.environ.get("API_TOKEN")
            outer = Gate(layers, self.limits, token, cookies)
            if not self._prefix:
                return outer

            async def in_shard(scope: Scope, receive: Receive, send: Send) -> None:
                # What a front hands on has passed the front's own layers.
                layers = inner if "session" in scope else outer
                await layers(scope, receive, send)

            return in_shard

        app.build_middleware_stack = stack

    def setup_exception_middleware(self, app: FastAPI) -> None:
        """Nothing: a handler of setup_webserver's answers exceptions, at no cost."""

    def get_session_middleware_key(self) -> str:
        """The key of NeMo Gym 0.7's MCP tokens; its default is anyone's to compute."""
        return hmac.digest(self._secret.encode(), b"mcp", "sha256").hex()

    # -------------------------------------------------------------- shards

    def _front(self, app: ASGIApp, cookies: SessionCookies) -> ASGIApp:
        from plumbing import shards

        silence = shards.seconds_of_silence()
        seconds = self.limits.tool_seconds
        return shards.Front(
            app, cookies, self._links, seconds, silence, self._mcp_session
        )

    def _mcp_session(self, scope: Scope) -> str | None:
        """The session that an MCP request's token names, on NeMo Gym 0.7."""
        if not getattr(self.config, "expose_tools_over_mcp", False):
            return None
        from nemo_gym import mcp_auto_exposure as mcp

        token = dict(scope["headers"]).get(mcp.TOKEN_HEADER.lower().encode(), b"")
        key = self.get_session_middleware_key()
        signer = itsdangerous.URLSafeSerializer(key, salt=mcp._MCP_TOKEN_SALT)
        with contextlib.suppress(itsdangerous.BadSignature, KeyError, TypeError):
            return str(signer.loads(token.decode("latin-1"))["sid"])
        return None

    def _use_shards(self) -> None:
        """Make this server the front of its shards, if it is to have any.

        The first process starts them. Further workers find them by SHARDS_AT. Raises
        ValueError and RuntimeError, which name what to do.
        """
        from plumbing import homes, shards

        count = shards.wanted(self.config.shards)
        if not count:
            return
        kind, shared = shards.kind(), os.environ.get("SHARDS_AT")
        key, silence = shards.key_of(self._secret), shards.seconds_of_silence()
        place = json.loads(shared) if shared else {}
        home: Any
        if kind == "processes":
            home = homes.Processes(place.get("folder"))
        else:
            under_gym = os.environ.get("NEMO_GYM_CONFIG_PATH")
            mark = hmac.digest(self._secret.encode(), b"namespace", "sha256").hex()[:12]
            home = homes.RayActors(
                place.get("namespace") or f"{self.config.name}-{mark}",
                initialize_ray if under_gym else None,
                place.get("address"),
            )
        if not shared:
            type(self)._home = home
            # uvicorn ends with the signal that it got, and then the shards are to end.
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
            home.start([self._order(number, count) for number in range(count)])
            if (self.config.num_workers or 1) > 1:
                os.environ["SHARDS_AT"] = json.dumps(home.shared())
                os.environ["SESSION_SECRET"] = self._secret
        self._links = [shards.Link(n, key, home, silence) for n in range(count)]

    def _order(self, number: int, count: int) -> dict[str, Any]:
        """All that another process needs to hold one shard of `count`."""
        from plumbing import homes, shards

        share = dataclasses.replace(
            self.limits,
            max_sessions=-(-self.limits.max_sessions // count),
            max_hung_calls=-(-self.limits.max_hung_calls // count),
        )
        client = self.server_client
        settings = OmegaConf.to_container(
            OmegaConf.create(client.global_config_dict), resolve=True
        )
        return {
            "number": number,
            "secret": self._secret,
            **shards.class_place(type(self)),
            "config": self.config.model_dump(mode="json"),
            "head_server": client.head_server_config.model_dump(mode="json"),
            "settings": settings,
            "limits": dataclasses.asdict(share),
            "variables": homes.passed_on() if shards.kind() == "ray" else {},
        }

    @classmethod
    def in_shard(cls, order: dict[str, Any], birth: str) -> Self:
        """The server of one shard. `birth` tells it from an earlier one's."""
        _log_to_file(f".shard-{order['number']}")
        config: Any = cls.model_fields["config"].annotation
        server = cls(
            config=config.model_validate(order["config"]),
            server_client=ServerClient(
                head_server_config=BaseServerConfig(**order["head_server"]),
                global_config_dict=OmegaConf.create(order["settings"]),
            ),
            limits=Limits(**order["limits"]),
        )
        server._secret = order["secret"]
        server._prefix = f"{order['number']}-{birth}-"
        return server

    def expose(self, app: FastAPI) -> None:
        """Serve the tools over MCP too, if the configuration asks for it."""
        if getattr(self.config, "expose_tools_over_mcp", False):
            # NeMo Gym 0.7; here, because it costs every start 0.3 s.
            from nemo_gym.mcp_auto_exposure import maybe_auto_expose

            maybe_auto_expose(self, app)

    # -------------------------------------------------------------- the process

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
    def main(cls) -> FastAPI | None:
        """Serve on HOST and PORT, or as the NeMo Gym command line wants it.

        Returns the app in a worker process of NeMo Gym's, which serves it. Raises
        SystemExit with the reason if policies that are not trusted could do harm.
        """
        cls._refuse_to_serve()
        _log_to_file()
        # What was imported stays: it need not be looked through for garbage, which takes
        # 0.1 s each time.
        gc.collect()
        gc.freeze()
        cls._serves = True
        if is_nemo_gym_fastapi_worker():  # one of several, which NeMo Gym serves
            return cls.run_webserver()
        try:
            if os.environ.get("NEMO_GYM_CONFIG_PATH"):
                cls.run_webserver()
            else:
                cls._serve()
        except (RuntimeError, ValueError) as error:
            if cls._home is None:
                raise
            sys.exit(f"server.py: {error}")
        finally:
            if cls._home is not None:
                cls._home.stop(Limits.from_environment().close_seconds + 5)
        return None

    @classmethod
    def _serve(cls) -> None:
        """Serve on HOST and PORT, without NeMo Gym's command line."""
        app = cls.worker()
        server = app.state.server
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        server.set_ulimit(65535 if most == resource.RLIM_INFINITY else min(most, 65535))
        for hook in ("notice", "missing_requirement"):
            if text := getattr(cls.domain_class, hook, lambda: None)():
                log.warning(text)
        workers = server.config.num_workers or 1
        uvicorn.run(
            app if workers == 1 else "session_server:worker",
            factory=workers > 1,
            workers=workers,
            host=server.config.host,
            port=server.config.port,
            access_log=False,
            timeout_graceful_shutdown=int(server.limits.close_seconds) + 1
            if server._links
            else 1,
            # As NeMo Gym's own: longer than its client keeps a connection.
            timeout_keep_alive=30,
            # A worker answers its first ping once it has imported all.
            timeout_worker_healthcheck=60,
        )

    @classmethod
    def worker(cls) -> FastAPI:
        """The app that a process serves without NeMo Gym's command line."""
        cls._serves = True
        server = cls.build()
        app = server.setup_webserver()
        server.expose(app)
        server.setup_liveness(app)
        app.state.server = server
        return app

    @classmethod
    def _refuse_to_serve(cls) -> None:
        if os.environ.get("TRUSTED_POLICY") == "1":
            return
        refuse = getattr(cls.domain_class, "refuse_to_serve", lambda: None)
        if reason := refuse():
            sys.exit(f"server.py: {reason}")
        if not getattr(cls.domain_class, "runs_commands", False):
            return
        # An image says `container`, which a Space is not: everybody can reach it.
        told = ["1"] if os.environ.get("SPACE_ID") else ["1", "container"]
        allowed = os.environ.get("ALLOW_ANYBODY") in told or _host() in LOOPBACK
        if not allowed and not os.environ.get("API_TOKEN"):
            sys.exit(
                f"server.py: on HOST={_host()} anybody who reaches this port could run "
                "commands: set API_TOKEN, which clients then send, or ALLOW_ANYBODY=1"
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


def _post_paths(app: FastAPI) -> set[str]:
    return {
        route.path
        for route in app.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    }


def _url_of(tool: str) -> yarl.URL:
    """Where an agent posts a call of `tool`: NeMo Gym's put any name into a URL."""
    try:
        return yarl.URL(f"http://agent/{tool}")
    except ValueError:  # nowhere
        return yarl.URL("http://agent/")


def _policy_seeds(body: BaseVerifyRequest) -> bool:
    """Whether the policy of a trajectory posted to /seed_session."""
    calls = [item for item in body.response.output if item.type == "function_call"]
    return "seed_session" in [_url_of(call.name).path.strip("/") for call in calls]


def _lost(request: Request) -> str:
    """Why nobody knows the request's session; a front may know more."""
    return request.scope.get("lost", "this server does not know it")


def worker() -> FastAPI:
    """For uvicorn, in each of several worker processes of `python server.py`."""
    from plumbing.inspection import find_server

    return find_server().worker()


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
    return Response(text, media_type=JSON)


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


def _log_to_file(suffix: str = "") -> None:
    """Keep tracebacks in session.log too, beside this file or at SESSION_LOG.

    A shard has a file of its own: two processes cannot rotate one.
    """
    path = Path(
        (os.environ.get("SESSION_LOG") or str(Path(__file__).with_name("session.log")))
        + suffix
    )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        return  # a read-only container, whose standard error is its log
    file = logging.handlers.RotatingFileHandler(
        path, maxBytes=1 << 20, backupCount=1, encoding="utf-8", delay=True
    )
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    for logger in (log, episodes.log):
        logger.addHandler(file)
        logger.addHandler(logging.StreamHandler())


def _host() -> str:
    return os.environ.get("HOST") or "127.0.0.1"


def _port() -> int:
    """PORT, else 7860 on a Hugging Face Space, else 11000."""
    text = os.environ.get("PORT") or ("7860" if os.environ.get("SPACE_ID") else "11000")
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"PORT must be a number from 0 to 65535, got {text!r}")
    return int(text)


async def _refused(request: Request, error: Exception) -> JSONResponse:
    """A malformed body, without its values: not all of them can be sent as JSON."""
    assert isinstance(error, RequestValidationError)
    problems = [
        {key: one[key] for key in ("type", "loc", "msg")} for one in error.errors()
    ]
    if any(one["type"] == TOO_LONG for one in problems):
        return unread(problems[0]["msg"])
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
    return Response(body, headers=headers, media_type=JSON)
