"""Generated environments, installed and run, on each release series of NeMo Gym.

A series' variants of the game borrow the packages of the one that was installed.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from nights import GAME_FIRST, OLDER_BY_NIGHT, ONE_SERIES, nightly
from projects import (
    ARCHETYPES,
    OTHER,
    PYTHONS,
    QUICK,
    ROOT,
    RUNTIME,
    UV,
    check_types,
    git,
    interpreter_for,
    run,
)

EARNED = "the oracle earns 1.0, noop and nonsense 0.0"

ALL: list = [(OTHER, "game"), nightly(OTHER, "answer")]
# README's first command installs a game and runs its gates. gymnasium is below.
ALL += [
    pytest.param(QUICK, archetype, marks=pytest.mark.slow)
    for archetype in ARCHETYPES
    if archetype not in ("vision", "mcp", "gymnasium")
]
# There, the conversation also plays in NeMo Gym's own loop: tests/test_nemo_gym.py.
ALL += [nightly(OTHER, one) for one in ("sandbox", "vision", "conversation")]
# By day, tests/runtime/test_mcp_episode.py has the gates over an MCP server.
ALL += [nightly(QUICK, one) for one in ("vision", "mcp")]

# The packages of the archetypes that the game does not have
PACKAGES = {"vision": ["pillow"]}
# The backends that no other test installs
OPTIONS = {"conversation": {"backend": "model"}}


@pytest.mark.parametrize(("series", "archetype"), ALL, indirect=["series"])
def test_gates_and_tests_are_green(generate, variant, series, archetype):
    """Each series installs the game as users do, with the newest NeMo Gym of the series.

    On the other series, the classes, which know nothing of NeMo Gym, play its contract only.
    """
    if archetype == "game":
        environment = generate(archetype=archetype)
        code = "import importlib.metadata as m; print(m.version('nemo-gym'))"
        assert environment.run("-c", code).startswith(series)
        assert EARNED in environment.green()[-1]
        return
    options, packages = OPTIONS.get(archetype, {}), PACKAGES.get(archetype, [])
    environment = variant(packages, archetype=archetype, **options)
    if series == QUICK:
        assert EARNED in environment.green()[-1]
    else:
        assert EARNED in environment.gates()[-1]["detail"]
        environment.tests("tests/test_conformance.py", "-k", "TestNemoGym")


@pytest.mark.nightly
@ONE_SERIES
def test_an_environment_of_gymnasium(generate):
    """archetypes/gymnasium/tasks.json, for a copy without tasks, is what was generated.

    The test with MiniGrid is in tests/test_packages.py.
    """
    environment = generate(archetype="gymnasium")
    assert EARNED in environment.green()[-1]
    rows = (environment.folder / "data/example.jsonl").read_text().splitlines()
    kept = (ROOT / "archetypes/gymnasium/tasks.json").read_text()
    assert json.loads(kept) == [
        {
            "prompt": row["responses_create_params"]["input"][0]["content"],
            "ground_truth": row["ground_truth"][0],
            "difficulty": row["difficulty"],
        }
        for row in map(json.loads, rows)
    ]


@pytest.mark.nightly  # by day, the commands of docs/from/dataset.md
def test_an_environment_over_a_dataset(generate, tmp_path):
    """The other graders and formats: tests/runtime/test_dataset_projects.py."""
    dataset = tmp_path / "questions.jsonl"
    records = [
        {"question": f"What is {n} squared?", "answer": f"{n} * {n}\n#### {n * n:,}"}
        for n in range(20, 120)
    ]
    dataset.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    environment = generate(archetype="answer", dataset=str(dataset))
    assert EARNED in environment.green()[-1]
    assert len((environment.folder / "make_rows.py").read_text().splitlines()) <= 40
    assert len((environment.project / "my_env.py").read_text().splitlines()) <= 40
    printed = environment.run("make_rows.py")
    assert "data/train.jsonl: 63 rows" in printed
    assert "data/validation.jsonl: 7 rows, held out of train" in printed
    for name in ("train", "validation"):
        rows = environment.folder / f"data/{name}.jsonl"
        environment.run("gates.py", "rollout", "--rows", str(rows))


@pytest.mark.nightly  # by day, tests/runtime/test_tested_programs.py
@OLDER_BY_NIGHT
def test_programs_with_tests_become_a_sandbox(generate, tmp_path):
    dataset = tmp_path / "programs.jsonl"
    records = [
        {
            "text": f"Write a function to add {n}.",
            "code": f"def add_it(x, y=0):\n    return x + y + {n}",
            "test_list": [
                f"assert add_it(1) == {n + 1}",
                f"assert add_it(2, 2) == {n + 4}",
            ],
        }
        for n in range(6)
    ]
    dataset.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    environment = generate(archetype="sandbox", dataset=str(dataset))
    assert EARNED in environment.green()[-1]


@pytest.mark.slow
def test_rollouts(generate):
    environment = generate(archetype="game")
    rows = (environment.folder / "data/example.jsonl").read_text().splitlines()
    with environment.serving() as url:
        for policy, reward in (("oracle", "1.0"), ("noop", "0.0")):
            printed = environment.run("rollout.py", "--policy", policy, ENV_URL=url)
            lines = printed.strip().splitlines()
            assert lines[-1] == f"mean reward: {reward}"
            assert printed.count(f"reward {reward}\n") == len(rows)
        printed = environment.run("gates.py", "server", "smoke", "--url", url)
        assert printed.count("PASS") == 2


@pytest.mark.nightly  # by day, .ci/run runs the quick tests on both series
def test_the_runtime_on_the_other_series(tmp_path):
    """It has its own venv: the quick tests ran on this interpreter's series."""
    python = interpreter_for(OTHER)
    assert python, f"this machine has no Python {PYTHONS[OTHER]}"
    # One process: this test is one worker's, and others run beside it.
    run(
        [
            *[UV, "run", "--python", python, "pytest", "-q", "-n", "0"],
            *["-m", "not slow and not nightly", "tests/runtime"],
        ],
        ROOT,
        UV_PROJECT_ENVIRONMENT=str(tmp_path / "venv"),
    )


