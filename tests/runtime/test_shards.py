"""SHARDS=2: sessions in child processes behind one address, and what breaks there."""

import asyncio
import collections
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import itsdangerous
import psutil
import pytest
import requests

from my_env_runtime import gym_series, project, serving
from my_env_runtime.errors import NoOracleError, SettingError
from my_env_runtime.rollouts.policies import solve
from my_env_runtime.rollouts.trajectory import as_response
from my_env_runtime.server.messages import SessionServerConfig

from .support import until

SECRET = "the tests' secret"

# A class whose answers tell whose episode it is, and in which process.
SERVER = """
import ctypes, os, time
from fastapi import Request
from my_env_runtime.serving import SessionServer, VerifyRequest, VerifyResponse

class Count:
    def __init__(self, task):
        self.id, self.count = task.get("id"), 0

    def add(self) -> str:
        self.count += 1
        return f"{self.id} {self.count} {os.getpid()}"

    def sleep(self, seconds: float) -> str:
        with open(os.environ["NOTES"], "a") as notes:
            print("sleep", self.id, file=notes)
        time.sleep(seconds)
        return "slept"

    def block(self, seconds: float) -> str:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            ctypes.PyDLL(None).usleep(1000)  # with Python's lock
        return "blocked"

    def hold(self, seconds: int) -> str:
        ctypes.PyDLL(None).sleep(seconds)  # and never lets Python's lock go
        return "held"

    def reward(self) -> float:
        return float(self.count == 3)

    def close(self):
        with open(os.environ["NOTES"], "a") as notes:
            print("close", self.id, file=notes)

class Server(SessionServer):
    domain_class = Count
    keeps_calls = False

    @classmethod
    def build(cls, **limits):
        server = super().build(**limits)
        if os.environ.get("OVER_MCP"):
            server.config.expose_tools_over_mcp = True
        return server

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/add")(self.tool(Count.add))
        app.post("/sleep")(self.tool(Count.sleep))
        app.post("/hold")(self.tool(Count.hold))
        app.post("/block")(self.tool(Count.block))
        return app

    async def verify(self, request: Request, body: VerifyRequest) -> VerifyResponse:
        session = self.finished_session(request, body)
        reward = await session.reward() if session else 0.0
        return self.verify_response(request, body, reward)

if __name__ == "__main__":
    Server.main()
"""


