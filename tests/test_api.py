"""The public modules of env_runtime: their names, their page, and who imports what."""

import importlib
import sys

import pytest

from conftest import FRAMEWORKS, ROOT, imports_of, run

# A name that goes, or changes, is a line in CHANGELOG.md.
PUBLIC = {
    "server": "SessionServer ToolResponse VerifyRequest VerifyResponse load_server",
    "gates": "main",
    "rollouts": "Client ClientSession Policy RolloutError Turn as_response check_verdict "
    "function_call main message play_page view",
    "rows": "Example baseline_reward call_everything load_rows main server_tools "
    "task_data_of task_skeleton",
    "testing": "NoOracleError TestAttacks TestConversation TestNemoGym TestRows baseline_reward client "
    "connect first_observation message oracle_reward pytest_terminal_summary rows "
    "sample_arguments server shows solution_for solve start tools verifier_fixture "
    "verify verify_body without_answers",
    "models": "AsyncModel Model",
}
# Modules for one archetype's class, or for the folders of one framework
SPECIAL = ("env_runtime.workspace.", "env_runtime.desktop.", "env_runtime.frameworks")


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_pinned(module):
    found = importlib.import_module(f"env_runtime.{module}")
    assert found.__all__ == PUBLIC[module].split()
    assert all(hasattr(found, name) for name in found.__all__)


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