def path_without(name, folder):
    """A PATH with every command of this machine but one."""
    for place in filter(None, os.environ["PATH"].split(os.pathsep)):
        for command in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / command.name
            if command.name != name and not link.is_symlink():
                link.symlink_to(command)
    return str(folder)


@pytest.mark.nightly  # by day, tests of the runtime play without isolation
@ONE_SERIES
def test_a_sandbox_is_green_without_bubblewrap(variant, tmp_path):
    environment, path = variant(archetype="sandbox"), path_without("bwrap", tmp_path)
    assert EARNED in environment.gates(PATH=path)[-1]["detail"]
    environment.tests("tests/test_environment.py", PATH=path)


@pytest.mark.slow
@ONE_SERIES
def test_the_desktop(variant):
    environment = variant(["pillow"], archetype="vision")
    test = environment.folder / "tests/test_backend.py"
    shutil.copy(ROOT / "tests/backends/vision/test_backend.py", test)
    environment.tests(test)


def add_backend_tests(environment, backend):
    """Adds the suite of every workspace, and the tests of one backend."""
    for name in ("test_contract.py", f"{backend}/test_backend.py"):
        shutil.copy(ROOT / "tests/backends" / name, environment.folder / "tests")
    return ["tests/test_contract.py", "tests/test_backend.py"]


@pytest.mark.slow
@ONE_SERIES
@pytest.mark.parametrize(
    "files", [slice(1), nightly(slice(2))], ids=["contract", "all"]
)
def test_the_workspaces_of_this_machine(variant, files):
    """By day, what holds for every workspace."""
    environment = variant(archetype="sandbox", backend="local")
    environment.tests(*add_backend_tests(environment, "local")[files])
    if bubblewrap_works():
        code = "from env_runtime.workspace.local import isolation; print(isolation())"
        assert environment.run("-c", code) == "bubblewrap\n"


def bubblewrap_works() -> bool:
    """Whether this machine can isolate anything, so that a skipped test is a defect."""
    trial = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return bool(shutil.which("bwrap")) and run(trial, ROOT, check=False).returncode == 0


@pytest.mark.nightly  # by day, the workspaces of this machine
@OLDER_BY_NIGHT
@pytest.mark.parametrize("backend", ["nemo_gym", "e2b"])
def test_sandboxes_of_nemo_gym(variant, series, backend):
    environment = variant(archetype="sandbox", backend=backend)
    data = environment.folder / "data/example.jsonl"
    one, *_, other = data.read_text().splitlines(keepends=True)[:5]
    data.write_text(one + other)  # few rows: each call is a slow process of NeMo Gym
    files = ["tests/test_environment.py", *add_backend_tests(environment, backend)]
    printed = environment.tests("-rs", *files, SANDBOX_PROVIDER="local")
    if series == "0.4":
        for options, passes in ([], False), (["--allow-missing"], True):
            gates = ["rollout", *options]
            [rollout] = environment.gates(*gates, check=False, SANDBOX_PROVIDER="local")
            assert "install nemo-gym 0.7" in rollout["detail"]
            assert rollout["passed"] == passes
        assert "install nemo-gym 0.7" in printed
    else:
        assert "skipped" not in printed


