"""Tests that every environment passes, and the tools for tests of its own.

nemo_gym/tests/conftest.py takes over all of it, for its fixtures: `client`, `connect`,
`rows`, `server`, `start`, `tools`, `verify`. nemo_gym/tests/test_conformance.py runs the
test classes.
"""

from pathlib import Path
from typing import Any

import pytest

# This comes before the imports: otherwise a failed `assert` shows no values.
for _name in ("attacks", "conformance"):
    pytest.register_assert_rewrite(f"{__package__}.{_name}")

from ..episode.schema import sample_arguments
from ..episode.tasks import baseline_reward, oracle_reward
from ..errors import NoOracleError
from ..evaluation.policies import solution_for, solve
from ..evaluation.rows import first_observation, shows
from ..evaluation.trajectory import message
from ..models.client import without_answers
from .attacks import TestAttacks, TestConversation
from .conformance import TestNemoGym, TestRows
from .fixtures import (
    client,
    connect,
    pytest_terminal_summary,
    rows,
    server,
    start,
    tools,
    verify,
    verify_body,
)

__all__ = [
    "NoOracleError",
    "TestAttacks",
    "TestConversation",
    "TestNemoGym",
    "TestRows",
    "baseline_reward",
    "client",
    "connect",
    "first_observation",
    "message",
    "oracle_reward",
    "pytest_terminal_summary",
    "rows",
    "sample_arguments",
    "server",
    "shows",
    "solution_for",
    "solve",
    "start",
    "tools",
    "verifier_fixture",
    "verify",
    "verify_body",
    "without_answers",
]


def verifier_fixture(server_class: Any, cases: Path) -> Any:
    """NeMo Gym's VerifierFixture of a server class, with the cases of a .jsonl file.

    It needs NeMo Gym 0.7. The module `verifier` has the format of a case.
    """
    from .verifier import fixture

    return fixture(server_class, cases)
