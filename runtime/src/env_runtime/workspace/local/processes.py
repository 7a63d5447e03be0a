"""The processes of a command: how they start, and how they end."""

from __future__ import annotations

import functools
import os
import select
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import IO

from ..folder import base_python, kill_all, kill_group
from . import bubblewrap
from .limits import Limits
from .places import UNDER_BUBBLEWRAP, unconfined


def start(
    root: Path,
    isolated: bool,
    limits: Limits,
    interpreter: Sequence[str],
    script: str,
    output: IO[bytes],
    started: int,
) -> subprocess.Popen:
    """Start `script`, a file in the workspace's folder of scripts.

    A byte arrives at the descriptor `started` once the sandbox is set up.
    """
    places = UNDER_BUBBLEWRAP if isolated else unconfined(root)
    prefix = bubblewrap.arguments(root) if isolated else []
    launcher = [base_python(), "-I", "-S", "-c", _launcher(), str(started)]
    # Nothing is inherited, so a command cannot read a key of the server from here.
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
            *(*prefix, *launcher, limits.rlimits(isolated=isolated)),
            *(*interpreter, f"{places.scripts}/{script}"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=environment,
        cwd="/",
        start_new_session=True,
        pass_fds=(started,),
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
    # A pidfd reports the end immediately. Popen.wait() looks only every 50 ms.
    watched = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and process.wait() is not None
    finally:
        os.close(watched)


def kill(process: subprocess.Popen, root: Path, isolated: bool) -> None:
    """Kill a command and everything it started, whether it has ended or not."""
    if isolated:  # the processes die with their namespace
        kill_group(process.pid)
    else:
        kill_all(process.pid, f"HOME={unconfined(root).home}")
    process.wait()
