"""Tests of large bodies: some are refused unread, and other requests get a turn."""

import asyncio
import itertools
import json
import time
import tracemalloc

import pytest
from env_runtime.resources_server import http
from nemo_gym.server_utils import SESSION_ID_KEY

from .support import outcome

LARGE = "x" * http.LARGE_BYTES


def lists(number: int) -> list:
    """A value with two marks for each `number`."""
    return [[] for _ in range(number)]


@pytest.fixture
def parsed(monkeypatch):
    """The lengths of the bodies that were parsed."""
    lengths = []
    loads = json.loads

    def counted(text, **options):
        lengths.append(len(text))
        return loads(text, **options)

    monkeypatch.setattr(json, "loads", counted)
    return lengths


def test_a_used_cookie_is_refused_before_its_body_is_parsed(client, rows, parsed):
    client.seed(rows[0])
    again = {**rows[0], "padding": LARGE}
    client.seed(again, 409)
    client.end()
    client.seed(again, 409)
    assert max(parsed) < len(LARGE)


def test_a_session_may_not_aggregate(client, rows, parsed):
    client.seed(rows[0])
    body = {"verify_responses": [{"padding": LARGE}]}
    assert client.post("/aggregate_metrics", json=body).status_code == 403
    assert max(parsed) < len(LARGE)


def test_a_long_row_is_refused(limited, rows):
    client = limited(max_seed_bytes=1000)
    refused = client.turned_away({**rows[0], "padding": LARGE})
    assert refused == (413, "the request body is over 1000 bytes")
    client.seed(rows[0])


MANY = {
    "lists": lambda: lists(300_000),
    "keys": lambda: {str(n): 0 for n in range(50_000)},
    "numbers": lambda: [0] * 600_000,
}


@pytest.mark.parametrize("kind", MANY)
def test_a_row_of_too_many_values_is_refused_unread(client, rows, kind, parsed):
    """8 MB of empty lists take half a second to parse, in which nothing else runs."""
    body = json.dumps({"ground_truth": [{"a": MANY[kind]()}]}).encode()
    answer = client.post("/seed_session", content=body)
    assert answer.status_code == 413
    assert "over 500000 commas and brackets" in answer.json()["detail"]
    assert len(body) not in parsed
    client.seed(rows[0])


def test_a_long_text_is_not_taken_for_a_structure(client, rows):
    row = {**rows[0], "prompt": 4_000_000 * "Hm. "}
    assert len(json.dumps(row)) > 8 << 20
    client.seed(row, 413)
    row["prompt"] = row["prompt"][:8_000_000]
    client.seed(row)


def test_a_trajectory_of_too_many_values_earns_nothing(
    client, rows, verify_body, parsed
):
    client.seed(rows[0])
    body = verify_body(rows[0])
    body["response"]["output"] = lists(1_100_000)
    text = json.dumps(body).encode()
    verdict = client.post("/verify", content=text).json()
    assert outcome(verdict) == (0.0, False)
    assert "over 2000000 commas and brackets" in verdict["failure_reason"]
    assert len(text) not in parsed


@pytest.mark.parametrize("path", ["/look", "/verify"])
def test_the_rest_of_a_complicated_body_is_not_kept(path):
    """50 connections may send such bodies at the same time."""
    sent = 0

    async def receive():
        nonlocal sent
        sent += 1
        part = b"[],%d," % sent * 100_000
        return {"type": "http.request", "body": part, "more_body": sent < 60}

    tracemalloc.start()
    with pytest.raises(http.TooMuchError):
        asyncio.run(http.read_body(receive, path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent == 60
    assert peak < 10 << 20  # 30 MB were sent


def test_large_trajectories_without_a_session_are_not_parsed(
    serve, run, rows, verify_body, parsed
):
    connect = run(serve())
    body = {**verify_body(rows[0]), "padding": LARGE}
    verdict = connect().post("/verify", json=body).json()
    assert outcome(verdict) == (0.0, False)
    lost = connect()
    lost.cookies.set(type(serve()).__name__, "of-an-earlier-start")
    verdict = lost.post("/verify", json=body).json()
    assert outcome(verdict) == (0.0, True)
    assert "the session was lost" in verdict["failure_reason"]
    assert not [length for length in parsed if length > len(LARGE)]


def test_one_session_cannot_ask_for_ever(client, rows, verify_body, monkeypatch):
    monkeypatch.setattr(http, "MAX_VERDICTS", 3)
    client.seed(rows[0])
    body = {**verify_body(rows[1]), "padding": LARGE}  # another row: no verdict
    for _ in range(3):
        assert client.post("/verify", json=body).json()["failure_reason"] is None
    verdict = client.post("/verify", json=body).json()
    assert "over 3 large bodies" in (verdict["failure_reason"] or "")
    assert outcome(verdict) == (0.0, False)


@pytest.fixture
def post_together(serve):
    """Posts four large bodies to an app at the same time, while `others` runs."""
    body = json.dumps(lists(http.MANY_SEPARATORS)).encode()
    scope = {"type": "http", "method": "POST", "path": "/look", "headers": []}
    scope["session"] = {SESSION_ID_KEY: "one"}

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        pass

    async def main(app, others):
        layer = http.LargeBodies(app, serve()._store)
        posts = [layer(scope, receive, send) for _ in range(4)]
        async with asyncio.timeout(30):
            await asyncio.gather(others(), *posts)

    return lambda app, others: asyncio.run(main(app, others))


@pytest.mark.parametrize("before", [0, 10], ids=["at once", "ten rounds later"])
def test_others_have_a_turn_between_large_bodies(post_together, before):
    """Large bodies that arrive together do not hold others up until the last one."""
    rounds, parsed_in = 0, []

    async def app(scope, receive, send):
        for _ in range(before):
            await asyncio.sleep(0)
        await receive()
        time.sleep(0.01)  # noqa: ASYNC251 - a parser, too, lets nothing else run
        parsed_in.append(rounds)

    async def others():
        nonlocal rounds
        while len(parsed_in) < 4:
            await asyncio.sleep(0)
            rounds += 1

    post_together(app, others)
    turns = itertools.pairwise(parsed_in)
    assert all(later > earlier + 2 * before + 10 for earlier, later in turns)


def test_a_large_body_that_nobody_reads_ends_its_turn(post_together):
    answered = []

    async def app(scope, receive, send):
        answered.append(scope["path"])

    post_together(app, lambda: asyncio.sleep(0))
    assert len(answered) == 4


def test_a_slow_call_does_not_keep_the_turn(post_together):
    """A policy could hold up all large bodies with it."""
    called, all_called = [], asyncio.Event()

    async def app(scope, receive, send):
        await receive()
        called.append(scope["path"])
        if len(called) == 4:
            all_called.set()
        await all_called.wait()

    post_together(app, all_called.wait)
