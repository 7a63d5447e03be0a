"""`python COMMAND` in a project, without the second in which Python imports NeMo Gym.

A process of each worker imports NeMo Gym and the runtime once, and forks for each command.
The command has its own folder, variables, arguments, output and exit status. What a command
loads, and its functions at exit, are tested with a Python of its own.
"""

import contextlib
import multiprocessing
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["env_runtime.server", "env_runtime.gates", __name__])


def interpret(
    command: Sequence[str], folder: str, variables: dict[str, str], printed: str
) -> None:
    """Does what `python COMMAND` does in a folder, with a file for its output."""
    output = os.open(printed, os.O_WRONLY | os.O_APPEND)
    for number, stream in (1, sys.stdout), (2, sys.stderr):
        os.dup2(output, number)
        stream.reconfigure(write_through=True)  # type: ignore
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    # Without the folders of the tests
    installed = [
        path for path in sys.path if path.startswith((sys.prefix, sys.base_prefix))
    ]
    given = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = [folder, *given, *installed]
    sys.dont_write_bytecode = True
    if command[0] == "-m":
        sys.argv[:] = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = command
        runpy.run_path(str(Path(folder, command[0])), run_name="__main__")


@contextlib.contextmanager
def started(
    command: Sequence[Any], folder: Path, variables: dict[str, str]
) -> Generator[tuple[Any, Path]]:
    """The process of a command, and the file to which it prints. It ends at the end."""
    with tempfile.NamedTemporaryFile() as printed:
        words = [*map(str, command)]
        given = (words, str(folder), variables, printed.name)
        process = processes.Process(target=interpret, args=given)
        process.start()
        try:
            yield process, Path(printed.name)
        finally:
            process.terminate()
            process.join(60)
            process.close()


def run(
    command: Sequence[Any],
    folder: Path,
    variables: dict[str, str],
    *,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs `python COMMAND`, with its output in `stdout`, errors included."""
    with started(command, folder, variables) as (process, printed):
        process.join()
        status, text = process.exitcode, printed.read_text()
    if check:
        assert status == 0, f"{command} in {folder}:\n{text}"
    return subprocess.CompletedProcess([*command], status, text)


@contextlib.contextmanager
def serving(
    command: Sequence[Any], folder: Path, variables: dict[str, str]
) -> Generator[str]:
    """The URL at which `python COMMAND` serves."""
    with started(command, folder, variables) as (process, printed):
        while True:
            lives = process.is_alive()  # before what it printed last is read
            if found := re.search(r"running on (http://\S+)\s", printed.read_text()):
                break
            assert lives, f"{command} ended:\n{printed.read_text()}"
            time.sleep(0.02)
        yield found[1]
