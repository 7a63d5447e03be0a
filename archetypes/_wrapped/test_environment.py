"""Tests of the environment over HTTP: its tools and its rewards."""

import pytest
from env_runtime.episode.samples import sample_arguments
from env_runtime.episode.tasks import baseline_reward, oracle_reward
from env_runtime.errors import NoOracleError
from env_runtime.models.client import without_answers
from env_runtime.project import find
from env_runtime.rollouts.policies import solution_for
from env_runtime.rollouts.trajectory import message


@pytest.fixture
def solved(rows, tools):
    """The first row, and the calls and the answer that solve it."""
    if without_answers(find(__file__).load_class()):
        pytest.skip("without stand_in(model, prompt) no grade can be checked")
    try:
        return rows[0], solution_for(rows[0], tools)
    except NoOracleError as error:
        pytest.skip(str(error))


def test_every_tool_answers_with_text(connect, rows, tools):
    for tool in tools:
        client = connect()
        client.post("/seed_session", json=rows[0])
        answer = client.post(f"/{tool['name']}", json=sample_arguments(tool))
        assert answer.status_code == 200, answer.text
        assert isinstance(answer.json()["output"], str)
        assert "x-tool-error" not in answer.headers, answer.text


def test_a_solved_episode_earns_its_reward(client, solved, verify):
    row, (calls, answer) = solved
    client.post("/seed_session", json=row)
    for tool, arguments in calls:
        output = client.post(f"/{tool}", json=arguments).json()["output"]
        assert not output.startswith("error:"), output
    earned = verify(client, row, [message(answer)] if answer else [])
    assert earned == pytest.approx(oracle_reward(find(__file__).load_class(), row))


def test_an_episode_without_a_call_earns_nothing(client, rows, verify):
    client.post("/seed_session", json=rows[0])
    assert verify(client, rows[0]) <= baseline_reward(
        find(__file__).load_class(), rows[0]
    )
