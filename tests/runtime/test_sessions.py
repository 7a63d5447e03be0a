"""Episodes behind cookies: one for each client, freed when it is over."""

import asyncio
import contextlib
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import Request
from fastapi.testclient import TestClient
from pydantic import BaseModel

from plumbing.policies import NoOracle, sample_arguments, solve
from plumbing.records import function_call
from plumbing.sessions import EpisodeThread, Session
from session_server import VerifyRequest


@pytest.fixture
def call(tools):
    """Calls a client's first tool. Returns its output."""

    def call_tool(client):
        answer = client.post(f"/{tools[0]['name']}", json=sample_arguments(tools[0]))
        assert answer.status_code == 200, answer.text
        return answer.json()["output"]

    return call_tool


def test_two_clients_play_two_episodes(server, connect, rows, call):
    ada, bob = connect(), connect()
    ada.post("/seed_session", json=rows[0])
    bob.post("/seed_session", json=rows[1])
    call(ada)
    first, second = server.sessions.values()
    assert first.environment is not second.environment
    assert (first.task, second.task) == (
        rows[0]["ground_truth"][0],
        rows[1]["ground_truth"][0],
    )
    assert (len(first.calls), len(second.calls)) == (1, 0)


def test_a_session_keeps_its_episode_between_calls(server, client, rows, call):
    client.post("/seed_session", json=rows[0])
    call(client)
    call(client)
    [session] = server.sessions.values()
    assert len(session.calls) == 2


def test_an_unseeded_call_plays_a_default_episode(server, client, call):
    call(client)
    [session] = server.sessions.values()
    assert session.task == {}


def test_a_cookie_is_good_for_one_seeded_episode(server, client, rows, call):
    assert client.post("/seed_session", json=rows[0]).status_code == 200
    call(client)
    for row in rows[:2]:
        again = client.post("/seed_session", json=row)
        assert again.status_code == 409
        assert "this cookie has had its episode" in again.json()["detail"]
    [session] = server.sessions.values()
    assert session.task == rows[0]["ground_truth"][0]
    assert len(session.calls) == 1


def test_a_seed_may_follow_calls_without_one(server, client, rows, call):
    call(client)
    assert client.post("/seed_session", json=rows[0]).status_code == 200
    [session] = server.sessions.values()
    assert session.task == rows[0]["ground_truth"][0]
    assert session.calls == []


def test_a_closed_session_stays_closed(server, client, rows, call):
    client.post("/seed_session", json=rows[0])
    assert client.post("/close_session", json={}).status_code == 200
    assert client.post("/close_session", json={}).status_code == 200
    assert not server.sessions
    assert "this session has ended" in call(client)
    assert client.post("/seed_session", json=rows[0]).status_code == 409
    assert not server.sessions


def test_verify_ends_the_session(server, client, rows, verify, call):
    client.post("/seed_session", json=rows[0])
    assert verify(client, rows[0]) == 0.0
    assert not server.sessions
    assert "this session has ended" in call(client)


def test_a_forged_cookie_opens_nobody_elses_session(server, connect, rows, call):
    ada, eve = connect(), connect()
    ada.post("/seed_session", json=rows[0])
    [name] = ada.cookies
    value = ada.cookies[name]
    eve.cookies.set(name, value[:-4] + ("AAAA" if value[-4:] != "AAAA" else "BBBB"))
    call(eve)
    assert len(server.sessions) == 2
    [adas] = [session for session in server.sessions.values() if session.seeded]
    assert adas.calls == []


def test_one_session_too_many_is_refused(serve, rows):
    server = serve(max_sessions=1)
    app = server.setup_webserver()
    with TestClient(app) as ada:
        bob = TestClient(app)
        assert ada.post("/seed_session", json=rows[0]).status_code == 200
        refused = bob.post("/seed_session", json=rows[0])
        assert refused.status_code == 503
        assert int(refused.headers["Retry-After"]) > 0
        ada.post("/close_session", json={})
        assert bob.post("/seed_session", json=rows[0]).status_code == 200


