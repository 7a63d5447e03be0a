"""The resources server that nemo_gym/server.py subclasses.

A subclass names the class, and adds a line for each tool:

    class MyEnvResourcesServer(SessionServer):
        domain_class = MyEnv

        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            app.post("/guess")(self.tool(MyEnv.guess))
            return app
"""

import asyncio
import contextlib
import faulthandler
import gc
import hmac
import logging
import secrets
import sys
import uuid
from collections.abc import AsyncGenerator, Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Self

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from omegaconf import OmegaConf
from pydantic import Field, PrivateAttr
from starlette.types import ASGIApp

from . import project
from .auth import serving_problem
from .class_models import models_of
from .episode.declaration import declared
from .episode.session import Session
from .episode.tools import tool_of
from .errors import ProjectError, SettingError, ShardsError, shortage
from .gym_series import (
    SESSION_ID_KEY,
    BaseServerConfig,
    ReverifyMode,
    ServerClient,
    SimpleResourcesServer,
    is_nemo_gym_fastapi_worker,
)
from .resources_server import launch
from .resources_server.cookies import cookie_refused
from .resources_server.endpoints import (
    REPLY_ROUTE,
    Seeding,
    describe_off_loop,
    post_routes,
    reply_endpoint,
    route_of,
    tool_definitions,
    tool_endpoint,
    with_row_tools,
    written_endpoint,
)
from .resources_server.http import LargeBodies, RequestGuard, SessionCookies, ToolCalls
from .resources_server.messages import (
    TOO_LONG,
    AggregateRequest,
    CloseRequest,
    CloseResponse,
    SeedRequest,
    SeedResponse,
    SessionServerConfig,
    ToolResponse,
    VerifyRequest,
    VerifyResponse,
)
from .resources_server.store import SessionStore
from .resources_server.verdict import (
    decide,
    lowest_verdict,
    make_final,
    verdict,
)
from .settings import Limits, ServerSettings, ShardSettings

__all__ = [
    "SessionServer",
    "ToolResponse",
    "VerifyRequest",
    "VerifyResponse",
    "load_server",
]

# Everything that ends with a process that serves. If it is not set: no shards.
PROCESS: ContextVar[contextlib.ExitStack] = ContextVar("PROCESS")

# The most metric names in all verdicts together: NeMo Gym makes a column of each.
MAX_METRICS = 500

log = logging.getLogger(__name__)


