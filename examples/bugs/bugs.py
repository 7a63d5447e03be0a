"""A module with a bug and its failing tests. Graded on inputs that nobody can read."""

import json
import re

from env_runtime.workspace.local import Workspace, WorkspaceError, isolation, refusal

TESTS = """
import sys, unittest
sys.dont_write_bytecode = True  # a file may change twice in a second
sys.path.insert(0, ".")
unittest.main(module=None, argv=["tests", "discover"])
"""
CALLS = """
import importlib, json, sys
sys.path.insert(0, ".")
name, calls = json.loads({question!r})
module, _, function = name.rpartition(".")
call = getattr(importlib.import_module(module), function)
print("\\n" + json.dumps([call(*arguments) for arguments in calls]))
"""
LONGEST = 100_000  # the most bytes of a module that is graded


class Bugs:
    """Repair a module until its tests pass.

    The task has `files` for the workspace, the `function` to repair as "module.name",
    its `cases` as [arguments, result], and `fixed`, the repaired module. The policy may
    run and edit the tests. Only the module is graded: it is moved to a new workspace
    and called with the arguments of `cases`. The expected results stay in this process.
    """

    def __init__(self, task: dict):
        self._function = task.get("function", "module.function")
        self._module = self._function.rpartition(".")[0] + ".py"
        self._cases = task.get("cases", [])
        self.infrastructure_failure: str | None = None
        self._workspace = Workspace()
        for path, text in task.get("files", {}).items():
            self._workspace.write(path, text)

    def run_tests(self) -> str:
        """Run all tests."""
        printed = self._use("run_python", TESTS)
        return re.sub(r"(Ran \d+ tests?) in [\d.]+s", r"\1", printed)

    def read_file(self, path: str) -> str:
        """Read a file.

        Args:
            path: Its path, such as `test_cart.py`.
        """
        return self._use("read", path)

    def write_file(self, path: str, content: str) -> str:
        """Create or replace a file.

        Args:
            path: Its path.
            content: Its whole new text.
        """
        self._use("write", path, content)
        return f"{path} is written."

    def _use(self, method: str, *arguments: str) -> str:
        """Call a method of the workspace. If that fails, the episode does not count."""
        try:
            return getattr(self._workspace, method)(*arguments)
        except WorkspaceError as error:
            self.infrastructure_failure = str(error)
            raise

    def reward(self) -> float:
        calls = [arguments for arguments, _ in self._cases]
        question = json.dumps([self._function, calls])
        elsewhere = Workspace()
        try:
            module = self._workspace.read_whole(self._module, LONGEST)
            elsewhere.write(self._module, module)
            printed = elsewhere.run_python(CALLS.format(question=question))
        except ValueError:  # the module was deleted, or is a folder now
            return 0.0
        finally:
            elsewhere.close()
        right = json.dumps([result for _, result in self._cases])
        return float(bool(calls) and printed.splitlines()[-1:] == [right])

    def close(self) -> None:
        self._workspace.close()

    @staticmethod
    def oracle(task: dict) -> list[tuple[str, dict]]:
        path = task["function"].rpartition(".")[0] + ".py"
        return [
            ("read_file", {"path": path}),
            ("write_file", {"path": path, "content": task["fixed"]}),
            ("run_tests", {}),
        ]

    @staticmethod
    def notice() -> str:
        return f"sandbox isolation: {isolation()}"

    @staticmethod
    def refuse_to_serve() -> str | None:
        return refusal()