@pytest.mark.parametrize("series", ["0.7"], indirect=True)  # 0.4 lacks what 0.7 has
@pytest.mark.parametrize("archetype", GAME_FIRST)
def test_types(variant, archetype):
    environment = variant(PACKAGES.get(archetype, []), archetype=archetype)
    check_types(environment.folder, environment.python)


@pytest.mark.slow
@ONE_SERIES
def test_plain_uv_run_keeps_the_interpreter(generate):
    """`uv run` must not replace the venv that the post-generation step made."""
    environment = generate(archetype="game")
    before = (environment.folder / ".venv/pyvenv.cfg").read_text()
    printed = run([UV, "run", "python", "gates.py", "import"], environment.folder)
    assert "PASS import" in printed.stdout
    assert (environment.folder / ".venv/pyvenv.cfg").read_text() == before


@pytest.mark.slow
@ONE_SERIES
def test_the_folder_does_not_hide_the_package(generate, render):
    """Nor do two folders on the path, where editable installations put them."""
    environment = generate(archetype="game")
    code = "import nemo_gym, nemo_gym.server_utils; print(nemo_gym.__file__)"
    path = f"{environment.project}{os.pathsep}{render()}"
    for on_path in ("", path):
        command = [environment.python, "-c", code]
        above = run(command, environment.project, PYTHONPATH=on_path)
        assert "site-packages" in above.stdout
    tests = ["-m", "pytest", "-q", "nemo_gym/tests/test_environment.py"]
    run([environment.python, *tests], environment.project)


@pytest.mark.slow
@ONE_SERIES
def test_tools_of_ones_own_only(variant):
    environment = variant(
        tools='hint(); look(at: Literal["a", "b"] = "a", n: int | None = 1)'
    )
    first, *_, last = environment.gates()
    assert "not served: guess (to serve it, add app.post" in first["detail"]
    assert "oracle uses guess, which the server does not expose" in last["detail"]
    environment.tests("-k", "not test_environment")


@pytest.mark.nightly  # by day, the test above
@ONE_SERIES
def test_custom_tools_of_many_kinds_wait_to_be_written(variant):
    environment = variant(
        tools='guess\nlist(xs: list[Literal["a", "b"]] = ["a"])\ncopy(x: float = 1, keys: str = "k")\n'
        'config(y: Literal[1, "b"] | None = None, z: Literal["c"] = "c")  # "Say" \\ \'it\' {% é\n'
        "f(a: list[int], b: bool = False, c: str | None = None, title: int = 2); model_dump(json: str, model_config: int)"
    )
    unwritten = "list, copy, config, f, model_dump"
    smoke = environment.green()[2]
    assert smoke == f"6 endpoints; still to be written: {unwritten}"


@pytest.mark.slow
@ONE_SERIES
def test_the_gate_that_an_image_is_built_with(variant):
    """An image gets no rows."""
    environment = variant()
    dockerfile = (environment.folder / "Dockerfile").read_text()
    gym, serving = re.findall(r"python (gates\.py.*?) (?:&& |\\)", dockerfile)
    shutil.rmtree(environment.folder / "data")
    # A busy machine also prints that a gate runs for so many seconds.
    assert re.search("^PASS server ", environment.run(*gym.split()), re.MULTILINE)
    served = environment.run(*serving.split())
    assert re.search("^PASS smoke .*with an empty task", served, re.MULTILINE)
    environment.run("-m", "env_runtime.slim_image", "check")


MAIN_BRANCH = """
[project]
name = "nemo-gym"
version = "99.0.0"
requires-python = ">=3.13.14"
"""


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_the_main_branch_of_nemo_gym_can_be_installed(render, interpreter, tmp_path):
    """A local repository with the real one's Python requirement stands in for it."""
    repository, project = tmp_path / "Gym", tmp_path / "my_env"
    repository.mkdir()
    (repository / "pyproject.toml").write_text(MAIN_BRANCH)
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "The main branch")
    shutil.copytree(render(nemo_gym_source="git"), project)
    vendor = project / "nemo_gym/vendor"
    run([UV, "build", "--quiet", "--wheel", "--out-dir", vendor, RUNTIME], tmp_path)
    run(
        [UV, "lock", "--directory", project / "nemo_gym"],
        tmp_path,
        UV_PYTHON=interpreter,
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0=f"url.{repository}.insteadOf",
        GIT_CONFIG_VALUE_0="https://github.com/NVIDIA-NeMo/Gym",
    )
    lock = (project / "nemo_gym/uv.lock").read_text()
    assert 'name = "nemo-gym"\nversion = "99.0.0"' in lock
