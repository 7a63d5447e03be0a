"""examples/packages: every command of its README, as it is written."""

import os
import re
import shlex
import shutil
import subprocess

import pytest

from conftest import (
    ONE_SERIES,
    ROOT,
    UV,
    borrow_venv,
    clean_environment,
    render_project,
    run,
)

README = (ROOT / "examples/packages/README.md").read_text()
COMMANDS = re.findall(r"```sh\n(.*?)\n```", README)
NAMES = [re.search(r"directory \.\./(\w+)", command)[1] for command in COMMANDS]
EARNED = {
    "mastermind": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "puzzles": "6 rows: the oracle earns 1.0, noop and nonsense at most what each row",
    "desk": "5 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "lake": "20 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "arena": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "retail": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "rooms": "3 rows: the oracle earns what each row says, noop and nonsense 0.0",
}


@pytest.mark.nightly
def test_games_in_messages_under_nemo_gym(template, generate, tmp_path):
    """A class over a package, with NeMo Gym's own servers, agent and collector."""
    project, source = tmp_path / "arena", ROOT / "examples/packages"
    (project / "nemo_gym/data").mkdir(parents=True)
    shutil.copy(source / "arena.py", project)
    shutil.copy(source / "arena.jsonl", project / "nemo_gym/data/example.jsonl")
    render_project(template, project, archetype="conversation", tools="")
    lender = generate(archetype="game")
    environment = borrow_venv(project, lender)
    own, lent = environment.python.parent, lender.python.parent
    (own / "gym").write_text((lent / "gym").read_text().replace(str(lent), str(own)))
    (own / "gym").chmod(0o755)
    # What NeMo Gym has pinned stays as it is.
    frozen = run([UV, "pip", "freeze", "--python", lender.python], project).stdout
    pins = [line for line in frozen.splitlines() if "==" in line]
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    install = [UV, "pip", "install", "--quiet", "--python", environment.python]
    run([*install, "--constraint", tmp_path / "pins.txt", "textarena"], project)
    printed = environment.run("gates.py", "rollout", "--under-gym")
    assert "6 rows under NeMo Gym: the oracle earns 1.0, noop 0.0" in printed


def test_there_is_a_command_for_each_class():
    classes = {path.stem for path in (ROOT / "examples/packages").glob("*.py")}
    assert set(NAMES) == {*classes, "lake"} == set(EARNED)


@pytest.mark.parametrize("name", ["textarena", "reasoning-gym"])
def test_the_page_shows_lines_of_the_class(name):
    page = (ROOT / f"docs/from/{name}.md").read_text()
    _, block = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    [module] = re.findall(r"packages/(\w+\.py)", page)
    lines = (ROOT / "examples/packages" / module).read_text().splitlines()
    assert [line for line in block.splitlines() if line not in lines] == []


@ONE_SERIES
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(0, marks=pytest.mark.slow),
        *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, len(COMMANDS))),
    ],
    ids=NAMES,
)
def test_its_gates_are_green(repository, interpreter, tmp_path, number):
    name, command = NAMES[number], COMMANDS[number]
    command = command.replace("../", f"{tmp_path}/")
    command = command.replace("uvx", f"{shlex.quote(UV)} tool run")
    command = command.replace("uv run", f"{shlex.quote(UV)} run")
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=repository,
        env=clean_environment(UV_PYTHON=interpreter, PWD=os.fspath(repository)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert EARNED[name] in done.stdout
    if name != "lake":
        module = (tmp_path / name / f"{name}.py").read_bytes()
        assert module == (ROOT / f"examples/packages/{name}.py").read_bytes()
