"""The server in process, and clients of it."""

import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient

from gates import find_server
from rollout import load_rows, tool_definitions
from session_server import SessionServer


@pytest.fixture
def serve() -> Callable[..., SessionServer]:
    """Builds a server with limits of the test's own."""
    return find_server().build


@pytest.fixture
def server(serve: Callable[..., SessionServer]) -> SessionServer:
    return serve()


@pytest.fixture
def connect(server: SessionServer) -> Iterator[Callable[[], TestClient]]:
    """Makes clients of one running server, each with a cookie jar of its own."""
    app = server.setup_webserver()
    with TestClient(app):  # runs the app's lifespan
        yield lambda: TestClient(app)


@pytest.fixture
def client(connect: Callable[[], TestClient]) -> TestClient:
    return connect()


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return load_rows()


@pytest.fixture(scope="session")
def tools() -> list[dict[str, Any]]:
    """The tool definitions that the server derives from its endpoints."""
    return tool_definitions(find_server().build().setup_webserver().openapi())


@pytest.fixture(scope="module")
def served() -> SessionServer:
    """The server at `url`."""
    return find_server().build()


@pytest.fixture(scope="module")
def url(served: SessionServer) -> Iterator[str]:
    """The environment's server over HTTP, in a thread."""
    server = uvicorn.Server(uvicorn.Config(served.setup_webserver(), log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=[[listening]])
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def verify_body(row: dict[str, Any], output: Any = ()) -> dict[str, Any]:
    """What a trainer posts to /verify; `output` is the trajectory."""
    response = {
        "id": "resp_1",
        "created_at": 0,
        "model": "test",
        "object": "response",
        "output": list(output),
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
    }
    return {**row, "response": response}


@pytest.fixture(scope="session")
def verify() -> Callable[..., float]:
    """The reward for a client's session."""

    def reward(client: TestClient, row: dict[str, Any], output: Any = ()) -> float:
        answer = client.post("/verify", json=verify_body(row, output))
        assert answer.status_code == 200, answer.text
        return answer.json()["reward"]

    return reward
