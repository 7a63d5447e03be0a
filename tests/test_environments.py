"""Generated environments, installed and run: on both lines of NeMo Gym.

A line's variants of the game borrow the packages of the one that was installed.
"""

import re
import shutil
import urllib.request

import pytest

from conftest import ARCHETYPES, UV, borrow_venv, git, run

GATES = ["import", "server", "smoke", "rollout"]

CALCULATOR = '''"""A domain module of a user's own."""


class Calculator:
    def __init__(self, task):
        self.total = task.get("start", 0)

    def add(self, number: int) -> str:
        self.total += number
        return f"The total is {self.total}."

    def echo(self, text: str) -> str:
        return text
'''


def passed(results):
    assert [result["gate"] for result in results] == GATES
    assert all(result["passed"] for result in results), results
    return results


@pytest.fixture(scope="module")
def variant(render, generate, line, tmp_path_factory):
    """A project with other answers, on the venv of the line's game."""

    def of(files=None, **answers):
        folder = tmp_path_factory.mktemp("variant") / "my_env"
        shutil.copytree(render(**answers), folder)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return borrow_venv(folder, generate(archetype="game"))

    return of


@pytest.mark.parametrize("archetype", ARCHETYPES)
def test_gates_and_tests_are_green(generate, archetype):
    environment = generate(archetype=archetype)
    rollout = passed(environment.gates())[-1]
    assert "the oracle earns 1.0, noop 0.0" in rollout["detail"]
    printed = environment.run("-m", "pytest", "-q", "--no-header")
    assert re.search(r"\d+ passed", printed)
    assert not re.search(r"\d+ (failed|error|xfailed)", printed)


@pytest.mark.parametrize("archetype", ARCHETYPES)
def test_the_newest_nemo_gym_of_the_line_is_there(generate, line, archetype):
    code = "import importlib.metadata as m; print(m.version('nemo-gym'))"
    assert generate(archetype=archetype).run("-c", code).startswith(line)


@pytest.mark.parametrize("archetype", ARCHETYPES)
def test_rollouts(generate, archetype):
    environment = generate(archetype=archetype)
    rows = (environment.folder / "data/example.jsonl").read_text().splitlines()
    with environment.serving() as url:
        for policy, reward in (("oracle", "1.0"), ("noop", "0.0")):
            printed = environment.run("rollout.py", "--policy", policy, ENV_URL=url)
            lines = printed.strip().splitlines()
            assert lines[-1] == f"mean reward: {reward}"
            assert printed.count(f"reward {reward}\n") == len(rows)
        printed = environment.run("gates.py", "server", "smoke", "--url", url)
        assert printed.count("PASS") == 2


def test_plain_uv_run_keeps_the_interpreter(generate):
    """`uv run` must not replace the venv that the post-generation step made."""
    environment = generate(archetype="game")
    before = (environment.folder / ".venv/pyvenv.cfg").read_text()
    printed = run([UV, "run", "python", "gates.py", "import"], environment.folder)
    assert "PASS import" in printed.stdout
    assert (environment.folder / ".venv/pyvenv.cfg").read_text() == before


def test_the_folder_does_not_hide_the_package(generate):
    environment = generate(archetype="game")
    code = "import nemo_gym, nemo_gym.server_utils; print(nemo_gym.__file__)"
    above = run([environment.python, "-c", code], environment.project)
    assert "site-packages" in above.stdout
    run(
        [environment.python, "-m", "pytest", "-q", "nemo_gym/tests/test_domain.py"],
        environment.project,
    )


def test_a_custom_tool_waits_to_be_written(variant):
    environment = variant(tools="guess(word: str); hint()")
    passed(environment.gates())
    printed = environment.run("-m", "pytest", "-q", "--no-header")
    assert re.search(r"1 xfailed", printed)
    with environment.serving() as url:
        request = urllib.request.Request(
            f"{url}/hint", b"{}", {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            text = answer.read().decode()
    assert text == (
        '{"output":"error: hint is not implemented yet: write MyEnv.hint in my_env.py"}'
    )

    domain = environment.project / "my_env.py"
    text = domain.read_text()
    start = text.index("        raise NotImplementedError(")
    domain.write_text(text[:start] + '        return "It has five letters."\n')
    printed = environment.run("-m", "pytest", "-q", "-k", "implemented", check=False)
    assert "XPASS(strict)" in printed


def test_tools_of_ones_own_only(variant):
    environment = variant(
        tools='hint(); look(at: Literal["a", "b"] = "a", n: int | None = 1)'
    )
    results = passed(environment.gates())
    assert (
        "oracle uses guess, which the server does not expose" in results[-1]["detail"]
    )
    printed = environment.run("-m", "pytest", "-q", "--no-header")
    assert re.search(r"2 xfailed", printed)


def test_many_kinds_of_tools_fit_the_rows(variant):
    """The rendered rows hold what the server derives: the test that compares them."""
    environment = variant(
        tools='guess\nlist(xs: list[Literal["a", "b"]] = ["a"])\ncopy(x: float = 1, keys: str)\n'
        'config(y: Literal[1, "b"] | None = None, z: Literal["c"])  # "Say" \\ \'it\' {% é\n'
        "f(a: list[int], b: bool = False, c: str | None, title: int)"
    )
    printed = environment.run("-m", "pytest", "-q", "tests/test_data.py")
    assert "passed" in printed
    passed(environment.gates())


def test_a_domain_module_of_ones_own(copy, generate, tmp_path):
    """Wrapped with the tasks on: the file stays as it is, and everything is green."""
    project = tmp_path / "calculator_env"
    project.mkdir()
    (project / "calculator.py").write_text(CALCULATOR)
    done = copy(
        project,
        domain_module="calculator",
        domain_class="Calculator",
        tools="add(number: int)  # Add to the total.\necho(text: str)",
    )
    assert done.returncode == 0, done.stdout
    assert (project / "calculator.py").read_text() == CALCULATOR
    environment = borrow_venv(project, generate(archetype="game"))
    results = passed(environment.gates())
    assert "Calculator has no oracle(task)" in results[-1]["detail"]
    assert "passed" in environment.run("-m", "pytest", "-q", "--no-header")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("", "cannot import name 'MyEnv' from 'my_env'"),
        ("class MyEnv:\n    pass\n", "my_env.py: MyEnv has no method 'guess'"),
        (
            "class MyEnv:\n    def guess(self, letter=''):\n        return ''\n",
            "my_env.py: MyEnv.guess has no parameter 'word', which server.py passes",
        ),
        (
            "class MyEnv:\n    def guess(self, word, hard):\n        return ''\n",
            "my_env.py: MyEnv.guess needs 'hard', which server.py does not pass",
        ),
    ],
)
def test_the_import_gate_names_what_is_missing(variant, source, complaint):
    environment = variant(files={"my_env.py": source})
    [result] = environment.gates("import", check=False)
    assert not result["passed"]
    assert complaint in result["detail"]


