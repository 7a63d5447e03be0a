"""The server in process, and clients of it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from plumbing.gates import server_tools
from plumbing.inspection import find_server
from plumbing.records import as_response, load_rows
from session_server import SessionServer


@pytest.fixture
def server() -> SessionServer:
    return find_server().build()


@pytest.fixture
def connect(server: SessionServer) -> Iterator[Callable[[], TestClient]]:
    """Makes clients of one running server, each with a cookie jar of its own."""
    app = server.setup_webserver()
    with TestClient(app) as running:  # runs the app's lifespan

        def connect_one() -> TestClient:
            client = TestClient(app)
            client.portal = running.portal  # all on the event loop of the lifespan
            return client

        yield connect_one


@pytest.fixture
def client(connect: Callable[[], TestClient]) -> TestClient:
    return connect()


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return load_rows()


@pytest.fixture(scope="session")
def tools() -> list[dict[str, Any]]:
    """The definitions of the server's tools."""
    return server_tools()


def verify_body(row: dict[str, Any], output: Any = ()) -> dict[str, Any]:
    """What a trainer posts to /verify; `output` is the trajectory."""
    return {**row, "response": as_response("test", [], list(output))}


@pytest.fixture(scope="session")
def verify() -> Callable[..., float]:
    """The reward for a client's session."""

    def reward(client: TestClient, row: dict[str, Any], output: Any = ()) -> float:
        answer = client.post("/verify", json=verify_body(row, output))
        assert answer.status_code == 200, answer.text
        return answer.json()["reward"]

    return reward
