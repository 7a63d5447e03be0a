"""The tests of a framework's folder, which tests/test_conformance.py there takes over."""

import subprocess
import sys

import pytest

__all__ = ["test_the_class_loads_and_earns_the_same"]


def test_the_class_loads_and_earns_the_same(request: pytest.FixtureRequest) -> None:
    """Two gates of the folder. The others take longer, and show what a user runs."""
    gates = ["gates.py", "import", "rollout", "--allow-missing"]
    done = subprocess.run(
        [sys.executable, *gates],
        cwd=request.path.parents[1],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
