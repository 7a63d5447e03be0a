"""Methods of a class that take too long."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import httpx
import pytest
from env_runtime.episode.session import Session
from env_runtime.server import ToolResponse
from fastapi import Request

from .support import (
    ROW,
    Generous,
    Mover,
    Plain,
    Player,
    app_of,
    grade_quickly,
    outcome,
    play_an_episode,
    row_of,
    server_script,
    serving,
    slow_class,
    until,
)


@pytest.mark.parametrize("end", ["close", "verdict"])
def test_a_close_that_hangs_delays_nobody(server_of, barrier, end):
    class Hanging(Generous):
        def __init__(self, task):
            self.id = task["id"]

        def close(self):
            if self.id == "hangs":
                barrier.wait()

    server = server_of(Hanging, close_seconds=2)
    with Player(app_of(server)) as ada:
        bob = Player(ada.app)
        bob.portal = ada.portal
        started = time.monotonic()
        ada.seed(row_of(id="hangs"))
        ada.end() if end == "close" else ada.verdict()
        barrier.await_arrival()
        play_an_episode(bob)
        assert time.monotonic() - started < 1.5
        started = time.monotonic()
    assert time.monotonic() - started < 3


def test_an_async_close_that_hangs_is_cancelled(server_of):
    ended = []

    class Hanging(Generous):
        async def move(self) -> str:  # type: ignore
            """Move."""
            return "moved"

        async def close(self):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(self)

    server = server_of(Hanging, close_seconds=0.2)
    with Player(app_of(server)) as client:
        play_an_episode(client)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    assert len(ended) == 1


HANGING = """
import threading

class Domain:
    def __init__(self, task: dict): pass
    def move(self) -> str: threading.Event().wait()
    def reward(self) -> float: return 0.0
    def close(self): threading.Event().wait()
