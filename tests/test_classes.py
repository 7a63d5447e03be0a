"""Tests of projects over a user's own classes, in tests/classes/."""

import json
import re
import shutil
import sys
import tomllib

import pytest

from nights import OLDER_BY_NIGHT
from projects import CLASSES, COPIER, FRAMEWORKS, UVX, borrow_venv, git, run
from rendering import copier, render_project

EXAMPLE = re.compile(
    r"wordle|guess|crane|five-letter|bubblewrap|workspace_|desktop_",
    re.IGNORECASE,
)


# The runtime's own tests have other kinds of methods, tasks and grades.
@pytest.mark.slow
@OLDER_BY_NIGHT
def test_gates_and_tests_are_green(copy, generate, tmp_path):
    """The generated tests play 20 sessions at once."""
    project = tmp_path / "inventory"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project)
    copy(project, domain_class="Inventory", tools="look_up, receive")
    environment = borrow_venv(project, generate(archetype="game"))
    source = (CLASSES / "inventory.py").read_bytes()
    assert (project / "inventory.py").read_bytes() == source
    environment.run("gates.py", "import", "--write-tools")
    rows = environment.folder / "data/example.jsonl"
    [skeleton] = json.loads(rows.read_text())["ground_truth"]
    shutil.copy(CLASSES / "inventory.jsonl", rows)
    environment.run("gates.py", "--write-tools")
    written = [json.loads(line) for line in rows.read_text().splitlines()]
    assert set(skeleton) == set(written[0]["ground_truth"][0])
    rollout = environment.green()[-1]
    assert rollout.startswith(f"{len(written)} rows: the oracle earns")
    for path in (environment.folder / "results").glob("*"):
        pytest.fail(f"{path} was left behind")


def test_a_folder_below_a_repository_gets_no_workflow(template, tmp_path):
    """GitHub reads those of the root only."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").touch()
    render_project(template, tmp_path / "envs/my_env", env_name="my_env")
    assert not (tmp_path / "envs/my_env/.github").exists()
    (tmp_path / "other/.git").mkdir(parents=True)
    (tmp_path / "other/.git/HEAD").touch()
    render_project(template, tmp_path / "other", env_name="my_env")
    assert (tmp_path / "other/.github/workflows/ci.yml").is_file()


def test_pytest_in_the_repository_around_it_leaves_the_tests_out(render, tmp_path):
    """It has another environment, in which they could not be imported."""
    project = tmp_path / "my_env"
    shutil.copytree(render(), project)
    (project / "test_mine.py").write_text("def test_mine(): ...\n")
    code = "import sys; sys.modules['env_runtime'] = None; import pytest; pytest.main()"
    done = run([sys.executable, "-B", "-c", code], project)
    assert "1 passed" in done.stdout
    assert "error" not in done.stdout


def test_pytest_without_nemo_gym_leaves_the_tests_out(render, tmp_path):
    """In this mode, pytest also imports the folders above a conftest.py."""
    project = tmp_path / "my_env"
    shutil.copytree(render(siblings=FRAMEWORKS), project)
    (project / "test_mine.py").write_text("def test_mine(): ...\n")
    done = run([*UVX, "pytest", "--import-mode=importlib"], project)
    assert "1 passed" in done.stdout
    assert "error" not in done.stdout


def test_a_repository_keeps_its_own_files(copy, tmp_path):
    """The template's version of such a file goes into nemo_gym/."""
    project = tmp_path / "shop"
    own = [".gitignore", ".dockerignore", ".github/workflows/ci.yml", "README.md"]
    own += ["pyproject.toml", "AGENTS.md"]
    for name in own:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(f"mine: {name}\n")
    shutil.copy(CLASSES / "inventory.py", project)
    answers = {"domain_module": "inventory", "domain_class": "Inventory"}
    assert "conflict" not in copy(project, tools="look_up", **answers).stdout
    for name in own:
        assert (project / name).read_text() == f"mine: {name}\n"
    ignored = (project / "nemo_gym/.gitignore").read_text().splitlines()
    assert {".venv/", "/results/"} <= set(ignored)
    image = (project / "nemo_gym/Dockerfile.dockerignore").read_text().splitlines()
    assert {"**/.env*", "nemo_gym/**/*.jsonl"} <= set(image)
    copy(project, "--overwrite", tools="look_up; receive", **answers)
    for name in own:
        assert (project / name).read_text() == f"mine: {name}\n"


