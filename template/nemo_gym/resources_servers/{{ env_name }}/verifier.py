"""What `gym env test` of NeMo Gym 0.7 exercises: verifier_cases.jsonl, a case a line.

A case replays tool calls on a fresh session of a row of data/example.jsonl, and expects
a reward of /verify, or an error. "calls" is a list of [tool, arguments], or "oracle"
for what the class's oracle(task) says; other keys of the request replace the row's.
"""

import json
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from fastapi.testclient import TestClient
from nemo_gym.verifier_fixture import VerifierFixture
from pydantic import BaseModel, ConfigDict

from plumbing.environment import episodes
from plumbing.records import as_response

HERE = Path(__file__).resolve().parent
ROWS = HERE.parents[1] / "data" / "example.jsonl"


class Case(BaseModel):
    model_config = ConfigDict(extra="allow")

    row: int  # from 0
    calls: list[tuple[str, dict[str, Any]]] | Literal["oracle"]


def replay(server: Any, case: Any) -> dict[str, Any]:
    """The answer of /verify. Raises ValueError if it refuses the request."""
    client = TestClient(server.setup_webserver())
    with ROWS.open(encoding="utf-8") as lines:
        row = json.loads(next(islice(lines, case.row, None)))
    calls = case.calls
    if calls == "oracle":
        calls = episodes.oracle_calls(server.domain_class, row)
    _post(client, "/seed_session", row)
    for tool, arguments in calls:
        _post(client, f"/{tool}", arguments)
    response = as_response("fixture", [], [])
    return _post(
        client, "/verify", {**row, **(case.model_extra or {}), "response": response}
    )


def _post(client: TestClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=body)
    if response.status_code != 200:
        raise ValueError(f"POST {path}: {response.status_code} {response.text}")
    return response.json()


def fixture(server_class: Any) -> VerifierFixture:
    return VerifierFixture(
        server_factory=server_class.build,
        request_model=Case,
        cases_path=HERE / "verifier_cases.jsonl",
        invoke=replay,
    )
