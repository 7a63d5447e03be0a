"""Tests of what the template owns, inside a generated project.

In the project's nemo_gym folder, with T being the folder of this file:

    .venv/bin/python -m pytest -c T/pytest.ini --rootdir T --confcutdir T T
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from plumbing.environment import episodes
from plumbing.gates import server_tools
from plumbing.inspection import find_server
from plumbing.records import as_response, load_rows
from session_server import SessionServer, VerifyRequest, VerifyResponse

Connect = Callable[[], TestClient]


@pytest.fixture
def serve() -> Callable[..., SessionServer]:
    """Builds a server with limits of the test's own."""
    return find_server().build


@pytest.fixture
def server(
    serve: Callable[..., SessionServer], monkeypatch: pytest.MonkeyPatch
) -> SessionServer:
    monkeypatch.setattr(find_server(), "keeps_calls", True)
    return serve()


@pytest.fixture
def run() -> Iterator[Callable[[SessionServer], Connect]]:
    """Runs a server in process. Returns what makes clients of it.

    Each client has a cookie jar of its own. They share the event loop of the server.
    """
    running = []

    def run_one(server: SessionServer) -> Connect:
        app = server.setup_webserver()
        first = TestClient(app)
        first.__enter__()  # runs the app's lifespan
        running.append(first)

        def connect() -> TestClient:
            client = TestClient(app)
            client.portal = first.portal
            return client

        return connect

    yield run_one
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def connect(run: Callable[[SessionServer], Connect], server: SessionServer) -> Connect:
    """Makes clients of the project's server."""
    return run(server)


@pytest.fixture
def client(connect: Connect) -> TestClient:
    return connect()


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return load_rows()


@pytest.fixture(scope="session")
def tools() -> list[dict[str, Any]]:
    """The definitions of the server's tools."""
    return server_tools()


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


@pytest.fixture
def server_thread() -> Iterator[Callable[[SessionServer], int]]:
    """Serves over HTTP, in a thread. Returns the port."""
    with contextlib.ExitStack() as stack:

        def serve_it(served: SessionServer) -> int:
            app = served.setup_webserver()
            server = uvicorn.Server(uvicorn.Config(app, log_config=None))
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=server.run, args=[[listening]])
            thread.start()
            stack.callback(thread.join)
            stack.callback(setattr, server, "should_exit", True)
            return listening.getsockname()[1]

        yield serve_it


@pytest.fixture
def generous() -> type:
    """A class that always pays."""

    class Generous:
        def __init__(self, task: dict[str, Any]) -> None:
            pass

        def look(self) -> str:
            return "nothing"

        def reward(self) -> float:
            return 1.0

    return Generous


@pytest.fixture(scope="session")
def verify_body() -> Callable[..., dict[str, Any]]:
    """What a trainer posts to /verify; `output` is the trajectory."""

    def body(row: dict[str, Any], output: Any = ()) -> dict[str, Any]:
        return {**row, "response": as_response("test", [], list(output))}

    return body


@pytest.fixture(scope="session")
def verify(verify_body: Callable[..., dict[str, Any]]) -> Callable[..., float]:
    """The reward for a client's session."""

    def reward(client: TestClient, row: dict[str, Any], output: Any = ()) -> float:
        answer = client.post("/verify", json=verify_body(row, output))
        assert answer.status_code == 200, answer.text
        return answer.json()["reward"]

    return reward


@pytest.fixture
def server_of() -> Callable[..., SessionServer]:
    """Builds a server of an environment class, with limits, as server.py does."""

    def build(of: type, **limits: Any) -> SessionServer:
        class Server(SessionServer):
            domain_class = of
            keeps_calls = True

            def setup_webserver(self) -> FastAPI:
                app = super().setup_webserver()
                for name, tool in episodes.tools_of(of).items():
                    app.post(f"/{name}")(self.tool(tool.method))
                return app

            async def verify(
                self, request: Request, body: VerifyRequest
            ) -> VerifyResponse:
                session = self.finished_session(request, body)
                reward = await session.reward() if session else 0.0
                return self.verify_response(request, body, reward)

        return Server.build(**limits)

    return build


@pytest.fixture(scope="session")
def row() -> dict[str, Any]:
    """A row for environment classes of the tests' own."""
    return {"responses_create_params": {"input": "Go."}, "ground_truth": [{"id": 1}]}
