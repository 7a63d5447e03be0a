"""The resources server that nemo_gym/server.py subclasses.

A subclass names the class, and adds a line for each tool:

    class MyEnvResourcesServer(SessionServer):
        domain_class = MyEnv

        def setup_webserver(self) -> FastAPI:
            app = super().setup_webserver()
            app.post("/guess")(self.tool(MyEnv.guess))
            return app
"""

import contextlib
import gc
import sys
from collections.abc import AsyncGenerator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from . import deferred_imports  # noqa: F401 - before NeMo Gym

# isort: split
from fastapi import FastAPI
from nemo_gym.server_utils import is_nemo_gym_fastapi_worker
from pydantic import PrivateAttr
from starlette.types import ASGIApp

from . import gym_series, project
from .errors import SettingError, ShardsError
from .resources_server import launch
from .resources_server.base import InProcessServer
from .resources_server.cookies import SessionCookies
from .resources_server.http import bound_connections_of_gym
from .resources_server.messages import ToolResponse, VerifyRequest, VerifyResponse
from .scale.deployment import deploy
from .scale.front import Front
from .scale.link import connected, health
from .settings import ServerSettings

__all__ = [
    "SessionServer",
    "ToolResponse",
    "VerifyRequest",
    "VerifyResponse",
    "load_server",
]

# Everything that ends with a process that serves. If it is not set: no shards.
PROCESS: ContextVar[contextlib.ExitStack] = ContextVar("PROCESS")


class SessionServer(InProcessServer):
    """A resources server whose sessions are episodes of `domain_class`.

    The sessions are in this process, or with SHARDS=N in N others.
    """

    _links: list[Any] = PrivateAttr(default_factory=list)  # to the shards

    def setup_webserver(self) -> FastAPI:
        """The app with NeMo Gym's routes and /health. A subclass adds its tools.

        Raises ShardsError and SettingError in a process that serves.
        """
        app = super().setup_webserver()
        if process := PROCESS.get(None):
            self._links = deploy(self, process)
        return app

    async def health(self) -> dict[str, Any]:
        """Report that the server answers, with its open sessions and hung calls."""
        return await (health(self._links) if self._links else super().health())

    def _session_layer(self, app: ASGIApp, cookies: SessionCookies) -> ASGIApp:
        if not self._links:
            return super()._session_layer(app, cookies)
        return Front(app, cookies, self._links, self)

    @contextlib.asynccontextmanager
    async def _while_serving(self) -> AsyncGenerator[None, None]:
        async with super()._while_serving(), connected(self._links):
            yield

    # -------------------------------------------------------------- the process

    @classmethod
    def main(cls) -> FastAPI | None:
        """Serve on HOST and PORT, or as the NeMo Gym command line wants it.

        Returns the app in a worker process of NeMo Gym, which serves the app. Raises
        SystemExit with the reason if untrusted policies could do harm, or if the shards
        do not start.
        """
        try:
            launch.refuse_to_serve(cls)
            launch.log_to_file(project.of_class(cls.domain_class))
        except SettingError as error:
            sys.exit(f"server.py: {error}")
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
                    bound_connections_of_gym()
                    cls.run_webserver()
                else:
                    cls._serve()
            except (ShardsError, SettingError) as error:
                sys.exit(f"server.py: {error}")
        return None

    @classmethod
    def _serve(cls) -> None:
        """Serve without NeMo Gym's command line."""
        app = cls.worker()
        server = app.state.server
        workers = server.config.num_workers or 1
        launch.run(
            app if workers == 1 else f"{__name__}:worker",
            server,
            workers=workers,
            grace=server.limits.close_seconds + 1 if server._links else 1,
        )

    @classmethod
    def worker(cls) -> FastAPI:
        """The app that a process serves without NeMo Gym's command line."""
        server = cls.build()
        app = server.setup_webserver()
        gym_series.expose_over_mcp(server, app)
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
