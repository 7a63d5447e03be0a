"""Generated projects, the commands that make them, and those that they have."""

import ast
import contextlib
import fcntl
import functools
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
VERSION: str = tomllib.loads((ROOT / "runtime/pyproject.toml").read_text())["project"][
    "version"
]
WHEEL = f"nemo_gym_env_runtime-{VERSION}-py3-none-any.whl"
CLASSES = ROOT / "tests/classes"
RUNTIME = ROOT / "runtime"
FACTS = json.loads((RUNTIME / "src/env_runtime/facts.json").read_text())
ARCHETYPES = list(FACTS["archetypes"])
# Those whose files are whole without a step after generation, and whose tools are the class's
WHOLE = ["game", "sandbox", "vision"]
FRAMEWORKS = list(FACTS["frameworks"])

# If a machine sets this, each process spends three seconds compiling NeMo Gym.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Copier's own command, as users have it: no checkout on sys.path.
COPIER = str(Path(sys.executable).with_name("copier"))
UV = os.environ.get("UV") or shutil.which("uv") or "uv"  # `uv run` sets UV
UVX = [UV, "tool", "run"]

GIT = {
    "GIT_AUTHOR_NAME": "Test",
    "GIT_AUTHOR_EMAIL": "test@example.com",
    "GIT_COMMITTER_NAME": "Test",
    "GIT_COMMITTER_EMAIL": "test@example.com",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **GIT},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment of a user's shell, without the variables of `uv run pytest`."""
    hidden = ("VIRTUAL_ENV", "PYTHONPATH", "UV_PYTHON", "UV_RUN_RECURSION_DEPTH")
    hidden += ("UV_PROJECT_ENVIRONMENT", "PYTEST_ADDOPTS")
    hidden += ("UV_INTERNAL__PARENT_INTERPRETER",)  # set by `python3 -m uv`
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    return {**kept, **variables}


