"""The processes of NeMo Gym's command line, and all processes that they start."""

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psutil

from ..errors import RolloutError
from ..project import here
from ..settings import bypass_proxy

# Variables that NeMo Gym's processes must not see. The first three would send uv or
# Python elsewhere; with API_TOKEN the server would refuse NeMo Gym's agents.
DROPPED = ["UV_PYTHON", "VIRTUAL_ENV", "PYTHONPATH", "API_TOKEN"]
SET = {
    # Otherwise Ray joins a cluster that runs on this machine, whoever started it.
    "RAY_ADDRESS": "local",
    # Otherwise Ray detects `uv run`, uploads this folder and works in the copy.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # Keeps Ray on 127.0.0.1, off the other addresses of a shared machine.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}

ENDINGS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def results() -> Path:
    """The folder of what NeMo Gym writes."""
    return here().gym / "results"


def log_file() -> Path:
    """The file with the output of NeMo Gym's commands."""
    return results() / "gym.log"


@contextlib.contextmanager
def handling(numbers: list[signal.Signals], handler: Any) -> Generator[None]:
    """Handle signals with `handler` in the with block, or in the decorated function."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def leave(number: int, frame: Any) -> None:
    """Handle a signal: raise SystemExit, so that every with block ends."""
    sys.exit(128 + number)


@handling(ENDINGS, leave)
def run_gym(*arguments: str, **variables: str) -> None:
    """Run `gym <arguments>` to its end. Raises RolloutError if it fails.

    `variables` are set in its environment.
    """
    log_file().unlink(missing_ok=True)
    with (
        ray_folder() as variables["RAY_TMPDIR"],
        gym_process(list(arguments), **variables) as process,
    ):
        if process.wait():
            command = " ".join(arguments[:2])
            raise RolloutError(f"gym {command} failed: {last_error()}")


def ray_folder() -> Any:
    """A folder for Ray's files, away from those of other clusters on this machine.

    It is not in TMPDIR, because the paths of Ray's sockets may have only 107 bytes, on
    macOS 103.
    """
    return tempfile.TemporaryDirectory("", "ray-", "/tmp", ignore_cleanup_errors=True)


@contextlib.contextmanager
def gym_process(arguments: list[str], **variables: str) -> Generator[subprocess.Popen]:
    """`gym <arguments>`, which runs in the with block and writes to log_file().

    At the end of the block, it ends with every process that it started.
    """
    bypass_proxy()
    kept = {name: text for name, text in os.environ.items() if name not in DROPPED}
    variables |= SET
    log_file().parent.mkdir(exist_ok=True)
    with log_file().open("ab") as log:
        process = subprocess.Popen(
            [Path(sys.executable).with_name("gym"), *arguments],
            cwd=here().gym,
            env={**kept, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # A session of its own identifies all its descendants later.
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with handling(ENDINGS, signal.SIG_IGN):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            while left := _session(process.pid):
                for member in left:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        member.kill()
                process.poll()
                time.sleep(0.1)


def _session(leader: int) -> list[psutil.Process]:
    """The running processes of the session that the process `leader` began."""
    members = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(OSError):
            zombie = process.info["status"] == psutil.STATUS_ZOMBIE
            if os.getsid(process.pid) == leader and not zombie:
                members.append(process)
    return members


def last_error() -> str:
    """The last error that NeMo Gym printed, on one line."""
    lines = log_file().read_text("utf-8", "replace").split("\n")
    errors = [line for line in lines if re.search(r"\w(Error|Exception)\b", line)]
    last = (errors or [line for line in lines if line.strip()] or ["silence"])[-1]
    return f"{last.strip()[:300]} (all of it is in {log_file()})"


def free_port() -> int:
    """A free port for NeMo Gym's head server.

    It is outside the ranges from which NeMo Gym (10001 to 20000) and Ray (the same, and
    the system's own from 32768 on) choose. Raises RolloutError if no port is free.
    """
    # Not from the global generator: a class may have seeded it, and then two runs at the
    # same time would take the same port.
    for port in random.SystemRandom().sample(range(21000, 32000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RolloutError("no port from 21000 to 31999 is free")