@pytest.mark.parametrize("archetype", ["game", "sandbox"])
def test_nothing_speaks_of_the_archetypes_example(copy, tmp_path, archetype):
    project = tmp_path / "inventory"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project)
    copy(
        project,
        domain_class="Inventory",
        tools="look_up",
        archetype=archetype,
        max_turns=9,
    )
    for path in project.rglob("*"):
        if path.is_file() and path.name != ".copier-answers.yml":
            found = EXAMPLE.search(path.read_text())
            assert not found, f"{path.relative_to(project)}: {found}"
    lines = {
        "nemo_gym/configs/inventory.yaml": "domain: other",
        "nemo_gym/environments/inventory/manifest.yaml": "domain: other",
        "nemo_gym/configs/inventory_train.yaml": "license: TBD",
        "nemo_gym/pyproject.toml": "max_turns = 9",
        "nemo_gym/configs/inventory_eval.toml": "max_turns = 9",
        "nemo_gym/configs/inventory_agent.yaml": "max_steps: 9",
        "nemo_gym/README.md": "after 9 answers",
    }
    for name, text in lines.items():
        assert text in (project / name).read_text()
    tree = {path.name for path in project.iterdir()}
    assert tree == {
        *(".copier-answers.yml", ".dockerignore", ".github", ".gitignore"),
        *("inventory.py", "nemo_gym"),
    }


PACKAGE = {
    "domain_module": "warehouse",
    "domain_class": "Warehouse",
    "tools": "survey, send",
}


@pytest.fixture(scope="module")
def packaged(copy, tmp_path_factory):
    """A project over a class in a package."""
    project = tmp_path_factory.mktemp("own") / "my_env"
    shutil.copytree(CLASSES / "warehouse", project / "warehouse")
    copy(project, siblings="[verifiers, openenv, ors]", **PACKAGE)
    return project


def test_a_class_in_a_package_is_wrapped(packaged):
    own = [packaged / "warehouse", CLASSES / "warehouse"]
    assert run(["diff", "--recursive", *own], packaged).stdout == ""
    assert "wrapped: true" in (packaged / ".copier-answers.yml").read_text()
    assert "task_skeleton" in (packaged / "nemo_gym/make_rows.py").read_text()
    readmes = [packaged / "nemo_gym/AGENTS.md", *packaged.glob("*/README.md")]
    assert len(readmes) == 5
    assert all("../warehouse/" in path.read_text() for path in readmes)
    for path in packaged.rglob("*"):
        assert path.name != "warehouse.py"
        if path.is_file() and path.name != ".copier-answers.yml":
            found = re.search(r"warehouse\.py|wordle", path.read_text(), re.IGNORECASE)
            assert not found, f"{path.relative_to(packaged)}: {found}"


def test_a_folder_that_is_no_package_is_not_the_class(copy, tmp_path):
    project = tmp_path / "my_env"
    (project / "warehouse").mkdir(parents=True)
    (project / "warehouse/notes.txt").write_text("mine\n")
    copy(project, domain_module="warehouse", domain_class="Warehouse")
    assert "wrapped: false" in (project / ".copier-answers.yml").read_text()
    assert "class Warehouse" in (project / "warehouse.py").read_text()
    assert (project / "warehouse/notes.txt").read_text() == "mine\n"


