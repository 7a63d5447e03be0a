"""More sessions than THREADS: they share threads, and each stays in its own."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from env_runtime.server import VerifyRequest
from fastapi import Request

from .support import at_once, recording, slow_class, until


def grade_quickly(server):
    """Has a server wait 0.1 s for a grade."""

    async def verify(self, request: Request, body: VerifyRequest):
        session = self.finished_session(request, body)
        return self.verify_response(request, body, await session.reward(seconds=0.1))

    type(server).verify = verify
    return server


def seeded(connect, row):
    client = connect()
    answer = client.post("/seed_session", json=row)
    assert answer.status_code == 200, answer.text
    return client


def move(client, wait):
    return client.call("move", wait=wait)


def episode_threads():
    return [each for each in threading.enumerate() if each.name == "episode"]


def test_sessions_on_one_thread_stay_in_it_and_in_order(server_of, row):
    seen = []

    class Slow:
        def __init__(self, task):
            self.inside, self.count = False, 0
            self.note("made")

        def note(self, event):
            seen.append((threading.get_ident(), id(self), event))

        def move(self) -> str:
            """Move."""
            assert not self.inside
            self.inside = True
            time.sleep(0.001)
            self.inside = False
            self.count += 1
            self.note(self.count)
            return str(self.count)

        def reward(self):
            return 0.0

        def close(self):
            self.note("closed")

    async def play(client):
        await client.post("/seed_session", json=row)
        outputs = [await client.post("/move", json={}) for _ in range(4)]
        await client.post("/close_session", json={})
        return [each.json()["output"] for each in outputs]

    assert at_once(server_of(Slow, threads=2), [play] * 6) == [["1", "2", "3", "4"]] * 6
    assert len({thread for thread, *_ in seen}) == 2
    of_each: dict = {}
    for thread, episode, event in seen:
        of_each.setdefault(episode, []).append((thread, event))
    for events in of_each.values():
        assert len({thread for thread, _ in events}) == 1
        assert [event for _, event in events] == ["made", 1, 2, 3, 4, "closed"]


def test_a_thread_ends_with_its_last_session(server_of, run, row):
    before = len(episode_threads())
    connect = run(server_of(recording()[0]["blocking"], threads=2))
    clients = [seeded(connect, row) for _ in range(5)]
    assert len(episode_threads()) == before + 2
    for client in clients:
        client.end()
    until(lambda: len(episode_threads()) == before)


def test_the_time_of_other_calls_does_not_count(server_of, run, row, barrier):
    took = 0.5

    class Slow:
        def __init__(self, task):
            pass

        def move(self) -> str:
            """Move."""
            barrier.reached.release()
            time.sleep(took)
            return "moved"

        def reward(self):
            return 0.0

    connect = run(server_of(Slow, threads=1, tool_seconds=0.8))
    ada, bob = seeded(connect, row), seeded(connect, row)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(ada.post, "/move", json={})
        barrier.await_arrival()
        assert bob.call("move") == "moved"
        assert first.result().json() == {"output": "moved"}


def test_a_session_whose_thread_others_held_is_masked(server_of, run, row, barrier):
    """It is not the fault of its policy. The policy whose call hangs earns 0.0."""
    domain_class, _ = slow_class(barrier)
    server = grade_quickly(server_of(domain_class, threads=1, tool_seconds=0.1))
    connect = run(server)
    ada, bob, eve = (seeded(connect, row) for _ in range(3))
    assert "TOOL_SECONDS" in move(ada, True)
    kept = "calls of other episodes kept its thread for 0.1 s (THREADS)"
    assert move(bob, False) == f"error: {kept}"
    # Only a call of its own makes Ada's thread busy, however many others wait.
    assert "TOOL_SECONDS" in move(ada, False)
    for client, mask, reason in (
        (ada, False, None),
        (bob, True, kept),
        (eve, True, kept),
    ):
        verdict = client.verdict()
        assert verdict["reward"] == 0.0
        assert (verdict["mask_sample"], verdict["failure_reason"]) == (mask, reason)


def test_a_session_plays_on_once_its_thread_is_free(server_of, run, row, barrier):
    domain_class, calls = slow_class(barrier)
    connect = run(server_of(domain_class, threads=1, tool_seconds=0.1))
    ada, bob = seeded(connect, row), seeded(connect, row)
    assert move(ada, True).startswith("error: ")
    assert move(bob, False).startswith("error: ")
    barrier.opened.set()
    until(lambda: calls == ["made", "made", "moved True"])
    assert move(bob, False) == "moved"
    assert move(ada, False) == "moved"


def test_a_thread_with_a_hanging_call_gets_no_session(server_of, run, row, barrier):
    classes, threads = recording()
    recorded: Any = classes["blocking"]

    class Hanging(recorded):
        def hang(self) -> str:
            """Hang."""
            barrier.wait()
            return ""

    connect = run(server_of(Hanging, threads=2, tool_seconds=0.1))
    first, second = seeded(connect, row), seeded(connect, row)
    first.post("/hang", json={})
    for _ in range(3):
        seeded(connect, row)
    assert [threads.count(thread) for thread in threads] == [1, 4, 4, 4, 4]
    second.post("/hang", json={})
    refused = connect().post("/seed_session", json=row)
    assert refused.status_code == 503
    assert refused.headers["x-no-room"]
    assert refused.json()["detail"] == "a call hangs in each of 2 threads (THREADS)"
    barrier.opened.set()
    until(lambda: connect().health()["hung_calls"] == 0)
    seeded(connect, row)


def test_only_the_session_whose_call_hangs_gives_its_place_back(
    server_of, run, row, barrier
):
    domain_class, _ = slow_class(barrier)
    server = server_of(domain_class, threads=2, tool_seconds=0.1, max_sessions=3)
    connect = run(server)
    ada, _, _ = (seeded(connect, row) for _ in range(3))
    move(ada, True)
    seeded(connect, row)
    refused = connect().post("/seed_session", json=row)
    assert refused.json()["detail"] == "all 3 sessions (MAX_SESSIONS) are in use"


def test_a_seed_that_waits_in_vain_is_refused(server_of, run, row, barrier):
    """It may find a thread elsewhere: its row is not at fault."""

    class Slow:
        def __init__(self, task):
            if task["id"] == "slow":
                barrier.wait()

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            return 0.0

    server = server_of(Slow, threads=1, tool_seconds=0.4)
    connect = run(server)
    slow = {**row, "ground_truth": [{"id": "slow"}]}
    with ThreadPoolExecutor() as pool:
        first = pool.submit(connect().post, "/seed_session", json=slow)
        barrier.await_arrival()
        refused = connect().post("/seed_session", json=row)
        assert refused.status_code == 503
        assert "(THREADS)" in refused.json()["detail"]
        assert first.result().status_code == 422
    assert not server.sessions


@pytest.mark.parametrize("kind", ["async", "not blocking"])
def test_classes_on_the_event_loop_have_no_threads(server_of, run, row, kind):
    before = len(episode_threads())
    connect = run(server_of(recording()[0][kind], threads=1))
    for _ in range(3):
        seeded(connect, row)
    assert len(episode_threads()) == before