def test_an_idle_session_is_freed(serve, rows):
    server = serve(idle_seconds=0.05)
    with TestClient(server.setup_webserver()) as client:
        client.post("/seed_session", json=rows[0])
        deadline = time.monotonic() + 10
        while server.sessions and time.monotonic() < deadline:
            client.get("/health")
        assert not server.sessions


def test_the_server_frees_its_sessions_when_it_stops(server, rows):
    with TestClient(server.setup_webserver()) as client:
        client.post("/seed_session", json=rows[0])
        assert server.sessions
    assert not server.sessions


def test_requests_that_no_endpoint_takes(serve, client, tools):
    path = f"/{tools[0]['name']}"
    assert client.post("/no_such_tool", json={}).status_code == 404
    assert client.post(path, json=[]).status_code == 422
    assert client.post(path, content=b"{").status_code == 422
    assert client.post("/verify", json={}).status_code == 422
    small = TestClient(serve(body_bytes=100).setup_webserver())
    assert small.post(path, json={"x": "x" * 200}).status_code == 413
    chunks = (b"x" * 60 for _ in range(5))
    assert small.post(path, content=chunks).status_code == 413


@pytest.mark.parametrize("metrics", [None, "1"])
def test_no_answer_loses_the_cookie(run, serve, row, tools, monkeypatch, metrics):
    """NeMo Gym's simple_agent keeps only the cookies of the last answer. Without the
    session's a policy could seed an episode of its own."""
    if metrics:
        pytest.importorskip("prometheus_client")
        monkeypatch.setenv("METRICS", metrics)
    monkeypatch.setenv("API_TOKEN", "secret")
    client = run(serve(body_bytes=10_000))()
    client.headers["Authorization"] = "Bearer secret"
    client.post("/seed_session", json=row)
    [cookie] = client.cookies.values()
    tool = tools[0]["name"]
    answers = [
        client.post(f"/{tool}", json={"x": "x" * 10_000}),
        client.post(f"/{tool}", headers={"Authorization": "Bearer guessed"}, json={}),
        client.post(f"/{tool}/", json={}, follow_redirects=False),
        client.get("/metrics"),
        *(
            client.post(f"/{path}", json={})
            for path in ("", "health", "metrics", "tools", "docs", "no_such_tool")
            + ("verify", "aggregate_metrics", "seed_session", "close_session")
        ),
    ]
    for answer in answers:
        assert f"={cookie};" in answer.headers["set-cookie"], answer.url


@pytest.mark.parametrize(
    "name",
    [
        "seed_session",
        "./seed_session",
        "seed_session/",  # which is redirected, and the agent follows
        "seed_session?x",
        "%73eed_session",
        "seed\t_session",
    ],
)
def test_an_episode_that_the_policy_seeded_earns_nothing(
    server_of, run, row, verify, generous, name
):
    """However it lost its cookie. NeMo Gym's agents put a tool's name into a URL."""

    connect = run(server_of(generous))
    for named, reward in ((name, 0.0), ("seed", 1.0)):
        client = connect()
        client.post("/seed_session", json=row)
        assert verify(client, row, [function_call(named, "{}")]) == reward
        # Nor may it ask for the verdict itself, with a trajectory that it made up.
        assert verify(client, row, [function_call(name, "{}")]) == 0.0


class Graph(BaseModel):
    edges: list[str]


def test_a_task_that_its_model_refuses_is_named_as_in_the_row(server_of, run, row):
    class Walk:
        def __init__(self, task: Graph):
            pass

        def step(self) -> str:
            return "stepped"

        def reward(self) -> float:
            return 0.0

    answer = run(server_of(Walk))().post("/seed_session", json=row)
    assert answer.status_code == 422
    assert answer.json()["detail"].endswith("ground_truth.0.edges: Field required")


