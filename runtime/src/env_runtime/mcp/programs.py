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
    """Return the program of a command. The first call installs a package of npx or uvx.

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
    """Look a command's program up on this machine. Raises ProgramError."""
    try:
        words, variables = _without_env(shlex.split(command))
        if words[:3] == ["uv", "tool", "run"]:
            words = ["uvx", *words[3:]]
        name, *rest = words
    except ValueError as error:
        raise ProgramError(f"the command must be a program, got {command!r}") from error
    if name in INSTALLERS:
        words, readable = INSTALLERS[name](Asked(command, variables), rest)
    else:
        words, readable = _of_path(command, name, rest)
    given = [path for word in (*rest, *variables.values()) for path in _paths_in(word)]
    readable += [each for path in given for each in needs_of(path)]
    return Program(words, [*dict.fromkeys(readable)], variables)


def _without_env(words: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words behind `env NAME=VALUE ...`, and the variables."""
    variables: dict[str, str] = {}
    if words[:1] in (["env"], ["/usr/bin/env"]):
        words = words[1:]
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            name, _, value = words[0].partition("=")
            variables[name], words = value, words[1:]
    return words, variables


def _of_path(command: str, name: str, rest: list[str]) -> tuple[list[str], list[Path]]:
    """Return the words and the files of a program that no installer starts."""
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
        raise ProgramError(
            f"the file {name} does not exist; the command is {command!r}"
        )
    readable = needs_of(place)
    interpreter = _interpreter_of(place, command)
    if interpreter:
        readable += needs_of(Path(interpreter[0]))
    return [*interpreter, str(place), *rest], readable


def _is_relative(word: str) -> bool:
    """Whether a word is the path of a program's file, from this folder on."""
    suffixes = (".py", ".js", ".mjs", ".cjs", ".ts", ".sh")
    plain = not re.match(r"[/{-]|\w+:", word) and "=" not in word
    return plain and (word.startswith(("./", "../")) or word.endswith(suffixes))


def _paths_in(word: str) -> list[Path]:
    """Return the file or folder that a word names by its path, alone or behind `=`."""
    path = Path(
        (word.partition("=")[2] if "=" in word else word).removeprefix("file://")
    )
    return [path] if path.is_absolute() and path.exists() else []


def _interpreter_of(program: Path, command: str) -> list[str]:
    """Return the words that start a script: those of its first line, `#!`, or its language's.

    They are [] for any other program. The sandbox has another PATH, on which `env node` may
    find nothing.
    """
    with program.open("rb") as file:
        first = file.readline(500)
    if first.startswith(b"#!"):
        words = shlex.split(first[2:].decode(errors="replace"))
    else:
        words = _LANGUAGES.get(program.resolve().suffix, [])
    if words[:1] == ["/usr/bin/env"]:
        words = words[2:] if words[1:2] == ["-S"] else words[1:]
        found = shutil.which(words[0])
        if found is None:
            raise ProgramError(
                f"{words[0]} is not installed, for {program} of {command!r}"
            )
        words[0] = os.path.realpath(found) if words[0] == "node" else found
    return words


_NODE = ["/usr/bin/env", "node"]
_LANGUAGES = {".py": [sys.executable], ".js": _NODE, ".cjs": _NODE, ".mjs": _NODE}


_SECRET = re.compile(r"\{env:(\w+)\}")


def with_secrets(text: str) -> str:
    """Put this process's variables in place of `{env:NAME}` in a text.

    They are read when a server starts, and are in no file. Raises ProgramError.
    """
    missing = [name for name in _SECRET.findall(text) if not os.environ.get(name)]
    if missing:
        raise ProgramError(f"{missing[0]} is not set, which the MCP server needs")
    return _SECRET.sub(lambda found: os.environ[found[1]], text)


def with_all_secrets(texts: Mapping[str, str]) -> dict[str, str]:
    """Do the same in each value. Raises ProgramError."""
    return {name: with_secrets(text) for name, text in texts.items()}


# ------------------------------------------------------------------ what a program reads

# A package has one of these in its uppermost folder.
MARKERS = ["package.json", "pyproject.toml", "setup.py", "pyvenv.cfg", "node_modules"]

# A program in one of these has its modules beside the folder, such as in lib/.
BESIDE_MODULES = {"bin", "sbin", "libexec", "scripts", "src", "dist", "build", "out"}


def needs_of(path: Path) -> list[Path]:
    """Return the files and folders that a program, a module or a folder needs to run.

    These are its folder, or the package around it, and what is beside a folder such as bin/,
    the packages of Node.js above it, and of a virtual environment the interpreter, and the
    folders of editable packages. Links are followed. Of a folder that holds the user's home or temporary files, it is the file
    and its neighbors of the same kind only, and nothing if the folder itself is named.
    """
    found: list[Path] = []
    for place in dict.fromkeys((path, path.resolve())):
        if any(place.is_relative_to(folder) for folder in ("/usr", "/bin", "/lib")):
            continue  # every sandbox has these
        folder = place if place.is_dir() else place.parent
        above = [each for each in (folder, *folder.parents) if not _is_wide(each)]
        root = ([*filter(_is_package, above)] or above or [None])[0]
        if root and root.name in BESIDE_MODULES and not _is_wide(root.parent):
            root = root.parent
        found += [root] if root else _alone(place)
        modules = [each / "node_modules" for each in [folder, *folder.parents]]
        found += [each for each in modules if each.is_dir()]
        if root and (root / "pyvenv.cfg").is_file():
            found += _of_venv(root)
    return [*dict.fromkeys(found)]


def _is_package(folder: Path) -> bool:
    return any((folder / name).exists() for name in MARKERS)


def _is_wide(folder: Path) -> bool:
    """Whether a folder holds more than programs: a home, temporary files, or all of /opt.

    ~/.config and another user's home are such folders, unless they are a package.
    """
    home = Path.home()
    if len(folder.parts) < 3:
        return True
    if any(each.is_relative_to(folder) for each in (home, Path(tempfile.gettempdir()))):
        return True
    hidden = folder.parent == home and folder.name.startswith(".")
    others = folder.parent in (Path("/home"), Path("/Users"))
    return (hidden or others) and not _is_package(folder)


def _alone(file: Path) -> list[Path]:
    """Return a file, and the modules beside it. A folder that holds more is not shown."""
    if file.is_dir():
        return []
    packages = [each.parent for each in file.parent.glob("*/__init__.py")]
    return [file, *sorted(file.parent.glob(f"*{file.suffix or '.none'}")), *packages]


def _of_venv(folder: Path) -> list[Path]:
    """Return what a virtual environment needs outside of its folder."""
    text = (folder / "pyvenv.cfg").read_text(encoding="utf-8")
    base = re.search(r"^home *= *(.+)$", text, re.MULTILINE)
    found = [Path(base[1]).resolve().parent] if base else []
    for file in folder.glob("lib/*/site-packages/*.pth"):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        found += [
            Path(line) for line in lines if line[:1] == "/" and Path(line).is_dir()
        ]
    return [each for each in found if not _is_wide(each)]


# ------------------------------------------------------------------ npx, uvx and uv

# Options before the package or the program, with a value in the next word
VALUED = {"--from", "--index", "--package", "--prerelease", "--python", "--with"}
VALUED |= {"--directory", "--project", "--with-editable", "-p"}


class Asked(NamedTuple):
    """A command whose installer is asked, and the variables that the command sets."""

    command: str
    variables: Mapping[str, str]

    def answer(self, *words: str) -> str:
        """Return what an installer prints. Raises ProgramError if it fails."""
        name = words[0]
        program = _beside_uv(name) or shutil.which(name)
        if program is None:
            problem = f"{name} is not installed, for the command {self.command!r}"
            raise ProgramError(problem)
        given = {k: v for k, v in self.variables.items() if "{" not in v}
        try:
            done = subprocess.run(
                [program, *words[1:]],
                check=True,
                capture_output=True,
                env=os.environ | given,
                text=True,
                timeout=INSTALL_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or "").strip() or str(error)
            raise ProgramError(self.problem(said)) from error
        return done.stdout.strip()

    def problem(self, reason: str) -> str:
        """Say that the command cannot be installed, with the end of the reason."""
        return (
            f"{self.command!r} cannot be installed: {' '.join(reason.split())[-400:]}"
        )

    def options(self, words: list[str], usage: str) -> tuple[list[str], list[str]]:
        """Split words into options and the rest. Raises ProgramError without a rest."""
        count = 0
        while words[count : count + 1] and words[count].startswith("-"):
            count += 2 if words[count] in VALUED else 1
        if count >= len(words):
            raise ProgramError(f"write `{usage}`, got {self.command!r}")
        return words[:count], words[count:]


def _of_npx(asked: Asked, words: list[str]) -> tuple[list[str], list[Path]]:
    """Return the program of `npx [-y] [--package PACKAGE] NAME ARGUMENTS`."""
    options, [package, *rest] = asked.options(words, "npx -y PACKAGE ARGUMENTS")
    options = [word for word in options if word not in ("-y", "--yes")]
    own = [] if options else [f"--package={package}"]
    try:
        path = asked.answer("npx", "-y", *options, *own, "-c", "echo $PATH")
    except ProgramError as error:
        if not isinstance(error.__cause__, subprocess.CalledProcessError) or options:
            raise
        raise ProgramError(asked.problem(_why_not(asked, package))) from error
    binaries = Path(path.split(":")[0])
    file = binaries / package if options else _program_in(binaries.parent, package)
    if not file or not file.is_file():
        raise ProgramError(f"{package} has no program, for {asked.command!r}")
    file = file.resolve()
    interpreter = _interpreter_of(file, asked.command)
    folders = [binaries.parent.resolve()]
    folders += [Path(word).resolve().parent for word in interpreter[:1]]
    return [*interpreter, str(file), *rest], folders


def _program_in(modules: Path, package: str) -> Path | None:
    """Return the file that npx starts for PACKAGE@VERSION."""
    name = package[:1] + package[1:].partition("@")[0]
    about = json.loads((modules / name / "package.json").read_text("utf-8"))
    programs = about.get("bin", {})
    if isinstance(programs, dict):
        first = next(iter(programs.values()), None)
        programs = programs.get(name.rpartition("/")[2], first)
    return modules / name / programs if programs else None


def _why_not(asked: Asked, package: str) -> str:
    """Return npm's reason: npx prints nothing if a script of the package fails."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            asked.answer("npm", "install", "--prefix", folder, package)
        except ProgramError as error:
            said = str(getattr(error.__cause__, "stderr", None) or error)
            lines = [line.partition("npm error ")[2] for line in said.splitlines()]
            found = [line for line in lines if "Error: " in line] or [
                *filter(None, lines)
            ]
            return found[0] if found else said
    return "npx says no reason; npm install works"


# A server in the sandbox cannot write bytecode, and would compile its packages in each episode:
# half of the 2.4 s in which a server with Python's SDK starts.
_COMPILED = """
import compileall, sys, sysconfig
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2)
print(sys.prefix, sys.base_prefix, sep="\\n")
"""


def _of_uvx(asked: Asked, words: list[str]) -> tuple[list[str], list[Path]]:
    """Return the program of `uvx [--from PACKAGE] [--with PACKAGE] NAME ARGUMENTS`."""
    options, [name, *rest] = asked.options(words, "uvx PACKAGE ARGUMENTS")
    if not any(word.partition("=")[0] == "--from" for word in options):
        options += ["--from", name]
    said = asked.answer("uvx", *options, "python", "-c", _COMPILED)
    place, base = map(Path, said.splitlines()[-2:])
    name = re.split("[@=]", name)[0]
    return [str(place / "bin" / name), *rest], [place, base]


def _of_uv(asked: Asked, words: list[str]) -> tuple[list[str], list[Path]]:
    """Return the program of `uv run --directory FOLDER NAME ARGUMENTS`."""
    usage = "uv run --directory FOLDER PROGRAM ARGUMENTS"
    before, [verb, *words] = asked.options(words, usage)
    after, [name, *rest] = asked.options(words, usage)
    options = [*before, *after]
    texts = " ".join(options).replace("=", " ").split()
    known = [texts[n + 1] for n, word in enumerate(texts) if word in FOLDERS]
    folder = Path(known[0] if known else "/")
    if verb != "run" or "--with" in texts or not (known and folder.is_absolute()):
        raise ProgramError(
            f"write `{usage}` with an absolute path, or `uvx --from PACKAGE --with "
            f"PACKAGE NAME`, got {asked.command!r}"
        )
    rest = [str(folder / word) if _is_relative(word) else word for word in rest]
    file = folder / name
    if file.suffix == ".py" and "# /// script" in file.read_text("utf-8"):
        asked.answer("uv", "sync", "--quiet", "--script", str(file))
        python = asked.answer("uv", "python", "find", "--script", str(file))
    else:
        code = "import sys; print(sys.executable)"
        said = asked.answer("uv", *before, "run", *after, "python", "-c", code)
        python = said.splitlines()[-1]
    if file.suffix == ".py":
        words = [python, str(file)]
    else:
        words = [python if name == "python" else str(Path(python).with_name(name))]
    shown = file if file.is_file() else folder
    return [*words, *rest], [*needs_of(Path(python)), *needs_of(shown)]


FOLDERS = ("--directory", "--project")
INSTALLERS = {"npx": _of_npx, "uvx": _of_uvx, "uv": _of_uv}


def _beside_uv(name: str) -> str | None:
    """Return the uv or uvx of this process: a shim of pyenv may not find one."""
    uv = os.environ.get("UV")
    program = Path(uv).with_name(name) if uv and name in ("uv", "uvx") else None
    return str(program) if program and program.is_file() else None
