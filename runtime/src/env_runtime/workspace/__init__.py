"""The workspace of one episode: a private folder, and the commands that work in it.

Each backend is a module here, and has the same six names:

    from env_runtime.workspace.local import Workspace

Workspace        makes a workspace: run_command, run_python, write, read, read_whole, close.
                 Paths are relative to its folder. Text is UTF-8; other bytes read as U+FFFD.
                 The methods raise ValueError for mistakes that a caller can fix, and
                 WorkspaceError. A workspace is for one thread.
WorkspaceError   the workspace has failed, which is not the policy's fault: a new one
                 does not run commands either
isolation()      what keeps commands from this machine
missing()        what this machine lacks to run an episode, or None
refusal()        why untrusted policies should not be served here, or None
prepare_tests()  prepares a project's tests, which need no account and no isolation

What all backends share is below: their error, settings, and the texts for a policy.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from ..errors import SettingError
from ..settings import PositiveFloat, PositiveInt, Settings

MIB = 1024 * 1024


class WorkspaceError(RuntimeError):
    """The workspace could not be made or has failed, which is not the policy's fault."""


def works(make: Callable[[], Any]) -> bool:
    """Whether a new workspace runs a command here now.

    Then a workspace that has run commands, and no longer does, was lost by its policy: a
    mask would spare that policy a bad grade.
    """
    try:
        workspace = make()
        try:
            workspace.run_command("true")
        finally:
            workspace.close()
    except (WorkspaceError, ValueError):
        return False
    return True


class WorkspaceSettings(Settings):
    """Settings that are read when a workspace is made."""

    @classmethod
    def read(cls, **values: Any) -> Self:
        """The settings as they are now. Raises WorkspaceError if a value is wrong.

        A SettingError is a ValueError, which a policy would read as its own mistake.
        """
        try:
            return super().read(**values)
        except SettingError as error:
            raise WorkspaceError(str(error)) from error


class SandboxSettings(WorkspaceSettings):
    """The limits that every backend has."""

    sandbox_seconds: PositiveFloat = 30  # wall time of one call
    sandbox_file_mb: PositiveFloat = 64  # MiB of a file, such as a command's output
    sandbox_output_bytes: PositiveInt = 20_000  # text of one call; the middle is cut

    @property
    def file_bytes(self) -> int:
        return int(self.sandbox_file_mb * MIB)


def report(text: str, status: int) -> str:
    """The output of a command, and its exit status unless that is 0.

    After death by a signal, `status` is negative, as with Popen, or above 128, as with
    a shell.
    """
    text = text.rstrip("\n")
    if status == 0:
        return text or "(no output)"
    code = 128 - status if status < 0 else status
    note = f"[exit status {code}]"
    with suppress(ValueError):
        note = f"[exit status {code}, {signal.Signals(code - 128).name}]"
    return f"{text}\n{note}".lstrip("\n")


def failure(reason: str, text: str = "") -> str:
    """The output of a command that did not end by itself."""
    return f"error: {reason}\n{text}".rstrip("\n")


def time_limit(seconds: float) -> str:
    """The reason for a failure at the time limit."""
    return f"killed after {seconds:g} seconds"


def check_size(path: str, data: bytes, limit: int) -> None:
    """Raise ValueError if a file is too large to be written."""
    if len(data) > limit:
        raise ValueError(
            f"content for {path!r} has {len(data)} bytes, the limit is {limit}; write "
            "less, or in several files"
        )


def refusal_text(problem: str, instead: str) -> str:
    """Why not to serve untrusted policies without a barrier, and what to do `instead`."""
    return (
        f"{problem}: commands would run as this server's user, with all files that it "
        f"can read and the network. {instead} or serve in a container. Set "
        "SANDBOX_ISOLATION=none if you trust the policies or a container is the wall"
    )
