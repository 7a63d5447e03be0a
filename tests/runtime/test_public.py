"""What holds on a public address: the API token, signed cookies, and no answers told."""

import json
import os
import socket
import subprocess
import sys

import pytest
import uvicorn
from fastapi.testclient import TestClient
from nemo_gym.base_resources_server import BaseVerifyResponse

import session_server
from plumbing.policies import sample_arguments


@pytest.fixture
def guarded(monkeypatch, serve):
    monkeypatch.setenv("API_TOKEN", "s3cret")
    return TestClient(serve().setup_webserver())


@pytest.mark.parametrize("header", [None, "Bearer wrong", "s3cret", "Bearer s3cret "])
def test_without_the_token_every_route_but_health_is_closed(guarded, tools, header):
    headers = {"Authorization": header} if header else {}
    assert guarded.get("/health", headers=headers).status_code == 200
    for path in ("/openapi.json", "/docs", "/no_such_page"):
        assert guarded.get(path, headers=headers).status_code == 401
    for path in ("/seed_session", "/close_session", "/verify", f"/{tools[0]['name']}"):
        assert guarded.post(path, json={}, headers=headers).status_code == 401


def test_with_the_token_everything_works(guarded, rows):
    guarded.headers["Authorization"] = "Bearer s3cret"
    assert guarded.get("/openapi.json").status_code == 200
    assert guarded.post("/seed_session", json=rows[0]).status_code == 200


def seeded_cookies(client, row):
    client.post("/seed_session", json=row)
    return dict(client.cookies)


def test_cookies_are_good_while_the_secret_is_the_same(monkeypatch, serve, rows):
    monkeypatch.setenv("SESSION_SECRET", "one")
    first, second = serve(), serve()
    cookies = seeded_cookies(TestClient(first.setup_webserver()), rows[0])
    [name] = first.sessions
    client = TestClient(second.setup_webserver(), cookies=cookies)
    client.post("/close_session", json={})
    assert not second.sessions
    monkeypatch.setenv("SESSION_SECRET", "two")
    third = serve()
    third.sessions[name] = first.sessions[name]
    client = TestClient(third.setup_webserver(), cookies=cookies)
    client.post("/close_session", json={})
    assert name in third.sessions


def test_the_secret_is_random_if_none_is_set(monkeypatch, serve, rows):
    monkeypatch.delenv("SESSION_SECRET", raising=False)
    first, second = serve(), serve()
    cookies = seeded_cookies(TestClient(first.setup_webserver()), rows[0])
    [name] = first.sessions
    second.sessions[name] = first.sessions[name]
    client = TestClient(second.setup_webserver(), cookies=cookies)
    client.post("/close_session", json={})
    assert name in second.sessions


def texts(value):
    """Every text inside a JSON value."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return [text for one in inner for text in texts(one)]
    return [value] if isinstance(value, str) else []


def test_no_answer_is_told_before_verify(client, rows, tools, caplog, capfd):
    """Neither in the logs, nor by a route that is not a tool."""
    caplog.set_level("DEBUG")
    pages = ("/openapi.json", "/tools", "/health")
    # Words of everybody's: `allow` is in the OpenAPI, too.
    known = "".join(client.get(path).text for path in pages)
    for row in rows[:3]:
        known += json.dumps(row["responses_create_params"], ensure_ascii=False)
        answers = [text for text in texts(row["ground_truth"]) if text not in known]
        client.cookies.clear()
        seeded = client.post("/seed_session", json=row)
        assert seeded.status_code == 200
        told = seeded.text
        for tool in tools:
            client.post(f"/{tool['name']}", json=sample_arguments(tool))
        told += client.post("/close_session", json={}).text
        for path in pages:
            told += client.get(path).text
        told += caplog.text + "".join(capfd.readouterr())
        for answer in answers:
            assert answer not in told
            assert json.dumps(answer)[1:-1] not in told


def test_a_session_of_an_earlier_server_is_known_to_be_lost(
    monkeypatch, serve, rows, tools, verify_body
):
    """With the same SESSION_SECRET its cookie is good, but nobody has its episode."""
    monkeypatch.setenv("SESSION_SECRET", "one")
    row, tool = rows[0], tools[0]
    cookies = seeded_cookies(TestClient(serve().setup_webserver()), row)
    client = TestClient(serve().setup_webserver(), cookies=cookies)
    answer = client.post(f"/{tool['name']}", json=sample_arguments(tool)).json()
    assert "this episode was lost" in answer["output"]
    verdict = client.post("/verify", json=verify_body(row)).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, True)
    assert client.post("/seed_session", json=row).status_code == 409


def test_an_ended_session_is_not_seeded_again_once_it_is_forgotten(
    serve, rows, verify_body
):
    server = serve()
    client = TestClient(server.setup_webserver())
    client.post("/seed_session", json=rows[0])
    client.post("/verify", json=verify_body(rows[0]))
    server._ended.clear()
    assert client.post("/seed_session", json=rows[0]).status_code == 409


def test_a_flood_of_closes_brings_no_episode_back(serve, rows, verify_body):
    """NeMo Gym 0.7's typed close takes any id, and is remembered for it."""
    server = serve(max_sessions=3)
    client = TestClient(server.setup_webserver())
    episode = {"rollout_id": "0-0"}
    client.post("/seed_session", json=rows[0])
    [name] = server.sessions
    client.post("/verify", json=verify_body(rows[0]))
    for number in range(100):
        closed = {"resources_session_id": f"x{number}", "episode_id": episode}
        client.post("/close_session", json=closed)
    typed = {
        "resources_session_id": name,
        "episode_id": episode,
        "task_id": {"taskset": "example", "task_id": "0"},
        "task_data": {"ground_truth": rows[0]["ground_truth"]},
    }
    assert client.post("/seed_session", json=typed).status_code == 409
    verdict = client.post("/verify", json=verify_body(rows[0])).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)


