"""Tests of the environment over HTTP: the server's tools, and the grades."""

import pytest
from env_runtime.testing import message, oracle_reward

from my_env import MyEnv as EnvironmentClass


def play(client, row, steps):
    """Play calls of a row. Returns what to verify: the final answer, if there is one."""
    client.post("/seed_session", json=row)
    for tool, arguments in (step for step in steps if not isinstance(step, str)):
        output = client.post(f"/{tool}", json=arguments).json()["output"]
        assert not output.startswith("error:"), output
    return [message(step) for step in steps if isinstance(step, str)]


def test_every_row_lists_the_servers_tools(rows):
    """If the server's tools have changed: uv run python gates.py --write-tools"""
    for row in rows:
        assert row["responses_create_params"]["tools"] == EnvironmentClass.row_tools()


def test_the_oracle_solves_every_row(connect, rows, verify):
    for row in rows:
        client = connect()
        answers = play(client, row, row["oracle"])
        assert verify(client, row, answers) == oracle_reward(EnvironmentClass, row)


def test_an_episode_without_a_call_earns_nothing(connect, rows, verify):
    for row in rows:
        client = connect()
        assert verify(client, row, play(client, row, [])) == 0.0


def test_half_of_a_solution_earns_nothing(connect, rows, verify):
    for row in rows:
        if len(row["oracle"]) > 1:
            client = connect()
            answers = play(client, row, row["oracle"][:-1])
            assert verify(client, row, answers) == 0.0


def test_an_episode_knows_nothing_of_another(rows):
    state = rows[0]["ground_truth"][0].get("expected_state")
    if not state:
        pytest.skip("the first row expects no state")
    one, other = (EnvironmentClass(rows[0]["ground_truth"][0]) for _ in range(2))
    try:
        for tool, arguments in rows[0]["oracle"]:
            one.call_row_tool(tool, arguments)
        assert one.state_holds()
        assert not other.state_holds()
    finally:
        one.close()
        other.close()
