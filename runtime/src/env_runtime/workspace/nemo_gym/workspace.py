"""The workspace of one episode: a sandbox of NeMo Gym 0.7, on the cluster of your choice.

NeMo Gym's providers (docker, apptainer, enroot, daytona, e2b, ecs_fargate, opensandbox,
openshell, local, and those of other packages) start the sandbox, and run commands in it.
Its image needs python3 and a shell. It is offline if the provider can do that.

The settings, which are environment variables, are in providers.py and settings.py.

Known weaknesses:

* `local` isolates nothing. Commands run as this server's user; memory is limited per
  process.
* Only docker, apptainer, e2b and daytona are told to be offline. Enroot has the network
  of its machine; for the others, the cluster decides. Containers share the kernel of
  their machine.
* The provider decides about disk and processes.
* A policy can end its sandbox. That looks like an outage: the episode counts as an
  infrastructure failure.
* Python in the sandbox runs the commands, and limits and cuts their output. A command
  of the same user can reach it, and then print to this server without limits, for as
  long as a call may take.
* A daemon that leaves its session and its environment runs until the sandbox is gone.
* If the server is killed by SIGKILL, the sandbox runs until the end of its lifetime.
  Apptainer, enroot and local have no lifetime.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
import shlex
import tempfile
import uuid
from contextlib import suppress
from importlib import resources
from typing import Any

from ... import workspace
from ..errors import WorkspaceError
from ..folder import base_python, steps
from ..report import check_size, failure, report, time_limit
from .loop import wait
from .providers import DEFAULT, Limits, Provider

# Time for a provider to answer, in addition to the command's time limit, and the time
# after which the answer counts as lost, in seconds.
GRACE = 15
LOST = 120

# A larger request is sent as a file: one argument is limited to 128 KiB.
_INLINE = 60_000

# Runs a script with bash, or else with sh.
_SHELL = 'if command -v bash > /dev/null; then exec bash "$0"; fi; exec sh "$0"'


class _NoAnswer(ValueError):
    """A command has stopped or ended the helper that runs it in the sandbox."""


class Workspace:
    """A sandbox of NeMo Gym and a folder in it.

    Paths are relative to the folder. Text is UTF-8; other bytes read as U+FFFD. The
    methods raise ValueError for mistakes that a caller can fix, and WorkspaceError for
    a failure of the sandbox or of its provider. A workspace is for one thread.
    """

    provider = DEFAULT  # if no setting names one

    def __init__(self) -> None:
        self._limits = Limits.read()
        provider = Provider.configured(self.provider)
        self._local = provider.name == "local"
        self._python = base_python() if self._local else "python3"
        try:
            self._sandbox = wait(_started(provider))
        except WorkspaceError:
            raise
        except Exception as error:
            raise WorkspaceError(
                f"the provider {provider.name} could not make a sandbox: {error}"
            ) from error
        try:
            try:
                answer = self._ask("make", 0, local=self._local)
            except ValueError as error:
                raise WorkspaceError(
                    f"cannot make the workspace folder: {error}; the image needs python3"
                ) from error
            self._root = answer["text"]
        except BaseException:
            self.close()
            raise

    def run_command(self, command: str) -> str:
        """Run a shell script (bash, or else sh) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit `error: ...` and the output so far. If the folder's path
        is random, it reads as ~.
        """
        return self._run(["sh", "-c", _SHELL], "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with the sandbox's python3, isolated (-I).

        With `local`, this server's base interpreter runs it. Returns what `run_command`
        returns.
        """
        return self._run([self._python, "-I", "-u"], "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        steps(path)
        check_size(path, content.encode(), self._limits.file_bytes)
        self._ask("write", 0, root=self._root, path=path, content=content)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        return self._read(path, self._limits.sandbox_output_bytes, cut=True)

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        return self._read(path, limit, cut=False)

    def close(self) -> None:
        """End the sandbox. Calling it again does nothing."""
        try:
            wait(self._sandbox.stop(), LOST)
        except Exception:
            logging.getLogger(__name__).exception(
                "the provider did not end a sandbox; it may do so at its lifetime"
            )

    def _read(self, path: str, limit: int, cut: bool) -> str:
        steps(path)
        request = {"root": self._root, "path": path, "limit": limit, "cut": cut}
        return self._ask("read", limit, **request)["text"]

    def _run(self, command: list[str], name: str, script: str) -> str:
        limits = self._limits
        try:
            answer = self._ask(
                "run",
                limits.sandbox_output_bytes,
                root=self._root,
                local=self._local,
                command=command,
                script=script,
                name=name,
                seconds=limits.sandbox_seconds,
                file_bytes=limits.file_bytes,
                # Other providers limit the memory of the sandbox themselves.
                memory_bytes=limits.memory_bytes if self._local else 0,
                output_bytes=limits.sandbox_output_bytes,
            )
        except _NoAnswer as error:
            return failure(str(error))
        if answer.get("killed"):
            return failure(time_limit(limits.sandbox_seconds), answer["text"])
        status = answer.get("status")  # a command can forge it
        return report(answer["text"], status if isinstance(status, int) else 0)

    def _ask(self, action: str, size: int, **request: Any) -> dict[str, Any]:
        """The answer of the helper in the sandbox; `text` is a string.

        The text has about `size` bytes. A much longer answer is not the helper's.
        """
        message = json.dumps({"action": action, **request}).encode()
        argument = base64.b64encode(message).decode()
        if len(argument) > _INLINE:
            argument = self._upload(argument)
        command = (
            f"{shlex.quote(self._python)} -I -c {shlex.quote(program())} {argument}"
        )
        done = self._exec(command, self._limits.sandbox_seconds + GRACE)
        # A character of a command can take 6 bytes of JSON.
        if done.error_type is None and len(done.stdout or "") < 6 * size + 10_000:
            answer = _answer(done.stdout or "")
            if isinstance(answer.get("error"), str):
                raise ValueError(answer["error"])
            if isinstance(answer.get("text"), str):
                return answer
        # The command may have stopped or ended the helper, or the provider has failed.
        detail = (done.stderr or "").strip()[-500:] or "no message"
        if done.error_type not in (None, "timeout") or not self._alive():
            kind = done.error_type or f"status {done.return_code}"
            raise WorkspaceError(f"the sandbox has failed ({kind}): {detail}")
        if done.error_type == "timeout":
            raise _NoAnswer(time_limit(self._limits.sandbox_seconds))
        raise _NoAnswer(
            f"the command ended what ran it (status {done.return_code}): {detail}"
        )

    def _exec(self, command: str, seconds: float) -> Any:
        """Run a command in the sandbox as NeMo Gym does."""
        from nemo_gym.sandbox import SandboxExecResult  # slow to import

        try:
            running = self._sandbox.exec(command, timeout_s=seconds)
            return wait(running, seconds + LOST)
        except TimeoutError as error:
            return SandboxExecResult(None, str(error), 124, "timeout")
        except Exception as error:
            raise WorkspaceError(f"the provider has failed: {error}") from error

    def _alive(self) -> bool:
        """Whether the sandbox still runs commands."""
        with suppress(WorkspaceError):
            done = self._exec("true", GRACE)
            return done.error_type is None and done.return_code == 0
        return False

    def _upload(self, text: str) -> str:
        """Put a long request into the sandbox. Returns the argument that names it."""
        # A random name, at which no command can have put a link.
        place = f"{self._root}/{uuid.uuid4().hex}"
        with tempfile.NamedTemporaryFile("w", prefix="sandbox-") as file:
            file.write(text)
            file.flush()
            # The file is uploaded by root, and read by the image's user.
            os.chmod(file.name, 0o644)
            try:
                wait(self._sandbox.upload(file.name, place), LOST)
            except Exception as error:
                raise WorkspaceError(f"cannot upload a file: {error}") from error
        return f"@{place}"


@functools.cache
def program() -> str:
    """The text of the helper, with the functions that it uses."""
    files = [
        resources.files(workspace).joinpath("folder.py"),
        resources.files(__package__).joinpath("helper.py"),
    ]
    return "\n".join(file.read_text("utf-8") for file in files)


async def _started(provider: Provider) -> Any:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec  # slow to import

    spec = SandboxSpec(**provider.spec)
    sandbox = AsyncSandbox(provider.make(), spec)
    try:
        return await sandbox.start()
    except BaseException:
        await sandbox.stop()  # releases what the provider itself holds
        raise


def _answer(printed: str) -> dict[str, Any]:
    """The helper's answer, which is the last line; {} if a command has spoiled it."""
    try:
        answer = json.loads(printed.rstrip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
