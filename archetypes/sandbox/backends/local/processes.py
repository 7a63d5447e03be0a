"""The processes of a command: how they start, and how they end."""

from __future__ import annotations

import functools
import os
import re
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import IO

from . import bubblewrap
from .folder import base_python, kill_all, kill_group
from .limits import Limits
from .places import UNDER_BUBBLEWRAP, unconfined

# How long to wait for the processes of a command that was killed, in seconds.
_END_SECONDS = 2


def start(
    root: Path,
    isolated: bool,
    limits: Limits,
    interpreter: Sequence[str],
    script: str,
    output: IO[bytes],
    started: int,
    info: int,
) -> subprocess.Popen:
    """Start `script`, a file in the workspace's folder of scripts.

    A byte arrives at the descriptor `started` once the sandbox is set up. Bubblewrap
    writes to `info` which process is the first in its namespace.
    """
    places = UNDER_BUBBLEWRAP if isolated else unconfined(root)
    prefix = []
    if isolated:
        program, *arguments = bubblewrap.arguments(root)
        prefix = [program, "--info-fd", str(info), *arguments]
    launcher = [base_python(), "-I", "-S", "-c", _launcher(), str(started)]
    # All of it: nothing is inherited, so no key of the server can be read from here.
    environment = {
        "PATH": f"{os.path.dirname(base_python())}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "HOME": places.home,
        "TMPDIR": places.temporary,
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        [
            *(*prefix, *launcher, limits.rlimits(processes=isolated)),
            *(*interpreter, f"{places.scripts}/{script}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd="/",
        start_new_session=True,
        pass_fds=(started, info) if isolated else (started,),
    )


@functools.cache
def _launcher() -> str:
    return resources.files(__package__).joinpath("launcher.py").read_text("utf-8")


def ended(process: subprocess.Popen, seconds: float) -> bool:
    """Whether a command ends within `seconds`."""
    if not hasattr(os, "pidfd_open"):  # macOS
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
    # Its end is seen at once, while Popen.wait() looks every 50 ms.
    watched = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and process.wait() is not None
    finally:
        os.close(watched)


def kill(process: subprocess.Popen, root: Path, isolated: bool, info: int) -> None:
    """Kill a command and everything it started, whether it has ended or not.

    `info` is the end to read of that of `start`.
    """
    if not isolated:
        kill_all(process.pid, f"HOME={unconfined(root).home}")
        process.wait()
        return
    kill_group(process.pid)
    process.wait()
    # The other processes die with the first one of their namespace, which bubblewrap
    # does not wait for. Until then they write into the workspace.
    found = re.search(rb'"child-pid": (\d+)', _written(info))
    with suppress(ProcessLookupError):
        if found:
            first = os.pidfd_open(int(found[1]))
            try:
                select.select([first], [], [], _END_SECONDS)
            finally:
                os.close(first)


def _written(pipe: int) -> bytes:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        return os.read(pipe, 1000)
    return b""
