"""SHARDS=2: sessions in child processes, behind one address."""

import asyncio
import collections
import contextlib
import itertools
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import itsdangerous
import psutil
import pytest
import requests
from env_runtime import gym_series
from env_runtime import server as serving
from env_runtime.episode.types import as_response
from env_runtime.errors import SettingError
from env_runtime.evaluation.policies import solve
from env_runtime.resources_server.messages import SessionServerConfig

from ..support import until
from .served import SECRET, is_lost, plays_on

pytestmark = pytest.mark.slow


def test_the_project_s_episodes(start, rows, tools):
    """Both shards play 120 episodes, and only the oracle's episodes earn."""
    served = start("server.py")
    assert served.url, served.printed
    played = enumerate(itertools.islice(itertools.cycle(rows), 120))
    plans = [(row, solve(row, tools) if n % 3 else []) for n, row in played]

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


def test_a_tool_that_only_the_row_has(served):
    clients = served.seeded(20)
    assert {client.shard for client in clients} == {0, 1}
    for client in clients:
        said = f"{client.task['id']} odd.name {{'number': 7}}"
        assert client.output("odd.name", number=7) == said
    assert served.session().call("odd.name", number=7).status_code == 404


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


def test_a_complicated_body_is_refused_by_the_proxy(served):
    client = served.seeded(1)[0]
    client.output()
    body = b"[%s[]]" % (b"[]," * 1_100_000)
    stranger = served.session()
    refused = stranger.post(f"{served.url}/seed_session", data=body, timeout=60)
    assert refused.status_code == 413
    assert "over 500000 commas and brackets" in refused.json()["detail"]
    verdict = client.post(f"{served.url}/verify", data=body, timeout=60).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)
    assert "over 2000000 commas and brackets" in verdict["failure_reason"]
    assert client.output().split()[:2] == ["0", "2"]


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
        assert "lost: its cookie is from another server" in eve.output()
    signer = itsdangerous.URLSafeSerializer(SECRET, salt=name)
    shard, _, rest = client.id.split("-")
    for gone in (f"{shard}-00000000-{rest}", f"7-00000000-{rest}", "x"):
        late = served.session()
        late.task = {"id": 1}
        text = signer.dumps({**own, "session_id": gone})
        late.headers["Cookie"] = f"{name}={text}"
        is_lost(late)
    assert client.output().split()[:2] == ["0", "2"]


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


def test_more_workers_need_shards(monkeypatch):
    known = {"name": "x", "entrypoint": "server.py", "domain": "games"}
    place = {"host": "127.0.0.1", "port": 0}
    settings: dict[str, Any] = {**known, **place, "num_workers": 2}
    monkeypatch.delenv("SHARDS", raising=False)
    with pytest.raises(ValueError, match="num_workers must be 1, got 2.*SHARDS=N"):
        SessionServerConfig(**settings)
    assert SessionServerConfig(**settings, shards=2).num_workers == 2
    monkeypatch.setenv("SHARDS", "2")
    assert SessionServerConfig(**settings).num_workers == 2


WORKERS = """
from env_runtime.resources_server import launch
known = launch.configured
def more(project):
    name, settings = known(project)
    return name, {**settings, "num_workers": 2}
launch.configured = more
if __name__ == "__main__":
    import server
    server.main()
"""


def test_several_proxies_share_the_shards(start, tmp_path, rows, tools):
    """Any worker may take a request, so all must know each other's sessions."""
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    served = start(script)

    def listens():  # "Application startup complete" comes before a worker listens
        with contextlib.suppress(requests.ConnectionError):
            return served.health()["shards_up"] == 2

    until(listens, 60)

    def play(number):
        row = rows[number % len(rows)]
        cookies = {}

        def post(path, **body):  # without a kept connection, to either worker
            answer = requests.post(
                f"{served.url}/{path}", json=body, cookies=cookies, timeout=60
            )
            answer.raise_for_status()
            cookies.update(answer.cookies)
            return answer.json()

        post("seed_session", **row)
        for tool, given in solve(row, tools):
            post(tool, **given)
        verdict = post("verify", **row, response=as_response("test", [], []))
        return verdict["reward"] == row.get("oracle_reward", 1.0)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(play, range(40)))
    family = psutil.Process(served.process.pid).children(recursive=True)
    served.end()
    until(lambda: not any(one.is_running() for one in family))


@pytest.mark.skipif(
    gym_series.ResourcesSeedSessionRequest is None, reason="NeMo Gym 0.7 has it"
)
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
    # An episode whose shard has ended is lost: no other begins in its place.
    client = served.session()
    client.task = {"id": 9}
    answer = client.call("seed_session", ground_truth=[client.task])
    served.shards()[client.shard].kill()
    answer = asyncio.run(add(answer.json()["mcp"]))
    assert answer.startswith("error: this episode was lost")
    is_lost(client)
