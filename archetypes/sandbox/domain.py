"""A coding task in a workspace with a shell, Python and files, with no framework.

A task is a dict (the row's ground_truth[0]), every key optional:

files            {path: content}, put into the workspace before the first tool call
expected_output  the text to submit; without it or tests no episode can be solved
expected_files   {path: content} that the workspace must hold as well
solution         [[tool, arguments], ...], the calls before the submission, for `oracle`
tests            a program that calls functions of solution.py, after the episode, with
                 `names`, the functions, and `reference`, a right solution.py

Only the files ever reach the workspace. The package env_runtime.workspace has the places
where it can run, and their limits.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from env_runtime.workspace.local import (
    Workspace,
    WorkspaceError,
    isolation,
    missing,
    refusal,
)
from env_runtime.workspace.tested import passes

# White space that may surround the content of an expected file, in bytes.
_PADDING = 4096

# The longest path to write to. A path makes folders, which the quota sees only later.
_MAX_PATH = 1000


class DomainClass:
    """One episode: a workspace, the tools on it, and the last submission.

    The first call that needs the workspace makes it. The tools raise ValueError for a
    call that cannot be done as asked. They raise WorkspaceError if the workspace itself
    fails: then `infrastructure_failure` has the reason, later calls fail, and the
    episode does not count.
    """

    # The server therefore needs an API_TOKEN if other machines can reach it.
    runs_commands = True

    def __init__(self, task: dict[str, Any]) -> None:
        self.submitted: str | None = None
        self.infrastructure_failure: str | None = None
        self._task = task
        self._workspace: Workspace | None = None
        self._closed = False

    def run_command(self, command: str) -> str:
        """Run a bash script in the working directory.

        Returns stdout and stderr, and the exit status if it is not 0. Files persist
        between calls; shell variables and background processes do not. No network.
        Scripts that take too long are killed, and the middle of long output is left out.

        Args:
            command: Shell commands, one or more lines.
        """
        with self._opened() as workspace:
            return workspace.run_command(command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the working directory, in a new interpreter.

        Print what you want to see, and save in files what you need later. Only the
        standard library is certain to be there. To import a module from the working
        directory, first run sys.path.insert(0, '.').

        Args:
            code: Source code of the program.

        Returns:
            What `run_command` returns.
        """
        with self._opened() as workspace:
            return workspace.run_python(code)

    def write_file(self, path: str, content: str) -> str:
        """Create or replace a text file, together with the folders it needs.

        Args:
            path: Path relative to the working directory, without '..'.
            content: The whole new content of the file.
        """
        if len(path) > _MAX_PATH:
            raise ValueError(f"the path is over {_MAX_PATH} characters; shorten it")
        with self._opened() as workspace:
            workspace.write(path, content)
            return f"wrote {len(content)} characters to {path}"

    def read_file(self, path: str) -> str:
        """Return the text of a file.

        The middle of a long file is left out.

        Args:
            path: Path relative to the working directory, without '..'.
        """
        with self._opened() as workspace:
            return workspace.read(path)

    def submit(self, answer: str) -> str:
        """Submit the final answer, in exactly the form the task asks for.

        Only the last submission counts. The reply does not tell whether the answer is
        right.

        Args:
            answer: The answer and nothing else.
        """
        self._refuse_closed()
        self.submitted = answer
        return "answer recorded (a later submission replaces it)"

    def reward(self) -> float:
        """1.0 if the last submission and the expected files are right, else 0.0.

        With tests, 1.0 if solution.py passes them. A link or a folder in place of an expected file is wrong. If the workspace is
        lost during the check, `infrastructure_failure` is set.
        """
        if self._task.get("tests"):
            with self._opened() as workspace:
                return float(passes(workspace, Workspace, self._task))
        expected = self._task.get("expected_output")
        if expected is None or self.submitted is None:
            return 0.0
        if self.submitted.strip() != str(expected).strip():
            return 0.0
        files = self._task.get("expected_files") or {}
        return float(all(self._holds(path, text) for path, text in files.items()))

    def close(self) -> None:
        """Remove the workspace. Calling it again does nothing."""
        self._closed = True
        workspace, self._workspace = self._workspace, None
        if workspace is not None:
            workspace.close()

    @contextmanager
    def _opened(self) -> Generator[Workspace]:
        """The workspace, made on first use. Its failure is kept for the grader."""
        self._refuse_closed()
        # The workspace's content is lost: a new workspace would be another episode.
        if self.infrastructure_failure is not None:
            raise WorkspaceError(self.infrastructure_failure)
        try:
            if self._workspace is None:
                self._workspace = Workspace()
                self._put_files(self._workspace)
            yield self._workspace
        except WorkspaceError as error:
            self.infrastructure_failure = str(error)
            raise

    def _put_files(self, workspace: Workspace) -> None:
        try:
            for path, content in (self._task.get("files") or {}).items():
                workspace.write(path, content)
        except ValueError as error:
            raise WorkspaceError(f"the task has an unusable file: {error}") from error

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this episode is closed")

    def _holds(self, path: str, expected: str) -> bool:
        """Whether a file has this text, apart from white space around it."""
        if self._workspace is None:
            return False
        try:
            found = self._workspace.read_whole(path, len(expected.encode()) + _PADDING)
        except WorkspaceError as error:
            self.infrastructure_failure = str(error)
            return False
        except ValueError:
            return False
        return found.strip() == expected.strip()

    @staticmethod
    def missing_requirement() -> str | None:
        """Return the reason why this machine cannot run an episode, or None."""
        return missing()

    @staticmethod
    def notice() -> str:
        """A warning for the person who starts the server."""
        return f"sandbox isolation: {isolation()}"

    @staticmethod
    def refuse_to_serve() -> str | None:
        """Why not to serve untrusted policies on this machine, or None."""
        return refusal()

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The calls that solve `task`: its solution, then the answer."""
        if task.get("tests"):
            content = task["reference"]
            return [("write_file", {"path": "solution.py", "content": content})]
        steps = task.get("solution")
        if steps is None:
            files = task.get("expected_files") or {}
            steps = [
                ("write_file", {"path": path, "content": text})
                for path, text in files.items()
            ]
        answer = str(task.get("expected_output", ""))
        return [(name, dict(arguments)) for name, arguments in steps] + [
            ("submit", {"answer": answer})
        ]
