"""The workspace of one episode: a machine of its own in the E2B cloud, offline.

Needs the package e2b-code-interpreter and a key in E2B_API_KEY. The key stays in this
process; nothing of this process's environment reaches the machine. The machine's
template decides about memory, CPU, processes and disk.

Known weaknesses:

* A policy has sudo in its machine and can end it. That looks like an outage: the
  episode counts as an infrastructure failure.
* A daemon in a session of its own runs until the machine is gone. It can reach nothing
  but that machine.
* If the server is killed by SIGKILL, the machine runs until the end of its lifetime.
"""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

from ...settings import PositiveFloat
from ..errors import WorkspaceError
from ..folder import steps
from ..report import check_size, failure, report, time_limit
from ..settings import SandboxSettings
from .checks import missing

_HOME = "/home/user/workspace"
_SCRIPTS = "/tmp"

# Time for E2B to answer, in addition to the command's time limit, in seconds.
_GRACE = 15

# Runs a script in a session of its own, ends that session, and prints "STATUS SIZE" and
# then the output, its middle left out: only that much crosses the network. ulimit
# counts KiB.
_RUNNER = """\
cd {home} || exit 1
ulimit -f {file_kib}
setsid timeout -s KILL {seconds} {command} < /dev/null > {output} 2>&1 &
wait $!
status=$?
pkill -KILL -s $!
size=$(stat -c %s {output})
echo $status $size
if [ $size -le {limit} ]; then
  cat {output}
else
  head -c {half} {output}
  printf '\\n[truncated: %d of %d bytes left out]\\n' $((size - 2 * {half})) $size
  tail -c {half} {output}
fi
exit 0
"""


class Limits(SandboxSettings):
    """Limits of one workspace, and its machine."""

    sandbox_lifetime_seconds: PositiveFloat = 3600  # E2B ends the machine after this
    sandbox_template: str | None = None  # None: the default of e2b-code-interpreter


class Workspace:
    """A virtual machine and a folder in it.

    Paths are relative to the folder. Text is UTF-8; other bytes read as U+FFFD. The
    methods raise ValueError for mistakes that a caller can fix, and WorkspaceError for
    a failure of the workspace. A workspace is for one thread.
    """

    def __init__(self) -> None:
        self._limits = Limits.read()
        if problem := missing():
            raise WorkspaceError(problem)
        try:
            import e2b_code_interpreter as sdk  # slow to import
        except ImportError as error:
            raise WorkspaceError("e2b-code-interpreter is not installed") from error
        self._sdk = sdk
        with self._remote("make a machine"):
            self._sandbox = sdk.Sandbox.create(
                template=self._limits.sandbox_template,
                timeout=int(self._limits.sandbox_lifetime_seconds),
                allow_internet_access=False,
            )
        try:
            with self._remote("make the workspace folder"):
                self._sandbox.files.make_dir(_HOME)
        except BaseException:
            self.close()
            raise

    def run_command(self, command: str) -> str:
        """Run a bash script in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit `error: ...` and the output so far.
        """
        return self._run("bash", "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with the machine's python3, isolated (-I).

        Returns what `run_command` returns.
        """
        return self._run("python3 -I -u", "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        place = _place(path)
        data = content.encode()
        check_size(path, data, self._limits.file_bytes)
        with self._remote(f"write {path!r}"):
            self._sandbox.files.write(place, data)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        data = self._read(path, self._limits.file_bytes)
        half = self._limits.sandbox_output_bytes // 2
        if len(data) <= self._limits.sandbox_output_bytes:
            return data.decode(errors="replace")
        note = f"\n[truncated: {len(data) - 2 * half} of {len(data)} bytes left out]\n"
        return (data[:half] + note.encode() + data[-half:]).decode(errors="replace")

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        return self._read(path, limit).decode(errors="replace")

    def close(self) -> None:
        """End the machine. Calling it again does nothing."""
        with suppress(Exception):  # if this fails, the machine's lifetime ends it
            self._sandbox.kill()

    def _run(self, interpreter: str, name: str, script: str) -> str:
        limits = self._limits
        path = f"{_SCRIPTS}/{name}"
        runner = _RUNNER.format(
            home=_HOME,
            file_kib=limits.file_bytes // 1024,
            seconds=limits.sandbox_seconds,
            command=f"{interpreter} {shlex.quote(path)}",
            output=f"{_SCRIPTS}/output",
            limit=limits.sandbox_output_bytes,
            half=limits.sandbox_output_bytes // 2,
        )
        data = script.encode()
        with self._remote("send a script"):
            self._sandbox.files.write(path, data)
        began = time.monotonic()
        try:
            with self._remote("run a command"):
                answer = self._sandbox.commands.run(
                    runner,
                    envs={"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                    timeout=limits.sandbox_seconds + _GRACE,
                )
        except self._sdk.CommandExitException as error:
            # The runner itself always exits with 0.
            return failure(
                f"the command ended the shell that ran it (status {error.exit_code})"
            )
        header, _, text = answer.stdout.partition("\n")
        status = int(header.split()[0])
        late = time.monotonic() - began >= limits.sandbox_seconds
        if status == 128 + signal.SIGKILL and late:
            return failure(time_limit(limits.sandbox_seconds), text)
        return report(text, status)

    def _read(self, path: str, limit: int) -> bytes:
        place = _place(path)
        with self._remote(f"read {path!r}"):
            info = self._sandbox.files.get_info(place)
        if info.type is not self._sdk.FileType.FILE:
            raise ValueError(
                f"{path!r} is not a regular file; look at it with run_command"
            )
        if info.size > limit:
            raise ValueError(
                f"{path!r} has {info.size} bytes, at most {limit} can be read; "
                "look at parts of it with run_command"
            )
        with self._remote(f"read {path!r}"):
            return bytes(self._sandbox.files.read(place, format="bytes"))

    @contextmanager
    def _remote(self, action: str) -> Generator[None]:
        """Turn errors of the SDK into ValueError for a request, else WorkspaceError."""
        sdk = self._sdk
        try:
            yield
        except sdk.CommandExitException:
            raise
        except (
            sdk.FileNotFoundException,
            sdk.InvalidArgumentException,
            sdk.NotEnoughSpaceException,
        ) as error:
            raise ValueError(f"cannot {action}: {error}") from error
        except Exception as error:
            raise WorkspaceError(f"E2B could not {action}: {error}") from error


def _place(path: str) -> str:
    """The machine's path for a relative path, which must stay below the folder."""
    return "/".join([_HOME, *steps(path)])
