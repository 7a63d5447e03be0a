"""`python COMMAND` in a project, without the seconds in which Python imports NeMo Gym.

A process imports NeMo Gym and the runtime once for each worker, and forks for each command.
What a command loads, and what it does when it is killed, is tested with a Python of its own.
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
    """Does what `python COMMAND` does, with a file for its output."""
    output = os.open(printed, os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    roots = tuple({sys.prefix, sys.base_prefix})
    installed = [path for path in sys.path if path.startswith(roots)]
    given = list(filter(None, variables.get("PYTHONPATH", "").split(os.pathsep)))
    sys.dont_write_bytecode = True
    if command[0] == "-m":
        sys.path[:] = [folder, *given, *installed]
        sys.argv[:] = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.path[:] = [folder, *given, *installed]
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
        done = subprocess.CompletedProcess(
            [*command], process.exitcode, printed.read_text()
        )
    if check:
        assert done.returncode == 0, f"{command} in {folder}:\n{done.stdout}"
    return done


@contextlib.contextmanager
def serving(
    command: Sequence[Any], folder: Path, variables: dict[str, str]
) -> Generator[str]:
    """The URL at which `python COMMAND` serves."""
    with started(command, folder, variables) as (process, printed):
        while not (found := re.search(r"running on (http://\S+)\s", text(printed))):
            assert process.is_alive(), f"{command} ended:\n{text(printed)}"
            time.sleep(0.02)
        yield found[1]


def text(printed: Path) -> str:
    return printed.read_text()