def test_an_exception_is_answered_as_json(server, rows, monkeypatch, verify_body):
    def fail(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(type(server), "verify_response", fail)
    client = TestClient(server.setup_webserver(), raise_server_exceptions=False)
    answer = client.post("/verify", json=verify_body(rows[0]))
    assert answer.status_code == 500
    assert answer.json() == {"detail": "RuntimeError('boom')"}


def test_health(client, rows):
    client.post("/seed_session", json=rows[0])
    open_now = {"status": "ok", "sessions": 1, "hung_calls": 0}
    assert client.get("/health").json() == open_now


def at_once(server, plays):
    """The results of coroutine functions, each with a client of its own."""

    async def main():
        app = server.setup_webserver()
        transport = httpx.ASGITransport(app)

        async def one(play):
            async with httpx.AsyncClient(
                transport=transport, base_url="http://server", timeout=60
            ) as client:
                return await play(client)

        async with app.router.lifespan_context(app):
            return await asyncio.gather(*map(one, plays))

    return asyncio.run(main())


def test_200_concurrent_episodes(server, rows, tools, verify_body):
    """The oracle plays as many as it can in 1,000 calls; the others do nothing."""
    plans, expected, calls = [], [], 0
    for n in range(200):
        row = rows[n % len(rows)]
        plan = []
        if calls < 1000:
            with contextlib.suppress(NoOracle):
                plan = solve(row, tools)
        calls += len(plan)
        plans.append((row, plan))
        expected.append(1.0 if plan else 0.0)

    def playing(row, plan):
        async def play(client):
            await client.post("/seed_session", json=row)
            for tool, arguments in plan:
                answer = await client.post(f"/{tool}", json=arguments)
                assert answer.status_code == 200, answer.text
            answer = await client.post("/verify", json=verify_body(row))
            return answer.json()["reward"]

        return play

    assert at_once(server, [playing(*one) for one in plans]) == expected
    assert not server.sessions


# ---------------------------------------------------------------------- threads


def recording():
    """A class that writes down which thread each of its methods runs in."""
    threads = []

    def here():
        threads.append(threading.get_ident())

    class Recording:
        def __init__(self, task):
            here()

        def move(self) -> str:
            """Move."""
            here()
            return "moved"

        def reward(self):
            here()
            return 1.0

        def metrics(self):
            here()
            return {}

        def close(self):
            here()

    class Async(Recording):
        async def move(self) -> str:
            """Move."""
            await asyncio.sleep(0)
            here()
            return "moved"

    class NotBlocking(Recording):
        blocking = False

    return {"blocking": Recording, "async": Async, "not blocking": NotBlocking}, threads


def an_episode(client, row, verify):
    assert client.post("/seed_session", json=row).status_code == 200
    for _ in range(3):
        assert client.post("/move", json={}).json() == {"output": "moved"}
    assert verify(client, row) == 1.0


@pytest.mark.parametrize("kind", ["blocking", "not blocking", "async"])
def test_an_episode_runs_in_one_thread(server_of, row, verify, kind):
    classes, threads = recording()
    with TestClient(server_of(classes[kind]).setup_webserver()) as client:
        on_loop = client.portal.call(threading.get_ident)
        an_episode(client, row, verify)
    assert len(threads) == len(
        ["__init__", *3 * ["move"], "reward", "metrics", "close"]
    )
    [thread] = set(threads)
    assert thread != threading.get_ident()
    assert (thread == on_loop) == (kind != "blocking")


def test_each_blocking_episode_has_a_thread_of_its_own(server_of, row, verify):
    classes, threads = recording()
    with TestClient(server_of(classes["blocking"]).setup_webserver()) as ada:
        bob = TestClient(ada.app)
        bob.portal = ada.portal
        for client in (ada, bob):  # both are open before one of them ends
            client.post("/seed_session", json=row)
        for client in (ada, bob):
            client.post("/move", json={})
            client.post("/close_session", json={})
    assert {threads.count(thread) for thread in threads} == {3}
    assert len(set(threads)) == 2


def test_a_class_may_hold_what_belongs_to_its_thread(server_of, row, verify_body):
    closed = []

    class Database:
        def __init__(self, task):
            self.connection = sqlite3.connect(":memory:")
            self.connection.execute("create table moves (at integer)")

        def move(self) -> str:
            """Move."""
            self.connection.execute("insert into moves values (1)")
            return "moved"

        def reward(self):
            [(count,)] = self.connection.execute("select count(*) from moves")
            return count / 4

        def close(self):
            self.connection.close()
            closed.append(self)

    async def play(client):
        assert (await client.post("/seed_session", json=row)).status_code == 200
        for _ in range(3):
            answer = await client.post("/move", json={})
            assert answer.json() == {"output": "moved"}
        answer = (await client.post("/verify", json=verify_body(row))).json()
        return answer["reward"], answer["failure_reason"]

    assert set(at_once(server_of(Database), [play] * 60)) == {(0.75, None)}
    assert len(closed) == 60


@pytest.mark.parametrize("waits", [time.sleep, asyncio.sleep])
def test_the_calls_of_a_session_never_overlap(server_of, row, waits):
    inside, most = [], []

    class Blocking:
        def __init__(self, task):
            pass

        def move(self) -> str:
            """Move."""
            inside.append(self)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()
            return "moved"

        def reward(self):
            return 0.0

    class Async(Blocking):
        async def move(self) -> str:
            """Move."""
            inside.append(self)
            most.append(len(inside))
            await asyncio.sleep(0.01)
            inside.pop()
            return "moved"

    async def play(client):
        await client.post("/seed_session", json=row)
        moves = (client.post("/move", json={}) for _ in range(5))
        return [answer.json()["output"] for answer in await asyncio.gather(*moves)]

    server = server_of(Blocking if waits is time.sleep else Async)
    assert at_once(server, [play]) == [["moved"] * 5]
    assert most == [1] * 5


# ---------------------------------------------------------------------- failures


class Mistake(Exception):
    """A class's own."""


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    ("raised", "told", "fault"),
    [
        (ValueError("You cannot."), "error: You cannot.", None),
        (Mistake("You cannot."), "error: You cannot.", None),
        (TimeoutError("Too slow."), "error: Too slow.", None),
        (KeyError("secret"), "error: KeyError", "raised KeyError"),
        (RuntimeError("secret"), "error: RuntimeError", "raised RuntimeError"),
        (SystemExit("secret"), "error: SystemExit", "raised SystemExit"),
        (SystemExit(0), "error: SystemExit", "raised SystemExit"),
    ],
)
def test_what_a_tool_raises(server_of, run, row, raised, told, fault, on_loop):
    class Failing:
        blocking = not on_loop

        def __init__(self, task):
            pass

        def move(self) -> str:
            """Move."""
            raise raised

        def ask(self) -> str:
            """Ask."""
            return "answered"

        def reward(self):
            return 0.0

    connect = run(server_of(Failing))
    client = connect()
    client.post("/seed_session", json=row)
    answer = client.post("/move", json={})
    assert (answer.status_code, answer.json()) == (200, {"output": told})
    header = answer.headers.get("X-Tool-Error", "")
    assert header.startswith(f"{fault} (test_sessions.py, line " if fault else "")
    assert bool(header) == bool(fault)
    assert "secret" not in header
    after = client.post("/ask", json={})
    assert after.json() == {"output": "answered"}
    assert "X-Tool-Error" not in after.headers
    assert connect().post("/seed_session", json=row).status_code == 200


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (ValueError("task needs `x`"), "Refusing(task): task needs `x`"),
        (KeyError("x"), "Refusing(task): KeyError: 'x'"),
        (SystemExit("over"), "Refusing(task): SystemExit: over"),
    ],
)
def test_what_a_constructor_raises(server_of, run, row, raised, detail, on_loop):
    class Refusing:
        blocking = not on_loop

        def __init__(self, task):
            raise raised

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            return 0.0

    server = server_of(Refusing)
    client = run(server)()
    answer = client.post("/seed_session", json=row)
    assert (answer.status_code, answer.json()) == (422, {"detail": detail})
    told = client.post("/move", json={}).json()["output"]
    assert told.startswith("error: this session was not seeded")
    assert not server.sessions


