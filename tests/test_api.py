"""The public modules of env_runtime: their names, their page, and who imports what."""

import ast
import importlib
import re
import sys

import pytest

from projects import FRAMEWORKS, ROOT, RUNTIME, imports_of, run

# A name that goes, or changes, is a line in CHANGELOG.md.
PUBLIC = {
    "server": "SessionServer ToolResponse VerifyRequest VerifyResponse load_server",
    "gates": "main",
    "rollouts": "Client ClientSession Policy RolloutError Turn as_response check_verdict "
    "function_call main message play_page view",
    "rows": "Example Record baseline_reward call_everything filled from_dataset functions_in golds_of "
    "labels_of last_box letter_of load_rows main options_of read responses_input server_tools "
    "shuffled task_data_of task_skeleton with_images",
    "graders": "F1 INSTRUCTIONS Calls Choice Json Number Table Text",
    "sql": "Database Query",
    "testing": "NoOracleError TestAttacks TestConversation TestNemoGym TestRows baseline_reward client "
    "connect first_observation message oracle_reward pytest_terminal_summary rows "
    "sample_arguments server shows solution_for solve start tools verifier_fixture "
    "verify verify_body without_answers",
    "models": "AsyncModel Model",
    "gymnasium": "Action Facts GymnasiumEpisode Observation TabularEpisode facts_of rules",
}
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


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_pinned(module):
    found = importlib.import_module(f"env_runtime.{module}")
    assert found.__all__ == PUBLIC[module].split()
    assert all(hasattr(found, name) for name in found.__all__)


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
    """`uv run python docs/api.py` writes it."""
    code = "import api; print(api.page(), end='')"
    printed = run([sys.executable, "-c", code], ROOT / "docs").stdout
    assert printed == (ROOT / "docs/api.md").read_text(encoding="utf-8")


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
