"""Tests of the environment over HTTP: {{ "its tools and its rewards" if signatures.tools else "its rewards" }}."""

import pytest
from env_runtime.testing import (
    NoOracleError,
    baseline_reward,
    message,
    oracle_reward,
{% if signatures.tools %}
    sample_arguments,
{% endif %}
    solution_for,
    without_answers,
)

from my_env import MyEnv as EnvironmentClass


@pytest.fixture
def solved(rows, tools):
    """The first row with a known solution, and the calls and the answer of it."""
    if without_answers(EnvironmentClass):
        pytest.skip("without stand_in(model, prompt) no grade can be checked")
    reason = ""
    for row in rows:
        try:
            return row, solution_for(row, tools)
        except NoOracleError as error:
            reason = str(error)
    pytest.skip(reason)


{% if signatures.tools %}
def test_every_tool_answers_with_text(connect, rows, tools):
    for tool in tools:
        client = connect()
        client.post("/seed_session", json=rows[0])
        answer = client.post(f"/{tool['name']}", json=sample_arguments(tool))
        assert answer.status_code == 200, answer.text
        assert isinstance(answer.json()["output"], str)
        assert "x-tool-error" not in answer.headers, answer.text


{% endif %}
def test_a_solved_episode_earns_its_reward(client, solved, verify):
    row, (calls, answer) = solved
    client.post("/seed_session", json=row)
    harness = {"X-Harness": "1"}  # /reply asks for it
    for tool, arguments in calls:
        played = client.post(f"/{tool}", json=arguments, headers=harness)
        assert played.status_code == 200, played.text
        text = played.json()["message" if tool == "reply" else "output"]
        assert not str(text).startswith("error:"), text
    earned = verify(client, row, [message(answer)] if answer else [])
    assert earned == pytest.approx(oracle_reward(EnvironmentClass, row))


def test_an_episode_without_a_call_earns_nothing(client, rows, verify):
    client.post("/seed_session", json=rows[0])
    assert verify(client, rows[0]) <= baseline_reward(EnvironmentClass, rows[0])