INIT, ENV = "warehouse/__init__.py", "warehouse/env.py"
# A gate, a change of a file, and what the gate then says
COMPLAINTS = [
    (
        *("import", INIT, "from .env import Warehouse", "Other = 1"),
        "warehouse/__init__.py has no class Warehouse: write the class there",
    ),
    (
        *("import", ENV, "from .core", "from nowhere"),
        "ModuleNotFoundError in warehouse/env.py, line 3: No module",
    ),
    ("import", ENV, "count: int", "count", "warehouse/env.py, line 1"),
    (
        *("smoke", ENV, 'return "sent"', "return {}[1]"),
        "raised KeyError (warehouse/env.py, line 18)",
    ),
    (
        *("import", "nemo_gym/server.py", "Warehouse.send", "Warehouse.sell"),
        'add its line: app.post("/send")(self.tool(Warehouse.send))',
    ),
]


@pytest.mark.nightly  # by day, test_gates_and_tests_are_green over other classes
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_gates_over_a_class_in_a_package(packaged, generate, tmp_path):
    """The messages name its files with the package."""
    project = tmp_path / "my_env"
    shutil.copytree(packaged, project)
    environment = borrow_venv(project, generate(archetype="game"))
    environment.run("gates.py", "--write-tools")
    assert environment.green()[0] == "warehouse.env.Warehouse has survey, send"

    for gate, name, old, new, complaint in COMPLAINTS:
        path = project / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        [result] = environment.gates(gate, check=False)
        path.write_text(text)
        assert not result["passed"]
        assert complaint in result["detail"]
    # Exceptions of the package are expected, wherever in it they are defined.
    code = (
        "from warehouse import Warehouse; from env_runtime.episode import episode; "
        "from env_runtime.episode.tools import tools_of; "
        "call = episode.Episode(Warehouse).call(tools_of(Warehouse)['send'], {'count': 99}); "
        "print(episode.run_without_loop(call).output)"
    )
    assert environment.run("-c", code).strip() == "error: only 10 are left"


@pytest.mark.nightly  # by day, the commands of README.md and docs/start.md
@OLDER_BY_NIGHT
def test_with_the_tasks_on(repository, interpreter, tmp_path):
    """One command, as a user types it: the step after generation fills in the rows."""
    project = tmp_path / "shop"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project)
    answers = ["domain_module=inventory", "domain_class=Inventory"]
    answers += ["tools=look_up(item: str); receive(item: str, count: int = 1)"]
    data = [f"--data={answer}" for answer in answers]
    command = [*UVX, "copier", "copy", "--trust", "--defaults", *data]
    command += [repository, "shop"]
    printed = run(command, tmp_path, UV_PYTHON=interpreter).stdout
    assert "inventory.Inventory has look_up, receive" in printed
    row = json.loads((project / "nemo_gym/data/example.jsonl").read_text())
    assert row["ground_truth"] == [{"item": "bolt", "wanted": 5}]
    tools = row["responses_create_params"]["tools"]
    assert [tool["description"] for tool in tools] == [
        "Look up how many of an item are in stock.",
        "Put items into stock.",
    ]

    command[command.index(data[2])] = "--data=tools=look_up(item: int)"
    done = run([*command, "--overwrite"], tmp_path, check=False, UV_PYTHON=interpreter)
    assert done.returncode != 0
    assert "Inventory.look_up takes (item: str), but the answer to" in done.stdout


# ---------------------------------------------------------------------- src layouts

WALK = {"domain_module": "mazes.walk", "domain_class": "Walk", "tools": "step"}
MAZES = CLASSES / "mazes"


@pytest.fixture
def mazes(tmp_path):
    """A repository with a package in src/."""
    project = tmp_path / "labyrinth"
    shutil.copytree(MAZES, project)
    return project


