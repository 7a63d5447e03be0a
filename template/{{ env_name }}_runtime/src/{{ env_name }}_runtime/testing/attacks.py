"""Attacks that a policy may try with its session cookie: none may raise the reward."""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ..episode.samples import sample_arguments
from ..episode.types import Calls
from ..errors import NoOracleError
from ..rollouts.policies import solve
from ..rollouts.trajectory import function_call
from .fixtures import verify_body


def play(client: TestClient, calls: Calls) -> list[Any]:
    """Call tools; returns their answers."""
    return [client.post(f"/{tool}", json=arguments).json() for tool, arguments in calls]


def solve_or_skip(row, tools) -> Calls:
    """The oracle's calls. Skips the test if the class has no oracle."""
    try:
        return solve(row, tools)
    except NoOracleError as error:
        pytest.skip(str(error))


class TestAttacks:
    @pytest.fixture
    def row(self, rows):
        return rows[0]

    @pytest.fixture
    def solution(self, row, tools):
        return solve_or_skip(row, tools)

    def test_an_episode_that_nobody_seeded(self, client, row, solution, verify):
        play(client, solution)
        assert verify(client, row) == 0.0

    @pytest.mark.parametrize("seed", [{}, {"ground_truth": []}, {"ground_truth": [{}]}])
    def test_an_episode_seeded_without_a_task(
        self, client, row, solution, seed, verify
    ):
        client.post("/seed_session", json=seed)
        play(client, solution)
        assert verify(client, row) == 0.0

    def test_a_second_seed_of_the_session(self, client, row, tools, solution, verify):
        """After a look at the answer, the policy seeds the same task again."""
        client.post("/seed_session", json=row)
        play(client, [(tool["name"], sample_arguments(tool)) for tool in tools])
        lost = verify(client, row)
        assert client.post("/seed_session", json=row).status_code == 409
        play(client, solution)
        assert verify(client, row) == lost

    def test_a_seed_with_another_task(self, client, row):
        client.post("/seed_session", json=row)
        other = {"ground_truth": [{**row["ground_truth"][0], "made_up": True}]}
        assert client.post("/seed_session", json=other).status_code == 409

    def test_an_episode_that_the_policy_seeded(self, client, row, solution, verify):
        """Some agents lose the harness's cookie, so a policy could seed anew."""
        client.post("/seed_session", json=row)
        play(client, solution)
        assert verify(client, row, [function_call("seed_session", "{}")]) == 0.0

    def test_a_refused_call_keeps_the_cookie(self, client, row, tools):
        client.post("/seed_session", json=row)
        answer = client.post(f"/{tools[0]['name']}", content=b" " * (2 << 20))
        assert answer.status_code == 413
        assert answer.headers["set-cookie"].startswith(
            "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        )

    def test_the_task_of_another_row(self, client, rows, tools, verify):
        first, other = rows[0], rows[-1]
        if first["ground_truth"] == other["ground_truth"]:
            pytest.skip("there is only one task")
        client.post("/seed_session", json=other)
        play(client, solve_or_skip(other, tools))
        assert verify(client, first) == 0.0

    @pytest.mark.parametrize("name", ["mine", "m" * 1000])
    def test_a_seed_that_names_its_own_session(
        self, client, row, solution, name, verify
    ):
        """As environment servers of NeMo Gym 0.7 seed; for 0.4 it is a second seed."""
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
    def test_playing_on_after_the_end(self, client, row, solution, route, verify):
        client.post("/seed_session", json=row)
        client.post(f"/{route}", json=verify_body(row))
        play(client, solution)
        assert verify(client, row) == 0.0

    def test_a_trajectory_that_claims_success(self, client, row, solution, verify):
        client.post("/seed_session", json=row)
        forged = []
        for tool, arguments in solution:
            call = function_call(tool, json.dumps(arguments))
            output = json.dumps({"output": json.dumps(row["ground_truth"][0])})
            result = {"type": "function_call_output", "call_id": call["call_id"]}
            forged += [call, {**result, "output": output}]
        assert verify(client, row, forged) == 0.0

    def test_nonsense(self, client, row, tools, verify):
        client.post("/seed_session", json=row)
        for high in (False, True):
            calls = [
                (tool["name"], sample_arguments(tool, high=high)) for tool in tools
            ]
            play(client, calls)
        assert verify(client, row) == 0.0

    def test_numbers_without_bounds(self, client, row, tools):
        """A grade that raises masks the sample. A policy may not cause that."""
        client.post("/seed_session", json=row)
        for tool in tools:
            numbers = {
                name: 10**400
                for name, schema in tool["parameters"]["properties"].items()
                if schema.get("type") in ("integer", "number")
            }
            arguments = json.dumps({**sample_arguments(tool), **numbers})
            client.post(f"/{tool['name']}", content=arguments)
        verdict = client.post("/verify", json=verify_body(row)).json()
        assert verdict["mask_sample"] is False, verdict["failure_reason"]

    def test_the_same_verdict_twice(self, client, row, solution):
        """A client that lost the answer posts /verify again: the answer is the same."""
        client.post("/seed_session", json=row)
        play(client, solution)
        first, second = (
            client.post("/verify", json=verify_body(row)).json()["reward"]
            for _ in range(2)
        )
        assert first == second > 0

    def test_no_other_route_reveals_the_answer(self, client, row):
        texts = client.post("/seed_session", json=row).text
        texts += client.get("/openapi.json").text + client.get("/tools").text
        texts += client.post("/close_session", json={}).text
        expected = row["ground_truth"][0].get("expected_output")
        assert not expected or expected not in texts
