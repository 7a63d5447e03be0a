"""kill -9 in the middle of a rollout: what was played is kept, and the rest follows."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from plumbing.policies import NoOracle, solve
from plumbing.records import HERE

REPEATS = 40


@pytest.fixture(autouse=True)
def oracle(rows, tools):
    try:
        solve(rows[0], tools)
    except NoOracle as why:
        pytest.skip(str(why))


@pytest.fixture
def start_server(tmp_path):
    """Starts server.py. Returns its process and URL."""
    running = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "server.py"],
            cwd=HERE,
            env={
                **os.environ,
                "HOST": "127.0.0.1",
                "PORT": "0",
                "TRUSTED_POLICY": "1",
                "SESSION_LOG": str(tmp_path / "session.log"),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                return process, found[1]
        raise AssertionError("the server did not start")

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture
def start_client(tmp_path):
    """Starts rollout.py on two rows, each many times."""
    output = tmp_path / "rollouts.jsonl"

    def start(url):
        options = ["--policy", "oracle", "--limit", "2", "--repeats", str(REPEATS)]
        return subprocess.Popen(
            [sys.executable, "rollout.py", *options, "--output", output],
            cwd=HERE,
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
    rollouts = [json.loads(line) for line in whole]
    return [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in rollouts]


def resumed(start_client, url, before):
    start, output = start_client
    printed, status = finish(start(url))
    assert status == 0, printed
    assert f"{before} of {2 * REPEATS} episodes are in " in printed
    found = played(output)
    assert len(found) == len(set(found)) == 2 * REPEATS


def test_the_client_is_killed(start_server, start_client):
    _, url = start_server()
    start, output = start_client
    client = start_and_wait(start, url)
    client.send_signal(signal.SIGKILL)
    _, status = finish(client)
    assert status == -signal.SIGKILL
    before = len(played(output))
    assert 5 <= before < 2 * REPEATS
    resumed(start_client, url, before)


def test_the_server_is_killed(start_server, start_client):
    server, url = start_server()
    start, output = start_client
    client = start_and_wait(start, url)
    server.send_signal(signal.SIGKILL)
    printed, status = finish(client)
    assert status == 1
    before = len(played(output))
    assert 5 <= before < 2 * REPEATS
    failed = 2 * REPEATS - before
    assert printed.count(": failed: ") == failed
    assert f"rollout.py: {failed} of {2 * REPEATS} episodes failed" in printed
    _, url = start_server()
    resumed(start_client, url, before)
