"""/verify without a session plays the calls of the trajectory again."""

import json

import pytest
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.trajectory import function_call, message

from .support import ROW

JSON = {"content-type": "application/json"}


class Safe:
    """Opens with the right number, once."""

    def __init__(self, task):
        self.code, self.tries, self.opened = task["code"], 0, False

    def turn(self, number: int) -> str:
        """Turn the dial."""
        self.tries += 1
        if self.tries == 1:
            self.opened = number == self.code
        return "open" if self.opened else f"closed, it was {self.code}"

    def reward(self):
        return float(self.opened)


@pytest.fixture
def safe_row():
    return {**ROW, "ground_truth": [{"code": 4}]}


@pytest.fixture
def client(server_of, run, monkeypatch):
    monkeypatch.setenv("REVERIFY", "1")
    return run(server_of(Safe))()


def trajectory(*calls):
    output = []
    for name, arguments in calls:
        call = function_call(name, arguments)
        result = {"type": "function_call_output", "call_id": call["call_id"]}
        output += [call, {**result, "output": json.dumps({"output": "open"})}]
    return output


@pytest.mark.parametrize(
    ("calls", "reward"),
    [
        ([("turn", '{"number": 4}')], 1.0),
        ([("turn", '{"number": 3}')], 0.0),
        # What was turned down at the time is turned down again.
        ([("turn", "4"), ("turn", "not json"), ("turn", '{"number": 4}')], 1.0),
        ([("open_it", "{}"), ("../turn", "{}"), ("turn", '{"number": 4}')], 1.0),
        ([("turn", '{"number": 3}'), ("turn", '{"number": 4}')], 0.0),
        # A policy that saw the answer asks for a second episode.
        (
            [
                ("turn", '{"number": 3}'),
                ("seed_session", '{"ground_truth": [{"code": 4}]}'),
                ("turn", '{"number": 4}'),
            ],
            0.0,
        ),
        # NeMo Gym's agents put a name into a URL as it is.
        ([("turn?x", '{"number": 3}'), ("turn", '{"number": 4}')], 0.0),
        ([("turn/", '{"number": 3}'), ("turn", '{"number": 4}')], 1.0),
        ([("%74urn", '{"number": 3}'), ("turn", '{"number": 4}')], 0.0),
        ([("turn%3Fx", '{"number": 3}'), ("turn", '{"number": 4}')], 1.0),
        ([("close_session", "{}"), ("turn", '{"number": 4}')], 0.0),
        ([], 0.0),
    ],
)
def test_the_reward_is_that_of_the_calls(client, safe_row, verify_body, calls, reward):
    body = verify_body(safe_row, trajectory(*calls))
    answer = client.post("/verify", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["reward"] == reward
    assert answer.json()["mask_sample"] is False


def test_a_trajectory_may_be_longer_than_a_row(
    server_of, run, monkeypatch, safe_row, verify_body
):
    monkeypatch.setenv("REVERIFY", "1")
    client = run(server_of(Safe, max_seed_bytes=1000))()
    output = trajectory(("turn", '{"number": 4}'), *[("other", "{}")] * 20)
    answer = client.post("/verify", json=verify_body(safe_row, output))
    assert answer.json()["reward"] == 1.0


def test_a_live_session_is_graded_as_it_is(client, safe_row):
    """A forged trajectory counts for nothing while there is an episode."""
    client.seed(safe_row)
    client.post("/turn", json={"number": 3})
    right = trajectory(("turn", '{"number": 4}'))
    assert client.reward(safe_row, right) == 0.0
    assert client.reward(safe_row, right) == 0.0


def test_a_row_that_cannot_be_seeded_is_refused(client, safe_row, verify_body):
    body = verify_body({**safe_row, "ground_truth": [{"no": "code"}]})
    assert client.post("/verify", json=body).status_code == 422


@pytest.mark.parametrize("switched_on", [False, True])
@pytest.mark.parametrize("deterministic", [False, True])
def test_only_a_deterministic_class_is_played_again_with_reverify(
    server_of, run, monkeypatch, safe_row, switched_on, deterministic
):
    if switched_on:
        monkeypatch.setenv("REVERIFY", "1")
    else:
        monkeypatch.delenv("REVERIFY", raising=False)
    monkeypatch.setattr(Safe, "deterministic", deterministic, raising=False)
    client = run(server_of(Safe))()
    right = trajectory(("turn", '{"number": 4}'))
    replays = switched_on and deterministic
    assert client.reward(safe_row, right) == float(replays)
    mode = client.get("/reverify_mode")
    if mode.status_code != 404:  # NeMo Gym 0.4 has no such route
        assert mode.json() == ("stateless" if replays else "unsupported")


def test_the_oracle_s_trajectories_earn_the_same(
    serve, run, rows, tools, verify, monkeypatch
):
    monkeypatch.setenv("REVERIFY", "1")
    connect = run(serve())
    for row in rows[:5]:
        calls = [(name, json.dumps(given)) for name, given in solve(row, tools)]
        assert verify(connect(), row, trajectory(*calls)) == 1.0


@pytest.mark.parametrize("place", ["row", "arguments", "text"])
def test_text_that_utf8_cannot_hold_is_graded(client, safe_row, verify_body, place):
    """Before, such a text was an error 500 whose answer held the row."""
    odd = {name: "\ud800" if name == place else "x" for name in ("arguments", "text")}
    calls = [("odd", odd["arguments"]), ("turn", '{"number": 4}')]
    body = verify_body(safe_row, [*trajectory(*calls), message(odd["text"])])
    if place == "row":
        body["ground_truth"][0]["note"] = "\ud800"
    answer = client.post("/verify", content=json.dumps(body), headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.json()["reward"] == 1.0
