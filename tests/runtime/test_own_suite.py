"""The tests that every project has, over the rendered game."""

from env_runtime.testing.attacks import TestAttacks
from env_runtime.testing.conformance import TestNemoGym
from env_runtime.testing.row_tests import TestRows

__all__ = ["TestAttacks", "TestNemoGym", "TestRows"]
