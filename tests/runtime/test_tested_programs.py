"""Functions that a policy wrote are tested without a process that has both."""

import pytest
from env_runtime.workspace.local import Workspace
from env_runtime.workspace.tested import passes

TASK = {
    "reference": "def helper(x):\n    return x\n\n\ndef twice(x):\n    return 2 * helper(x)\n",
    "tests": "def check(f):\n    for n in (1, 2, 40):\n        assert f(n) == helper(2 * n)\n\n\ncheck(twice)",
    "names": ["twice"],
}
SOLUTIONS = {
    "right": ("def twice(x): return x + x", True),
    "another type": ("def twice(x): return float(x * 2)", True),
    "wrong for one": ("def twice(x): return 80 if x == 40 else 2", False),
    "nothing": ("", False),
    "ends the process": ("import os; os._exit(0)", False),
    "ends it in the call": ("import os\ndef twice(x): os._exit(0)", False),
    "exits": ("raise SystemExit(0)", False),
    "raises": ("def twice(x): raise ValueError", False),
    "equal to everything": (
        """
class Same(int):
    def __eq__(self, other): return True
def twice(x): return Same(7)
""",
        False,
    ),
    "another repr": (
        """
class Code:
    def __repr__(self): return "__import__('os')._exit(0)"
def twice(x): return Code()
""",
        False,
    ),
    "looks for the tests": (
        """
import glob, sys
found = glob.glob("**", recursive=True)
names = [n for n in dir(sys.modules["__main__"]) if "test" in n or "check" in n]
def twice(x): return 2 * x if names or "task.json" in found else -1
""",
        False,
    ),
    "no end": ("while True: pass", False),
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_only_a_right_solution_passes(monkeypatch, name):
    monkeypatch.setenv("SANDBOX_SECONDS", "60" if name != "no end" else "4")
    source, good = SOLUTIONS[name]
    workspace = Workspace()
    try:
        workspace.write("solution.py", source)
        assert passes(workspace, Workspace, TASK) is good
    finally:
        workspace.close()


def test_tests_that_their_own_solution_fails_are_told(monkeypatch):
    workspace = Workspace()
    try:
        task = TASK | {"reference": "def twice(x): return x"}
        with pytest.raises(ValueError, match="the reference does not pass the tests"):
            passes(workspace, Workspace, task)
    finally:
        workspace.close()
