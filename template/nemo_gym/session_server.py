"""Sessions, limits and serving under a NeMo Gym resources server.

`SessionServer` is NeMo Gym's `SimpleResourcesServer` with an episode behind every
session cookie. A server derives from it, names its domain class, and writes plain
endpoints; each `POST /<tool>` that it adds runs

- on an episode: seeded by `/seed_session`, or made with default task data on the first
  call;
- alone in its session, with a time limit, in a thread of its own where the endpoint is
  a plain `def`;
- with the domain's exceptions turned into `{"output": "error: ..."}`, which the policy
  can read.

Sessions end at `/verify`, `/close_session`, the idle limit and the server's exit. They
live in this process, so there is one worker. Settings are environment variables, see
`Limits`. This file alone knows NeMo Gym's versions: 0.4 and 0.7 differ in the seeding
contract and in what `run_webserver` sets up.
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import hmac
import inspect
import logging
import os
import re
import secrets
import threading
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.config_types import BaseServerConfig
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
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


@dataclass(frozen=True)
class Limits:
    """What one server allows, each out of an environment variable."""

    max_sessions: int = 1000
    idle_seconds: float = 1800
    tool_seconds: float = 60
    body_bytes: int = 1 << 20
    trajectory_bytes: int = 1 << 25

    VARIABLES: ClassVar[dict[str, str]] = {
        "max_sessions": "MAX_SESSIONS",  # one more open session is answered with 503
        "idle_seconds": "SESSION_IDLE_SECONDS",  # a session that waits longer is closed
        "tool_seconds": "TOOL_SECONDS",  # a longer tool call ends with an error output
        "body_bytes": "MAX_BODY_BYTES",  # a longer request body is answered with 413
        "trajectory_bytes": "MAX_TRAJECTORY_BYTES",  # the same, where trajectories go
    }

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ValueError where a variable holds no positive number."""
        values = {}
        for name, variable in cls.VARIABLES.items():
            if text := os.environ.get(variable):
                kind = type(getattr(cls, name))
                try:
                    values[name] = kind(text)
                except ValueError:
                    values[name] = 0
                if not values[name] > 0:
                    raise ValueError(
                        f"{variable} must be a positive {kind.__name__}, got {text!r}"
                    )
        return cls(**values)


# ---------------------------------------------------------------------- sessions


@dataclass
class Call:
    """One finished tool call, as the server saw it."""

    tool: str
    arguments: dict[str, Any]
    output: str

    @property
    def failed(self) -> bool:
        return self.output.lower().startswith("error:")


@dataclass
class Session:
    """One episode: the domain object, its task (ground_truth[0]), the calls so far."""

    task: dict[str, Any]
    owner: Any = None  # the episode_id of NeMo Gym 0.7's typed seed
    episode: Any = None
    calls: list[Call] = field(default_factory=list)
    used: float = field(default_factory=time.monotonic)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def printed(self, text: str) -> bool:
        """Whether the environment itself printed `text` to the policy.

        Counts whole words and numbers only (`4` is in neither `14 apples` nor `4.5`),
        in outputs that are no errors, and nothing that the policy wrote first: once an
        argument held `text`, an output may be its echo.
        """
        whole = rf"(?<![\w-])(?<!\d[.,]){re.escape(text)}(?!\w)(?![.,]\d)"
        pattern = re.compile(whole)
        for call in self.calls:
            if any(text in given for given in _strings(call.arguments)):
                return False
            if not call.failed and pattern.search(call.output):
                return True
        return False


def _strings(value: Any) -> list[str]:
    """Every string inside a JSON value."""
    if isinstance(value, dict):
        return [
            text for item in value.items() for part in item for text in _strings(part)
        ]
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


class ToolResponse(BaseModel):
    """What a tool answers: the text that the policy reads."""

    output: str


