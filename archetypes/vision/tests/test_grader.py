"""What the grader pays for, and what it does not."""

import pytest

from rollout import NoOracle, oracle


@pytest.fixture
def row(rows):
    return rows[0]


@pytest.fixture
def solution(row, tools):
    """The calls that solve the row, but for the last: terminate(success)."""
    try:
        calls = oracle({tool["name"] for tool in tools})(row)
    except NoOracle as why:
        pytest.skip(str(why))
    assert calls[-1] == ("terminate", {"status": "success"})
    return calls[:-1]


@pytest.fixture
def player(client, row):
    client.post("/seed_session", json=row)
    return client


def act(client, calls):
    for tool, arguments in calls:
        answer = client.post(f"/{tool}", json=arguments).json()
        assert not answer["output"].startswith("error:"), answer["output"]


def terminate(client, status):
    client.post("/terminate", json={"status": status})


def test_a_reached_goal_is_paid(player, row, solution, verify):
    act(player, solution)
    terminate(player, "success")
    assert verify(player, row) == 1.0


def test_a_reached_goal_without_terminate_is_not(player, row, solution, verify):
    act(player, solution)
    assert verify(player, row) == 0.0


def test_a_reached_goal_reported_as_a_failure_is_not(player, row, solution, verify):
    act(player, solution)
    terminate(player, "failure")
    assert verify(player, row) == 0.0


def test_an_immediate_success_is_not(player, row, solution, verify):
    terminate(player, "success")
    assert verify(player, row) == 0.0


@pytest.mark.parametrize("status", ["unsuccessful", "Success", ""])
def test_another_status_is_refused(player, solution, status):
    assert player.post("/terminate", json={"status": status}).status_code == 422


def test_a_success_in_the_trajectory_is_not(player, row, solution, verify):
    act(player, solution)
    claim = {
        "type": "function_call",
        "call_id": "call_1",
        "name": "terminate",
        "arguments": '{"status": "success"}',
    }
    assert verify(player, row, [claim]) == 0.0


def test_another_rows_goal_is_not(player, rows, solution, verify):
    act(player, solution)
    terminate(player, "success")
    assert verify(player, rows[1]) == 0.0


def test_an_action_answers_with_the_screen(player, solution):
    answer = player.post("/screenshot", json={}).json()
    assert answer["image"].startswith("data:image/png;base64,")
