"""The program behind a command such as `npx -y NAME`: its words, and what it reads.

`npx` and `uvx` look for updates and write to their caches, which takes a second in each
episode and a network. So they are asked once in a process where they have put the
package, and episodes start its program themselves.
"""

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

INSTALL_SECONDS = 300


class ProgramError(ValueError):
    """A command that cannot be run on this machine: which, and why."""


class Program(NamedTuple):
    """A command that can be started, and the files and folders that it reads."""

    words: list[str]  # the first is an absolute path
    readable: list[Path]


@functools.cache
def program_of(command: str) -> Program:
    """The program of a command. The first call installs a package of npx or uvx.

    `python` is the interpreter of this process. What the command names by an absolute
    path can be read, and below a folder everything. Raises ProgramError.

    If MCP_PROGRAMS names a file, the first process writes what it found there, and later
    ones read it. An image has such a file, so its servers start without a network.
    """
    kept = os.environ.get("MCP_PROGRAMS")
    found = json.loads(Path(kept).read_text()) if kept and Path(kept).exists() else {}
    if command in found:
        words, readable = found[command]
        return Program(words, [Path(path) for path in readable])
    program = _found(command)
    if kept:
        found[command] = [program.words, [str(path) for path in program.readable]]
        Path(kept).parent.mkdir(parents=True, exist_ok=True)
        Path(kept).write_text(json.dumps(found))
    return program


def _found(command: str) -> Program:
    """The program of a command, looked up on this machine. Raises ProgramError."""
    try:
        name, *words = shlex.split(command)
    except ValueError as error:
        raise ProgramError(f"the command must be a program, got {command!r}") from error
    here, given = Path(sys.prefix), [Path(word) for word in words if word[0:1] == "/"]
    given = [path for path in given if path.exists()]
    if name == "npx":
        return _of_npx(command, words)
    if name == "uvx":
        return _of_uvx(command, words)
    if name in ("python", "python3"):
        return Program([sys.executable, *words], [here, *given])
    if (here / "bin" / name).is_file():
        return Program([str(here / "bin" / name), *words], [here, *given])
    path = shutil.which(name)
    if path is None:
        raise ProgramError(f"{name} is not installed, for the command {command!r}")
    return Program([os.path.realpath(path), *words], [Path(path).resolve(), *given])


def _of_npx(command: str, words: list[str]) -> Program:
    """The program of `npx [-y] PACKAGE ARGUMENTS`."""
    words = [*words[1:]] if words[:1] in (["-y"], ["--yes"]) else words
    if not words or words[0].startswith("-"):
        raise ProgramError(f"write `npx -y PACKAGE ARGUMENTS`, got {command!r}")
    package = f"--package={words[0]}"
    path = _ask(command, ["npx", "-y", package, "-c", "echo $PATH"])
    binaries = Path(path.split(":")[0])
    name = words[0][:1] + words[0][1:].partition("@")[0]
    about = json.loads((binaries.parent / name / "package.json").read_text("utf-8"))
    programs = about.get("bin", {})
    if isinstance(programs, dict):
        programs = programs.get(name.rpartition("/")[2]) or next(
            iter(programs.values()), None
        )
    node = shutil.which("node")
    if not programs or node is None:
        raise ProgramError(f"the package {name} has no program, for {command!r}")
    file = (binaries.parent / name / programs).resolve()
    folders = [binaries.parent.resolve(), Path(node).resolve().parent]
    return Program([os.path.realpath(node), str(file), *words[1:]], folders)


def _of_uvx(command: str, words: list[str]) -> Program:
    """The program of `uvx [--from PACKAGE] [--with PACKAGE] NAME ARGUMENTS`."""
    options: list[str] = []
    while words[:1] in (["--from"], ["--with"]):
        options, words = [*options, *words[:2]], words[2:]
    if not words or words[0].startswith("-"):
        raise ProgramError(f"write `uvx PACKAGE ARGUMENTS`, got {command!r}")
    if "--from" not in options:
        options += ["--from", words[0]]
    code = "import sys; print(sys.prefix); print(sys.base_prefix)"
    said = _ask(command, ["uvx", *options, "python", "-c", code])
    place, base = map(Path, said.splitlines()[-2:])
    name = words[0].partition("@")[0].partition("=")[0]
    return Program([str(place / "bin" / name), *words[1:]], [place, base])


def _uvx_of_uv() -> str | None:
    """The uvx beside the uv that runs this process: a shim of pyenv may not find one."""
    uvx = Path(os.environ.get("UV", "")).with_name("uvx") if os.getenv("UV") else None
    return str(uvx) if uvx and uvx.is_file() else None


def _ask(command: str, words: list[str]) -> str:
    """Return what npx or uvx prints, once it has installed the package."""
    program = _uvx_of_uv() if words[0] == "uvx" else None
    program = program or shutil.which(words[0])
    if program is None:
        raise ProgramError(f"{words[0]} is not installed, for the command {command!r}")
    try:
        done = subprocess.run(
            [program, *words[1:]],
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip()
        last = said.splitlines()[-1] if said else "no message"
        raise ProgramError(f"{command!r} cannot be installed: {last:.300}") from error
    return done.stdout.strip()
