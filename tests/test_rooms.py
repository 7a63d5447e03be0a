"""The rooms of a generated runtime: who imports whom, and how large a module is."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT, import_path, run

RUNTIME = "env_runtime/src/env_runtime"
MAX_LINES = 400
VARIANTS = {
    "game": {"siblings": ["verifiers", "openenv", "ors"]},
    "sandbox-local": {"archetype": "sandbox", "backend": "local"},
    "sandbox-e2b": {"archetype": "sandbox", "backend": "e2b"},
    "sandbox-nemo_gym": {"archetype": "sandbox", "backend": "nemo_gym"},
    "gymnasium": {"archetype": "gymnasium", "backend": "frames"},
    "vision-canvas": {"archetype": "vision", "backend": "canvas"},
    "vision-browser": {"archetype": "vision", "backend": "browser"},
    "vision-e2b": {"archetype": "vision", "backend": "e2b"},
}


@pytest.fixture(params=VARIANTS)
def project(request: pytest.FixtureRequest, render) -> Path:
    # Every sibling brings the room `frameworks`, which the contract names.
    return render(**{"siblings": ["ors"], **VARIANTS[request.param]})


def test_the_import_contract_is_kept(project):
    """[tool.importlinter] of pyproject.toml; imports inside functions count."""
    command = Path(sys.executable).with_name("lint-imports")
    run([command, "--no-cache"], ROOT, PYTHONPATH=import_path(project))


def test_no_module_is_too_long(project):
    lengths = {
        path: path.read_text().count("\n") for path in (project / RUNTIME).rglob("*.py")
    }
    assert lengths
    assert {path: n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_modules_do_not_know_the_name_of_their_package(project):
    """Relative imports only: the files are the same in every project."""
    for path in (project / RUNTIME).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            assert not any(name.startswith("my_env") for name in names), path


def test_the_root_project_has_what_the_runtime_needs(render):
    """So that tests/runtime imports it in this process."""
    path = render() / "env_runtime/pyproject.toml"
    runtime = tomllib.loads(path.read_text())["project"]
    extras = runtime["optional-dependencies"]
    needed = {*runtime["dependencies"]}
    needed |= {
        each for name in ("nemo-gym", "llm", "gym", "deploy") for each in extras[name]
    }
    root = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert needed - {*root["dependency-groups"]["runtime"]} == set()


def test_types_fit_the_runtime(render):
    """`ty check` alone does not know the runtime's types."""
    project = render()
    paths = [project / "env_runtime/src", project / "nemo_gym"]
    options = [f"--extra-search-path={path}" for path in paths]
    ty = Path(sys.executable).with_name("ty")
    run([ty, "check", "--error-on-warning", *options], ROOT)