def test_gates_fail_with_exit_status_1(variant):
    environment = variant()
    rows = environment.folder / "data/example.jsonl"
    rows.write_text(
        rows.read_text().replace('"target": "crane"', '"target": "other"', 1)
    )
    done = run(
        [environment.python, "gates.py", "rollout"],
        environment.folder,
        check=False,
    )
    assert done.returncode == 1
    assert "FAIL rollout" in done.stdout
    assert "row 1 of data/example.jsonl: the policy 'oracle' earns 0.0" in done.stdout


def test_rows_of_another_file_are_gated_and_played(variant):
    environment = variant()
    first, second, *_ = (environment.folder / "data/example.jsonl").open()
    other = environment.folder / "mine.jsonl"
    other.write_text(first + re.sub('"target": "[a-z]*"', '"target": "other"', second))
    [result] = environment.gates("rollout", "--rows", "mine.jsonl", check=False)
    assert "row 2 of mine.jsonl: the policy 'oracle' earns" in result["detail"]
    other.write_text(first + second)
    [result] = environment.gates("rollout", "--rows", "mine.jsonl")
    assert result["detail"] == "2 rows: the oracle earns 1.0, noop 0.0"
    with environment.serving() as url:
        arguments = ["--policy", "oracle", "--rows", "mine.jsonl"]
        printed = environment.run("rollout.py", *arguments, ENV_URL=url)
    assert printed.splitlines()[-1] == "mean reward: 1.0"
    assert "row 2: reward 1.0" in printed
    assert "row 3" not in printed


def test_write_tools_brings_the_rows_up_to_date(variant):
    environment = variant()
    server = environment.folder / "server.py"
    server.write_text(server.read_text().replace("Guess the hidden word.", "Guess."))
    drifted = environment.run("-m", "pytest", "-q", "tests/test_data.py", check=False)
    assert "test_rows_offer_the_tools_that_the_server_has" in drifted
    [result] = environment.gates("smoke", check=False)
    assert "row 1 of data/example.jsonl has not the tools of the" in result["detail"]
    environment.run("gates.py", "--write-tools")
    environment.gates("smoke")
    assert "failed" not in environment.run("-m", "pytest", "-q", "tests/test_data.py")


def test_no_server_is_one_clear_line(variant):
    environment = variant()
    printed = environment.run(
        "rollout.py", "--policy", "noop", check=False, ENV_URL="http://127.0.0.1:9"
    )
    assert printed.startswith("rollout.py: no server answers at http://127.0.0.1:9")
    assert len(printed.strip().splitlines()) == 1


def test_ports(variant):
    code = "from gates import find_server; import sys; print(find_server().build().config.port)"
    environment = variant()
    assert environment.run("-c", code).strip() == "11000"
    assert environment.run("-c", code, SPACE_ID="me/space").strip() == "7860"
    assert environment.run("-c", code, SPACE_ID="me/space", PORT="81").strip() == "81"


def test_a_bad_setting_is_named(variant):
    environment = variant()
    printed = environment.run("server.py", check=False, MAX_SESSIONS="many")
    assert "MAX_SESSIONS must be a positive int, got 'many'" in printed


MAIN_BRANCH = """
[project]
name = "nemo-gym"
version = "99.0.0"
requires-python = ">=3.13.14"
"""


@pytest.mark.parametrize("line", ["0.7"], indirect=True)
def test_the_main_branch_of_nemo_gym_can_be_installed(render, interpreter, tmp_path):
    """It is locked out of a repository that asks for the Python that the real one does."""
    repository, project = tmp_path / "Gym", tmp_path / "my_env"
    repository.mkdir()
    (repository / "pyproject.toml").write_text(MAIN_BRANCH)
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "The main branch")
    shutil.copytree(render(nemo_gym_source="git"), project)
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