class Served:
    """A front process, its URL, and the notes that its episodes write."""

    def __init__(self, script, notes, **variables):
        self.notes = notes
        self.process = subprocess.Popen(
            [sys.executable, script],
            cwd=project.GYM,
            env={
                **os.environ,
                "HOST": "127.0.0.1",
                "PORT": "0",
                "SHARDS": "2",
                "SHARDS_ON": "processes",
                "SHARD_SECONDS": "2",
                "SESSION_SECRET": SECRET,
                "SESSION_LOG": str(notes.with_name("session.log")),
                "NOTES": str(notes),
                "TRUSTED_POLICY": "1",
                **variables,
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        self.printed, self.url = "", ""
        for line in self.process.stderr:
            self.printed += line
            if found := re.search(r"running on (http://\S+)", line):
                self.url = found[1]
                break
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stderr:
            self.printed += line

    def shards(self):
        """The shards' processes by number."""
        found = {}
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has just ended
                name = child.name()
                if name.startswith("shard-") and child.status() != "zombie":
                    found[int(name.removeprefix("shard-"))] = child
        return found

    def health(self):
        return requests.get(f"{self.url}/health", timeout=30).json()

    def session(self):
        return Client(self.url)

    def seeded(self, count):
        """Sessions of the tasks 0, 1, ..."""
        with ThreadPoolExecutor(16) as pool:
            return list(pool.map(lambda n: self.session().seed(n), range(count)))

    def end(self):
        self.process.terminate()
        self.process.wait(30)


class Client(requests.Session):
    def __init__(self, url):
        super().__init__()
        self.url, self.task = url, None

    def call(self, path, **body):
        started = time.monotonic()
        answer = self.post(f"{self.url}/{path}", json=body, timeout=60)
        self.seconds = time.monotonic() - started
        return answer

    def seed(self, number):
        self.task = {"id": number}
        answer = self.call("seed_session", ground_truth=[self.task])
        assert answer.status_code == 200, answer.text
        return self

    def output(self, path="add", **body):
        answer = self.call(path, **body)
        assert answer.status_code == 200, answer.text
        return answer.json()["output"]

    def verdict(self):
        answer = self.call(
            "verify",
            responses_create_params={"input": "Go."},
            ground_truth=[self.task],
            response=as_response("test", [], []),
        )
        assert answer.status_code == 200, answer.text
        return answer.json()

    @property
    def id(self):
        [(name, value)] = self.cookies.items()
        signer = itsdangerous.URLSafeSerializer(SECRET, salt=name)
        return signer.loads(value)["session_id"]

    @property
    def shard(self):
        return int(self.id.partition("-")[0])


@pytest.fixture
def start(tmp_path):
    """Starts a server in shards, of the class Count unless a script is named."""
    running = []

    def start_one(script=None, **variables):
        if script is None:
            script = tmp_path / "count_server.py"
            script.write_text(SERVER)
        served = Served(script, tmp_path / "notes", **variables)
        running.append(served)
        return served

    yield start_one
    for served in running:
        if served.process.poll() is None:
            served.end()


@pytest.fixture
def served(start):
    served = start()
    assert served.url, served.printed
    return served


def both_up(served):
    until(lambda: served.health().get("shards_up") == 2, 30)


def is_lost(client):
    assert client.output().startswith("error: this episode was lost: ")
    assert client.seconds < 10
    verdict = client.verdict()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, True)
    assert verdict["failure_reason"].startswith("the session was lost: ")
    assert client.call("seed_session", ground_truth=[{"id": 1}]).status_code == 409
    assert client.call("close_session").status_code == 200


def plays_on(client, counted):
    """Whether an episode that counted to `counted` is paid after three in all."""
    for count in range(counted + 1, 4):
        assert client.output().split()[:2] == [str(client.task["id"]), str(count)]
        assert client.seconds < 10
    verdict = client.verdict()
    assert (verdict["reward"], verdict["mask_sample"]) == (1.0, False)


# ---------------------------------------------------------------------- as one server


def test_the_project_s_episodes(start, rows, tools):
    """120 at once: the oracle is paid, who does nothing is not, and both shards play."""
    served = start("server.py")
    assert served.url, served.printed
    plans = []
    for number in range(120):
        row = rows[number % len(rows)]
        try:
            plans.append((row, solve(row, tools) if number % 3 else []))
        except NoOracleError:
            plans.append((row, []))

    def play(plan):
        row, calls = plan
        client = served.session()
        client.call("seed_session", **row).raise_for_status()
        for tool, given in calls:
            client.call(tool, **given).raise_for_status()
        answer = client.call("verify", **row, response=as_response("test", [], []))
        return client.shard, answer.json()["reward"]

    with ThreadPoolExecutor(16) as pool:
        played = list(pool.map(play, plans))
    expected = [row.get("oracle_reward", 1.0) if plan else 0.0 for row, plan in plans]
    assert [reward for _, reward in played] == expected
    assert {shard for shard, _ in played} == {0, 1}
    health = {"status": "ok", "sessions": 0, "hung_calls": 0}
    assert served.health() == {**health, "shards": 2, "shards_up": 2}
    definitions = requests.get(f"{served.url}/tools", timeout=30).json()["tools"]
    assert [one["name"] for one in definitions] == [one["name"] for one in tools]


def test_no_call_is_answered_by_another_episode(served):
    clients = served.seeded(32)

    def play(client):
        outputs = [client.output().split() for _ in range(100)]
        assert [(int(who), int(count)) for who, count, _ in outputs] == [
            (client.task["id"], count) for count in range(1, 101)
        ]
        return {pid for _, _, pid in outputs}

    with ThreadPoolExecutor(32) as pool:
        pids = list(pool.map(play, clients))
    assert all(len(one) == 1 for one in pids)
    played = collections.Counter(pid for [pid] in pids)
    assert list(played.values()) == [16, 16]  # each has as many
    assert served.health()["sessions"] == 32


def test_what_no_endpoint_takes(start):
    served = start(MAX_BODY_BYTES="100", API_TOKEN="token", METRICS="1")
    client = served.session()
    assert client.call("add").status_code == 401
    client.headers["Authorization"] = "Bearer token"
    assert client.call("no_such_tool").status_code == 404
    assert client.call("sleep", seconds="long").status_code == 422
    assert client.call("sleep", seconds="x" * 200).status_code == 413
    assert client.output() == client.output().replace(" 2 ", " 1 ")
    told = client.get(f"{served.url}/metrics", timeout=30).text
    assert 'env_calls_total{path="/add",status="200"} 2.0' in told
    assert 'env_calls_total{path="other",status="404"} 1.0' in told
    assert 'env_call_seconds_count{path="/add"} 2.0' in told
    assert "env_sessions 1.0" in told
    assert "env_shards_up 2.0" in told


def test_the_sessions_of_all_shards_are_limited(start):
    served = start(MAX_SESSIONS="6")
    clients = served.seeded(6)
    refused = served.session().call("seed_session", ground_truth=[{"id": 6}])
    assert refused.status_code == 503
    assert "MAX_SESSIONS" in refused.json()["detail"]
    clients[0].call("close_session")
    served.session().seed(7)


def test_cookies_that_this_server_did_not_give(served):
    client = served.seeded(1)[0]
    client.output()
    [(name, value)] = client.cookies.items()
    own = {"session_id": client.id, "seeded": True}
    foreign = itsdangerous.URLSafeSerializer("another", salt=name).dumps(own)
    for forged in (foreign, value[:-4] + "AAAA", "x", value.partition(".")[0]):
        eve = served.session()
        eve.headers["Cookie"] = f"{name}={forged}"
        assert eve.output().split()[:2] == ["None", "1"]
        assert eve.id != client.id
    signer = itsdangerous.URLSafeSerializer(SECRET, salt=name)
    shard, _, rest = client.id.split("-")
    for gone in (f"{shard}-00000000-{rest}", f"7-00000000-{rest}", "x"):
        late = served.session()
        late.task = {"id": 1}
        text = signer.dumps({**own, "session_id": gone})
        late.headers["Cookie"] = f"{name}={text}"
        is_lost(late)
    assert client.output().split()[:2] == ["0", "2"]


# ---------------------------------------------------------------------- what breaks


def test_a_shard_is_killed(served):
    clients = served.seeded(20)
    assert {client.shard for client in clients} == {0, 1}
    for client in clients:
        client.output()
    served.shards()[0].kill()
    others = [client for client in clients if client.shard == 1]
    lost = [client for client in clients if client.shard == 0]
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda one: one.output(), others))
        list(pool.map(is_lost, lost[::2]))
    for number in range(5):  # while it is down, others take the new sessions
        new = served.session().seed(number)
        plays_on(new, 0)
        assert new.shard == 1 or served.health()["shards_up"] == 2
    both_up(served)
    for client in lost[1::2]:  # its birth mark tells that these are not its own
        is_lost(client)
    for client in others:
        plays_on(client, 2)
    assert {client.shard for client in served.seeded(20)} == {0, 1}


