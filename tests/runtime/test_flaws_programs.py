"""Tests that wrong programs pass, or that a policy replaces."""

import contextlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from env_runtime.errors import GateError

PROGRAM = """def total_{n}(numbers):
    \"\"\"The sum of the numbers up to {n}.\"\"\"
    found = []
    for one in numbers:
        if one <= {n}:
            found.append(one)
    return sum(found)
"""


def rows(count: int = 4) -> list[dict[str, Any]]:
    return [
        {
            "responses_create_params": {"input": f"Sum the numbers up to {n}."},
            "ground_truth": [{"n": n}],
        }
        for n in range(3, 3 + count)
    ]


class Written:
    """A program as an answer. Its tests look at each branch."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.n = task["n"]

    def reward(self, answer: str) -> float:
        space: dict[str, Any] = {}
        try:
            exec(answer, space)  # noqa: S102
            return float(self.passes(space[f"total_{self.n}"]))
        except Exception:  # noqa: BLE001
            return 0.0

    def passes(self, total: Any) -> bool:
        n = self.n
        return total([1, n, n + 1]) == n + 1 and total([n + 2]) == 0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return PROGRAM.format(n=task["n"])


class OnlyRuns(Written):
    def passes(self, total: Any) -> bool:
        return total([1, 2]) is not None


class NoEdge(Written):
    def passes(self, total: Any) -> bool:
        return total([1, self.n + 2]) == 1


class Folder:
    """The policy writes files."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.n = task["n"]
        self._folder = tempfile.TemporaryDirectory()
        self.root = Path(self._folder.name)

    def write_file(self, path: str, content: str) -> str:
        """Write a file."""
        (self.root / path).write_text(content)
        return "written"

    def reward(self) -> float:
        space: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            exec((self.root / "solution.py").read_text(), space)  # noqa: S102
            return float(
                space[f"total_{self.n}"]([1, self.n, self.n + 1]) == self.n + 1
            )
        return 0.0

    def close(self) -> None:
        self._folder.cleanup()

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        program = PROGRAM.format(n=task["n"])
        return [("write_file", {"path": "solution.py", "content": program})]


class RunsThere(Folder):
    """pytest runs in the policy's own folder."""

    def reward(self) -> float:
        n = self.n
        test = f"from solution import total_{n} as total\ndef test(): assert total([1, {n}, {n + 1}]) == {n + 1}\n"
        (self.root / "test_it.py").write_text(test)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, check=False)
        return float(done.returncode == 0)


def test_a_wrong_program_that_passes_is_found(look):
    with pytest.raises(
        GateError, match=r"row \d of .*: `return 0` passes its tests"
    ) as error:
        look(OnlyRuns, rows())
    assert "see `mutant` in docs/grading.md" in str(error.value)


def test_a_case_that_the_tests_lack_is_named(look):
    note = look(NoEdge, rows())
    assert re.search(
        r"\nwrong programs that the tests pass: row \d: one more, or less, `one <= 3`",
        note,
    )


@pytest.mark.parametrize("kind", [Written, Folder])
def test_tests_that_look_at_everything_are_left_alone(look, kind):
    note = look(kind, rows())
    assert re.match(r"looked for .*mutant", note)
    assert "wrong programs" not in note
    assert (", planted" in note) == (kind is Folder)


def test_a_file_that_the_tests_read_is_found(look):
    flaw = "planted"
    others = [
        "mutant",
        "again",
        "owned",
        "echo",
        "crowd",
        "form",
        "fragment",
        "constant",
    ]
    others += ["outside", "twice", "shared", "candidates", "reader", "early"]
    with pytest.raises(
        GateError, match=r"wrong program with conftest\.py beside it"
    ) as error:
        look(RunsThere, rows(1), others)
    assert f"see `{flaw}` in docs/grading.md" in str(error.value)
