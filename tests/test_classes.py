"""Tests of projects over a user's own classes, in tests/classes/."""

import json
import re
import shutil
import sys

import pytest
import requests

from conftest import (
    CLASSES,
    COPIER,
    OLDER_BY_NIGHT,
    UVX,
    borrow_venv,
    copier,
    git,
    nightly,
    render_project,
    run,
)

# module: class, tools
OWN = {
    "inventory": ("Inventory", "look_up, receive"),
    "courier": ("Courier", "drive"),
    "exam": ("Candidate", "read_question; answer"),
    "booking": ("Booking", "book"),
    "lamp": ("Lamp", "look\nturn\ndone"),
}
EXAMPLE = re.compile(
    r"wordle|guess|crane|five-letter|bubblewrap|workspace_|desktop_",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def wrap(copy, generate, tmp_path_factory):
    """A project over a class of tests/classes, on the venv of the series' game."""
    made = {}

    def of(name, **answers):
        if name not in made:
            project = tmp_path_factory.mktemp("own") / name
            project.mkdir()
            shutil.copy(CLASSES / f"{name}.py", project)
            class_name, tools = OWN[name]
            done = copy(project, domain_class=class_name, tools=tools, **answers)
            assert done.returncode == 0, done.stdout
            made[name] = borrow_venv(project, generate(archetype="game"))
        return made[name]

    return of


def give_rows(environment, name):
    rows = environment.folder / "data/example.jsonl"
    shutil.copy(CLASSES / f"{name}.jsonl", rows)
    environment.run("gates.py", "--write-tools")
    return [json.loads(line) for line in rows.read_text().splitlines()]


# Their kinds of methods, tasks and grades are those of the runtime's own tests, too.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("series", "name"),
    [
        ("0.7", "inventory"),
        ("0.7", "lamp"),
        ("0.4", "courier"),  # it awaits
        *(nightly("0.7", name) for name in ("courier", "exam", "booking")),
    ],
    indirect=["series"],
)
def test_gates_and_tests_are_green(wrap, name):
    """The generated tests play 20 sessions at once."""
    environment = wrap(name)
    source = (CLASSES / f"{name}.py").read_bytes()
    assert (environment.project / f"{name}.py").read_bytes() == source
    environment.run("gates.py", "import", "--write-tools")
    skeleton = json.loads((environment.folder / "data/example.jsonl").read_text())
    [task] = skeleton["ground_truth"]
    rows = give_rows(environment, name)
    assert set(task) == set(rows[0]["ground_truth"][0])
    rollout = environment.green()[-1]
    assert rollout.startswith(f"{len(rows)} rows: the oracle earns")
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
    done = copy(project, tools="look_up", **answers)
    assert done.returncode == 0, done.stdout
    assert "conflict" not in done.stdout
    for name in own:
        assert (project / name).read_text() == f"mine: {name}\n"
    ignored = (project / "nemo_gym/.gitignore").read_text().splitlines()
    assert {".venv/", "/results/"} <= set(ignored)
    image = (project / "nemo_gym/Dockerfile.dockerignore").read_text().splitlines()
    assert {"**/.env*", "nemo_gym/**/*.jsonl"} <= set(image)
    again = copy(project, "--overwrite", tools="look_up; receive", **answers)
    assert again.returncode == 0, again.stdout
    for name in own:
        assert (project / name).read_text() == f"mine: {name}\n"


