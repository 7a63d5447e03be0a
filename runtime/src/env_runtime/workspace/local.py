"""The workspace of one episode: a private folder, and the processes that work in it.

With bubblewrap (`bwrap`, Linux) a command sees the system read-only, no network, no
process but its own, and can write only its folder and its own /tmp. It is never root:
if the server is, commands run as nobody. If bubblewrap cannot be used, commands run as
the user of this process: they start in their folder with a clean environment and limits,
but nothing keeps them from the network or from any file that this user can read, the
expected answers included. Use that only for trusted policies and for development.

The settings, which are environment variables, are Limits and IsolationSettings in the
modules disk and bubblewrap, and SandboxSettings of the package.

Known weaknesses, beside those that docs/sandbox.md and kernel-limits.md tell of:

* A full disk counts as an infrastructure failure, unless the workspace is above its
  quota.
* Without bubblewrap, the number of processes is not limited: the kernel would count
  every process of the user, this server and the other episodes included. A fork bomb
  ends at the time limit.
* Without bubblewrap, a command can escape its process group. On Linux, a process that
  stays in its session or keeps its environment is still found and killed. On macOS,
  only the group is killed.
* A server that is killed, or that exits while a command runs, leaves processes, which
  die with it under bubblewrap, and at their CPU limit otherwise.
"""

from __future__ import annotations

import functools
import os
import select
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from . import (
    WorkspaceError,
    bubblewrap,
    check_size,
    disk,
    failure,
    folder,
    report,
    time_limit,
    works,
)
from .bubblewrap import isolated, isolation, refusal
from .disk import Limits, give, make_folders

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "prepare_tests"]
__all__ += ["refusal"]

# The pause between two measurements of the workspace while a command runs, in seconds.
LOOK_SECONDS = 0.25
# Above this many times the quota, nothing more can run. Below it, a command may still
# delete files.
_FAR_ABOVE = 4

# How long `close` waits for the folder to be removed, in seconds.
CLOSE_SECONDS = 1


def missing() -> str | None:
    """Return None: every machine can run an episode, if need be without isolation."""
    return None


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Prepare nothing: tests may run without isolation, or use bubblewrap if it works.

    `monkeypatch` is pytest's, and `folder` is empty.
    """


@contextmanager
def _machine(action: str) -> Generator[None]:
    """Turn an OSError, such as for a full disk, into a WorkspaceError."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(f"cannot {action}: {error}") from error