def run(
    command: list[Any], folder: Path, *, check: bool = True, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command with its output in `stdout`, errors included."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=clean_environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if check:
        assert done.returncode == 0, f"{command} in {folder}:\n{done.stdout}"
    return done


def import_path(project: Path) -> str:
    """A PYTHONPATH on which a rendered project needs no installation of its own."""
    places = [RUNTIME / "src", project / "nemo_gym", project]
    return os.pathsep.join(map(str, places))


def python_in(project: Path, *command: str | Path, **variables: Any) -> str:
    """The output of `python COMMAND` in nemo_gym/ of a project without a venv."""
    variables = {"PYTHONPATH": import_path(project), **variables}
    return run(
        [sys.executable, "-B", *command], project / "nemo_gym", **variables
    ).stdout


def make_taxi(project: Path) -> None:
    """Complete a rendered project of Gymnasium for Taxi, as its tasks would."""
    python_in(project, "-m", "env_runtime.gymnasium", "Taxi-v4")
    python_in(project, "make_rows.py", "--example", "--overwrite")
    python_in(project, "gates.py", "--write-tools")


@functools.cache
def find_python(wanted: str) -> str | None:
    """An interpreter on this machine, even if pyenv's shims hide it from uv."""
    sys.path.insert(0, str(ROOT / "extensions"))
    import post_generate

    for version, path in sorted(post_generate.pyenv_pythons().items(), reverse=True):
        if post_generate.satisfies(version, wanted):
            return path
    found = run(
        [UV, "python", "find", "--no-project", "--no-python-downloads", wanted],
        Path("/"),
        check=False,
    )
    return found.stdout.strip() if found.returncode == 0 else None


@contextmanager
def running(
    command: Sequence[Any],
    folder: Path,
    *,
    until: str = r"running on (http://\S+)",
    interrupt: bool = False,
    **variables: str,
) -> Generator[tuple[str, subprocess.Popen[str]]]:
    """What `until` finds in a command's output, and its process, which ends at the end.

    It ends with SIGTERM. With interrupt, it has a group of its own, which gets SIGINT.
    """
    if (
        interrupt
    ):  # a pytest in the background ignores Ctrl-C, and so would its children
        signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [str(part) for part in command],
        cwd=folder,
        env=clean_environment(PYTHONUNBUFFERED="1", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=interrupt,
    )
    # It reads on, so that the process never waits for a full pipe.
    reader = threading.Thread(target=process.stdout.read, daemon=True)
    printed = []
    try:
        for line in process.stdout:
            printed.append(line)
            if found := re.search(until, line):
                reader.start()
                yield found[found.re.groups], process
                return
        pytest.fail(f"{command} ended:\n{''.join(printed)}")
    finally:
        if interrupt:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        else:
            process.terminate()
        process.wait(60)
        if reader.is_alive():
            reader.join(60)  # to the end of its last child
        process.stdout.close()


def borrow_venv(project: Path, other: "Environment") -> "Environment":
    """Gives a project a venv with another's packages, except the project's own."""
    venv = project / "nemo_gym/.venv"
    run([UV, "venv", "--quiet", "--python", other.python, venv], Path("/"))
    [installed] = other.folder.glob(".venv/lib/python*/site-packages")
    [own] = venv.glob("lib/python*/site-packages")
    places = [installed, project / "nemo_gym", project, RUNTIME / "src"]
    (own / "borrowed.pth").write_text("".join(f"{place}\n" for place in places))
    return Environment(project, venv / "bin/python")


def lint(folder: Path, *options: str) -> None:
    """Check the style of a folder's modules, as its own settings have it."""
    run(["ruff", "check", "--no-cache", *options, "."], folder)
    run(["ruff", "format", "--no-cache", "--check", "."], folder)


def load_module(path: Path, name: str) -> ModuleType:
    """Import a file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def imports_of(path: Path) -> set[str]:
    """The modules that a file imports, also out of packages. Relative ones do not count."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules |= {str(node.module)}
            if node.module == "env_runtime":
                modules |= {f"env_runtime.{alias.name}" for alias in node.names}
    return modules


def check_types(folder: Path, python: Path, *others: Path) -> None:
    """Check the types of a project's folder, and of other files, with its venv."""
    options = ["--error-on-warning", f"--extra-search-path={RUNTIME / 'src'}"]
    ty = Path(sys.executable).with_name("ty")
    run([ty, "check", "--python", python, *options, ".", *others], folder)


@contextmanager
def printing(
    environment: "Environment", code: str, *arguments: str | Path
) -> Generator[str]:
    """The first line that code prints in a project. At the end its input ends."""
    process = subprocess.Popen(
        [environment.python, "-c", code, *arguments],
        cwd=environment.folder,
        env=clean_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        line = process.stdout.readline().strip()
        assert line, "the code ended without a line"
        yield line
        process.stdin.close()


GATES = ["import", "server", "smoke", "rollout"]
ANY_PORT: dict[str, Any] = {"HOST": "127.0.0.1", "PORT": "0", "TRUSTED_POLICY": "1"}


@dataclass
class Environment:
    """A generated and installed project."""

    project: Path
    python: Path

    @property
    def folder(self) -> Path:
        return self.project / "nemo_gym"

    def run(self, *command: str | Path, check: bool = True, **variables: str) -> str:
        """The output of `python COMMAND` in the project's nemo_gym folder."""
        return run(
            [self.python, *command], self.folder, check=check, **variables
        ).stdout

    def gates(
        self, *options: str, check: bool = True, **variables: str
    ) -> list[dict[str, Any]]:
        command = ["gates.py", "--json", *options]
        return json.loads(self.run(*command, check=check, **variables))

    @contextmanager
    def serving(self) -> Generator[str]:
        """The URL of `python server.py` on a free port."""
        command = [self.python, "server.py"]
        with running(command, self.folder, **ANY_PORT) as (url, _):
            yield url

    def green(self, **variables: Any) -> list[str]:
        """Check that all gates and tests pass. Returns what the gates say."""
        results = self.gates("--quick", **variables)
        assert [result["gate"] for result in results] == GATES
        assert all(result["passed"] for result in results), results
        self.tests(**variables)
        return [result["detail"] for result in results]

    def tests(self, *options: str | Path, **variables: Any) -> str:
        """The output of pytest in the project. All tests pass, and there are some."""
        command = ["-m", "pytest", "-q", "--no-header", *options]
        printed = self.run(*command, **variables)
        assert re.search(r"\d+ passed", printed), printed
        assert not re.search(r"\d+ (failed|error|xfailed)", printed), printed
        return printed


OLDEST, NEWEST = FACTS["series"]
PYTHONS = {NEWEST: f">={FACTS['series'][NEWEST]},<3.15", OLDEST: ">=3.12,<3.13"}
# The release series for the interpreter that runs the tests. Quick tests use only this.
QUICK = NEWEST if sys.version_info >= (3, 13, 14) else OLDEST
[OTHER] = PYTHONS.keys() - {QUICK}


def interpreter_for(series: str) -> str | None:
    """A Python for a release series of NeMo Gym, if this machine has one."""
    if series == QUICK:
        return getattr(sys, "_base_executable", sys.executable)
    named = os.environ.get("NEWER_PYTHON") if series == NEWEST else None
    return named or find_python(PYTHONS[series])


@contextmanager
def only_once(folder: Path) -> Generator[bool]:
    """Whether this is the first worker to fill a folder; the others wait for it."""
    folder.mkdir(exist_ok=True)
    done = folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield not done.exists()
        done.touch()


def clone_installed(project: Path, destination: Path) -> None:
    """Copies a project with its venvs: hard links, and the destination's path."""
    old, new = os.fsencode(project), os.fsencode(destination)

    def copy_file(source: str, target: str) -> None:
        packages, name = "site-packages" in source, Path(source).name
        if not packages or name.endswith(".pth") or name == "direct_url.json":
            content = Path(source).read_bytes()
            if old in content and b"\0" not in content:  # no bytecode
                Path(target).write_bytes(content.replace(old, new))
                shutil.copymode(source, target)
                return
        if ".venv" in source:
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(project, destination, symlinks=True, copy_function=copy_file)
