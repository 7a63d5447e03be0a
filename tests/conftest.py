"""A template repository as users have it, and environments generated from it."""

import ast
import contextlib
import fcntl
import functools
import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import IO, Any
from unittest import mock

import jinja2
import pytest
from copier import run_copy
from copier.__main__ import CopierApp
from jinja2.exceptions import FilterArgumentError
from nights import changed_since, is_called_for

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ROOT / "tests/classes"
RUNTIME = ROOT / "runtime"
ARCHETYPES = ["game", "sandbox", "vision"]
FRAMEWORKS = ["verifiers", "openenv", "ors"]


def nightly(*values: Any) -> Any:
    """A case for the nights: others say the same by day, at least in part."""
    return pytest.param(*values, marks=pytest.mark.nightly)


GAME_BY_DAY = ["game", *map(nightly, ARCHETYPES[1:])]
# The game proves the main job; the others are installed and run by the slow tests.
GAME_FIRST = [
    "game",
    *(pytest.param(one, marks=pytest.mark.slow) for one in ARCHETYPES[1:]),
]

STARTED = pytest.StashKey[float]()  # when this process did, in seconds

# Classes of generated projects, and tests that run in a project or in the venv of a framework.
collect_ignore = ["adapters", "backends", "classes"]

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


def copy_working_tree(folder: Path) -> None:
    """Copies the files that git knows, or would add, as they are now."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


compiled: dict[tuple[Any, ...], Any] = {}
compile_template = jinja2.Environment.compile


def compile_once(
    environment: jinja2.Environment,
    source: Any,
    name: str | None = None,
    *arguments: Any,
    **options: Any,
) -> Any:
    """Compiles a template, or takes what was made of equal text in another clone."""
    if "{% yield" in str(source):  # Copier reads that name from each environment
        return compile_template(environment, source, name, *arguments, **options)
    kind = (type(environment), *environment.extensions, environment.undefined)
    syntax = (environment.trim_blocks, environment.block_start_string)
    key = (kind, syntax, source, name, *options.items())
    if key not in compiled:
        made = compile_template(environment, source, name, *arguments, **options)
        compiled[key] = made
    else:  # Copier's extension forgets the yield tag of the path before
        environment.preprocess(source)
    return compiled[key]


@contextmanager
def fast_copier() -> Generator[None]:
    """Lets Copier in this process compile each of its 450 templates only once.

    That is four fifths of a render. If Jinja renames the method, remove this.
    """
    with mock.patch.object(jinja2.Environment, "compile", compile_once):
        yield


@contextmanager
def output_to(file: IO[str]) -> Generator[None]:
    """Writes to a file what this process prints, and what its children print."""
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        for number in kept:
            os.dup2(file.fileno(), number)
        with contextlib.redirect_stdout(file), contextlib.redirect_stderr(file):
            yield
    finally:
        for number, copied in kept.items():
            os.dup2(copied, number)
            os.close(copied)


def copier(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    """Runs Copier's command in this process, which takes a third of the time."""
    command = [COPIER, *map(str, arguments)]
    environment = mock.patch.dict(os.environ, clean_environment(), clear=True)
    with tempfile.TemporaryFile("w+", buffering=1) as printed:
        with (
            output_to(printed),
            environment,
            fast_copier(),
            contextlib.chdir(folder),
        ):
            try:
                _, status = CopierApp.run(command, exit=False)
            # An answer that is refused, and a copy over another environment
            except (ValueError, FilterArgumentError):
                traceback.print_exc()
                status = 1
        printed.seek(0)
        return subprocess.CompletedProcess(command, status, printed.read())


def render_project(
    template: Path,
    destination: Path,
    *,
    answers_file: Any = None,
    **answers: Any,
) -> None:
    """Renders a project in this process, without running tasks."""
    with fast_copier():
        run_copy(
            str(template),
            destination,
            data=answers,
            answers_file=answers_file,
            defaults=True,
            skip_tasks=True,
            unsafe=True,
            quiet=True,
        )


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


