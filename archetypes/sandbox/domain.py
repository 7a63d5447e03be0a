"""A coding task, worked on with a shell, Python and files, answered by a submission.

A task is a dict (the row's ground_truth[0]), every key optional:

files            {path: content}, put into the workspace before the first tool call
expected_output  the text to submit; without it no episode of the task can be solved
expected_files   {path: content} the workspace has to hold as well
solution         [[tool, arguments], ...], the calls before the submission, for `oracle`

Only the files ever reach the workspace. Where it runs, and its limits:
workspace_backend.py.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from workspace_backend import Workspace, WorkspaceError, isolation, missing

# White space that may surround the content of an expected file, in bytes.
_PADDING = 4096


class DomainClass:
    """One episode: a lazily made workspace, the tools on it and the last submission.

    The tools return text for the policy. They raise ValueError for a call that cannot
    be done as asked, RuntimeError after `close`, and WorkspaceError when the workspace
    itself has failed. One tool call at a time; `close` may come from another thread
    meanwhile.
    """

    def __init__(self, task: dict) -> None:
        self.submitted: str | None = None
        self.infrastructure_failure: str | None = None
        self._task = task
        self._workspace: Workspace | None = None
        self._closed = False
        self._lock = threading.Lock()

    @contextmanager
    def _opened(self) -> Iterator[Workspace]:
        """The workspace, made on first use; a failure of it is kept for the grader."""
        try:
            yield self._open()
        except WorkspaceError as error:
            self.infrastructure_failure = str(error)
            raise

    def _open(self) -> Workspace:
        with self._lock:
            self._refuse_closed()
            # The state is lost with the workspace: a fresh one would not be the same
            # episode.
            if self.infrastructure_failure is not None:
                raise WorkspaceError(self.infrastructure_failure)
            if self._workspace is None:
                workspace = Workspace()
                try:
                    for path, content in (self._task.get("files") or {}).items():
                        workspace.write(path, content)
                except BaseException as error:
                    workspace.close()
                    if isinstance(error, ValueError):
                        raise WorkspaceError(
                            f"the task has an unusable file: {error}"
                        ) from error
                    raise
                self._workspace = workspace
            return self._workspace

    def _refuse_closed(self) -> None:
        if self._closed:
            raise RuntimeError("this episode is closed; reset to start a new one")

    def _holds(self, path: str, expected: str) -> bool:
        """Whether the workspace holds this text, apart from white space around it."""
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

    def run_command(self, command: str) -> str:
        """Run shell commands; returns stdout and stderr, and the exit status unless it
        is 0.
        """
        with self._opened() as workspace:
            return workspace.run_command(command)

    def run_python(self, code: str) -> str:
        """Run a program in a new Python interpreter; returns what `run_command`
        returns.
        """
        with self._opened() as workspace:
            return workspace.run_python(code)

    def write_file(self, path: str, content: str) -> str:
        """Create or replace a text file, with the folders it needs."""
        with self._opened() as workspace:
            workspace.write(path, content)
            return f"wrote {len(content)} characters to {path}"

    def read_file(self, path: str) -> str:
        """The text of a file; the middle of a long one is left out."""
        with self._opened() as workspace:
            return workspace.read(path)

    def submit(self, answer: str) -> str:
        """Record the answer. The last submission counts; whether it is right is not
        told.
        """
        self._refuse_closed()
        if not isinstance(answer, str):
            raise TypeError(
                f"answer must be a string, got {type(answer).__name__}; quote it"
            )
        self.submitted = answer
        return "answer recorded (a later submission replaces it)"

    def solved(self) -> bool:
        """Whether the submission and the expected files are right; ask before `close`.

        Never raises: whatever a policy left in place of an expected file is not that
        file. A workspace lost while it is looked at gives False and sets
        `infrastructure_failure`.
        """
        expected = self._task.get("expected_output")
        if expected is None or self.submitted is None:
            return False
        if self.submitted.strip() != str(expected).strip():
            return False
        files = self._task.get("expected_files") or {}
        return all(self._holds(path, content) for path, content in files.items())

    def close(self) -> None:
        """Kill what runs and remove the workspace. May be called at any time, and
        again.
        """
        with self._lock:
            self._closed = True
            workspace, self._workspace = self._workspace, None
        if workspace is not None:
            workspace.close()

    @staticmethod
    def missing_requirement() -> str | None:
        """What this machine lacks to run an episode."""
        return missing()

    @staticmethod
    def notice() -> str:
        """What whoever starts the server has to know."""
        return f"sandbox isolation: {isolation()}"

    @staticmethod
    def oracle(task: dict) -> list[tuple[str, dict]]:
        """Tool calls ``(name, arguments)`` that solve the task: its solution, then the
        answer.
        """
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
