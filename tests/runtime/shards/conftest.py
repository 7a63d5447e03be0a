"""Servers in shards. Each takes seconds to start."""

import pytest

from .served import COUNT_SERVER, Served


@pytest.fixture
def start(tmp_path):
    """Starts a server in shards, of the class Count unless a script is named."""
    running = []

    def start_one(script=None, **variables):
        served = Served(script or COUNT_SERVER, tmp_path / "notes", **variables)
        running.append(served)
        return served

    yield start_one
    for served in running:
        served.end()


@pytest.fixture
def served(start):
    served = start()
    assert served.url, served.printed
    return served
