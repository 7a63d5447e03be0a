"""/verify without a session plays the calls of the trajectory again."""

import json
from typing import Any

import pytest
from env_runtime.episode.types import function_call, message
from env_runtime.evaluation.client import play
from env_runtime.evaluation.policies import Turn, solve

from .support import ROW, Plain, outcome, row_of

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


SAFE = row_of(code=4)
RIGHT, WRONG = '{"number": 4}', '{"number": 3}'


@pytest.fixture
def client(client_of, monkeypatch):
    monkeypatch.setenv("REVERIFY", "1")
    return client_of(Safe)


def trajectory(*calls):
    output = []
    for name, arguments in calls:
        call = function_call(name, arguments)
        result = {"type": "function_call_output", "call_id": call["call_id"]}
        output += [call, {**result, "output": json.dumps({"output": "open"})}]
    return output


# Calls before the right one, and what all of them earn
BEFORE = [
    ([], 1.0),
    # A replay refuses the calls that the server refused at the time.
    ([("turn", "4"), ("turn", "not json")], 1.0),
    ([("open_it", "{}"), ("../turn", "{}")], 1.0),
    ([("turn", WRONG)], 0.0),
    # A policy that saw the answer asks for a second episode.
    ([("turn", WRONG), ("seed_session", '{"ground_truth": [{"code": 4}]}')], 0.0),
    # NeMo Gym's agents put a name into a URL as it is.
    ([("turn?x", WRONG)], 0.0),
    ([("turn/", WRONG)], 1.0),
    ([("%74urn", WRONG)], 0.0),
    ([("turn%3Fx", WRONG)], 1.0),
    ([("close_session", "{}")], 0.0),
    ([("a" * 70_000, "{}"), ("\u00e9" * 20_000, "{}")], 1.0),
]


@pytest.mark.parametrize(("before", "reward"), BEFORE)
def test_the_reward_is_that_of_the_calls(client, before, reward):
    verdict = client.verdict(SAFE, trajectory(*before, ("turn", RIGHT)))
    assert outcome(verdict) == (reward, False)


def test_a_turn_that_was_cut_off_is_not_played(client):
    """No agent acts upon it. One that was cut off before it said anything has no items."""
    cut_off = {"incomplete_details": {"reason": "max_output_tokens"}}
    call, result = trajectory(("turn", RIGHT))
    assert client.verdict(SAFE, [call], **cut_off)["reward"] == 0.0
    assert client.verdict(SAFE, [call, result], **cut_off)["reward"] == 1.0
    assert client.verdict(SAFE, [], **cut_off)["reward"] == 0.0


@pytest.mark.parametrize(
    ("arguments", "heard"),
    [
        ('{"degrees": NaN}', [None]),  # NeMo Gym's agents write null
        ('{"degrees": [-Infinity, 1e999]}', [[None, None]]),
        ('{"degrees": "\\ud800"}', []),
        (f'{{"degrees": {"[" * 500}{"]" * 500}}}', []),
        (f'{{"degrees": {"[" * 50_000}{"]" * 50_000}}}', []),
        ("", []),
    ],
    ids=["NaN", "Infinity", "surrogate", "deep", "very deep", "empty"],
)
def test_a_replay_and_a_rollout_post_what_agents_of_nemo_gym_post(
    gate_client, client_of, monkeypatch, arguments, heard
):
    class Oven(Plain):
        def __init__(self, task):
            self.heard = []

        def heat(self, degrees: Any) -> str:
            """Heat."""
            self.heard.append(degrees)
            return "hot"

        def reward(self):
            return float(self.heard == heard)

    class Cook:
        name = "cook"

        def turn(self, row, definitions, output):
            return Turn([] if output else [function_call("heat", arguments)])

    client = gate_client(Oven)
    assert play(client, client.tools(), ROW, Cook(), 9)["reward"] == 1.0
    monkeypatch.setenv("REVERIFY", "1")
    again = trajectory(("heat", arguments))
    assert client_of(Oven).reward(ROW, again) == 1.0


def test_calls_that_do_not_solve_the_row_earn_nothing(client_of, client):
    wrong = trajectory(("turn", WRONG))
    assert client.reward(SAFE, wrong) == client_of(Safe).reward(SAFE) == 0.0


def test_a_trajectory_may_be_longer_than_a_row(client_of, monkeypatch):
    monkeypatch.setenv("REVERIFY", "1")
    output = trajectory(("turn", RIGHT), *[("other", "{}")] * 20)
    assert client_of(Safe, max_seed_bytes=1000).reward(SAFE, output) == 1.0


def test_a_live_session_is_graded_as_it_is(client):
    """A forged trajectory counts for nothing while there is an episode."""
    client.seed(SAFE).call("turn", number=3)
    right = trajectory(("turn", RIGHT))
    assert client.reward(output=right) == client.reward(output=right) == 0.0


def test_a_row_that_cannot_be_seeded_is_refused(client, verify_body):
    body = verify_body(row_of(no="code"))
    assert client.post("/verify", json=body).status_code == 422


@pytest.mark.parametrize("switched_on", ["", "1"])
@pytest.mark.parametrize("deterministic", [False, True])
def test_only_a_deterministic_class_is_played_again_with_reverify(
    client_of, monkeypatch, switched_on, deterministic
):
    monkeypatch.setenv("REVERIFY", switched_on)
    monkeypatch.setattr(Safe, "deterministic", deterministic, raising=False)
    client = client_of(Safe)
    replays = bool(switched_on) and deterministic
    assert client.reward(SAFE, trajectory(("turn", RIGHT))) == float(replays)
    mode = client.get("/reverify_mode")
    if mode.status_code != 404:  # NeMo Gym 0.4 has no such route
        assert mode.json() == ("stateless" if replays else "unsupported")


def test_the_oracle_s_trajectories_earn_the_same(serve, run, rows, tools, monkeypatch):
    monkeypatch.setenv("REVERIFY", "1")
    connect = run(serve())
    for row in rows[:5]:
        calls = [(name, json.dumps(given)) for name, given in solve(row, tools)]
        assert connect().reward(row, trajectory(*calls)) == 1.0


@pytest.mark.parametrize("place", ["row", "arguments", "text"])
def test_text_that_utf8_cannot_hold_is_graded(client, verify_body, place):
    """Before, such a text was an error 500 whose answer held the row."""
    odd = {name: "\ud800" if name == place else "x" for name in ("arguments", "text")}
    calls = [("odd", odd["arguments"]), ("turn", RIGHT)]
    row = row_of(code=4, note="\ud800") if place == "row" else SAFE
    body = verify_body(row, [*trajectory(*calls), message(odd["text"])])
    answer = client.post("/verify", content=json.dumps(body), headers=JSON)
    assert answer.status_code == 200, answer.text
    assert answer.json()["reward"] == 1.0
