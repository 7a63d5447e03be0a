"""The tests that every project has, over the rendered game."""

from typing import Any

import pytest
from env_runtime import project
from env_runtime.testing.attacks import TestAttacks
from env_runtime.testing.conformance import TestNemoGym, TestRows, newer_only

from .support import rows_file

__all__ = ["TestAttacks", "TestNemoGym", "TestRows"]


@newer_only
@pytest.mark.parametrize("earned", [1.0, 0.909])
def test_the_verifier_fixture_of_honest_rewards(
    rows, tools, monkeypatch, tmp_path, earned
):
    """Noop does not earn the lowest reward, and the oracle may not earn the highest.

    What they earn is known, whatever verifier_cases.jsonl says.
    """
    domain_class: Any = project.here().load_class()
    grade = domain_class.reward
    monkeypatch.setattr(domain_class, "reward_range", (-1.0, 1.0), raising=False)
    monkeypatch.setattr(domain_class, "reward", lambda self: earned * grade(self))
    row = {**rows[0], "oracle_reward": earned}
    monkeypatch.setattr(project.Project, "rows", rows_file(tmp_path, row))
    fixture_test = TestNemoGym().test_the_verifier_fixture_passes
    try:
        fixture_test([row], tools, tmp_path)
    except pytest.skip.Exception as skipped:
        pytest.fail(f"skipped: {skipped}")
    monkeypatch.setattr(domain_class, "reward", lambda self: 0.5)
    with pytest.raises(AssertionError, match=f"earns 0.5, not {earned}"):
        fixture_test([row], tools, tmp_path)
