"""The cases of `gym env test`: resources_servers/<env>/verifier_cases.jsonl.

A case replays tool calls on a fresh session of a row of data/example.jsonl, and expects
a reward of /verify, or an error. Its "calls" are a list of [tool, arguments], and its
"answer" is the policy's last message; "oracle" in place of the calls stands for the
calls and the answer of the class's oracle(task). Other keys of its request replace keys
of the row. NeMo Gym 0.7 or later is needed.
"""

import os
from pathlib import Path
from typing import Any, Literal

from fastapi.testclient import TestClient
from nemo_gym.verifier_fixture import VerifierFixture
from pydantic import BaseModel, ConfigDict

from ..checks.rewards import reward_problem
from ..episode.tasks import solution_of
from ..episode.types import HARNESS, REPLY
from ..evaluation.rows import load_rows
from ..evaluation.trajectory import as_response, message
from ..project import here


class Case(BaseModel):
    """The request of one case."""

    model_config = ConfigDict(extra="allow")

    row: int  # from 0
    calls: list[tuple[str, dict[str, Any]]] | Literal["oracle"]
    answer: str = ""


def fixture(server_class: Any, cases: Path) -> VerifierFixture:
    """The VERIFIER_FIXTURE of a server class, with the cases of a .jsonl file."""
    os.environ.setdefault("STAND_IN", "1")  # tests need no key
    return VerifierFixture(
        server_factory=server_class.build,
        request_model=Case,
        cases_path=cases,
        invoke=replay,
    )


def replay(server: Any, case: Any) -> dict[str, Any]:
    """The answer of /verify. Raises ValueError if a request is refused."""
    client = TestClient(server.setup_webserver())
    row = load_rows(here().rows)[case.row]
    calls, answer = case.calls, case.answer
    if calls == "oracle":
        calls, answer = solution_of(server.domain_class, row)
    _post(client, "/seed_session", row)
    for tool, arguments in calls:
        _post(client, f"/{tool}", arguments)
    output = [message(answer)] if answer else []
    response = as_response("fixture", [], output)
    body = {**row, **(case.model_extra or {}), "response": response}
    return _post(client, "/verify", body)


def wrong_rewards(server_class: Any, cases: list[dict[str, Any]]) -> str:
    """What the first case whose `expected_reward` is wrong earns; "" if all are right.

    Asserts that the oracle earns what its row promises, and doing nothing no more than
    that may.
    """
    rows = load_rows(here().rows)
    for case in cases:
        request = Case.model_validate(case["request"])
        reward = replay(server_class.build(), request)["reward"]
        name, expected = case["name"], case["expected_reward"]
        policy = {"oracle": "oracle", "[]": "noop"}.get(str(request.calls))
        if policy and not request.answer:
            domain_class, row = server_class.domain_class, rows[request.row]
            problem = reward_problem(domain_class, row, policy, reward)
            assert problem is None, f"{name!r} earns {reward}, {problem}"
        if reward != expected:
            return f"{name!r} earns {reward}, not {expected}"
    return ""


def _post(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {HARNESS: "1"} if path == f"/{REPLY}" else {}
    response = client.post(path, json=body, headers=headers)
    if response.status_code != 200:
        raise ValueError(f"POST {path}: {response.status_code} {response.text}")
    return response.json()
