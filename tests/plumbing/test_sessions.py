"""Episodes behind cookies: one for each client, freed when it is over."""

import asyncio
import time

import httpx
import pytest
from fastapi.testclient import TestClient

from conftest import verify_body
from gates import sample_arguments
from rollout import NoOracle, noop, oracle


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
    assert first.episode is not second.episode
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


def test_a_second_seed_starts_a_new_episode(server, client, rows, call):
    client.post("/seed_session", json=rows[0])
    call(client)
    client.post("/seed_session", json=rows[1])
    [session] = server.sessions.values()
    assert session.task == rows[1]["ground_truth"][0]
    assert session.calls == []


def test_a_closed_session_stays_closed(server, client, rows, call):
    client.post("/seed_session", json=rows[0])
    assert client.post("/close_session", json={}).status_code == 200
    assert client.post("/close_session", json={}).status_code == 200
    assert not server.sessions
    assert "this session has ended" in call(client)
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
    assert next(iter(server.sessions.values())).calls == []


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


def test_an_exception_is_answered_as_json(server, rows, monkeypatch):
    def fail(*_):
        raise RuntimeError("boom")

    monkeypatch.setattr(type(server), "graded", fail)
    client = TestClient(server.setup_webserver(), raise_server_exceptions=False)
    answer = client.post("/verify", json=verify_body(rows[0]))
    assert answer.status_code == 500
    assert answer.json() == {"detail": "RuntimeError('boom')"}


def test_health(client):
    assert client.get("/health").json() == {"status": "ok"}


def test_200_concurrent_episodes(server, rows, tools):
    try:
        policy = oracle({tool["name"] for tool in tools})
        policy(rows[0])
        expected = 1.0
    except NoOracle:
        policy, expected = noop, 0.0

    async def play(transport, row):
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", timeout=60
        ) as client:
            await client.post("/seed_session", json=row)
            for tool, arguments in policy(row):
                answer = await client.post(f"/{tool}", json=arguments)
                assert answer.status_code == 200, answer.text
            answer = await client.post("/verify", json=verify_body(row))
            return answer.json()["reward"]

    async def main():
        transport = httpx.ASGITransport(server.setup_webserver())
        episodes = [play(transport, rows[n % len(rows)]) for n in range(200)]
        return await asyncio.gather(*episodes)

    assert set(asyncio.run(main())) == {expected}
    assert not server.sessions