class SessionServer(SimpleResourcesServer):
    """A resources server whose sessions are episodes of `domain_class`.

    Each `POST /<tool>` plays the session's episode: the one that `/seed_session` started,
    or one with default task data. A policy can post to every route here with its session's
    cookie. So a cookie is good for one seeded episode, and nothing that a policy posts can
    replace it. The sessions are in this process, or with SHARDS=N in N others.
    """

    ray_enabled: ClassVar[bool | None] = False
    domain_class: ClassVar[type]
    # Whether `session.calls` holds the tool calls. None: only if the class has no
    # reward(), because a grade by `expected_output` reads them.
    keeps_calls: ClassVar[bool | None] = None

    config: SessionServerConfig
    limits: Limits = Field(default_factory=Limits.read)

    _id_prefix: str = PrivateAttr(default="")
    _secret: str = PrivateAttr(default="")
    _store: SessionStore = PrivateAttr()
    _seeding: Seeding = PrivateAttr()
    _shards: list[Any] = PrivateAttr(default_factory=list)  # their clients

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        if "limits" not in self.model_fields_set:  # NeMo Gym hands the config over
            self.limits = Limits.of_server(self.config.model_extra or {})
        self._secret = ServerSettings.read().session_secret or secrets.token_hex(32)
        keeps = self.keeps_calls
        if keeps is None:
            keeps = declared(self.domain_class).reward is None
        models = models_of(self.domain_class, self._endpoint_of_gym)
        self._store = SessionStore(self.domain_class, self.limits, keeps, models)
        self._seeding = Seeding(self._store, self._new_id)

    @classmethod
    def build(cls, **limits: Any) -> Self:
        """A server configured by configs/<env>.yaml, without NeMo Gym's CLI and Ray.

        `limits` are fields of settings.Limits. Raises SettingError.
        """
        name, config = launch.configured(project.of_class(cls.domain_class))
        models_of(cls.domain_class)  # raises SettingError
        settings = ServerSettings.read().over(config)
        address = {"host": settings.host, "port": settings.listening_port}
        return cls(
            config=SessionServerConfig(**{**config, "name": name, **address}),
            server_client=ServerClient(
                head_server_config=BaseServerConfig(host="127.0.0.1", port=11000),
                global_config_dict=OmegaConf.create({}),
            ),
            limits=Limits.of_server(config, **limits),
        )

    # -------------------------------------------------------------- for server.py

    @property
    def sessions(self) -> dict[str, Session]:
        """The open sessions by their id, `request.session[SESSION_ID_KEY]`."""
        return self._store.sessions

    @property
    def lowest_reward(self) -> float:
        """The reward of an episode that does not count: the lowest, by default 0.0."""
        return self._store.lowest_reward

    def tool(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """The endpoint of a tool: `app.post("/look")(self.tool(MyEnv.look))`.

        Its request model comes from the method's signature, its description from the
        docstring. Raises ToolError if the method cannot be a tool.
        """
        return tool_endpoint(self._store, tool_of(self.domain_class, method))

    def endpoint(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The endpoint of a tool that you write: `app.post("/peek")(self.endpoint(peek))`.

        `peek(request, body)` returns a ToolResponse, in the session's turn. A plain
        `def` runs in the episode's thread, an `async def` on the event loop. An
        exception becomes an output that starts `error:`.
        """
        return written_endpoint(self._store, function)

    def environment(self, request: Request) -> Any:
        """The object that plays the request's session, for an endpoint that you write.

        Raises ValueError if the session ended.
        """
        session = self.sessions.get(request.session[SESSION_ID_KEY])
        if session is None:
            raise ValueError("this session has ended; POST /seed_session starts one")
        return session.environment

    def finished_session(self, request: Request, body: VerifyRequest) -> Session | None:
        """The request's session, for grading.

        None if it is gone, if it was not seeded with exactly the row's task, or if the
        policy called `seed_session`: an episode of a task that the policy chose must
        not count.
        """
        decision = decide(self._store, request, body)
        return decision.own if decision.problem is None else None

    def verify_response(
        self, request: Request, body: VerifyRequest, reward: float
    ) -> VerifyResponse:
        """The answer of /verify. `reward` is within the class's `reward_range`.

        If the environment failed rather than the policy, or if the session was lost,
        the sample is masked and `failure_reason` says why.
        """
        return verdict(self._store, request, body, reward)

    def setup_webserver(self) -> FastAPI:
        """The app with NeMo Gym's routes and /health. A subclass adds its tools.

        Raises SettingError if it is to serve a class over MCP that MCP cannot play, or
        with a wrong parameter, and ShardsError in a process that serves.
        """
        given = (self.config.model_extra or {}).get("parameters")
        if given or declared(self.domain_class).parameters:
            from .episode.parameters import read, shown, with_variable

            values = with_variable(given or {})
            self._store.parameters = values
            self._store.played_with = shown(
                self.domain_class, read(self.domain_class, values)
            )
        if over_mcp := self._over_mcp:
            if reason := over_mcp.unplayable(self.domain_class):
                cure = "remove `expose_tools_over_mcp: true` from configs/"
                raise SettingError(f"{reason}; {cure}")
            self._store.counts_calls = True
            over_mcp.show_images()
        own = declared(self.domain_class)
        app = super().setup_webserver()
        app.router.redirect_slashes = False  # a redirect repeats the Host header
        # NeMo Gym 0.4 has no such route.
        if not route_of(app, "/close_session"):
            app.post("/close_session")(self.close_resources_session)
        if own.replies:
            # Not a route of FastAPI's: NeMo Gym would serve it over MCP.
            reply = reply_endpoint(self._store)
            app.add_route(REPLY_ROUTE, reply, methods=["POST"], include_in_schema=False)
        if own.has_row_tools:
            # Names that only rows have: no route is known in advance.
            app.router.default = with_row_tools(self._store, app.router.default)
        # In place of NeMo Gym's route, which grades an episode as often as it is asked.
        make_final(self._store, app)
        # In place of FastAPI's route, which makes its description on the event loop.
        describe_off_loop(app)
        app.get("/health")(self.health)
        app.get("/tools")(lambda: self._about(app))
        # Around what there is: sessions end with the server, and NeMo Gym ends none.
        inner = app.router.lifespan_context
        app.router.lifespan_context = lambda app: self._lifespan(inner(app))
        process, settings = PROCESS.get(None), ShardSettings.read()
        if process and (settings.shards or self.config.shards):
            from .scale.deployment import deploy

            self._shards = deploy(self, process)
        return app

    # -------------------------------------------------------------- routes

    async def verify(self, request: Request, body: Any) -> Any:
        """Grade the episode. server.py defines this method."""
        raise NotImplementedError

    async def seed_session(self, request: Request, body: SeedRequest) -> SeedResponse:
        """Start an episode of the row's task. A cookie is good for one episode."""
        return await self._seeding.seed(request, body)

    async def close_resources_session(
        self, request: Request, body: CloseRequest
    ) -> CloseResponse:
        """End the session. Closing a session that is not open is not an error."""
        return await self._seeding.close(request, body)

    async def aggregate_metrics(self, request: Request, body: AggregateRequest) -> Any:
        """Run NeMo Gym's aggregation off the event loop: it may take minutes."""
        if refused := cookie_refused("/aggregate_metrics", request.session):
            raise refused
        names = set[str]().union(*body.verify_responses)
        if len(names) > MAX_METRICS:
            raise HTTPException(422, f"there are over {MAX_METRICS} names of metrics")
        compute = super().aggregate_metrics
        try:
            return await asyncio.to_thread(lambda: asyncio.run(compute(body)))
        except ModuleNotFoundError as error:
            raise HTTPException(501, str(error)) from error
        except Exception as error:
            if shortage(error):
                raise
            log.exception("/aggregate_metrics failed")
            reason = f"these responses cannot be aggregated: {type(error).__name__}"
            raise HTTPException(422, reason) from error

    async def get_reverify_mode(self) -> Any:
        """The mode that NeMo Gym 0.7 asks for before `gym eval reverify`."""
        stateless = self._store.replays
        return ReverifyMode.STATELESS if stateless else ReverifyMode.UNSUPPORTED

    async def health(self) -> dict[str, Any]:
        """Report that the server answers, with its open sessions and hung calls.

        `masked` and `not_graded` are there after verdicts that are no grade. `no_room`
        is there if no session can start now, and says why.
        """
        if self._shards:
            from .scale.proxy import health

            return await health(self._shards)
        problem = self._store.problem()
        full = {"no_room": problem} if problem else {}
        return {"status": "ok", **self._store.counts(), **full}

    def _about(self, app: FastAPI) -> dict[str, Any]:
        """The answer of GET /tools: everything that a client needs to play."""
        return {
            "tools": tool_definitions(app),
            "reward_range": declared(self.domain_class).reward_range,
            "replies": declared(self.domain_class).replies,
            "row_tools": declared(self.domain_class).has_row_tools,
            "seconds": self._store.longest_call(),
            "parameters": self._store.played_with,
        }

    async def _invalid_body(self, request: Request, error: Exception) -> JSONResponse:
        """The answer to a malformed body, without values: JSON cannot hold them all."""
        assert isinstance(error, RequestValidationError)
        problems = [
            {key: problem[key] for key in ("type", "loc", "msg")}
            for problem in error.errors()
        ]
        if any(problem["type"] == TOO_LONG for problem in problems):
            self._store.end(request.session[SESSION_ID_KEY], "closed")
            return lowest_verdict(problems[0]["msg"], self.lowest_reward)
        return JSONResponse({"detail": problems}, status_code=422)

    def mcp_tools(self, harvested: list[Any], catchall: Any) -> list[Any]:
        """The tools that MCP clients see. NeMo Gym 0.7 calls this method."""
        from .resources_server import over_mcp

        return over_mcp.listed_tools(self._store, harvested)

    # -------------------------------------------------------------- layers

    def setup_session_middleware(self, app: FastAPI) -> None:
        """Put the layers around the app's own stack, which is built when it starts.

        NeMo Gym's MCP exposure refuses foreign middleware in that stack.
        """
        build = app.build_middleware_stack

        def stack() -> ASGIApp:
            # Last, because NeMo Gym's run_webserver() sets handlers of its own.
            app.add_exception_handler(Exception, _server_error)
            app.add_exception_handler(RequestValidationError, self._invalid_body)
            app.router.routes.insert(0, ToolCalls(app))
            inner, settings = LargeBodies(build(), self._store), ServerSettings.read()
            name = type(self).__name__
            cookies = SessionCookies(inner, self._secret, name, self._new_id)
            layers: ASGIApp = cookies
            if self._shards:
                from .scale.proxy import Proxy

                layers = Proxy(inner, cookies, self._shards, self)
            if self._id_prefix:  # behind a proxy, which has the other layers
                return layers
            if settings.metrics == "1":
                from .resources_server.metrics import Metrics

                paths = {route.path for route in post_routes(app)}
                layers = Metrics(layers, paths, self.health)
            # NeMo Gym's configuration may name another host.
            settings = settings.model_copy(update={"host": self.config.host})
            lowest = self.lowest_reward
            return RequestGuard(layers, self.limits, settings, cookies, lowest)

        app.build_middleware_stack = stack

    def setup_exception_middleware(self, app: FastAPI) -> None:
        """Add no layer: a handler answers exceptions at no cost."""

    def setup_cancellation_middleware(self, app: FastAPI) -> None:
        """Add no layer: a call plays on without its client, as `python server.py` has it.

        NeMo Gym 0.7's layer would cut it off in the middle. It also hides exceptions of
        a body, such as a 408, from their handlers.
        """

    def get_session_middleware_key(self) -> str:
        """The key of NeMo Gym 0.7's MCP tokens. Anybody can compute its default."""
        return hmac.digest(self._secret.encode(), b"mcp", "sha256").hex()

    @property
    def _over_mcp(self) -> Any:
        """The module that serves the tools over MCP, if configs/<env>.yaml says so."""
        if not getattr(self.config, "expose_tools_over_mcp", False):
            return None
        from .resources_server import over_mcp

        return over_mcp if over_mcp.serves_mcp(self) else None

    def _endpoint_of_gym(self, name: str) -> Any:
        """The endpoint of a model that NeMo Gym serves, None for others."""
        from .models.endpoints import gym_endpoint

        return gym_endpoint(self, name)

    def _new_id(self) -> str:
        if self._id_prefix:
            return f"{self._id_prefix}{uuid.uuid4().hex}"
        return str(uuid.uuid4())

    @contextlib.asynccontextmanager
    async def _lifespan(self, inner: Any) -> AsyncGenerator[Any, None]:
        async with inner as state, self._store.serving(), self._connected():
            yield state

    def _connected(self) -> contextlib.AbstractAsyncContextManager[Any]:
        """Holds connections to the shards, if there are any."""
        if not self._shards:
            return contextlib.nullcontext()
        from .scale.proxy import connected

        return connected(self._shards)

    # -------------------------------------------------------------- the process

    @classmethod
    def main(cls) -> FastAPI | None:
        """Serve on HOST and PORT, or as the NeMo Gym command line wants it.

        Returns the app in a worker process of NeMo Gym, which serves the app. Raises
        SystemExit with the reason if untrusted policies could do harm, or if the shards
        do not start.
        """
        try:
            if sys.argv[1:]:
                from .command_line import read_server_options

                read_server_options()
            own, settings = project.of_class(cls.domain_class), ServerSettings.read()
            if not settings.nemo_gym_config_path:  # else NeMo Gym knows the address
                settings = settings.over(launch.configured(own)[1])
            if reason := serving_problem(cls.domain_class, settings.host):
                sys.exit(f"server.py: {reason}")
            launch.log_to_file(own)
        except (ProjectError, SettingError) as error:
            sys.exit(f"server.py: {error}")
        # A library that crashes the process leaves the line that called it in the log.
        faulthandler.enable()
        # The modules stay, so the garbage collector need not scan them for 0.1 s.
        gc.collect()
        gc.freeze()
        with contextlib.ExitStack() as process:
            PROCESS.set(process)
            try:
                # NeMo Gym serves the app of each of several workers.
                if is_nemo_gym_fastapi_worker():
                    return cls.run_webserver()
                if ServerSettings.read().nemo_gym_config_path:
                    from .resources_server.connections import bound_connections_of_gym

                    bound_connections_of_gym()
                    cls.run_webserver()
                else:
                    launch.run(cls.worker(), f"{__name__}:worker")
            except (ShardsError, SettingError) as error:
                sys.exit(f"server.py: {error}")
        return None

    @classmethod
    def worker(cls) -> FastAPI:
        """The app that a process serves without NeMo Gym's command line."""
        server = cls.build()
        app = server.setup_webserver()
        if over_mcp := server._over_mcp:
            over_mcp.expose(server, app)
        server.setup_liveness(app)
        app.state.server = server
        return app


def load_server(path: Path | str) -> type[SessionServer]:
    """The server class of nemo_gym/server.py in the project around `path`.

    Raises ProjectError if no project is there, and what server.py raises.
    """
    return project.find(path).load_server()


def worker() -> FastAPI:
    """The app for uvicorn, in each of several workers of `python server.py`."""
    PROCESS.set(contextlib.ExitStack())
    return project.here().load_server().worker()


async def _server_error(request: Request, error: Exception) -> JSONResponse:
    """The answer to a failure. The text of an error may hold a row, or a prompt."""
    if lack := shortage(error):
        return JSONResponse({"detail": lack}, 503, {"Retry-After": "2"})
    detail = f"the server failed: {type(error).__name__}; its log says more"
    return JSONResponse({"detail": detail}, status_code=500)
