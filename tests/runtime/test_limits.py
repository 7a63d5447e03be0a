"""Limits of a server: sessions, bytes, items, seconds."""

import re
import socket

import pytest
from env_runtime.episode.types import message
from env_runtime.errors import SettingError
from env_runtime.resources_server import http
from nemo_gym.base_resources_server import BaseVerifyResponse

from .support import MESSAGE, TEXT, outcome, refusal, until


def test_one_session_too_many_is_refused(run, serve, rows):
    connect = run(serve(max_sessions=1))
    ada, bob = connect().seed(rows[0]), connect()
    refused = bob.post("/seed_session", json=rows[0])
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    ada.end()
    bob.seed(rows[0])


def test_an_abandoned_session_gives_way_to_a_seed(run, serve, rows, caplog):
    """A harness whose run failed left it open. Its late verdict is masked, and counted."""
    server = serve(max_sessions=2, model_answer_seconds=0.05)
    connect = run(server)
    ada, bob, eve = connect(), connect(), connect()
    ada.seed({**rows[0], "id": "first"})
    bob.seed(rows[1])
    until(lambda: ada.health().get("idle_sessions") == 2)
    first, _ = ada.health()["longest_idle"]
    assert re.fullmatch("id 'first', session [0-9a-f]{12}: [0-9]+ s", first)
    eve.seed(rows[0])
    assert len(server.sessions) == 2
    verdict = ada.verdict()
    assert outcome(verdict) == (0.0, True)
    reason = "idle for more than 0.05 s (MODEL_ANSWER_SECONDS), and all 2 sessions"
    assert reason in verdict["failure_reason"]
    assert f": the session was {reason}" in caplog.text
    assert ada.health()["masked"] == 1
    assert outcome(eve.verdict()) == (0.0, False)


def test_no_session_gives_way_while_a_model_may_still_answer(run, serve, rows):
    connect = run(serve(max_sessions=1))
    connect().seed(rows[0])
    assert connect().turned_away(rows[0])[0] == 503
    assert "idle_sessions" not in connect().health()


def test_a_batch_of_grpo_fits(serve):
    assert serve().limits.max_sessions >= 4096


def test_an_idle_session_is_freed(run, serve, rows):
    server = serve(session_idle_seconds=0.05)
    client = run(server)().seed(rows[0])
    until(lambda: client.health()["sessions"] == 0)
    assert not server.sessions


@pytest.mark.parametrize(
    ("variable", "text", "kind"),
    [
        ("MAX_SESSIONS", "0", "a positive integer"),
        ("MAX_SESSIONS", "1.5", "a positive integer"),
        ("MAX_BODY_BYTES", "many", "a positive integer"),
        ("TOOL_SECONDS", "-1", "a positive number"),
        ("CLOSE_SECONDS", "nan", "a positive number"),
        ("SESSION_IDLE_SECONDS", "long", "a positive number"),
        ("PORT", "65536", "a number from 0 to 65535"),
        ("PORT", "-1", "a number from 0 to 65535"),
        ("PORT", "http", "a number from 0 to 65535"),
    ],
)
def test_a_setting_that_makes_no_sense(serve, monkeypatch, variable, text, kind):
    monkeypatch.setenv(variable, text)
    message = refusal(SettingError, serve)
    assert f"{variable} must be {kind}, got {text!r}" in message


def test_seconds_may_be_fractions(serve, monkeypatch):
    monkeypatch.setenv("TOOL_SECONDS", "0.5")
    monkeypatch.setenv("MAX_SESSIONS", "5")
    limits = serve().limits
    assert (limits.tool_seconds, limits.max_sessions) == (0.5, 5)


@pytest.mark.parametrize(
    ("variables", "port"),
    [({}, 11000), ({"SPACE_ID": "me/space"}, 7860)],
)
def test_ports(serve, monkeypatch, variables, port):
    for name in ("SPACE_ID", "PORT"):
        monkeypatch.setenv(name, variables.get(name, ""))
    assert serve().config.port == port
    monkeypatch.setenv("PORT", "81")
    assert serve().config.port == 81