def test_a_tool_never_lets_python_s_lock_go(served):
    """Its shard hangs. It ends itself, names the tool, and is started again."""
    clients = served.seeded(20)
    [hung] = {c.shard for c in clients[:1]}
    with ThreadPoolExecutor(21) as pool:
        holding = pool.submit(clients[0].output, "hold", seconds=60)
        time.sleep(0.2)
        outputs = list(pool.map(lambda one: one.output(), clients[1:]))
    assert holding.result().startswith("error: this episode was lost")
    for client, output in zip(clients[1:], outputs, strict=True):
        assert client.seconds < 10
        assert output.startswith("error: this episode was lost") == (
            client.shard == hung
        )
    until(lambda: "count_server.py" in served.printed and " in hold" in served.printed)
    both_up(served)
    for client in clients[1:]:
        if client.shard == hung:
            is_lost(client)
        else:
            plays_on(client, 1)


def test_a_shard_is_frozen(served):
    """Nothing can end it. Its calls are answered all the same."""
    clients = served.seeded(20)
    frozen = served.shards()[1]
    frozen.suspend()
    with ThreadPoolExecutor(20) as pool:
        outputs = list(pool.map(lambda one: one.output(), clients))
    for client, output in zip(clients, outputs, strict=True):
        assert client.seconds < 10
        assert output.startswith("error: this episode was lost") == (client.shard == 1)
    for client in clients:
        if client.shard == 0:
            plays_on(client, 1)
        else:
            is_lost(client)
    assert served.health()["shards_up"] == 1
    assert {client.shard for client in served.seeded(10)} == {0}
    frozen.resume()
    both_up(served)


def test_a_busy_shard_is_not_a_dead_one(start):
    """It answers calls, one after another, but no ping for SHARD_SECONDS."""
    served = start(SHARDS="1", SHARD_SECONDS="1")
    clients = served.seeded(10)
    with ThreadPoolExecutor(10) as pool:
        outputs = list(pool.map(lambda one: one.output("block", seconds=0.5), clients))
    assert outputs == ["blocked"] * 10
    assert served.health()["sessions"] == 10


