"""The public modules of env_runtime: their names, their page, and who imports what."""

import ast
import re
import sys

import pytest
import yaml
from env_runtime import settings

from projects import FRAMEWORKS, ROOT, RUNTIME, imports_of, run

PAGE = (ROOT / "docs/api.md").read_text(encoding="utf-8")
PUBLIC = re.findall(r"^## `env_runtime\.(\w+)`$", PAGE, re.MULTILINE)
# What the files in verifiers/, openenv/ and ors/ take of env_runtime.frameworks
FRAMEWORKS_PUBLIC = {
    "gates": "run_gates",
    "rollouts": "run_rollouts",
    "testing": "test_the_class_loads_and_earns_the_same",
    "verifiers": "Parts parts_of run_rollouts",
    "verifiers_wheel": "CustomBuildHook",
    "openenv": "ClassEnvironment Rollouts find_project make_app serve trl_environment",
    "ors": "ClassEnvironment environment_of make_app serve",
}
# Modules for one archetype's class, or for the folders of one framework
SPECIAL = ("env_runtime.workspace.", "env_runtime.desktop", "env_runtime.frameworks")


def test_the_names_for_the_files_of_frameworks_are_pinned(render):
    """Their modules need packages that this interpreter lacks, so they are only read."""
    used = set()
    for name in FRAMEWORKS:
        for path in (render(siblings=FRAMEWORKS) / name).rglob("*.py"):
            text = path.read_text()
            for module, names in re.findall(
                r"from env_runtime\.frameworks\.(\w+) import (\w+)", text
            ):
                used |= {(module, each) for each in names.split()}
            if f"from env_runtime.frameworks import {name}" in text:
                used |= {(name, each) for each in re.findall(rf"\b{name}\.(\w+)", text)}
    for module, names in FRAMEWORKS_PUBLIC.items():
        source = (RUNTIME / f"src/env_runtime/frameworks/{module}.py").read_text()
        [listed] = re.findall(r"^__all__ = (\[[^]]*\])$", source, re.MULTILINE)
        assert ast.literal_eval(listed) == names.split(), module
    pinned = {(m, n) for m, names in FRAMEWORKS_PUBLIC.items() for n in names.split()}
    assert used and used <= pinned


def test_the_page_is_what_the_docstrings_say():
    """`uv run python docs/api.py` writes it. It pins the public names.

    A name that goes, or changes, is a line in CHANGELOG.md.
    """
    assert len(PUBLIC) > 5
    code = "import api; print(api.page(), end='')"
    printed = run([sys.executable, "-c", code], ROOT / "docs").stdout
    assert printed == PAGE


def test_the_keys_of_a_project_are_on_a_page():
    """`uv run python docs/api.py` writes the table."""
    code = "import api; print(api.running(), end='')"
    printed = run([sys.executable, "-c", code], ROOT / "docs").stdout
    assert "| `floor` | a number" in printed
    assert printed == (ROOT / "docs/running.md").read_text()


def test_each_command_is_on_a_page():
    package = RUNTIME / "src/env_runtime"
    commands = {
        (path.parent if path.name == "__main__.py" else path).stem
        for path in [*package.glob("*.py"), *package.glob("*/__main__.py")]
        if "\nif __name__ == " in path.read_text()
    }
    page = (ROOT / "docs/running.md").read_text()
    listed = re.findall(r"^\| `env_runtime\.(\w+)` \|", page, re.MULTILINE)
    assert sorted(listed) == sorted(commands)


def test_each_question_is_on_a_page():
    questions = yaml.safe_load((ROOT / "copier.yml").read_text())
    page = (ROOT / "docs/generating.md").read_text()
    for name, question in questions.items():
        if name[0] != "_" and question.get("ask", question.get("when", True)):
            assert f"`{name}`" in page, name


@pytest.mark.parametrize(
    "answers",
    [
        {"siblings": FRAMEWORKS},
        {"archetype": "sandbox"},
        {"archetype": "sandbox", "backend": "nemo_gym"},
        {"archetype": "vision"},
        {"archetype": "answer"},
        {"archetype": "answer", "backend": "judge"},
        {"archetype": "gymnasium", "backend": "frames"},
    ],
    ids=lambda answers: "-".join(answers.get("siblings", answers.values())),
)
def test_a_project_imports_public_modules_only(render, answers):
    public = {f"env_runtime.{module}" for module in PUBLIC}
    imported = set().union(*map(imports_of, render(**answers).rglob("*.py")))
    ours = {name for name in imported if name.startswith("env_runtime.")}
    assert ours & public
    private = ours - public
    assert {name for name in private if not name.startswith(SPECIAL)} == set()


# Set by NeMo Gym, Ray, uv, a Space or our own processes
SET_BY_OTHERS = {"NEMO_GYM_CONFIG_PATH", "RAY_ADDRESS", "SHARDS_AT", "SPACE_ID", "UV"}


def test_each_variable_is_on_a_page_with_its_default():
    """CONTRIBUTING.md says where a new one belongs: a row of a table, or a sentence."""
    pages = {path.name: path.read_text() for path in (ROOT / "docs").glob("*.md")}
    default_in_table = {}
    for row in re.findall(r"^\| (`[A-Z].*)$", "\n".join(pages.values()), re.MULTILINE):
        names, default, *_ = row.split(" | ")
        default_in_table |= dict.fromkeys(re.findall(r"`([A-Z_]+)`", names), default)
    variables = {
        prefix + name.upper(): field.default
        for model in settings.Settings.__subclasses__()
        for prefix in ["JUDGE_" if model is settings.ModelSettings else ""]
        for name, field in model.model_fields.items()
    }
    of_clients = {name.upper() for name in settings.ClientSettings.model_fields}
    assert [n for n in of_clients if all(f"`{n}`" not in pages[p] for p in pages)] == []
    for name in variables.keys() - SET_BY_OTHERS - of_clients:
        default, told = variables[name], default_in_table.get(name)
        assert told, name
        assert told == str(default) or not isinstance(default, int | float), name
    table = pages["deploying.md"].partition("\n## Settings\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[A-Z][^|]*)", table, re.MULTILINE)
    assert {*re.findall(r"`([A-Z_]+)`", "".join(rows))} <= variables.keys()