def files_of(folder):
    """The content of each file, by its path."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def test_a_class_in_src_is_wrapped(copy, mazes):
    copy(mazes, siblings="[verifiers, ors]", **WALK)
    server = (mazes / "nemo_gym/server.py").read_text()
    assert "\nfrom mazes.walk import Walk\n" in server
    ours = {"nemo_gym", "verifiers", "ors"}
    dotted = {".copier-answers.yml", ".dockerignore", ".gitignore", ".github"}
    added = files_of(mazes).keys() - files_of(MAZES).keys()
    assert {path.parts[0] for path in added} == ours | dotted
    readmes = [mazes / "nemo_gym/AGENTS.md", *mazes.glob("*/README.md")]
    assert all("../src/mazes/walk.py" in path.read_text() for path in readmes)
    wheel = (mazes / "verifiers/pyproject.toml").read_text()
    assert 'include = ["src/mazes"]' in wheel


def test_an_update_of_a_class_in_src_changes_nothing(repository, mazes):
    data = [f"--data={name}={answer}" for name, answer in WALK.items()]
    options = ["--skip-tasks", "--defaults"]
    copier(mazes, "copy", *options, *data, repository, mazes)
    git(mazes, "init", "-q")
    git(mazes, "add", "-A")
    git(mazes, "commit", "-qm", "mine")
    options += ["--trust", "--vcs-ref=:current:", "--data=max_turns=7"]
    assert copier(mazes, "update", *options).returncode == 0
    changed = git(mazes, "status", "--porcelain").splitlines()
    assert all(line.startswith(" M ") for line in changed)
    assert (
        "class_file: src/mazes/walk.py" in (mazes / ".copier-answers.yml").read_text()
    )


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"domain_module": "maze", "domain_class": "Walk", "tools": "step"},
        {"domain_module": "mazes.walks"},
        {"domain_module": "mazes.walks", "archetype": "game"},
    ],
)
def test_a_repository_gets_no_class_that_nobody_asked_for(copy, mazes, answers):
    """Otherwise a game would be called like the class, and hide its package."""
    before = files_of(mazes)
    done = copy(mazes, check=False, **answers)
    assert done.returncode == 1
    name = answers.get("domain_module", "labyrinth")
    last = done.stdout.splitlines()[-1]
    assert f'domain_module: there is no such module, got "{name}": there is no ' in last
    assert str(mazes) in last
    assert files_of(mazes) == before


def test_a_repositorys_own_ci_and_image_stay_alone(copy, mazes):
    """Its Dockerfile would obey a new .dockerignore."""
    (mazes / "Dockerfile").write_text("FROM scratch\n")
    (mazes / ".github/workflows").mkdir(parents=True)
    (mazes / ".github/workflows/tests.yml").write_text("on: push\n")
    copy(mazes, **WALK)
    assert [path.name for path in mazes.glob(".github/**/*.yml")] == ["tests.yml"]
    assert not (mazes / ".dockerignore").exists()
    assert (mazes / "nemo_gym/Dockerfile.dockerignore").is_file()


def test_an_archetype_beside_other_code_is_written_if_it_is_asked_for(copy, mazes):
    copy(mazes, archetype="game", domain_module="wordle")
    assert (mazes / "wordle.py").is_file()


# By day, a class in a package, and the repositories of tests/test_guests.py.
@pytest.mark.nightly
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_gates_over_a_class_in_src(copy, mazes, series):
    printed = copy(mazes, trust=True, **WALK).stdout
    assert "PASS import" in printed
    assert "mazes.walk.Walk has step" in printed
    folder, python = mazes / "nemo_gym", mazes / "nemo_gym/.venv/bin/python"
    settings = tomllib.loads((folder / "pyproject.toml").read_text())
    source = settings["tool"]["uv"]["sources"]["mazes"]
    assert (folder / source["path"]).resolve() == mazes
    image = (folder / "Dockerfile").read_text()
    assert image.index("COPY . /app/") < image.index("uv lock")
    gates = run([python, "gates.py"], folder).stdout
    assert [gates.count(word) for word in ("PASS", "WEAK")] == [3, 1], gates  # one row
    run([python, "-m", "pytest", "-q"], folder)
    run([python, "-m", "pytest", "-q", "tests"], mazes)
    space = mazes.with_name("space")
    printed = run([python, "-m", "env_runtime.deploy", "--dry-run", space], folder)
    assert "src/mazes/walk.py" in printed.stdout
    assert (space / "src/mazes/__init__.py").is_file()


GUIDE = WALK | {
    "domain_module": "mazes.guide",
    "domain_class": "Guide",
    "tools": "look",
}


def play_guide(project):
    """All gates over a class that talks, whose only row lacks a value."""
    rows = project / "nemo_gym/data/example.jsonl"
    [row] = map(json.loads, rows.read_text().splitlines())
    [tool] = row["responses_create_params"]["tools"]
    assert (tool["name"], row["ground_truth"]) == ("look", [{"length": None}])
    rows.write_text(json.dumps(row | {"ground_truth": [{"length": 4}]}) + "\n")
    python = project / "nemo_gym/.venv/bin/python"
    gates = run([python, "gates.py"], project / "nemo_gym").stdout
    assert [gates.count(word) for word in ("PASS", "WEAK")] == [3, 1], gates  # one row
    agent = project / "nemo_gym/responses_api_agents/labyrinth_agent/app.py"
    assert "EnvironmentAgent.run_webserver()" in agent.read_text()


@pytest.mark.nightly  # by day, the archetype conversation
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_a_class_that_talks_has_its_agent_after_one_command(copy, mazes, series):
    """Its reply() is inherited: no text of its file says that it has one."""
    done = copy(mazes, trust=True, **GUIDE)
    assert done.returncode == 0, done.stdout
    assert "PASS import" in done.stdout
    assert "mazes.guide.Guide has look, reply()" in done.stdout
    play_guide(mazes)
    folder, python = mazes / "nemo_gym", mazes / "nemo_gym/.venv/bin/python"
    run([python, "-m", "pytest", "-q"], folder)


@pytest.mark.nightly
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_a_class_that_talks_can_be_given_by_an_update(repository, mazes, series):
    """And no update removes the class that it stops wrapping."""
    (mazes / "plain.py").write_text(
        "class Plain:\n    def __init__(self, task: dict): ...\n"
        "    def look(self) -> str:\n        return 'a wall'\n"
    )
    plain = {"domain_module": "plain", "domain_class": "Plain", "tools": "look"}
    command = [COPIER, "copy", "--trust", "--defaults"]
    data = [f"--data={name}={answer}" for name, answer in plain.items()]
    run([*command, *data, repository, mazes], mazes.parent)
    config = mazes / "nemo_gym/configs/labyrinth_agent.yaml"
    config.write_text(config.read_text().replace("max_steps: 20", "max_steps: 21"))
    (mazes / "nemo_gym/data/example.jsonl").write_text(
        '{"responses_create_params": {"input": "Find the end."}, "ground_truth": [{}]}\n'
    )
    git(mazes, "init", "-q")
    git(mazes, "add", "-A")
    git(mazes, "commit", "-qm", "mine")
    command = [COPIER, "update", "--trust", "--defaults", "--vcs-ref=:current:"]
    data = [f"--data={name}={answer}" for name, answer in GUIDE.items()]
    done = run([*command, *data], mazes)
    assert "mazes.guide.Guide has look, reply()" in done.stdout
    assert (mazes / "plain.py").is_file()
    answers = (mazes / ".copier-answers.yml").read_text()
    assert "class_file: src/mazes/guide.py" in answers
    assert "packaged: true" in answers
    assert "max_steps: 21" in config.read_text()
    python = mazes / "nemo_gym/.venv/bin/python"
    run([python, "gates.py", "--write-tools"], mazes / "nemo_gym")
    play_guide(mazes)