"""


def test_the_process_ends_though_a_tool_and_close_hang():
    limits = {"CLOSE_SECONDS": "1", "TOOL_SECONDS": "0.5"}
    with serving("-c", server_script(HANGING), **limits) as (process, url):
        for path in ("/move", "/close_session"):
            with httpx.Client(base_url=url, trust_env=False) as client:
                client.post("/seed_session", json=ROW).raise_for_status()
                client.post(path, json={}).raise_for_status()
        started = time.monotonic()
        process.terminate()
        process.wait(30)
        assert time.monotonic() - started < 5


def test_a_call_that_timed_out_before_it_began_never_runs(server_of, run, barrier):
    domain_class, calls = slow_class(barrier)
    server = server_of(domain_class, tool_seconds=0.3)
    client = run(server)().seed()
    [session] = server.sessions.values()
    limit = "error: the call took more than 0.3 s (TOOL_SECONDS)"
    with ThreadPoolExecutor() as pool:
        first = pool.submit(client.call, "move", wait=True)
        barrier.await_arrival()
        others = [pool.submit(client.call, "move", wait=False) for _ in range(3)]
        assert [call.result() for call in (first, *others)] == [limit] * 4
    assert client.call("move", wait=False) == limit
    barrier.opened.set()
    client.end()
    until(lambda: "closed" in calls)
    assert calls == ["made", "moved True", "closed"]
    assert [call.arguments["wait"] for call in session.calls] == [True]


def test_an_episode_that_hangs_longer_than_close_may_take_is_closed_in_the_end(
    begin, barrier, caplog
):
    domain_class, calls = slow_class(barrier)
    client = begin(domain_class, tool_seconds=0.1, close_seconds=0.1)
    assert "TOOL_SECONDS" in client.call("move", wait=True)
    client.end()
    until(lambda: "(CLOSE_SECONDS)" in caplog.text)  # the server has stopped waiting
    assert calls == ["made"]
    barrier.opened.set()
    until(lambda: calls == ["made", "moved True", "closed"])


def test_a_call_that_hangs_gives_its_session_s_place_back(server_of, run, barrier):
    domain_class, _ = slow_class(barrier)
    connect = run(server_of(domain_class, tool_seconds=0.1, max_sessions=1))
    first, second = connect().seed(), connect()
    assert second.turned_away()[0] == 503
    first.call("move", wait=True)
    second.seed()
    assert first.health() == {"status": "ok", "sessions": 2, "hung_calls": 1}


def test_a_call_that_waited_in_vain_gives_up_only_itself():
    started, goes_on = threading.Event(), threading.Event()

    def take_time():
        started.set()
        return goes_on.wait(20)

    async def main():
        session = Session.of(Plain, {})
        first = asyncio.create_task(session.perform(take_time, 20))
        await asyncio.to_thread(started.wait)
        with pytest.raises(TimeoutError):
            await session.perform(lambda: None, 0.01)
        hangs = session.hangs()
        goes_on.set()
        result = await first
        await session.close()
        return hangs, result

    assert asyncio.run(main()) == (False, True)


def test_a_tool_may_take_longer_than_tool_seconds(server_of, run):
    """Its class says how long, as a tool of the class, by hand or of a row."""
    begun, goes_on = threading.Barrier(4), threading.Event()

    def slow() -> str:
        begun.wait(20)
        goes_on.wait(20)
        return "trained"

    class Trainer(Plain):
        tool_seconds: ClassVar = {"train": 20, "peek": 20, "tune": 20, "blink": 0.1}

        def train(self) -> str:
            """Train."""
            return slow()

        def look(self) -> str:
            """Look."""
            return str(goes_on.wait(20))

        def blink(self) -> str:
            """Blink."""
            return self.look()

        def call_row_tool(self, name, arguments):
            return slow()

    class Server(type(server_of(Trainer))):
        def setup_webserver(self):
            app = super().setup_webserver()

            def peek(request: Request) -> ToolResponse:
                return ToolResponse(output=slow())

            app.post("/peek")(self.endpoint(peek))
            return app

    connect = run(Server.build(tool_seconds=0.1))
    names = ("train", "peek", "tune")
    clients = [connect().seed() for _ in names]
    with ThreadPoolExecutor() as pool:
        slow_calls = pool.map(Player.call, clients, names)
        begun.wait(20)
        for name, setting in (("look", "TOOL_SECONDS"), ("blink", "tool_seconds")):
            text = f"error: the call took more than 0.1 s ({setting})"
            assert connect().seed().call(name) == text
        assert connect().health()["hung_calls"] == 2
        goes_on.set()
        assert [*slow_calls] == ["trained"] * 3


def test_calls_that_hang_are_bounded(server_of, run, barrier):
    domain_class, _ = slow_class(barrier)
    connect = run(server_of(domain_class, tool_seconds=0.1, max_hung_calls=2))
    for _ in range(2):
        client = connect().seed()
        client.call("move", wait=True)
        client.end()
    assert connect().turned_away() == (503, "2 calls hang (MAX_HUNG_CALLS)")
    barrier.opened.set()
    until(lambda: connect().health()["hung_calls"] == 0)
    connect().seed()


def test_a_policy_whose_call_hangs_is_graded_all_the_same(server_of, run, barrier):
    """If it were masked, a policy could escape every episode that it may lose."""
    domain_class, _ = slow_class(barrier)
    client = run(grade_quickly(server_of(domain_class, tool_seconds=0.1)))().seed()
    client.call("move", wait=True)
    assert outcome(client.verdict()) == (0.0, False)


@pytest.mark.parametrize("ended", [True, False], ids=["by a client", "by its time"])
def test_a_session_that_ends_while_it_is_made_is_closed(
    server_of, run, barrier, caplog, ended
):
    calls = []

    class SlowStart(Mover):
        def __init__(self, task):
            barrier.wait()
            calls.append("made")

        def close(self):
            calls.append("closed")

    server = server_of(SlowStart, tool_seconds=60 if ended else 0.1, close_seconds=0.1)
    client = run(server)()
    client.get("/tools")  # the first answer brings the cookie
    with ThreadPoolExecutor() as pool:
        seeding = pool.submit(client.turned_away)
        barrier.await_arrival()
        if ended:
            client.end()
        else:
            assert "took more than 0.1 s (TOOL_SECONDS)" in seeding.result()[1]
            until(lambda: "(CLOSE_SECONDS)" in caplog.text)  # the server waits no more
        assert not server.sessions
        barrier.opened.set()
        assert seeding.result()[0] == 422
    until(lambda: calls == ["made", "closed"])
    assert not server.sessions


def test_openapi_json_is_made_beside_other_requests(connect, barrier):
    """The first time it takes a second."""
    asking, other = connect(), connect()
    make = asking.app.openapi

    def openapi():
        barrier.wait()
        return make()

    asking.app.openapi = openapi
    asked = threading.Thread(target=asking.get, args=["/openapi.json"])
    asked.start()
    barrier.await_arrival()
    assert other.get("/health").status_code == 200
    assert asked.is_alive()  # the other request did not wait for this one
    barrier.opened.set()
    asked.join()
