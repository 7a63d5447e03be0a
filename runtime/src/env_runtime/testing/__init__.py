"""Tests that every environment passes, and the tools for tests of its own.

nemo_gym/tests/conftest.py takes over all of it, for its fixtures: `client`, `connect`,
`rows`, `server`, `start`, `tools`, `verify`. nemo_gym/tests/test_conformance.py runs the
test classes.
"""

import pytest

# This comes before the imports: otherwise a failed `assert` shows no values.
for _name in ("attacks", "conformance"):
    pytest.register_assert_rewrite(f"{__package__}.{_name}")

from ..episode.declaration import declared
from ..episode.samples import sample_arguments
from ..episode.tasks import baseline_reward, oracle_reward
from ..episode.types import message
from ..errors import NoOracleError
from ..evaluation.observations import first_observation, shows
from ..evaluation.policies import solution_for, solve
from .attacks import TestAttacks, TestConversation
from .conformance import TestNemoGym, TestRows, verifier_fixture
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


def without_answers(domain_class: type) -> list[str]:
    """The models that are not set, if the class has no stand_in() for tests."""
    return declared(domain_class).models_without_answers
