"""Fixtures: the server in process, clients of it, and what they post."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ..checks.server import server_tools
from ..command_line import counted
from ..episode.types import Definitions, Item, Row, as_response, message
from ..evaluation.rows import load_rows
from ..project import here
from ..server import SessionServer
from ..settings import bypass_proxy

bypass_proxy()
# Tests need no key: a model that is not set is played by the class's stand_in().
os.environ.setdefault("STAND_IN", "1")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests were skipped for each reason: many are without an oracle."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
    )
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{counted(count, 'test')} skipped: {reason}")


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Makes episodes of the class, `start(seed=7)`, and closes them at the end."""
    episodes = []

    def make(**task: Any) -> Any:
        episodes.append(here().load_class()(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        getattr(episode, "close", lambda: None)()


@pytest.fixture
def server() -> SessionServer:
    """A server of nemo_gym/server.py, with the default limits."""
    return here().load_server().build()


@pytest.fixture
def connect(server: SessionServer) -> Iterator[Callable[[], TestClient]]:
    """Makes clients of one running server, each with a cookie jar of its own."""
    app = server.setup_webserver()
    with TestClient(app) as running:  # runs the app's lifespan

        def connect_client() -> TestClient:
            client = TestClient(app)
            client.portal = running.portal  # all on the event loop of the lifespan
            return client

        yield connect_client


@pytest.fixture
def client(connect: Callable[[], TestClient]) -> TestClient:
    """A client of a running server, with a session of its own."""
    return connect()


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """The rows of data/example.jsonl."""
    return load_rows(here().rows)


@pytest.fixture(scope="session")
def tools() -> Definitions:
    """The definitions of the server's tools."""
    return server_tools()


def verify_body(
    row: Row, output: list[Item] | tuple[Item, ...] | str = ()
) -> dict[str, Any]:
    """The body of /verify as a trainer posts it.

    `output` is the trajectory, or the text of its only message.
    """
    if isinstance(output, str):
        output = [message(output)]
    return {**row, "response": as_response("test", [], list(output))}


@pytest.fixture(scope="session")
def verify() -> Callable[..., float]:
    """Ends a client's session of a row, and returns its reward.

    `verify(client, row, "Paris")` ends it with that message.
    """

    def reward(client: TestClient, row: Row, output: Any = ()) -> float:
        answer = client.post("/verify", json=verify_body(row, output))
        assert answer.status_code == 200, answer.text
        return answer.json()["reward"]

    return reward