@pytest.mark.parametrize("text", ["\ud800", "[" * 300 + "]" * 300])
def test_a_trajectory_that_is_not_json_is_graded(serve, rows, verify_body, text):
    client = TestClient(serve().setup_webserver(), raise_server_exceptions=False)
    client.post("/seed_session", json=rows[0])
    body = verify_body(rows[0])
    body["response"]["odd"] = text if text[0] != "[" else json.loads(text)
    answer = client.post("/verify", content=json.dumps(body))
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert answer.json()["reward"] == 0.0


def test_metrics_that_cannot_be_aggregated_are_refused(serve):
    client = TestClient(serve().setup_webserver(), raise_server_exceptions=False)
    answer = client.post("/aggregate_metrics", json={"verify_responses": [{}]})
    assert answer.status_code in (200, 422)


@pytest.mark.parametrize(
    "seed", [None, {}, {"ground_truth": []}, {"ground_truth": [{}]}]
)
def test_an_episode_without_a_task_earns_nothing_on_any_row(
    server_of, run, verify, row, generous, seed
):
    """Not even on a row whose task is as empty, with a class that always pays."""

    client = run(server_of(generous))()
    if seed is not None:
        client.post("/seed_session", json=seed)
    client.post("/look", json={})
    for truth in ([{}], row["ground_truth"]):
        assert verify(client, {**row, "ground_truth": truth}) == 0.0


MESSAGE = {"type": "message", "id": "", "role": "assistant", "status": "completed"}
TEXT = {"type": "output_text", "text": "", "annotations": []}


@pytest.mark.parametrize(
    "output",
    [
        [{}] * 300_000,
        [{**MESSAGE, "content": [1] * 300_000}],
        [{**MESSAGE, "content": [], "prompt_token_ids": [0.5] * 300_000}],
        [{**MESSAGE, "content": [{**TEXT, "logprobs": [{}] * 300_000}]}],
    ],
)
def test_a_trajectory_of_too_many_items_earns_nothing(serve, rows, verify_body, output):
    """To validate so many malformed ones would hold up everybody for half a minute. A
    refusal would leave the episode ungraded, and a policy decides how long it is."""
    client = TestClient(serve().setup_webserver())
    client.post("/seed_session", json=rows[0])
    body = verify_body(rows[0])
    body["response"]["output"] = output
    answer = client.post("/verify", json=body)
    assert answer.status_code == 200
    verdict = answer.json()
    assert (verdict["reward"], verdict["mask_sample"]) == (0.0, False)
    assert "the trajectory has more than 10000 items" in verdict["failure_reason"]
    BaseVerifyResponse.model_validate(verdict)


def test_a_trajectory_of_too_many_bytes_earns_nothing(serve, rows, verify_body):
    client = TestClient(serve(trajectory_bytes=10_000).setup_webserver())
    client.post("/seed_session", json=rows[0])
    body = verify_body(
        rows[0], [{**MESSAGE, "content": [{**TEXT, "text": "x" * 10_000}]}]
    )
    answer = client.post("/verify", json=body)
    assert answer.status_code == 200
    assert (answer.json()["reward"], answer.json()["mask_sample"]) == (0.0, False)
    assert answer.json()["failure_reason"] == "the request body is over 10000 bytes"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/seed_session", {"ground_truth": [0] * 100_000}),
        ("/verify", {"ground_truth": [0] * 100_000}),
        ("/aggregate_metrics", {"verify_responses": [0] * 100_000}),
        ("/add", {"numbers": ["one"] * 100_000}),
    ],
)
def test_many_problems_are_told_in_few_words(server_of, run, path, body):
    """One by one they would be megabytes, and take all other clients' time."""

    class Adder:
        def __init__(self, task):
            pass

        def add(self, numbers: list[int]) -> str:
            return str(sum(numbers))

    answer = run(server_of(Adder))().post(path, json=body)
    assert answer.status_code == 422
    assert len(answer.content) < 5000


