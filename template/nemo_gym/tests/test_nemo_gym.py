"""What NeMo Gym's own checks ask of the server, in process."""

import asyncio
import importlib.util
import json
import time
from pathlib import Path

import httpx
import pytest

from conftest import verify_body
from plumbing.gates import oracle_reward
from plumbing.inspection import find_server
from plumbing.policies import NoOracle, sample_arguments, solve

HERE = Path(__file__).resolve().parents[1]
NEWER = importlib.util.find_spec("nemo_gym.base_environment_server") is not None
newer_only = pytest.mark.skipif(not NEWER, reason="NeMo Gym 0.7 has it")


@newer_only
def test_sessions_keep_nemo_gyms_contract(server, rows):
    from nemo_gym.base_resources_server import ResourcesSeedSessionRequest
    from nemo_gym.testing.session_conformance import check_resources_session_contract

    seed = ResourcesSeedSessionRequest.model_validate(
        {
            "resources_session_id": "session-1",
            "episode_id": {"rollout_id": "0-0"},
            "task_id": {"taskset": "example", "task_id": "0"},
            "task_data": {"ground_truth": rows[0]["ground_truth"]},
        }
    )
    check_resources_session_contract(server.setup_webserver(), seed, keeps_state=True)


@newer_only
def test_the_verifier_fixture_passes(rows, tools):
    try:
        solve(rows[0], tools)
    except NoOracle as why:
        pytest.skip(str(why))
    from nemo_gym.verifier_fixture import exercise_verifier_fixture

    [path] = HERE.glob("resources_servers/*/verifier.py")
    spec = importlib.util.spec_from_file_location("verifier", path)
    assert spec and spec.loader
    verifier = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verifier)
    checks = exercise_verifier_fixture(
        verifier.fixture(find_server()), reward_range=(0, 1), determinism="unknown"
    )
    assert len(asyncio.run(checks)) >= 3


@newer_only
def test_mcp_serves_the_same_tools_in_the_same_session(rows, tools):
    """With `expose_tools_over_mcp: true` in configs/."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from nemo_gym.mcp_auto_exposure import maybe_auto_expose

    class Recording(find_server()):
        keeps_calls = True

    server = Recording.build(tool_seconds=5)
    server.config.expose_tools_over_mcp = True
    app = server.setup_webserver()
    maybe_auto_expose(server, app)
    tool, arguments = tools[0]["name"], sample_arguments(tools[0])

    def client(**options):
        transport = httpx.ASGITransport(app)
        return httpx.AsyncClient(transport=transport, base_url="http://gym", **options)

    async def play():
        async with app.router.lifespan_context(app), client() as http:
            seeded = (await http.post("/seed_session", json=rows[0])).json()["mcp"]
            async with (
                client(headers=seeded["headers"]) as tokened,
                streamable_http_client(
                    f"http://gym{seeded['url_path']}", http_client=tokened
                ) as (read, write, _),
                ClientSession(read, write) as mcp,
            ):
                await mcp.initialize()
                listed = (await mcp.list_tools()).tools
                answer = await mcp.call_tool(tool, arguments)
            await http.post(f"/{tool}", json=arguments)
            [session] = server.sessions.values()
            started = time.monotonic()
            verified = await http.post("/verify", json=verify_body(rows[0]))
            assert verified.status_code == 200
            assert time.monotonic() - started < 5, "/verify waited for a lock"
            return listed, answer, session

    listed, answer, session = asyncio.run(play())
    assert {one.name: " ".join(one.description.split()) for one in listed} == {
        one["name"]: one["description"] for one in tools
    }
    assert isinstance(json.loads(answer.content[0].text)["output"], str)
    assert [call.tool for call in session.calls] == [tool, tool]


def test_20_concurrent_episodes(server, rows, tools):
    async def play(transport, row):
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", timeout=60
        ) as client:
            await client.post("/seed_session", json=row)
            try:
                calls, expected = solve(row, tools), oracle_reward(row)
            except NoOracle:
                calls, expected = [], 0.0
            for tool, arguments in calls:
                answer = await client.post(f"/{tool}", json=arguments)
                assert answer.status_code == 200, answer.text
            answer = await client.post("/verify", json=verify_body(row))
            return answer.json()["reward"] - expected

    async def main():
        transport = httpx.ASGITransport(server.setup_webserver())
        episodes = [play(transport, rows[n % len(rows)]) for n in range(20)]
        return await asyncio.gather(*episodes)

    assert asyncio.run(main()) == pytest.approx([0.0] * 20)
    assert not server.sessions
