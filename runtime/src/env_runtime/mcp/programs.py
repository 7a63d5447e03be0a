"""The program behind a command such as `npx -y NAME`: its words, and what it reads.

`npx` and `uvx` look for updates and write to their caches, which takes a second in each
episode and a network. So they are asked once in a process where they have put the
package, and episodes start its program themselves.
"""

import functools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

INSTALL_SECONDS = 300


class ProgramError(ValueError):
    """A command that cannot be run on this machine: which, and why."""


class Program(NamedTuple):
    """A command that can be started, and the files and folders that it reads."""

    words: list[str]  # the first is an absolute path
    readable: list[Path]
    variables: dict[str, str]  # of `env NAME=VALUE PROGRAM`


@functools.cache
def program_of(command: str) -> Program:
    """The program of a command. The first call installs a package of npx or uvx.

    `python` is the interpreter of this process. A program, and what the command names by
    an absolute path, is read with all that it needs: see needs_of. Raises ProgramError.

    If MCP_PROGRAMS names a file, the first process writes what it found there, and later
    ones read it. An image has such a file, so its servers start without a network.
    """
    kept = os.environ.get("MCP_PROGRAMS")
    found = json.loads(Path(kept).read_text()) if kept and Path(kept).exists() else {}
    if command in found:
        words, readable, *more = found[command]
        variables = more[0] if more else {}
        return Program(words, [Path(path) for path in readable], variables)
    program = _found(command)
    if kept:
        readable = [str(path) for path in program.readable]
        found[command] = [program.words, readable, program.variables]
        Path(kept).parent.mkdir(parents=True, exist_ok=True)
        Path(kept).write_text(json.dumps(found))
    return program


def _found(command: str) -> Program:
    """The program of a command, looked up on this machine. Raises ProgramError."""
    try:
        words, variables = _without_env(shlex.split(command))
        name, *rest = words
    except ValueError as error:
        raise ProgramError(f"the command must be a program, got {command!r}") from error
    if name in ("npx", "uvx"):
        words, readable, _ = (_of_npx if name == "npx" else _of_uvx)(command, rest)
    else:
        words, readable = _of_path(command, name, rest)
    given = [path for word in (*rest, *variables.values()) for path in _paths_in(word)]
    readable += [each for path in given for each in needs_of(path)]
    return Program(words, [*dict.fromkeys(readable)], variables)