@pytest.mark.parametrize("archetype", ["game", "sandbox"])
def test_nothing_speaks_of_the_archetypes_example(copy, tmp_path, archetype):
    project = tmp_path / "booking"
    project.mkdir()
    shutil.copy(CLASSES / "booking.py", project)
    done = copy(
        project, domain_class="Booking", tools="book", archetype=archetype, max_turns=9
    )
    assert done.returncode == 0, done.stdout
    for path in project.rglob("*"):
        if path.is_file() and path.name != ".copier-answers.yml":
            found = EXAMPLE.search(path.read_text())
            assert not found, f"{path.relative_to(project)}: {found}"
    lines = {
        "nemo_gym/configs/booking.yaml": "domain: other",
        "nemo_gym/environments/booking/manifest.yaml": "domain: other",
        "nemo_gym/configs/booking_train.yaml": "license: TBD",
        "nemo_gym/pyproject.toml": "max_turns = 9",
        "nemo_gym/configs/booking_eval.toml": "max_turns = 9",
        "nemo_gym/configs/booking_agent.yaml": "max_steps: 9",
        "nemo_gym/README.md": "after 9 answers",
    }
    for name, text in lines.items():
        assert text in (project / name).read_text()
    tree = {path.name for path in project.iterdir()}
    assert tree == {
        *(".copier-answers.yml", ".dockerignore", ".github", ".gitignore"),
        *("booking.py", "nemo_gym"),
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
    done = copy(project, siblings="[verifiers, openenv, ors]", **PACKAGE)
    assert done.returncode == 0, done.stdout
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
    done = copy(project, domain_module="warehouse", domain_class="Warehouse")
    assert done.returncode == 0, done.stdout
    assert "wrapped: false" in (project / ".copier-answers.yml").read_text()
    assert "class Warehouse" in (project / "warehouse.py").read_text()
    assert (project / "warehouse/notes.txt").read_text() == "mine\n"


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_gates_over_a_class_in_a_package(packaged, generate, tmp_path):
    """Their messages name its files with the package."""
    project = tmp_path / "my_env"
    shutil.copytree(packaged, project)
    environment = borrow_venv(project, generate(archetype="game"))
    environment.run("gates.py", "--write-tools")
    assert environment.green()[0] == "warehouse.env.Warehouse has survey, send"

    def complaint(gate, name, old, new):
        path = project / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
        [result] = environment.gates(gate, check=False)
        path.write_text(text)
        assert not result["passed"]
        return result["detail"]

    init, env = "warehouse/__init__.py", "warehouse/env.py"
    text = complaint("import", init, "from .env import Warehouse", "Other = 1")
    assert "warehouse/__init__.py has no class Warehouse: write the class there" in text
    text = complaint("import", env, "from .core", "from nowhere")
    assert "ModuleNotFoundError in warehouse/env.py, line 3: No module" in text
    text = complaint("import", env, "count: int", "count")
    assert "warehouse/env.py, line 1" in text
    text = complaint("smoke", env, 'return "sent"', "return {}[1]")
    assert "raised KeyError (warehouse/env.py, line 18)" in text
    text = complaint("import", "nemo_gym/server.py", "Warehouse.send", "Warehouse.sell")
    assert 'add its line: app.post("/send")(self.tool(Warehouse.send))' in text
    # Exceptions of the package are expected, wherever in it they are defined.
    code = (
        "from warehouse import Warehouse; from env_runtime.episode import episode; "
        "from env_runtime.episode.tools import tools_of; "
        "call = episode.Episode(Warehouse).call(tools_of(Warehouse)['send'], {'count': 99}); "
        "print(episode.run_without_loop(call).output)"
    )
    assert environment.run("-c", code).strip() == "error: only 10 are left"


@pytest.mark.slow
@OLDER_BY_NIGHT
def test_with_the_tasks_on(repository, interpreter, tmp_path):
    """One command, as a user types it: the step after generation fills in the rows."""
    project = tmp_path / "shop"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project)
    answers = ["domain_module=inventory", "domain_class=Inventory"]
    answers += ["tools=look_up(item: str); receive(item: str, count: int = 1)"]
    data = [f"--data={answer}" for answer in answers]
    command = [
        *UVX,
        "copier",
        "copy",
        "--trust",
        "--defaults",
        *data,
        repository,
        "shop",
    ]
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


@pytest.mark.slow
@OLDER_BY_NIGHT
def test_an_image_reaches_the_client_as_one(wrap):
    environment = wrap("lamp")
    row = json.loads((CLASSES / "lamp.jsonl").read_text().splitlines()[0])
    with environment.serving() as url, requests.Session() as session:
        session.post(f"{url}/seed_session", json=row).raise_for_status()
        answer = session.post(f"{url}/turn", json={}).json()
        assert answer["image"].startswith("data:image/png;base64,")
        assert set(session.post(f"{url}/done", json={"color": "red"}).json()) == {
            "output"
        }


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)  # 0.4 has no such command
def test_gym_env_schema_shows_the_typed_task(wrap):
    environment = wrap("exam")
    code = (
        "from nemo_gym.task_data import load_task_data_schema as load; from pathlib import Path; "
        "print(load(Path('resources_servers/exam')).json_schema()['$defs']['Exam']['required'])"
    )
    assert environment.run("-c", code).strip() == "['questions']"