# ---------------------------------------------------------------------- time limits


class Barrier:
    """Holds up the methods of an environment class, and tells the test of it."""

    def __init__(self):
        self.reached = threading.Semaphore(0)
        self.opened = threading.Event()

    def wait(self):
        self.reached.release()
        assert self.opened.wait(60)

    def await_arrival(self):
        assert self.reached.acquire(timeout=60)


@pytest.fixture
def barrier():
    barrier = Barrier()
    yield barrier
    barrier.opened.set()


def until(condition):
    """Waits for what another thread is about to do."""
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.parametrize("end", ["/close_session", "/verify"])
def test_a_close_that_hangs_delays_nobody(server_of, row, verify, barrier, end):
    class Hanging:
        def __init__(self, task):
            self.id = task["id"]

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            return 1.0

        def close(self):
            if self.id == "hangs":
                barrier.wait()

    server = server_of(Hanging, close_seconds=2)
    with TestClient(server.setup_webserver()) as ada:
        bob = TestClient(ada.app)
        bob.portal = ada.portal
        started = time.monotonic()
        hangs = {**row, "ground_truth": [{"id": "hangs"}]}
        ada.post("/seed_session", json=hangs)
        if end == "/verify":
            assert verify(ada, hangs) == 1.0
        else:
            assert ada.post(end, json={}).status_code == 200
        barrier.await_arrival()
        an_episode(bob, row, verify)
        assert time.monotonic() - started < 1.5
        until(lambda: len(server._closing) == 1)
        started = time.monotonic()
    assert time.monotonic() - started < 3