@pytest.mark.parametrize(
    "output",
    [
        [{}] * 300_000,
        [{**MESSAGE, "content": [1] * 300_000}],
        [{**MESSAGE, "content": [], "prompt_token_ids": [0.5] * 300_000}],
        [{**MESSAGE, "content": [{**TEXT, "logprobs": [{}] * 300_000}]}],
        [{**MESSAGE, "content": [{**TEXT, "logprobs": [{}] * 60_000}]}] * 2,
    ],
)
def test_a_trajectory_of_too_many_items_earns_nothing(client, rows, output):
    """Validating so many malformed items would hold up the server for half a minute. A
    refusal would leave the episode without a grade, and a policy controls its length."""
    verdict = client.seed(rows[0]).verdict(output=output)
    assert outcome(verdict) == (0.0, False)
    assert "the trajectory has more than 10000 items" in verdict["failure_reason"]
    assert client.health()["sessions"] == 0
    BaseVerifyResponse.model_validate(verdict)


@pytest.mark.parametrize("item", [{"type": "message"}, {"type": "dance"}, 7])
@pytest.mark.parametrize(
    ("part", "key"), [("response", "output"), ("responses_create_params", "input")]
)
def test_the_first_malformed_item_of_many_is_named(
    client, rows, verify_body, part, key, item
):
    """The other items are not checked: each would cost as much as a tool call."""
    body = verify_body(rows[0])
    body[part] = {**body[part], key: [item] * 2_000}
    answer = client.post("/verify", json=body)
    assert answer.status_code == 422
    assert f"{part}.{key}.0: " in answer.text
    assert len(answer.text) < 5_000


def test_a_trajectory_of_too_many_bytes_earns_nothing(limited, rows):
    client = limited(max_trajectory_bytes=10_000).seed(rows[0])
    verdict = client.verdict(output=[message("x" * 10_000)])
    assert outcome(verdict) == (0.0, False)
    assert verdict["failure_reason"] == "the request body is over 10000 bytes"


def test_a_body_of_unknown_length_has_the_same_limit(limited, rows, tools):
    """A chunked request announces no length."""
    client = limited(max_body_bytes=1000).seed(rows[0])
    body = iter([b" " * 600, b" " * 600])
    answer = client.post(f"/{tools[0]['name']}", content=body)
    assert "content-length" not in answer.request.headers
    assert answer.status_code == 413


def test_tokens_of_a_trainer_are_no_items(client, rows):
    tokens = {"prompt_token_ids": [1] * 100_000, "generation_token_ids": [1]}
    said = {**message("Hm."), **tokens, "generation_log_probs": [0.0]}
    assert client.seed(rows[0]).verdict(output=[said])["failure_reason"] is None


def test_logprobs_of_a_long_answer_are_graded(client, rows):
    """1,000 tokens with 20 alternatives each: their bytes are numbers, too."""
    token = {"token": "four", "bytes": [*b"four"], "logprob": -0.5}
    logprobs = [{**token, "top_logprobs": [token] * 20}] * 1000
    said = {**MESSAGE, "content": [{**TEXT, "logprobs": logprobs}]}
    verdict = client.seed(rows[0]).verdict(output=[said])
    assert verdict["failure_reason"] is None
    assert verdict["response"]["output"][0]["content"][0]["logprobs"] == logprobs


def test_a_log_probability_that_is_null_is_answered_as_in_a_short_list(
    connect, rows, verify_body
):
    """It is a model server's fault. NeMo Gym 0.7 refuses it by name, 0.4 reads past it."""
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [1]}
    statuses = []
    for count in (10, 12_000):
        numbers = [0.1] * count + [None]
        said = {**message("Hm."), **tokens, "generation_log_probs": numbers}
        body = verify_body(rows[0], [said])
        answer = connect().seed(rows[0]).post("/verify", json=body)
        assert "the trajectory has more than" not in answer.text
        statuses.append(answer.status_code)
    assert statuses[0] == statuses[1]


def test_metrics_of_many_names_are_refused(client):
    """NeMo Gym makes a table with a column for each name."""
    verdicts = [{f"metric_{n}_{m}": 1 for m in range(50)} for n in range(50)]
    answer = client.post("/aggregate_metrics", json={"verify_responses": verdicts})
    assert answer.status_code == 422
    assert answer.json()["detail"] == "there are over 500 names of metrics"


def test_a_body_that_does_not_arrive_is_answered_with_408(
    serve, server_thread, monkeypatch
):
    """Bodies that never end must not hold connections open."""
    monkeypatch.setattr(http, "BODY_SECONDS", 0.2)
    port = server_thread(serve())
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        head = "POST /seed_session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 408 ")