# ---------------------------------------------------------------------- src layouts

WALK = {"domain_module": "mazes.walk", "domain_class": "Walk", "tools": "step"}
MAZES = CLASSES / "mazes"


@pytest.fixture
def mazes(tmp_path):
    """A repository with a package in src/."""
    project = tmp_path / "labyrinth"
    shutil.copytree(MAZES, project)
    (project / "maze_env.py").unlink()
    return project


def added(project):
    """The top-level names that a repository has beside the files of MAZES."""
    files = {path.relative_to(project) for path in project.rglob("*") if path.is_file()}
    own = {path.relative_to(MAZES) for path in MAZES.rglob("*") if path.is_file()}
    return {path.parts[0] for path in files - own if "__pycache__" not in path.parts}


def test_a_class_in_src_is_wrapped(copy, mazes):
    done = copy(mazes, siblings="[verifiers, ors]", **WALK)
    assert done.returncode == 0, done.stdout
    server = (mazes / "nemo_gym/server.py").read_text()
    assert "\nfrom mazes.walk import Walk\n" in server
    ours = {"nemo_gym", "verifiers", "ors"}
    dotted = {".copier-answers.yml", ".dockerignore", ".gitignore", ".github"}
    assert added(mazes) == ours | dotted
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
    changed = git(mazes, "status", "--porcelain").split("\n")
    assert not [line for line in changed if line and not line.startswith(" M ")]
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
    before = {path: path.read_bytes() for path in mazes.rglob("*") if path.is_file()}
    done = copy(mazes, **answers)
    assert done.returncode == 1
    name = answers.get("domain_module", "labyrinth")
    last = done.stdout.splitlines()[-1]
    assert f'domain_module: there is no such module, got "{name}": there is no ' in last
    assert str(mazes) in last
    after = {path: path.read_bytes() for path in mazes.rglob("*") if path.is_file()}
    assert after == before


def test_a_repositorys_own_ci_and_image_stay_alone(copy, mazes):
    """Its Dockerfile would obey a new .dockerignore."""
    (mazes / "Dockerfile").write_text("FROM scratch\n")
    (mazes / ".github/workflows").mkdir(parents=True)
    (mazes / ".github/workflows/tests.yml").write_text("on: push\n")
    done = copy(mazes, **WALK)
    assert done.returncode == 0, done.stdout
    assert [path.name for path in mazes.glob(".github/**/*.yml")] == ["tests.yml"]
    assert not (mazes / ".dockerignore").exists()
    assert (mazes / "nemo_gym/Dockerfile.dockerignore").is_file()


def test_an_archetype_beside_other_code_is_written_if_it_is_asked_for(copy, mazes):
    done = copy(mazes, archetype="game", domain_module="wordle")
    assert done.returncode == 0, done.stdout
    assert (mazes / "wordle.py").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_gates_over_a_class_in_src(copy, mazes, series):
    done = copy(mazes, trust=True, **WALK)
    assert done.returncode == 0, done.stdout
    assert "PASS import" in done.stdout
    assert "mazes.walk.Walk has step" in done.stdout
    folder, python = mazes / "nemo_gym", mazes / "nemo_gym/.venv/bin/python"
    gates = run([python, "gates.py"], folder).stdout
    assert gates.count("PASS") == 4, gates
    run([python, "-m", "pytest", "-q"], folder)
    run([python, "-m", "pytest", "-q", "tests"], mazes)
    space = mazes.with_name("space")
    assert not (folder / "responses_api_agents").exists()
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
    assert gates.count("PASS") == 4, gates
    agent = project / "nemo_gym/responses_api_agents/labyrinth_agent/app.py"
    assert "/reply" in agent.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_a_class_that_talks_has_its_agent_after_one_command(copy, mazes, series):
    """Its reply() is inherited: no text of its file says that it has one."""
    done = copy(mazes, trust=True, **GUIDE)
    assert done.returncode == 0, done.stdout
    assert "PASS import" in done.stdout
    assert "mazes.guide.Guide has look, reply()" in done.stdout
    play_guide(mazes)


@pytest.mark.slow
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
    assert not (mazes / "nemo_gym/responses_api_agents").exists()
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
    play_guide(mazes)