class GroundTruth(BaseModel):
    """The row's ground_truth[0]: what is graded, and the task of the episode."""

    model_config = ConfigDict(extra="allow")

    expected_output: str = Field(min_length=1)


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
            # Assigned even where it is there already: that makes every answer carry the
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
        trajectory = path.endswith(("/verify", "/aggregate_metrics"))
        limit = self.limits.trajectory_bytes if trajectory else self.limits.body_bytes
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
    """The domain class could not be made from a task."""


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

    ray_enabled: ClassVar[bool] = False
    domain_class: ClassVar[type]

    config: SessionServerConfig
    sessions: dict[str, InstanceOf[Session]] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits.from_environment)

    # Ids that ended, each with the reason, oldest first: a late call must not bring an
    # episode back.
    _ended: dict[str, str] = PrivateAttr(default_factory=dict)
    _running: set[asyncio.Task] = PrivateAttr(default_factory=set)
    _secret: str = PrivateAttr(
        default_factory=lambda: (
            os.environ.get("SESSION_SECRET") or secrets.token_hex(32)
        )
    )

    # -------------------------------------------------------------- for endpoints

    def episode(self, request: Request) -> Any:
        """The domain object of the request's session. Raises ValueError if it ended."""
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None:
            raise ValueError("this session has ended; POST /seed_session starts one")
        return session.episode

    def played(self, request: Request, task: BaseModel) -> Session | None:
        """The request's session, for grading; None where it is gone, or was seeded with
        another task than `task`.

        A policy can reach every route of this server, /seed_session too: an episode of
        a task of its own choice must not count.
        """
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None or (
            session.task and session.task != task.model_dump(exclude_unset=True)
        ):
            return None
        return session

    def graded(
        self,
        request: Request,
        body: BaseVerifyRequest,
        reward: float,
        failure: str | None = None,
    ) -> BaseVerifyResponse:
        """The answer of /verify. `reward` is from 0 to 1.

        Where the environment failed rather than the policy, `failure` says how; so does
        a session that this server gave up as idle. NeMo Gym 0.7 then leaves the sample
        out of its scores; 0.4 takes the reward as it is.
        """
        ended = self._ended.get(request.session[SESSION_ID_KEY], "")
        failure = failure or (
            f"the session was lost: {ended}" if ended.startswith("idle") else None
        )
        return BaseVerifyResponse(
            **body.model_dump(),
            reward=float(reward),
            mask_sample=failure is not None,
            failure_reason=failure,
        )

    # -------------------------------------------------------------- session life

    async def seed_session(self, request: Request, body: SeedRequest) -> SeedResponse:
        """Start an episode of the row's task, in a new session."""
        if isinstance(body, SeedSessionRequest):
            await self._end(request.session[SESSION_ID_KEY], "a new seed")
            name = request.session[SESSION_ID_KEY] = str(uuid.uuid4())
            await self._seed(name, body.ground_truth)
            return SessionResponse()
        # NeMo Gym 0.7 names the session itself and may repeat a seed.
        name = body.resources_session_id
        known = self.sessions.get(name)
        if name in self._ended or (
            known is not None and known.owner != body.episode_id
        ):
            why = self._ended.get(name, "another episode's")
            raise HTTPException(409, f"the session {name!r} cannot be seeded: {why}")
        if known is None:
            row = SeedSessionRequest.model_validate(body.task_data)
            await self._seed(name, row.ground_truth, owner=body.episode_id)
        request.session[SESSION_ID_KEY] = name
        return ResourcesSeedSessionResponse(resources_session_id=name)

    async def close_resources_session(
        self, request: Request, body: CloseRequest
    ) -> CloseResponse:
        """End the session; closing one that is not open is no error."""
        if isinstance(body, CloseSessionRequest):
            await self._end(request.session[SESSION_ID_KEY], "closed")
            return SessionResponse()
        await self._end(body.resources_session_id, "closed", remember=True)
        return ResourcesCloseSessionResponse(
            resources_session_id=body.resources_session_id
        )

    async def _seed(
        self, name: str, ground_truth: list[dict[str, Any]], owner: Any = None
    ) -> None:
        try:
            await self._start(name, ground_truth[0] if ground_truth else {}, owner)
        except TaskRefused as refusal:
            raise HTTPException(422, str(refusal)) from refusal

    async def _start(
        self, name: str, task: dict[str, Any], owner: Any = None
    ) -> Session:
        await self._end_idle()
        if len(self.sessions) >= self.limits.max_sessions:
            raise HTTPException(
                503,
                f"all {self.limits.max_sessions} sessions (MAX_SESSIONS) are in use",
                headers={
                    "Retry-After": str(int(min(self.limits.idle_seconds, 60)) or 1)
                },
            )
        session = self.sessions[name] = Session(task, owner)
        try:
            async with session.lock:
                session.episode = await _in_thread(lambda: self.domain_class(task))
        except Exception as error:
            _log_unexpected(error, self.domain_class.__name__)
            raise TaskRefused(
                f"{self.domain_class.__name__}(task): {_reason(error)}"
            ) from error
        finally:
            if session.episode is None:
                del self.sessions[name]
        return session

    async def _session(self, request: Request) -> Session:
        """The request's open session; a default episode where the id is new."""
        name = request.session[SESSION_ID_KEY]
        if name in self._ended:
            raise ValueError(
                f"this session has ended ({self._ended[name]}); "
                "POST /seed_session starts a new one"
            )
        session = self.sessions.get(name) or await self._start(name, {})
        session.used = time.monotonic()
        return session

    async def _end(self, name: str, reason: str, *, remember: bool = False) -> None:
        session = self.sessions.pop(name, None)
        if session is not None or remember:
            self._ended.setdefault(name, reason)
            while len(self._ended) > 10 * self.limits.max_sessions:
                del self._ended[next(iter(self._ended))]
        close = getattr(session and session.episode, "close", None)
        if close is not None:
            try:
                await _in_thread(close)
            except Exception:
                log.exception("%s.close() failed", self.domain_class.__name__)

    async def _end_idle(self) -> None:
        oldest = time.monotonic() - self.limits.idle_seconds
        for name, session in list(self.sessions.items()):
            if session.used < oldest and not session.lock.locked():
                await self._end(
                    name, f"idle for more than {self.limits.idle_seconds:g} s"
                )

    @contextlib.asynccontextmanager
    async def _lifespan(self, inner: Any) -> AsyncIterator[Any]:
        async def watch() -> None:
            while True:
                await asyncio.sleep(min(self.limits.idle_seconds / 2, 30))
                await self._end_idle()

        watcher = asyncio.create_task(watch())
        try:
            async with inner as state:
                yield state
        finally:
            watcher.cancel()
            await asyncio.gather(
                *(self._end(name, "the server's exit") for name in list(self.sessions))
            )

    # -------------------------------------------------------------- calls

    def _route(self, path: str, endpoint: Callable, **options: Any) -> APIRoute:
        """Makes every route of the app, with sessions around tools and /verify."""
        methods = options.get("methods") or ["GET"]
        if path == "/verify":
            # NeMo Gym's MCP exposure wraps the route's endpoint and routes it anew.
            if not hasattr(endpoint, "ends_session"):
                endpoint = self._verify_endpoint(endpoint)
        elif "POST" in methods and path not in OWN_ROUTES:
            endpoint = self._tool_endpoint(path.lstrip("/"), endpoint)
        return APIRoute(path, endpoint, **options)

    def _tool_endpoint(self, tool: str, endpoint: Callable) -> Callable:
        @functools.wraps(endpoint)
        async def call(**arguments: Any) -> Any:
            request = _one(arguments, Request)
            if request is None:
                raise TypeError(
                    f"the endpoint of tool {tool!r} has no parameter `request: Request`"
                )
            body = _one(arguments, BaseModel)
            given = {} if body is None else body.model_dump(mode="json")
            session = None
            try:
                session = await self._session(request)
                response = await self._alone(
                    session, functools.partial(endpoint, **arguments)
                )
                output = str(getattr(response, "output", ""))
            except HTTPException:
                raise
            except Exception as error:  # noqa: BLE001 - the policy reads it
                _log_unexpected(error, f"the tool {tool!r}")
                output = f"error: {_reason(error)}"
                response = JSONResponse({"output": output})
            if session is not None:
                session.calls.append(Call(tool, given, output))
            return response

        return call

    def _verify_endpoint(self, endpoint: Callable) -> Callable:
        @functools.wraps(endpoint)
        async def verify(**arguments: Any) -> Any:
            request = _one(arguments, Request)
            session = (
                self.sessions.get(request.session[SESSION_ID_KEY]) if request else None
            )
            async with contextlib.AsyncExitStack() as stack:
                if session is not None:
                    # A tool call that hangs must not keep the episode from its reward
                    # for ever.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(
                            session.lock.acquire(), self.limits.tool_seconds
                        )
                        stack.callback(session.lock.release)
                response = endpoint(**arguments)
                if inspect.isawaitable(response):
                    response = await response
            if request is not None:
                await self._end(request.session[SESSION_ID_KEY], "verified")
            return response

        verify.ends_session = True
        return verify

    async def _alone(self, session: Session, call: Callable[[], Any]) -> Any:
        """Run `call` when no other call of the session runs. Raises TimeoutError after
        the tool limit.

        A call in a thread cannot be stopped: it then goes on, and keeps its session to
        itself, until it returns.
        """

        async def run() -> Any:
            async with session.lock:
                if inspect.iscoroutinefunction(getattr(call, "func", call)):
                    return await call()
                return await _in_thread(call)

        task = asyncio.ensure_future(run())
        self._running.add(task)
        task.add_done_callback(self._finished)
        done, _ = await asyncio.wait({task}, timeout=self.limits.tool_seconds)
        if not done:
            raise TimeoutError(
                f"the call took more than {self.limits.tool_seconds:g} s (TOOL_SECONDS)"
            )
        session.used = time.monotonic()
        return task.result()

    def _finished(self, task: asyncio.Task) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # taken here: after a time-out nobody else takes it

    # -------------------------------------------------------------- serving

    def setup_webserver(self) -> FastAPI:
        """The app with NeMo Gym's routes and /health; a subclass adds its tools."""
        app = super().setup_webserver()
        if not any(
            getattr(route, "path", "") == "/close_session" for route in app.routes
        ):
            app.post("/close_session")(self.close_resources_session)
        app.get("/health")(_health)
        app.add_exception_handler(Exception, _as_json)
        inner = app.router.lifespan_context
        app.router.lifespan_context = lambda app: self._lifespan(inner(app))
        return app

    def setup_session_middleware(self, app: FastAPI) -> None:
        app.router.route_class = self._route
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