def _without_env(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """The words behind `env NAME=VALUE ...`, and the variables."""
    variables: dict[str, str] = {}
    if words[:1] in (["env"], ["/usr/bin/env"]):
        words = words[1:]
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            name, _, value = words[0].partition("=")
            variables[name], words = value, words[1:]
    return words, variables


def _of_path(command: str, name: str, rest: list[str]) -> tuple[list[str], list[Path]]:
    """The words and the files of a program that is not a package's."""
    here, place = Path(sys.prefix), Path(name)
    relative = [word for word in (name, *rest) if _is_relative(word)]
    if relative:
        raise ProgramError(
            f"{relative[0]} must be an absolute path, because each episode has a folder of "
            f"its own, in the command {command!r}"
        )
    if name in ("python", "python3"):
        return [sys.executable, *rest], needs_of(here / "bin/python")
    if "/" not in name:
        own, found = here / "bin" / name, shutil.which(name)
        if not own.is_file() and found is None:
            raise ProgramError(f"{name} is not installed, for the command {command!r}")
        place = own if own.is_file() else Path(found or name)
    elif not place.is_file():
        raise ProgramError(f"there is no file {name}, for the command {command!r}")
    readable = needs_of(place)
    interpreter = _interpreter_of(place, command)
    if interpreter:
        readable += needs_of(Path(interpreter[0]))
    return [*interpreter, str(place), *rest], readable


def _is_relative(word: str) -> bool:
    """Whether a word is the path of a program's file, from this folder on."""
    suffixes = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh")
    plain = not word.startswith(("/", "-", "{", "http:", "https:")) and "=" not in word
    return plain and (word.startswith(("./", "../")) or word.endswith(suffixes))


def _paths_in(word: str) -> list[Path]:
    """The file or folder that a word names by an absolute path, alone or behind `=`."""
    path = Path(word.partition("=")[2] if "=" in word else word)
    return [path] if path.is_absolute() and path.exists() else []


def _interpreter_of(program: Path, command: str) -> list[str]:
    """The words of a script's first line, `#!`. [] for any other program.

    The sandbox has another PATH, on which `env node` may find nothing.
    """
    with program.open("rb") as file:
        first = file.readline(500)
    if not first.startswith(b"#!"):
        return []
    words = shlex.split(first[2:].decode(errors="replace"))
    if words[:1] == ["/usr/bin/env"]:
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
        found = shutil.which(words[0])
        if found is None:
            raise ProgramError(
                f"{words[0]} is not installed, for {program} of {command!r}"
            )
        words[0] = os.path.realpath(found) if words[0] == "node" else found
    return words


_SECRET = re.compile(r"\{env:(\w+)\}")


def with_secrets(text: str) -> str:
    """A text with this process's variables in place of `{env:NAME}`.

    They are read when a server starts, and are in no file. Raises ProgramError.
    """
    missing = [name for name in _SECRET.findall(text) if not os.environ.get(name)]
    if missing:
        raise ProgramError(f"{missing[0]} is not set, which the MCP server needs")
    return _SECRET.sub(lambda found: os.environ[found[1]], text)


def with_all_secrets(texts: Mapping[str, str]) -> dict[str, str]:
    """The same for each value. Raises ProgramError."""
    return {name: with_secrets(text) for name, text in texts.items()}


# ------------------------------------------------------------------ what a program reads

# A package has one of these in its uppermost folder.
MARKERS = ["package.json", "pyproject.toml", "setup.py", "pyvenv.cfg", "node_modules"]


def needs_of(path: Path) -> list[Path]:
    """The files and folders that a program, a module or a folder needs to run.

    These are its folder, or the package around it, the packages of Node.js above it, and
    of a virtual environment the interpreter, and the folders of editable packages. Links
    are followed. Of a folder that holds the user's home or temporary files, it is the file
    and its neighbors of the same kind only.
    """
    found: list[Path] = []
    for place in dict.fromkeys((path, path.resolve())):
        if any(place.is_relative_to(folder) for folder in ("/usr", "/bin", "/lib")):
            continue  # every sandbox has these
        folder = place if place.is_dir() else place.parent
        above = [each for each in (folder, *folder.parents) if not _is_wide(each)]
        marked = [each for each in above if any((each / m).exists() for m in MARKERS)]
        root = (marked or above or [None])[0]
        found += [root] if root else _alone(place)
        modules = [each / "node_modules" for each in [folder, *folder.parents]]
        found += [each for each in modules if each.is_dir()]
        if root and (root / "pyvenv.cfg").is_file():
            found += _of_venv(root)
    return [*dict.fromkeys(found)]


def _is_wide(folder: Path) -> bool:
    """Whether a folder holds more than programs: a home, temporary files, or all of /opt."""
    private = (Path.home(), Path(tempfile.gettempdir()))
    return len(folder.parts) < 3 or any(each.is_relative_to(folder) for each in private)


def _alone(file: Path) -> list[Path]:
    """A file, and the modules beside it."""
    packages = [each.parent for each in file.parent.glob("*/__init__.py")]
    return [file, *sorted(file.parent.glob(f"*{file.suffix or '.none'}")), *packages]


def _of_venv(folder: Path) -> list[Path]:
    """What a virtual environment needs outside of its folder."""
    text = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
    base = re.search(r"^home *= *(.+)$", text, re.MULTILINE)
    found = [Path(base[1]).resolve().parent] if base else []
    for file in folder.glob("lib/*/site-packages/*.pth"):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [
            Path(line) for line in lines if line[:1] == "/" and Path(line).is_dir()
        ]
    return [each for each in found if not _is_wide(each)]


# ------------------------------------------------------------------------ npx and uvx


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
    return Program([os.path.realpath(node), str(file), *words[1:]], folders, {})


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
    return Program([str(place / "bin" / name), *words[1:]], [place, base], {})


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
