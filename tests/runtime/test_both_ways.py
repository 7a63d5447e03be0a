"""The same requests to a server that `python server.py` starts, and that NeMo Gym does.

docs/internals/how-it-works.md has the answers in a table.
"""

import asyncio
import json
import socket
import subprocess
import sys
from typing import Any

import httpx
import pytest
from env_runtime.evaluation.rows import load_rows
from env_runtime.facts import SERVER_PATHS
from env_runtime.gym_series import HAS_ENVIRONMENT_SERVERS
from env_runtime.project import here
from env_runtime.testing.fixtures import verify_body

from . import support
from .support import MESSAGE, Plain, Player, app_of, serving, until

ROW = load_rows(here().rows)[0]
GUESS, SECRET = "/guess", "zzzzy"  # no answer repeats what the policy wrote
DEEP = "[" * 3000 + "]" * 3000
TOO_DEEP = 422 if sys.version_info >= (3, 13) else 400  # 3.12 cannot read it


def trajectory(*output: Any) -> str:
    return json.dumps(verify_body(ROW, [*output]))


# What is posted in a seeded session: the path, the body, and the answer's status
POSTS = {
    "12,000 items": ("/verify", trajectory(*[{}] * 12_000), 200),
    "a malformed item": ("/verify", trajectory({"type": "dance", "s": SECRET}), 422),
    "an item without a role": ("/verify", trajectory({**MESSAGE, "role": {}}), 422),
    "no row": ("/verify", json.dumps({"response": SECRET}), 422),
    "a task that is no object": ("/seed_session", '{"ground_truth": ["zzzzy"]}', 409),
    "NaN": (GUESS, '{"word": NaN}', 422),
    "a lone surrogate": (GUESS, '{"word": ["\\ud800"]}', 422),
    "3,000 nested lists": (GUESS, f'{{"word": {DEEP}}}', TOO_DEEP),
    "another type": (GUESS, '{"word": ["zzzzy"]}', 422),
    "no object": (GUESS, '["zzzzy"]', 422),
    "no JSON": (GUESS, "zzzzy{", 422),
    "too long": (GUESS, '"%s"' % ("z" * (1 << 20)), 413),
    "no tool": ("/zzzzz", "{}", 404),
    "a second seed": ("/seed_session", json.dumps(ROW), 409),
    "other people's metrics": ("/aggregate_metrics", '{"verify_responses": []}', 403),
    "a word": (GUESS, '{"word": "crane"}', 200),
}


def answers(client: Any) -> dict[str, tuple[int, Any]]:
    """The status and the content of the answer to each post."""
    got = {}
    for name, (path, body, _) in POSTS.items():
        client.cookies.clear()
        client.post("/seed_session", json=ROW).raise_for_status()
        headers = {"content-type": "application/json"}
        answer = client.post(path, content=body.encode(), headers=headers)
        content = answer.json()
        content.pop("response", None)  # a verdict's, which has an id and a date
        got[name] = answer.status_code, content
    return got


def check(got: dict[str, tuple[int, Any]]) -> None:
    """Check each status, and that no refusal repeats what was posted."""
    assert {name: status for name, (status, _) in got.items()} == {
        name: status for name, (_, _, status) in POSTS.items()
    }
    for status, content in got.values():
        assert status == 200 or SECRET not in json.dumps(content)
        assert len(json.dumps(content)) < 10_000
    verdict = got["12,000 items"][1]
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)


def test_both_ways_have_the_same_answers(serve, monkeypatch):
    """NeMo Gym's run_webserver adds layers, and its own answer to malformed bodies."""
    got = []
    for under_gym in (False, True):
        monkeypatch.setattr(support, "under_gym", under_gym)
        with Player(app_of(serve()), raise_server_exceptions=False) as client:
            got.append(answers(client))
    check(got[1])
    assert got[0] == got[1]


@pytest.mark.parametrize(
    "under_gym", [False, True], indirect=True, ids=["alone", "NeMo Gym"]
)
def test_a_call_plays_on_without_its_client(server_of, server_thread, barrier):
    """NeMo Gym 0.7's own layer would cut it off in the middle."""
    moved = []

    class Waits(Plain):
        async def move(self) -> str:
            await asyncio.to_thread(barrier.wait)
            moved.append(True)
            return "moved"

    port = server_thread(server_of(Waits))
    with socket.create_connection(("127.0.0.1", port)) as client:
        head = b"POST /move HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
        client.sendall(head + b"Content-Type: application/json\r\n\r\n{}")
        barrier.await_arrival()
    # Its answer comes after the server has noticed that the other client left.
    httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False)
    barrier.opened.set()
    until(lambda: moved)


@pytest.mark.slow
def test_processes_have_the_same_answers_and_pass_the_gates(monkeypatch):
    got = []
    for under_gym in (False, True):
        monkeypatch.setattr(support, "under_gym", under_gym)
        with serving("server.py") as (_, url):
            with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
                got.append(answers(client))
            command = [sys.executable, "gates.py", "--url", url]
            done = subprocess.run(command, cwd=here().gym, check=False)
            assert done.returncode == 0
    check(got[1])
    assert got[0] == got[1]


# Routes that only some servers have: METRICS=1, NeMo Gym's profiling, and its MCP
OF_SOME = {"metrics", "stats", "mcp"}


class Talks(Plain):
    def reply(self, answer: str) -> str | None:
        return None


@pytest.mark.series
@pytest.mark.parametrize(
    "under_gym", [False, True], indirect=True, ids=["alone", "NeMo Gym"]
)
def test_the_reserved_names_are_the_servers_own_paths(server_of, under_gym):
    routes: list[Any] = app_of(server_of(Talks)).routes
    paths = {route.path.strip("/") for route in routes}
    names = {path for path in paths if path and "/" not in path}
    assert names <= SERVER_PATHS
    if under_gym and HAS_ENVIRONMENT_SERVERS:
        assert names | OF_SOME == SERVER_PATHS
