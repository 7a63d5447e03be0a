"""What a policy may try with its session's cookie, beside playing: nothing of it pays."""

import json

import pytest

from conftest import verify_body
from plumbing.policies import NoOracle, sample_arguments, solve
from plumbing.records import function_call


@pytest.fixture
def row(rows):
    return rows[0]


@pytest.fixture
def solution(row, tools):
    try:
        return solve(row, tools)
    except NoOracle as why:
        pytest.skip(str(why))


def play(client, calls):
    return [client.post(f"/{tool}", json=given).json() for tool, given in calls]


def test_an_episode_that_nobody_seeded(client, row, solution, verify):
    play(client, solution)
    assert verify(client, row) == 0.0


@pytest.mark.parametrize("seed", [{}, {"ground_truth": []}, {"ground_truth": [{}]}])
def test_an_episode_seeded_without_a_task(client, row, solution, seed, verify):
    client.post("/seed_session", json=seed)
    play(client, solution)
    assert verify(client, row) == 0.0


def test_a_second_seed_of_the_session(client, row, tools, solution, verify):
    """After a look at the answer, a policy asks for the same task again."""
    client.post("/seed_session", json=row)
    play(client, [(tool["name"], sample_arguments(tool)) for tool in tools])
    lost = verify(client, row)
    assert client.post("/seed_session", json=row).status_code == 409
    play(client, solution)
    assert verify(client, row) == lost


def test_a_seed_with_another_task(client, row, solution):
    client.post("/seed_session", json=row)
    own = {"ground_truth": [{**row["ground_truth"][0], "made_up": True}]}
    assert client.post("/seed_session", json=own).status_code == 409


def test_an_episode_that_the_policy_seeded(client, row, solution, verify):
    """Some agents lose the cookie that the harness got, and let a policy seed anew."""
    client.post("/seed_session", json=row)
    play(client, solution)
    assert verify(client, row, [function_call("seed_session", "{}")]) == 0.0


def test_a_refused_call_keeps_the_cookie(client, row, tools):
    client.post("/seed_session", json=row)
    answer = client.post(f"/{tools[0]['name']}", content=b" " * (2 << 20))
    assert answer.status_code == 413
    assert answer.headers["set-cookie"].startswith(
        "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    )


def test_the_task_of_another_row(client, rows, tools, verify):
    first, other = rows[0], rows[-1]
    if first["ground_truth"] == other["ground_truth"]:
        pytest.skip("there is only one task")
    client.post("/seed_session", json=other)
    try:
        play(client, solve(other, tools))
    except NoOracle as why:
        pytest.skip(str(why))
    assert verify(client, first) == 0.0


@pytest.mark.parametrize("name", ["mine", "m" * 1000])
def test_a_seed_that_names_a_session_of_its_own(client, row, solution, name, verify):
    """As NeMo Gym 0.7's environment servers seed; 0.4 takes it for a second seed."""
    client.post("/seed_session", json=row)
    lost = verify(client, row)
    typed = {
        "resources_session_id": name,
        "episode_id": {"rollout_id": "0-0"},
        "task_id": {"taskset": "example", "task_id": "0"},
        "task_data": {"ground_truth": row["ground_truth"]},
    }
    assert client.post("/seed_session", json=typed).status_code in (409, 422)
    play(client, solution)
    assert verify(client, row) == lost


@pytest.mark.parametrize("route", ["close_session", "verify"])
def test_playing_on_after_the_end(client, row, solution, route, verify):
    client.post("/seed_session", json=row)
    client.post(f"/{route}", json=verify_body(row))
    play(client, solution)
    assert verify(client, row) == 0.0


def test_a_trajectory_that_says_it_was_solved(client, row, solution, verify):
    client.post("/seed_session", json=row)
    forged = []
    for tool, given in solution:
        call = function_call(tool, json.dumps(given))
        output = json.dumps({"output": json.dumps(row["ground_truth"][0])})
        result = {"type": "function_call_output", "call_id": call["call_id"]}
        forged += [call, {**result, "output": output}]
    assert verify(client, row, forged) == 0.0


def test_nonsense(client, row, tools, verify):
    client.post("/seed_session", json=row)
    for high in (False, True):
        calls = [(one["name"], sample_arguments(one, high=high)) for one in tools]
        play(client, calls)
    assert verify(client, row) == 0.0


def test_numbers_without_bounds(client, row, tools):
    """A grade that raises masks the sample, and no policy may have that in hand."""
    client.post("/seed_session", json=row)
    for tool in tools:
        numbers = {
            name: 10**400
            for name, schema in tool["parameters"]["properties"].items()
            if schema.get("type") in ("integer", "number")
        }
        given = json.dumps({**sample_arguments(tool), **numbers})
        client.post(f"/{tool['name']}", content=given)
    verdict = client.post("/verify", json=verify_body(row)).json()
    assert verdict["mask_sample"] is False, verdict["failure_reason"]


def test_the_same_verdict_twice(client, row, solution):
    """A client that lost the answer asks again, and gets the same one."""
    client.post("/seed_session", json=row)
    play(client, solution)
    first, second = (
        client.post("/verify", json=verify_body(row)).json()["reward"] for _ in range(2)
    )
    assert first == second > 0


def test_no_answer_is_told_by_a_route_that_is_not_a_tool(client, row):
    told = client.post("/seed_session", json=row).text
    told += client.get("/openapi.json").text + client.get("/tools").text
    told += client.post("/close_session", json={}).text
    expected = row["ground_truth"][0].get("expected_output")
    assert not expected or expected not in told