def test_an_async_close_that_hangs_is_cancelled(server_of, row, verify):
    ended = []

    class Hanging:
        def __init__(self, task):
            pass

        async def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            return 1.0

        async def close(self):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(self)

    server = server_of(Hanging, close_seconds=0.2)
    with TestClient(server.setup_webserver()) as client:
        an_episode(client, row, verify)
        started = time.monotonic()
    assert time.monotonic() - started < 1
    assert len(ended) == 1


SERVER_THAT_HANGS = """
import threading
from fastapi import Request
from session_server import SessionServer, VerifyRequest

class Hanging:
    def __init__(self, task): pass
    def move(self) -> str: threading.Event().wait()
    def reward(self): return 0.0
    def close(self): threading.Event().wait()

class Server(SessionServer):
    domain_class = Hanging
    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/move")(self.tool(Hanging.move))
        return app
    async def verify(self, request: Request, body: VerifyRequest): ...

Server.main()
"""


def test_the_process_ends_though_a_tool_and_close_hang(row):
    variables = {"HOST": "127.0.0.1", "PORT": "0"}
    process = subprocess.Popen(
        [sys.executable, "-c", SERVER_THAT_HANGS],
        env={**os.environ, **variables, "CLOSE_SECONDS": "1", "TOOL_SECONDS": "0.1"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                break
        assert found, "the server ended"
        for path in ("/move", "/close_session"):
            with httpx.Client(base_url=found[1], trust_env=False) as client:
                client.post("/seed_session", json=row).raise_for_status()
                client.post(path, json={}).raise_for_status()
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert time.monotonic() - started < 5
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def slow(barrier):
    """A class whose move(wait=True) waits at the barrier, and the calls that it saw."""
    calls = []

    class Slow:
        def __init__(self, task):
            calls.append("made")

        def move(self, wait: bool) -> str:
            """Move."""
            if wait:
                barrier.wait()
            calls.append(f"moved {wait}")
            return "moved"

        def reward(self):
            return 0.0

        def close(self):
            calls.append("closed")

    return Slow, calls


def test_a_call_that_timed_out_before_it_began_never_runs(server_of, run, row, barrier):
    domain_class, calls = slow(barrier)
    server = server_of(domain_class, tool_seconds=0.3)
    client = run(server)()
    client.post("/seed_session", json=row)
    [session] = server.sessions.values()

    def move(wait):
        return client.post("/move", json={"wait": wait}).json()["output"]

    with ThreadPoolExecutor() as pool:
        first = pool.submit(move, True)
        barrier.await_arrival()
        others = [pool.submit(move, False) for _ in range(3)]
        for told in (first, *others):
            limit = "error: the call took more than 0.3 s (TOOL_SECONDS)"
            assert told.result() == limit
    assert move(False).startswith("error: the call took more than 0.3 s")
    barrier.opened.set()
    client.post("/close_session", json={})
    until(lambda: "closed" in calls)
    assert calls == ["made", "moved True", "closed"]
    assert [call.arguments["wait"] for call in session.calls] == [True]


def test_what_hangs_longer_than_close_may_take_is_closed_in_the_end(
    server_of, run, row, barrier
):
    domain_class, calls = slow(barrier)
    server = server_of(domain_class, tool_seconds=0.1, close_seconds=0.1)
    client = run(server)()
    client.post("/seed_session", json=row)
    assert "TOOL_SECONDS" in client.post("/move", json={"wait": True}).text
    client.post("/close_session", json={})
    until(lambda: not server._closing)  # the server no longer waits for it
    assert calls == ["made"]
    barrier.opened.set()
    until(lambda: calls == ["made", "moved True", "closed"])


def test_a_call_that_hangs_gives_its_session_s_place_back(
    server_of, run, row, barrier, verify
):
    domain_class, _ = slow(barrier)
    server = server_of(domain_class, tool_seconds=0.1, max_sessions=1)
    connect = run(server)
    first, second = connect(), connect()
    first.post("/seed_session", json=row)
    assert second.post("/seed_session", json=row).status_code == 503
    first.post("/move", json={"wait": True})
    assert second.post("/seed_session", json=row).status_code == 200
    health = {"status": "ok", "sessions": 2, "hung_calls": 1}
    assert first.get("/health").json() == health


def test_a_call_that_waited_in_vain_gives_up_only_itself():
    started, goes_on = threading.Event(), threading.Event()

    def takes_its_time():
        started.set()
        return goes_on.wait(20)

    async def main():
        session = Session(task={}, seeded=True, thread=EpisodeThread())
        first = asyncio.create_task(session.perform(takes_its_time, 20))
        await asyncio.to_thread(started.wait)
        with pytest.raises(TimeoutError):
            await session.perform(lambda: None, 0.01)
        hangs = session.hangs(20)
        goes_on.set()
        session.thread.stop()
        return hangs, await first

    assert asyncio.run(main()) == (False, True)


def test_calls_that_hang_are_bounded(server_of, run, row, barrier):
    domain_class, _ = slow(barrier)
    server = server_of(domain_class, tool_seconds=0.1, max_hung_calls=2)
    connect = run(server)
    for _ in range(2):
        client = connect()
        client.post("/seed_session", json=row)
        client.post("/move", json={"wait": True})
        client.post("/close_session", json={})
    refused = connect().post("/seed_session", json=row)
    assert refused.status_code == 503
    assert refused.json()["detail"] == "2 calls hang (MAX_HUNG_CALLS)"
    barrier.opened.set()
    until(lambda: connect().get("/health").json()["hung_calls"] == 0)
    assert connect().post("/seed_session", json=row).status_code == 200


def test_a_policy_whose_call_hangs_is_graded_all_the_same(
    server_of, run, row, barrier, verify_body
):
    """Masked, it would have a way out of every episode that it is about to lose."""
    domain_class, _ = slow(barrier)
    server = server_of(domain_class, tool_seconds=0.1)

    async def verify(self, request: Request, body: VerifyRequest):
        session = self.finished_session(request, body)
        return self.verify_response(request, body, await session.reward(0.1))

    type(server).verify = verify
    client = run(server)()
    client.post("/seed_session", json=row)
    client.post("/move", json={"wait": True})
    verdict = client.post("/verify", json=verify_body(row)).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)


@pytest.mark.parametrize("how", ["its time is over", "somebody ends it"])
def test_a_session_that_ends_while_it_is_made_is_closed(
    server_of, run, row, barrier, how
):
    calls = []

    class SlowStart:
        def __init__(self, task):
            barrier.wait()
            calls.append("made")

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            return 0.0

        def close(self):
            calls.append("closed")

    timeout = how == "its time is over"
    server = server_of(
        SlowStart, tool_seconds=0.1 if timeout else 60, close_seconds=0.1
    )
    client = run(server)()
    with ThreadPoolExecutor() as pool:
        seeding = pool.submit(client.post, "/seed_session", json=row)
        barrier.await_arrival()
        if timeout:
            assert "took more than 0.1 s (TOOL_SECONDS)" in seeding.result().text
        else:  # by its name, which NeMo Gym 0.7's clients know
            [name] = server.sessions
            client.portal.call(server._end, name, "closed")
        assert not server.sessions
        if timeout:
            until(lambda: not server._closing)  # the server no longer waits for it
        barrier.opened.set()
        assert seeding.result().status_code == 422
    until(lambda: calls == ["made", "closed"])
    assert not server.sessions


@pytest.mark.parametrize(
    ("variable", "text", "kind"),
    [
        ("MAX_SESSIONS", "0", "integer"),
        ("MAX_SESSIONS", "1.5", "integer"),
        ("MAX_BODY_BYTES", "many", "integer"),
        ("TOOL_SECONDS", "-1", "number"),
        ("CLOSE_SECONDS", "nan", "number"),
        ("SESSION_IDLE_SECONDS", "long", "number"),
    ],
)
def test_a_limit_is_a_positive_number(serve, monkeypatch, variable, text, kind):
    monkeypatch.setenv(variable, text)
    message = f"{variable} must be a positive {kind}, got {text!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        serve()


def test_seconds_may_be_fractions(serve, monkeypatch):
    monkeypatch.setenv("TOOL_SECONDS", "0.5")
    monkeypatch.setenv("MAX_SESSIONS", "5")
    limits = serve().limits
    assert (limits.tool_seconds, limits.max_sessions) == (0.5, 5)


@pytest.mark.parametrize("reads", [False, True])
def test_calls_are_kept_if_the_grader_reads_them(server_of, run, row, reads):
    server = server_of(Riddle)
    kind = type(server)
    kind.keeps_calls = None

    async def verify(self, request: Request, body: VerifyRequest):
        session = self.finished_session(request, body)
        return self.verify_response(request, body, float(bool(session.calls)))

    if reads:
        kind.verify = verify
    client = run(server)()
    client.post("/seed_session", json=row)
    client.post("/guess", json={"word": "x"})
    [session] = server.sessions.values()
    if reads:
        assert [call.tool for call in session.calls] == ["guess"]
    else:
        with pytest.raises(RuntimeError, match="keeps_calls = True"):
            _ = session.calls


# ---------------------------------------------------------------------- attacks


def test_calls_without_a_cookie_lock_nobody_out(server_of, row, verify_body):
    classes, _ = recording()
    server = server_of(classes["not blocking"], max_sessions=1000)

    async def seed(client):
        client.cookies.clear()
        answer = await client.post("/seed_session", json=row)
        assert answer.status_code == 200, answer.text
        return dict(client.cookies)

    async def play(client):
        first = await seed(client)
        for _ in range(1001):
            client.cookies.clear()
            answer = await client.post("/move", json={})
            assert answer.json() == {"output": "moved"}
        assert len(server.sessions) == 1000
        rewards = []
        for cookies in (await seed(client), first):  # who came before still plays
            client.cookies = httpx.Cookies(cookies)
            answer = await client.post("/verify", json=verify_body(row))
            rewards.append(answer.json()["reward"])
        return rewards

    assert at_once(server, [play]) == [[1.0, 1.0]]


class Riddle:
    """Tells its answer after one wrong guess."""

    blocking = False

    def __init__(self, task):
        self.word = task.get("word", "crane")
        self.guesses = []

    def guess(self, word: str) -> str:
        """Guess."""
        if self.guesses:
            raise ValueError("the game is over")
        self.guesses.append(word)
        return "Right." if word == self.word else f"Wrong: it was {self.word}."

    def reward(self):
        return float(self.word in self.guesses)


@pytest.fixture
def riddle(row):
    return {**row, "ground_truth": [{"word": "slate"}]}


def test_who_guesses_right_is_paid(server_of, run, riddle, verify):
    client = run(server_of(Riddle))()
    client.post("/seed_session", json=riddle)
    assert client.post("/guess", json={"word": "slate"}).json()["output"] == "Right."
    assert verify(client, riddle) == 1.0


@pytest.mark.parametrize("unseeded", [False, True])
@pytest.mark.parametrize(
    "posts",
    [
        ["/seed_session"],
        ["/close_session", "/seed_session"],
        ["/verify", "/seed_session"],
        ["/close_session"],
        ["/verify"],
        ["another /verify", "/seed_session"],
        ["another /seed_session", "/seed_session"],
        ["/close_session", "/verify", "/seed_session", "/verify"],
    ],
)
def test_who_has_seen_the_answer_is_not_paid(
    server_of, run, riddle, verify, verify_body, posts, unseeded
):
    connect = run(server_of(Riddle))
    client = connect()
    if unseeded:  # the seed gives such a client another cookie
        client.post("/guess", json={"word": "x"})
    client.post("/seed_session", json=riddle)
    seeded = dict(client.cookies)
    assert "it was slate" in client.post("/guess", json={"word": "crane"}).text
    for post in posts:
        task = dict(riddle["ground_truth"][0], **({"x": 1} if " " in post else {}))
        body = verify_body({**riddle, "ground_truth": [task]})
        client.post(post.rpartition(" ")[2], json=body)
    client.post("/guess", json={"word": "slate"})
    trainer = connect()  # with the cookie of the seed, and with the last one
    trainer.cookies.update(seeded)
    assert verify(trainer, riddle) == 0.0
    assert verify(client, riddle) == 0.0


def test_a_repeated_verify_answers_the_same(server_of, run, riddle, verify_body):
    server = server_of(Riddle)
    client = run(server)()
    client.post("/seed_session", json=riddle)
    client.post("/guess", json={"word": "slate"})
    body = verify_body(riddle)
    first, second = (client.post("/verify", json=body).json() for _ in range(2))
    assert first["reward"] == 1.0
    assert first == second
    other = verify_body({**riddle, "ground_truth": [{"word": "crane"}]})
    assert client.post("/verify", json=other).json()["reward"] == 0.0
    assert not server.sessions


def test_verifying_at_once_answers_the_same(server_of, row, verify_body):
    graded = []

    class Once:
        def __init__(self, task):
            pass

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            graded.append(self)
            time.sleep(0.01)
            return 1.0

    async def play(client):
        await client.post("/seed_session", json=row)
        body = verify_body(row)
        answers = (client.post("/verify", json=body) for _ in range(5))
        return [one.json()["reward"] for one in await asyncio.gather(*answers)]

    assert at_once(server_of(Once), [play]) == [[1.0] * 5]
    assert len(graded) == 1


@pytest.mark.parametrize(
    "seed",
    [{}, {"ground_truth": []}, {"ground_truth": [{}]}, None],
    ids=["{}", "[]", "[{}]", "never"],
)
def test_an_episode_without_a_task_earns_nothing(server_of, run, riddle, verify, seed):
    client = run(server_of(Riddle))()
    if seed is not None:
        answer = client.post("/seed_session", json=seed)
        assert answer.status_code == 200, answer.text
    assert client.post("/guess", json={"word": "crane"}).json()["output"] == "Right."
    for task in ({}, {"word": "crane"}, riddle["ground_truth"][0]):
        assert verify(client, {**riddle, "ground_truth": [task]}) == 0.0