class Workspace:
    """A private folder and what runs in it."""

    def __init__(self) -> None:
        self._limits = Limits.read()
        self._isolated = isolated()
        # How full the workspace was when it was last measured; 1.0 is the quota.
        self._fill = 0.0
        self._has_run = False  # whether a command has run
        with _machine("make a workspace folder"):
            self._root = disk.new_folder()
            self._home = f"{self._root}/home"
            self._places = disk.places(self._root, self._isolated)
            try:
                make_folders(self._root, self._isolated)
            except OSError:
                self.close()
                raise

    def run_command(self, command: str) -> str:
        """Run a shell script (bash, or else sh) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit or above the quota `error: ...` and the output so far.
        No process that it started is left running. Without bubblewrap, ~ replaces the
        folder's random path in the output: the same commands print the same text.
        """
        return self._run([_shell()], "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with this server's base interpreter.

        The interpreter is isolated (-I). Returns what `run_command` returns.
        """
        return self._run([folder.base_python(), "-I", "-u"], "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        data = content.encode()
        check_size(path, data, self._limits.file_bytes)
        if self._measure(1) + len(data) / self._limits.disk_bytes > 1:
            raise ValueError(
                f"cannot write {path!r}: the workspace would have more than "
                f"{self._limits.quota}; delete some"
            )
        descriptor = self._open(path, os.O_WRONLY | os.O_CREAT)
        with self._touched(f"write {path!r}"):
            folder.replace(descriptor, data)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        descriptor = self._open(path, os.O_RDONLY)
        with self._touched(f"read {path!r}"), open(descriptor, "rb"):
            return folder.clipped(descriptor, self._limits.sandbox_output_bytes)

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        descriptor = self._open(path, os.O_RDONLY)
        with self._touched(f"read {path!r}"):
            return folder.whole(descriptor, path, limit)

    def close(self) -> None:
        """Remove the folder; a large folder in the background. Can be called again."""
        removal = disk.remove([self._root])
        try:
            removal.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            threading.Thread(target=removal.wait, daemon=True).start()

    def _run(self, interpreter: list[str], name: str, script: str) -> str:
        with self._touched("enter the workspace folder"):
            folder.unlock(self._home)
        if self._fill > _FAR_ABOVE:
            raise ValueError(
                f"the workspace has more than {_FAR_ABOVE} times {self._limits.quota}; "
                "nothing more can run"
            )
        # The script is in a file, because one argument is limited to 128 KiB and has no
        # line numbers.
        try:
            with self._touched("write the script"):
                file = disk.new_script(self._root, name)
                give(file, self._isolated)
                with open(file, "wb") as stream:
                    stream.write(script.encode())
            with self._touched("run a command"):
                return self._execute(interpreter, name)
        except WorkspaceError as error:
            full = getattr(error.__cause__, "errno", None) in folder.FULL_DISK
            if full and self._fill > 1:  # it may be this workspace that fills the disk
                raise ValueError(
                    f"{error}; the workspace has more than {self._limits.quota}"
                ) from error
            raise

    def _execute(self, interpreter: list[str], name: str) -> str:
        # The output goes to a file. Unlike a pipe, it cannot be kept open by a process
        # that got away, needs no thread to drain it, has the file size limit, and can
        # be read from its end.
        with self._touched("make a file for the output"):
            output = tempfile.TemporaryFile(dir=self._root)  # noqa: SIM115
        with output:
            give(output.fileno(), self._isolated)  # for commands that open /dev/stdout
            reading, writing = os.pipe()
            try:
                try:
                    process = self._start(interpreter, name, output, writing)
                finally:
                    os.close(writing)
                try:
                    reason = self._wait(process, output.fileno())
                finally:
                    self._kill(process)
                started = b""
                os.set_blocking(reading, False)
                # Bubblewrap may not have closed its end yet.
                with suppress(BlockingIOError):
                    started = os.read(reading, 1)
            finally:
                os.close(reading)
            text = self._text(output.fileno(), name)
        if not started:
            raise WorkspaceError(
                f"the sandbox did not start: {text.strip() or 'no message'}"
            )
        self._has_run = True
        self._fill = self._measure(_FAR_ABOVE)
        if reason:
            return failure(reason, text)
        answer = report(text, process.returncode)
        if self._fill > 1:
            return failure(self._full(), answer)
        return answer

    def _start(
        self, interpreter: list[str], script: str, output: IO[bytes], started: int
    ) -> subprocess.Popen:
        """Start `script`, a file in the workspace's folder of scripts.

        A byte arrives at the descriptor `started` once the sandbox is set up.
        """
        limits = self._limits.rlimits(isolated=self._isolated)
        words = bubblewrap.launching(self._root, self._isolated, started, limits)
        return subprocess.Popen(
            [*words, *interpreter, f"{self._places.scripts}/{script}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=folder.variables(self._places.home, self._places.temporary),
            cwd="/",
            start_new_session=True,
            pass_fds=(started,),
        )

    def _kill(self, process: subprocess.Popen) -> None:
        """Kill a command and everything it started, whether it has ended or not."""
        if self._isolated:  # the processes die with their namespace
            folder.kill_group(process.pid)
        else:
            folder.kill_all(process.pid, f"HOME={self._home}")
        process.wait()

    @contextmanager
    def _touched(self, action: str) -> Generator[None]:
        """Report a failure of the workspace: an OSError or a WorkspaceError.

        Before the first command, it is the machine's. Later, a command may have caused
        it, which must not mask the episode: without bubblewrap, it can lock, move and
        replace all folders, and kill the next command before that has started. With
        bubblewrap it cannot, as far as is known, so it is the machine's if a new
        workspace does not work either.
        """
        try:
            with _machine(action):
                yield
        except WorkspaceError as error:
            code = getattr(error.__cause__, "errno", None)
            machine = code in folder.MACHINE_ERRORS
            if not self._has_run or machine:
                raise
            if self._isolated and not works(type(self)):
                raise
            raise ValueError(
                f"{error}; an earlier command may have changed the workspace's own folders"
            ) from error

    def _full(self) -> str:
        return f"the workspace has more than {self._limits.quota}; delete some"

    def _text(self, output: int, name: str) -> str:
        """A command's output, without the random path of the workspace."""
        paths = []
        if not self._isolated:
            script = f"{self._places.scripts}/{name}"
            paths = folder.shown_paths(str(self._root), script)
        return folder.clipped(output, self._limits.sandbox_output_bytes, paths)

    def _wait(self, process: subprocess.Popen, output: int) -> str | None:
        """Wait for a command to end. Returns why it must be killed, or None."""
        seconds = self._limits.sandbox_seconds
        deadline = time.monotonic() + seconds
        # A full workspace can be cleaned up.
        allowed = max(1.0, 1.1 * self._fill)
        pause = LOOK_SECONDS
        while True:
            left = deadline - time.monotonic()
            if _ended(process, max(0.0, min(pause, left))):
                return None
            if left <= pause:
                return time_limit(seconds)
            began = time.monotonic()
            deleted = disk.deleted_bytes(process.pid, output) / self._limits.disk_bytes
            if self._measure(allowed) + deleted > allowed:
                return f"killed: {self._full()}"
            # Many large workspaces must not keep this process busy.
            pause = max(LOOK_SECONDS, 4 * (time.monotonic() - began))

    def _measure(self, enough: float) -> float:
        with self._touched("measure the workspace"):
            return disk.measure(self._root, self._limits, enough)

    def _open(self, path: str, flags: int) -> int:
        """The descriptor of a regular file in the folder."""
        with self._touched(f"open {path!r}"):
            return folder.open_file(
                self._home, path, flags, lambda file: give(file, self._isolated)
            )


def _ended(process: subprocess.Popen, seconds: float) -> bool:
    """Whether a command ends within `seconds`."""
    if not hasattr(os, "pidfd_open"):  # macOS
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
    # A pidfd reports the end immediately. Popen.wait() looks only every 50 ms.
    watched = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and process.wait() is not None
    finally:
        os.close(watched)


@functools.cache
def _shell() -> str:
    """The path of bash, or else of sh."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"