def test_a_call_is_never_made_twice(served):
    clients = served.seeded(8)
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(one.output, "sleep", seconds=1) for one in clients]
        until(
            lambda: served.notes.exists() and served.notes.read_text().count("\n") > 7
        )
        served.shards()[0].kill()
        outputs = [call.result() for call in calls]
    for client, output in zip(clients, outputs, strict=True):
        assert output == "slept" or client.shard == 0
        assert output != "slept" or client.shard == 1
    both_up(served)
    assert sorted(served.notes.read_text().split("\n")) == sorted(
        ["", *(f"sleep {n}" for n in range(8))]
    )


def test_no_shard_is_up(start):
    served = start(SHARDS="1")
    client = served.seeded(1)[0]
    served.shards()[0].kill()
    is_lost(client)
    refused = served.session().call("seed_session", ground_truth=[{"id": 1}])
    assert refused.status_code in (200, 503)
    if refused.status_code == 503:
        assert int(refused.headers["Retry-After"]) > 0
    until(lambda: served.health().get("shards_up") == 1)
    plays_on(served.session().seed(1), 0)


def processes_of(served):
    return [psutil.Process(served.process.pid), *served.shards().values()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_front_ends(served, number):
    """Its shards close their episodes and end too, however it ends."""
    all_of_them = processes_of(served)
    assert len(all_of_them) == 3
    served.seeded(6)
    served.process.send_signal(number)
    served.process.wait(20)
    until(lambda: not any(one.is_running() for one in all_of_them[1:]), 10)
    closed = sorted(served.notes.read_text().split("\n"))
    assert closed == sorted(["", *(f"close {n}" for n in range(6))])


# ---------------------------------------------------------------------- named sessions


def typed(name, number):
    return {
        "resources_session_id": name,
        "episode_id": {"rollout_id": name},
        "task_id": {"taskset": "example", "task_id": str(number)},
        "task_data": {"ground_truth": [{"id": number}]},
    }


def seed_by_name(served, number):
    client = served.session()
    client.task = {"id": number}
    answer = client.call("seed_session", **typed(f"harness-{number}", number))
    assert answer.status_code == 200, answer.text
    return client


@pytest.mark.skipif(
    gym_series.SeedByName is None, reason="NeMo Gym 0.4 names no sessions"
)
def test_sessions_that_a_harness_names(served):
    clients = [seed_by_name(served, number) for number in range(20)]
    pids = {client.output().split()[2] for client in clients}
    assert len(pids) == 2
    stopped = served.shards()[0]
    stopped.suspend()
    with ThreadPoolExecutor(20) as pool:
        outputs = list(pool.map(lambda one: one.output(), clients))
    lost = [c for c, o in zip(clients, outputs, strict=True) if o.startswith("error")]
    others = [client for client in clients if client not in lost]
    assert lost
    assert others
    # These are placed while their first choice may be down, and are found for ever.
    late = [seed_by_name(served, number) for number in range(100, 120)]
    stopped.kill()
    both_up(served)
    for client in lost:
        is_lost(client)
    for client in others:
        plays_on(client, 2)
    for client in late:
        again = served.session()
        body = typed(f"harness-{client.task['id']}", client.task["id"])
        assert again.call("seed_session", **body).status_code == 200  # the same
        assert again.output().split()[1] == "1"
        plays_on(client, 1)
        assert again.call("seed_session", **body).status_code == 409
        bare = served.session().call("seed_session", **body)
        assert bare.status_code == 409  # it has ended, and its shard knows
        closed = {key: body[key] for key in ("resources_session_id", "episode_id")}
        assert served.session().call("close_session", **closed).status_code == 200


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        ("SHARDS", "0", "SHARDS must be a positive integer, got '0'"),
        ("SHARDS", "two", "SHARDS must be a positive integer, got 'two'"),
        ("SHARDS_ON", "moon", "SHARDS_ON must be ray or processes, got 'moon'"),
        ("SHARD_SECONDS", "-1", "SHARD_SECONDS must be a positive number, got '-1'"),
    ],
)
def test_settings_that_make_no_sense(monkeypatch, serve, variable, text, message):
    monkeypatch.setenv("SHARDS", "2")
    server = serve()
    monkeypatch.setenv(variable, text)
    with contextlib.ExitStack() as stack:
        token = serving.PROCESS.set(stack)
        stack.callback(serving.PROCESS.reset, token)
        with pytest.raises(SettingError, match=re.escape(message)):
            server.setup_webserver()


def test_a_shard_that_cannot_start_says_so(start, tmp_path):
    script = tmp_path / "broken_server.py"
    failing = "assert __name__ == '__main__', 'not in a shard'\n"
    script.write_text(failing + SERVER)
    served = start(script)
    assert not served.url
    assert "AssertionError: not in a shard" in served.printed
    assert "did not start: it ended with status 1" in served.printed