# The tools that server.py serves, in its order.
DEFINITIONS = """
import json, re
from my_env import MyEnv
from env_runtime.episode.tools import tools_of
tools = tools_of(MyEnv)
server = open("server.py").read()
names = re.findall(r'app\\.post\\("/(\\w+)"\\)\\(\\s*self\\.tool', server)
print(json.dumps([tools[name].definition() for name in names]))
"""


def make_taxi(project: Path) -> None:
    """Complete a rendered project of Gymnasium for Taxi, as its tasks would."""
    python_in(project, "-m", "env_runtime.gymnasium", "Taxi-v4")
    python_in(project, "make_rows.py", "--example", "--overwrite")
    python_in(project, "gates.py", "--write-tools")


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the working tree: Copier would clone a repository each time."""
    folder = tmp_path_factory.mktemp("template") / "nemo-gym-template"
    copy_working_tree(folder)
    return folder


@pytest.fixture(scope="session")
def repository(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository of the working tree, tagged v0.8.0, as users have it."""
    folder = tmp_path_factory.mktemp("repository") / "nemo-gym-template"
    shutil.copytree(template, folder)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "The template")
    git(folder, "tag", "v0.8.0")
    return folder


@pytest.fixture(scope="session")
def render(
    template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Renders a project without running tasks; equal answers give the same project."""
    projects: dict[str, Path] = {}

    def render_once(**answers: Any) -> Path:
        answers = {"env_name": "my_env", **answers}
        key = json.dumps(answers, sort_keys=True)
        if key not in projects:
            projects[key] = tmp_path_factory.mktemp("rendered") / answers["env_name"]
            render_project(template, projects[key], **answers)
        return projects[key]

    return render_once


@pytest.fixture
def definitions(render: Callable[..., Path]) -> Callable[[str], list[dict[str, Any]]]:
    """The definitions that are derived from the class of a project with these tools."""
    return lambda tools: json.loads(python_in(render(tools=tools), "-c", DEFINITIONS))


@pytest.fixture(scope="session")
def copy(
    template: Path, request: pytest.FixtureRequest
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `copier copy` with -d answers, from the folder above the destination.

    With trust, it is a process of its own, which copies from the repository.
    """

    def copy_to(
        destination: Path,
        *options: str,
        trust: bool = False,
        check: bool = True,
        **answers: Any,
    ) -> subprocess.CompletedProcess[str]:
        source = request.getfixturevalue("repository") if trust else template
        data = [f"--data={name}={value}" for name, value in answers.items()]
        how = "--trust" if trust else "--skip-tasks"
        command = ["copy", how, "--defaults", *options, *data, source, destination]
        if trust:
            return run([COPIER, *command], destination.parent, check=check)
        done = copier(destination.parent, *command)
        assert not (check and done.returncode), done.stdout
        return done

    return copy_to


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
        results = self.gates(**variables)
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


PYTHONS = {"0.7": ">=3.13.14,<3.15", "0.4": ">=3.12,<3.13"}

# The release series for the interpreter that runs the tests. Quick tests use only this.
QUICK = "0.7" if sys.version_info >= (3, 13, 14) else "0.4"
[OTHER] = PYTHONS.keys() - {QUICK}
ONE_SERIES = pytest.mark.parametrize("series", [QUICK], indirect=True)
# What the runtime's tests on the other series show, too, and other commands on it.
OLDER_BY_NIGHT = pytest.mark.parametrize(
    "series", ["0.7", nightly("0.4")], indirect=True
)


def interpreter_for(series: str) -> str | None:
    """A Python for a release series of NeMo Gym, if this machine has one."""
    if series == QUICK:
        return getattr(sys, "_base_executable", sys.executable)
    named = os.environ.get("NEWER_PYTHON") if series == "0.7" else None
    return named or find_python(PYTHONS[series])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--changed-since",
        metavar="REF",
        help="of the nightly tests, only those whose part of the code changed since a commit",
    )
    parser.addoption(
        "--nightly-seconds",
        metavar="N",
        type=float,
        default=math.inf,
        help="no nightly test begins that may end later than N seconds after the start",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[STARTED] = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("nightly"):
        seconds = time.monotonic() - item.config.stash[STARTED]
        installs = {"install", "repository"} & {*getattr(item, "fixturenames", ())}
        seconds += 280 if installs else 60  # the most that one has taken
        if seconds > item.config.getoption("--nightly-seconds"):
            pytest.skip("--nightly-seconds: the time for nightly tests is up")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """The tests on the other release series are slow. A nightly test is not slow, too."""
    if (since := config.getoption("--changed-since")) is not None:
        changed = changed_since(since)
        left_out = [
            item
            for item in items
            if item.get_closest_marker("nightly")
            and not is_called_for(item.nodeid.removeprefix("tests/"), changed)
        ]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        items.sort(key=lambda item: item.get_closest_marker("nightly") is not None)
    for item in items:
        parameters = getattr(getattr(item, "callspec", None), "params", {})
        if item.get_closest_marker("nightly"):
            item.own_markers = [one for one in item.own_markers if one.name != "slow"]
        elif parameters.get("series", QUICK) != QUICK:
            item.add_marker("slow")
        if item.get_closest_marker("slow") or item.get_closest_marker("nightly"):
            # Sockets to processes that they started end with these.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session", params=PYTHONS, ids="nemo-gym-{}".format)
def series(request: pytest.FixtureRequest) -> str:
    """A supported release series of NeMo Gym; each has a Python of its own."""
    return request.param


@pytest.fixture(scope="session")
def interpreter(series: str) -> str:
    python = interpreter_for(series)
    if python is None:
        pytest.fail(
            f"this machine has no Python {PYTHONS[series]}, which NeMo Gym {series} "
            "needs: `uv python install 3.12 3.13`, or name one in NEWER_PYTHON"
        )
    return python


@pytest.fixture(scope="session")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder that all workers of this run have."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if hasattr(request.config, "workerinput") else folder


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


@pytest.fixture(scope="session")
def install(
    repository: Path, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """Generates and installs with `uvx copier`, from a folder that is not the template.

    That is done once for all workers. Each has a copy, because tests change it.
    """

    def install_project(interpreter: str | None = None, **answers: str) -> Path:
        key = json.dumps([interpreter, answers], sort_keys=True)
        place = shared / f"installed-{hashlib.sha1(key.encode()).hexdigest()[:8]}"
        with only_once(place) as first:
            if first:
                data = [f"--data={name}={value}" for name, value in answers.items()]
                command = [*UVX, "copier", "copy", "--trust", "--defaults", *data]
                variables: Any = {"UV_PYTHON": interpreter} if interpreter else {}
                done = run([*command, repository, "my_env"], place, **variables)
                (place / "printed").write_text(done.stdout)
        project = tmp_path_factory.mktemp("elsewhere") / "my_env"
        clone_installed(place / "my_env", project)
        shutil.copy(place / "printed", project.parent)
        return project

    return install_project


@pytest.fixture(scope="session")
def generate(
    install: Callable[..., Path], interpreter: str
) -> Callable[..., Environment]:
    """An installed project of the series; equal answers give the same one."""

    @functools.cache
    def generate_environment(**answers: str) -> Environment:
        project = install(interpreter, **answers)
        return Environment(project, project / "nemo_gym/.venv/bin/python")

    return generate_environment


@pytest.fixture(scope="module")
def variant(
    render: Callable[..., Path],
    generate: Callable[..., Environment],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Environment]:
    """A project with other answers, on the venv of the series' game."""

    def of(packages: Sequence[str] = (), **answers: str) -> Environment:
        folder = tmp_path_factory.mktemp("variant") / "my_env"
        shutil.copytree(render(**answers), folder)
        environment = borrow_venv(folder, generate(archetype="game"))
        if packages:
            install = [UV, "pip", "install", "--quiet", "--python", environment.python]
            run([*install, *packages], folder)
        # Otherwise its rows have the archetype's, and those of an MCP server need it.
        if "tools" in answers or answers.get("archetype") == "mcp":
            environment.run("gates.py", "--write-tools")
        return environment

    return of


@pytest.fixture(scope="session")
def chromium() -> str:
    """Chromium's program on this machine."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CHROMIUM_PATH") or next(
        filter(None, map(shutil.which, names)), None
    )
    if found is None:
        pytest.fail(
            "this machine has no Chromium, in which the pages are tested: "
            "`apt-get install chromium`, or name one in CHROMIUM_PATH"
        )
    return found
