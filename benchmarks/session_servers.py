"""Other servers for sessions.py: the same tool, which takes a microsecond, in each.

    python session_servers.py NAME

Each prints its port once it listens on it.
"""

import os
import socket
import sys
from typing import Any


class Held:
    """The object of a session."""

    def __init__(self) -> None:
        self.count = 0

    def micro(self) -> str:
        self.count += 1
        return str(self.count)


def serve_app(app: Any, **options: Any) -> None:
    """Serve with uvicorn, on a port of the system's choice."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"running on port {listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="error", access_log=False, **options)
    uvicorn.Server(config).run(sockets=[listening])


def gym() -> None:
    """NeMo Gym's own example, as its package has it."""
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf
    from resources_servers.example_session_state_mgmt import app

    config = app.StatefulCounterResourcesServerConfig(
        host="127.0.0.1", port=0, name="example", entrypoint="app.py", domain="other"
    )
    client = ServerClient(
        head_server_config=BaseServerConfig(host="127.0.0.1", port=1),
        global_config_dict=OmegaConf.create({}),
    )
    server = app.StatefulCounterResourcesServer(config=config, server_client=client)
    serve_app(server.setup_webserver())


def openenv() -> None:
    """OpenEnv: a websocket, an environment and an executor for each session."""
    from openenv.core.env_server import http_server, interfaces, types

    class Call(types.Action):
        name: str = "micro"

    class Seen(types.Observation):
        output: str = ""

    class Counter(interfaces.Environment):
        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self.held = Held()

        def reset(self, **options: Any) -> Seen:  # type: ignore
            return Seen(output="ready", done=False, reward=0.0)

        def step(self, action: Call, **options: Any) -> Seen:  # type: ignore
            return Seen(output=self.held.micro(), done=False, reward=0.0)

        @property
        def state(self) -> types.State:
            return types.State()

    os.environ["ENABLE_WEB_INTERFACE"] = "false"
    most = types.ConcurrencyConfig(max_concurrent_envs=100_000)
    app = http_server.create_app(Counter, Call, Seen, concurrency_config=most)
    serve_app(app, ws_ping_interval=None)


def verifiers() -> None:
    """verifiers' shared tool server: no sessions of its own, so the Toolset has them."""
    import verifiers.v1 as vf
    from verifiers.v1.mcp.toolset import SharedToolsetConfig, Toolset

    class Counters(Toolset[SharedToolsetConfig, vf.State]):
        TOOL_PREFIX = None

        async def setup(self) -> None:
            self.held: dict[str, Held] = {}

        @vf.tool
        async def seed(self, name: str) -> str:
            """Start a session."""
            self.held[name] = Held()
            return "ready"

        @vf.tool
        async def micro(self, name: str) -> str:
            """Count."""
            return self.held[name].micro()

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    os.environ["MCP_PORT"] = str(port)
    print(f"running on port {port}", flush=True)
    Counters(SharedToolsetConfig())._serve()


if __name__ == "__main__":
    {"gym": gym, "openenv": openenv, "verifiers": verifiers}[sys.argv[1]]()
