"""Servers that run for a gate, on a port that the system chooses."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

from ..errors import GateError
from ..project import here

START_SECONDS = 120

# The gates play the user's own code, so the server need not refuse to serve it. Models
# that are not set are played by the class's stand_in().
TRUSTED = {"TRUSTED_POLICY": "1", "STAND_IN": "1"}


@contextlib.contextmanager
def starting_server(
    command: list[str] | None = None, folder: Path | None = None, **variables: str
) -> Generator[subprocess.Popen[str], None, None]:
    """A server that starts in the with block, and ends with it.

    `command` runs in `folder`, by default nemo_gym/server.py. `variables` are set in
    its environment.
    """
    process = subprocess.Popen(
        command or [sys.executable, str(here().gym / "server.py")],
        cwd=folder or here().gym,
        env={**os.environ, **TRUSTED, "HOST": "127.0.0.1", "PORT": "0", **variables},
        stdin=subprocess.DEVNULL,  # an input() in the class must not wait for a terminal
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def url_of(process: subprocess.Popen[str]) -> str:
    """The URL of a server, as soon as it prints `running on URL`.

    Raises GateError, with what the server printed, if it ends or is silent for two
    minutes.
    """
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    printed = []
    url = None
    for line in process.stdout:
        printed.append(line)
        if match := re.search(r"running on (http://\S+)", line):
            url = match[1]
            break
    watchdog.cancel()
    # Read on, so that the server never waits for a full pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    if url is None:
        raise GateError("the server did not start:\n" + "".join(printed[-20:]))
    return url