def test_more_workers_need_shards(monkeypatch):
    settings = {"name": "x", "entrypoint": "server.py", "domain": "games"}
    settings |= {"host": "127.0.0.1", "port": 0, "num_workers": 2}
    monkeypatch.delenv("SHARDS", raising=False)
    with pytest.raises(ValueError, match="num_workers must be 1, got 2.*SHARDS=N"):
        SessionServerConfig(**settings)
    assert SessionServerConfig(**settings, shards=2).num_workers == 2
    monkeypatch.setenv("SHARDS", "2")
    assert SessionServerConfig(**settings).num_workers == 2


def test_several_fronts_share_the_shards(start, tmp_path, rows, tools):
    """Which worker takes a request is chance: all must know each other's sessions."""
    script = tmp_path / "workers.py"
    script.write_text(
        "from my_env_runtime.server import serve\n"
        "known = serve.configured\n"
        "def more():\n"
        "    name, settings = known()\n"
        "    return name, {**settings, 'num_workers': 2}\n"
        "serve.configured = more\n"
        "if __name__ == '__main__':\n"
        "    import server\n"
        "    server.main()\n"
    )
    served = start(script)
    until(lambda: re.search(r"Application startup complete", served.printed), 60)

    def play(number):
        row = rows[number % len(rows)]
        try:
            plan = solve(row, tools)
        except NoOracleError as why:
            pytest.skip(str(why))
        cookies = {}

        def post(path, **body):  # without a kept connection, to either worker
            answer = requests.post(
                f"{served.url}/{path}", json=body, cookies=cookies, timeout=60
            )
            answer.raise_for_status()
            cookies.update(answer.cookies)
            return answer.json()

        post("seed_session", **row)
        for tool, given in plan:
            post(tool, **given)
        verdict = post("verify", **row, response=as_response("test", [], []))
        return verdict["reward"] == row.get("oracle_reward", 1.0)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(play, range(40)))
    family = psutil.Process(served.process.pid).children(recursive=True)
    served.end()
    until(lambda: not any(one.is_running() for one in family))


def test_a_stranger_at_a_shard_s_door(served):
    [folder] = {
        Path(one.laddr).parent
        for process in served.shards().values()
        for one in process.net_connections(kind="unix")
        if one.laddr and "/shards-" in one.laddr
    }
    assert folder.stat().st_mode & 0o077 == 0
    # The body is never sent: the answer comes without it.
    head = "POST /seed_session HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n"
    for key in ("", "x-shard-key: \r\n", f"x-shard-key: {'0' * 64}\r\n"):
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(5)
            door.connect(str(folder / "0"))
            door.sendall(f"{head}{key}\r\n".encode())
            answer = b"".join(iter(lambda: door.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 403 ")
    # Nor does the front let a client speak as a front.
    about = requests.get(f"{served.url}/_shard", headers={"x-shard-key": ""}, timeout=9)
    assert "prefix" not in about.text
    assert served.health()["shards_up"] == 2


@pytest.mark.skipif(gym_series.SeedByName is None, reason="NeMo Gym 0.7 has it")
def test_tools_over_mcp(start):
    """A token's calls reach the episode of the cookie that was seeded with it."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    served = start(OVER_MCP="1")
    assert served.url, served.printed

    async def add(seeded):
        async with (
            httpx.AsyncClient(headers=seeded["headers"]) as http,
            streamable_http_client(
                f"{served.url}{seeded['url_path']}", http_client=http
            ) as (read, write, _),
            ClientSession(read, write) as mcp,
        ):
            await mcp.initialize()
            assert {one.name for one in (await mcp.list_tools()).tools} >= {"add"}
            answer = await mcp.call_tool("add", {})
            return json.loads(answer.content[0].text)["output"]

    async def all_of(tokens):
        return await asyncio.gather(*map(add, tokens))

    clients = [served.session() for _ in range(8)]
    tokens = []
    for number, client in enumerate(clients):
        client.task = {"id": number}
        answer = client.call("seed_session", ground_truth=[client.task])
        tokens.append(answer.json()["mcp"])
    assert {client.shard for client in clients} == {0, 1}
    outputs = asyncio.run(all_of(tokens))
    assert [one.split()[:2] for one in outputs] == [[str(n), "1"] for n in range(8)]
    for client in clients:
        plays_on(client, counted=1)
    assert asyncio.run(add(tokens[0])).startswith("error: this session has ended")
