"""kill -9 in the middle of a rollout: the next run plays what is missing."""

import json
import os
import signal
import subprocess
import sys

import pytest
from env_runtime import project

from .support import serving

REPEATS = 40

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path):
    """Starts server.py: a context of its process and its URL."""
    log = str(tmp_path / "session.log")
    return lambda: serving("server.py", SESSION_LOG=log)


@pytest.fixture
def start_client(tmp_path):
    """Starts rollout.py on two rows, each many times."""
    output = tmp_path / "rollouts.jsonl"

    def start(url):
        options = ["--policy", "oracle", "--limit", "2", "--repeats", str(REPEATS)]
        return subprocess.Popen(
            [sys.executable, "rollout.py", *options, "--output", output],
            cwd=project.here().gym,
            env={**os.environ, "ENV_URL": url},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start, output


def start_and_wait(start, url):
    """A client that has played five episodes of a row."""
    client = start(url)
    for line in client.stdout:
        if "repeat 5" in line:
            break
    return client


def finish(client):
    """What a client printed, and its exit status."""
    printed = client.stdout.read()
    client.stdout.close()
    return printed, client.wait(120)


def played(output):
    """The episodes in a file: each one's row and repeat."""
    whole = output.read_text().rpartition("\n")[0].splitlines()
    rollouts = map(json.loads, whole)
    return [(each["_ng_task_index"], each["_ng_rollout_index"]) for each in rollouts]


def resumed(start_client, url, before):
    start, output = start_client
    printed, status = finish(start(url))
    assert status == 0, printed
    assert f"{before} of {2 * REPEATS} episodes are in " in printed
    episodes = played(output)
    assert len(episodes) == len(set(episodes)) == 2 * REPEATS


def test_the_client_is_killed(server, start_client):
    start, output = start_client
    with server() as (_, url):
        client = start_and_wait(start, url)
        client.send_signal(signal.SIGKILL)
        _, status = finish(client)
        assert status == -signal.SIGKILL
        before = len(played(output))
        assert 5 <= before < 2 * REPEATS
        resumed(start_client, url, before)


def test_the_server_is_killed(server, start_client):
    start, output = start_client
    with server() as (process, url):
        client = start_and_wait(start, url)
        process.send_signal(signal.SIGKILL)
        printed, status = finish(client)
    assert status == 1
    before = len(played(output))
    assert 5 <= before < 2 * REPEATS
    failed = 2 * REPEATS - before
    assert printed.count(": failed: ") == failed
    assert f"rollout.py: {failed} of {2 * REPEATS} episodes failed" in printed
    with server() as (_, url):
        resumed(start_client, url, before)
