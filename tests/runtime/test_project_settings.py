"""[tool.environment] of pyproject.toml: what it may hold, and what is refused."""

import re
import shutil

import pytest
from env_runtime.errors import GateError, ProjectError
from env_runtime.project import Project, here
from env_runtime.project_settings import keys

import forked
from nights import nightly
from projects import ROOT, clean_environment

from .support import refusal

NEEDED = """[tool.environment]
env_name = "maze"
module = "walls"
class = "Maze"
"""


@pytest.fixture
def read(tmp_path):
    """Reads a project whose table has these lines, too."""
    (tmp_path / "nemo_gym").mkdir()

    def run(lines: str = "", table: str = NEEDED) -> Project:
        (tmp_path / "nemo_gym/pyproject.toml").write_text(f"{table}{lines}\n")
        return Project.read(tmp_path)

    return run


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("flor = 0.2", "floor"),
        ('gradde = ["guess.word"]', "graded"),
        ("max-turns = 3", "max_turns"),
        ("Floor = 0.2", "floor"),
        ("onetask = true", "one_task"),
        ('data_file = ["words.txt"]', "data_files"),
    ],
)
def test_a_key_that_there_is_not_is_refused_with_the_nearest(read, line, meant):
    key = line.split()[0]
    text = refusal(ProjectError, read, line)
    said = f"/nemo_gym/pyproject.toml: [tool.environment] has no key `{key}`: did you "
    assert f"{said}mean `{meant}`? The keys are env_name, module, class, " in text


def test_a_key_that_is_like_no_other_is_refused(read):
    text = refusal(ProjectError, read, "zzz = 1")
    assert "[tool.environment] has no key `zzz`: The keys are env_name, " in text


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('floor = "low"', 'a number without quotes, such as 0.2, got "low"'),
        ("floor = true", "a number without quotes, such as 0.2, got true"),
        ("floor = nan", "a number without quotes, such as 0.2, got NaN"),
        ("floor = [0.2]", "a number without quotes, such as 0.2, got [0.2]"),
        ("max_turns = true", "a whole number from 1 on, got true"),
        ("max_turns = 0", "a whole number from 1 on, got 0"),
        ("max_turns = 2.5", "a whole number from 1 on, got 2.5"),
        ('max_turns = "9"', 'a whole number from 1 on, got "9"'),
        ("one_task = 1", "true or false, without quotes, got 1"),
        ('graded = "answer"', 'a list of texts, such as ["one", "two"], got "answer"'),
        ('meant = ["echo", 3]', 'a list of texts, such as ["one", "two"], got ["echo", 3]'),
        ("models = [[]]", 'a list of texts, such as ["one", "two"], got [[]]'),
        ("data_files = 2026-01-02", 'a list of paths, such as ["words.txt", "boards/*.json"], got "2026-01-02"'),
        ("space = false", "text in quotes, got false"),
        ("[tool.environment.folder]\nsrc = 1", 'text in quotes, got {"src": 1}'),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused(read, line, problem):
    key = re.findall(r"\w+", line.partition("\n")[0].partition(" =")[0])[-1]
    text = refusal(ProjectError, read, line)
    assert f"[tool.environment] `{key}` must be {problem}" in text


def test_what_is_no_table_is_refused(read):
    text = refusal(ProjectError, read, table="[tool]\nenvironment = 3\n")
    assert text.endswith("pyproject.toml: [tool.environment] must be a table, got 3")
    text = refusal(ProjectError, read, "floor = low")
    assert "pyproject.toml is not valid TOML: Invalid value (at line 5" in text


def test_keys_of_all_releases_are_valid(read):
    lines = [
        'folder = "src"',
        'models = ["judge"]',
        "max_turns = 9",
        'space = "ada/maze"',
        'space_files = ["a.txt"]',
        'data_files = ["b.txt"]',
        "floor = 0",
        'graded = ["answer"]',
        'meant = ["echo"]',
        "one_task = true",
    ]
    table = read("\n".join(lines)).table()
    assert table.model_dump(by_alias=True).keys() == keys().keys()
    assert (table.floor, table.one_task, table.space) == (0.0, True, "ada/maze")
    assert (read().table().max_turns, read().table().graded) == (20, [])


@pytest.mark.parametrize("floor", [-0.5, 1.5])
def test_a_floor_that_no_reward_reaches_is_refused(look, floor):
    kind = here().load_class()
    rows = [{"responses_create_params": {"input": "Go."}, "ground_truth": [{}]}]
    says = rf"`floor` must be a reward, from 0.0 to 1.0, got {floor}"
    with pytest.raises(GateError, match=says):
        look(kind, rows, floor=floor)


COMMANDS = [
    "gates.py import",
    "rollout.py --policy oracle --limit 1",
    "server.py",
    "play.py",
    "make_rows.py --example --overwrite",
    "-m env_runtime.prepare out",
    "-m env_runtime.package out",
    "-m env_runtime.deploy --dry-run out",
    "-m env_runtime.under_gym",
    "-m env_runtime.variant hard max_turns=3",
    nightly("-m pytest -q"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_refuses_a_misspelled_key(tmp_path, command):
    """They end before anything is played or written."""
    project = tmp_path / "my_env"
    shutil.copytree(here().root, project, ignore=shutil.ignore_patterns(".venv"))
    settings = project / "nemo_gym/pyproject.toml"
    table = "[tool.environment]\n"
    text = settings.read_text().replace(table, f"{table}flor = 0.2\n")
    settings.write_text(text)
    path = ":".join(map(str, (ROOT / "runtime/src", project / "nemo_gym", project)))
    variables = clean_environment(PYTHONPATH=path, HOST="127.0.0.1", PORT="0")
    done = forked.run(command.split(), settings.parent, variables, check=False)
    assert done.returncode
    assert "has no key `flor`: did you mean `floor`?" in done.stdout
    assert "Traceback" not in done.stdout or "pytest" in command