def _configured() -> tuple[str, dict[str, Any]]:
    """The name and the settings of the one resources server in configs/."""
    folder = Path(__file__).parent / "configs"
    for path in sorted(folder.glob("*.yaml")):
        for name, value in OmegaConf.to_container(OmegaConf.load(path)).items():
            if isinstance(value, dict) and "resources_servers" in value:
                [(_, settings)] = value["resources_servers"].items()
                return name, settings
    raise ValueError(f"no file in {folder} configures a resources server")


def _host() -> str:
    return os.environ.get("HOST") or "0.0.0.0"


def _port() -> int:
    """PORT, else 7860 on a Hugging Face Space, else 11000."""
    text = os.environ.get("PORT") or ("7860" if os.environ.get("SPACE_ID") else "11000")
    if not text.isdecimal() or int(text) > 65535:
        raise ValueError(f"PORT must be a number from 0 to 65535, got {text!r}")
    return int(text)


async def _health() -> dict[str, str]:
    """Whether the server answers."""
    return {"status": "ok"}


async def _as_json(request: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": repr(error)}, status_code=500)


def _one(arguments: dict[str, Any], kind: type) -> Any:
    return next(
        (value for value in arguments.values() if isinstance(value, kind)), None
    )


# What a domain raises on purpose: its message is for the policy.
EXPECTED = (ValueError, NotImplementedError, TimeoutError)


def _reason(error: Exception) -> str:
    """An exception as one sentence for the policy."""
    text = str(error)
    if text and isinstance(error, EXPECTED):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _log_unexpected(error: Exception, where: str) -> None:
    """Log what is a bug; expected errors stay out: they may hold a task's answer."""
    if not isinstance(error, EXPECTED):
        log.error("%s failed", where, exc_info=error)


def _in_thread(call: Callable[[], Any]) -> Awaitable[Any]:
    """Run `call` in a thread of its own.

    A daemon thread: one that hangs must not hold up the server's exit.
    """
    future: concurrent.futures.Future = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # from here on nobody can cancel it

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - a tool may call sys.exit()
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return asyncio.wrap_future(future)
