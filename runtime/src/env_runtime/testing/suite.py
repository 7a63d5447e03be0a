"""The test classes for `from env_runtime.testing.suite import *`."""

import pytest

# This comes before the imports: otherwise a failed `assert` shows no values.
for _name in ("attacks", "conformance", "rows"):
    pytest.register_assert_rewrite(f"{__package__}.{_name}")

from .attacks import TestAttacks
from .conformance import TestNemoGym
from .rows import TestRows

__all__ = ["TestAttacks", "TestNemoGym", "TestRows"]