def test_metrics_of_many_names_are_refused(serve):
    """NeMo Gym makes a table with a column of each."""
    client = TestClient(serve().setup_webserver())
    verdicts = [{f"metric_{n}_{m}": 1 for m in range(50)} for n in range(50)]
    answer = client.post("/aggregate_metrics", json={"verify_responses": verdicts})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "there are over 500 names of metrics"


def test_metrics_are_not_for_policies(serve, rows):
    client = TestClient(serve().setup_webserver())
    client.post("/seed_session", json=rows[0])
    answer = client.post("/aggregate_metrics", json={"verify_responses": []})
    assert answer.status_code == 403


def test_an_item_that_nemo_gym_cannot_read_is_refused(serve, rows, verify_body):
    client = TestClient(serve().setup_webserver(), raise_server_exceptions=False)
    body = verify_body(rows[0])
    message = {"type": "message", "id": "", "content": [], "status": "completed"}
    body["response"]["output"] = [{**message, "role": {}, "prompt_token_ids": [1]}]
    assert client.post("/verify", json=body).status_code == 422


def test_tokens_of_a_trainer_are_no_items(serve, rows, verify_body):
    client = TestClient(serve().setup_webserver())
    client.post("/seed_session", json=rows[0])
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "Hm.", "annotations": []}],
        "prompt_token_ids": [1] * 100_000,
        "generation_token_ids": [1],
        "generation_log_probs": [0.0],
    }
    answer = client.post("/verify", json=verify_body(rows[0], [message]))
    assert answer.status_code == 200, answer.text


def test_a_body_that_does_not_come_is_answered_with_408(serve, server_thread):
    """So that nobody holds connections open with bodies that never end."""
    port = server_thread(serve(body_seconds=0.2))
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        head = "POST /seed_session HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")


NO_WALL = "no isolation: install it"


@pytest.mark.parametrize(
    ("wall", "variables", "said"),
    [
        (None, {"HOST": "0.0.0.0"}, "on HOST=0.0.0.0 anybody who reaches this port"),
        (None, {"HOST": "0.0.0.0", "API_TOKEN": "secret"}, None),
        (None, {"HOST": "0.0.0.0", "ALLOW_ANYBODY": "1"}, None),
        (None, {"HOST": "0.0.0.0", "ALLOW_ANYBODY": "container"}, None),
        (
            None,
            {"HOST": "0.0.0.0", "ALLOW_ANYBODY": "container", "SPACE_ID": "ada/game"},
            "on HOST=0.0.0.0 anybody",
        ),
        (None, {"HOST": "127.0.0.1"}, None),
        (NO_WALL, {"HOST": "127.0.0.1"}, f"server.py: {NO_WALL}"),
        (NO_WALL, {"TRUSTED_POLICY": "1"}, None),
    ],
)
def test_who_may_run_commands_is_said_first(
    monkeypatch, server_of, tmp_path, wall, variables, said
):
    class Shell:
        runs_commands = True

        def __init__(self, task):
            pass

        @staticmethod
        def refuse_to_serve():
            return wall

    served = []
    monkeypatch.setattr(uvicorn, "run", lambda *app, **named: served.append(named))
    monkeypatch.setattr(session_server, "_log_to_file", lambda: None)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    serve = type(server_of(Shell)).main
    if said:
        with pytest.raises(SystemExit) as refused:
            serve()
        assert said in str(refused.value)
    else:
        serve()
    assert bool(served) == (said is None)


def test_session_log_has_the_traceback_and_the_row(tmp_path, serve, rows, tools):
    script = """
import sys, json
import session_server
from fastapi.testclient import TestClient
from plumbing.inspection import find_server
from plumbing.environment import EnvironmentClass, episodes
from plumbing.policies import sample_arguments

tool = json.loads(sys.argv[2])
def fail(self, **given): raise KeyError("a secret")
session_server.uvicorn.run = lambda app, **named: client(app)
def client(app):
    setattr(EnvironmentClass, tool["name"], fail)
    with TestClient(app) as client:
        client.post("/seed_session", json=json.loads(sys.argv[1]))
        given = sample_arguments(tool)
        print(client.post("/" + tool["name"], json=given).text)
find_server().main()
"""
    row = json.dumps({**rows[0], "_ng_task_index": 7})
    log = tmp_path / "session.log"
    done = subprocess.run(
        [sys.executable, "-c", script, row, json.dumps(tools[0])],
        env={**os.environ, "SESSION_LOG": str(log), "TRUSTED_POLICY": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == '{"output": "error: KeyError"}'
    written = log.read_text()
    assert "_ng_task_index 7: the tool " in written
    assert "KeyError: 'a secret'" in written
    assert "KeyError: 'a secret'" in done.stderr
