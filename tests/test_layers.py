"""The layers of env_runtime: who imports whom, and how large a module is."""

import sys
import tomllib
from pathlib import Path

import pytest
from env_runtime.gym_series import HAS_ENVIRONMENT_SERVERS

from projects import ROOT, RUNTIME, imports_of, run

MODULES = sorted((RUNTIME / "src/env_runtime").rglob("*.py"))
MAX_LINES = 600


def test_the_import_contract_is_kept():
    """[tool.importlinter] of pyproject.toml; imports inside functions count."""
    command = Path(sys.executable).with_name("lint-imports")
    run([command, "--no-cache"], ROOT)


def test_no_module_is_too_long():
    lengths = {path: path.read_text().count("\n") for path in MODULES}
    assert lengths
    assert {path: n for path, n in lengths.items() if n > MAX_LINES} == {}


def test_modules_do_not_know_the_name_of_their_package():
    """Relative imports only: a wheel of verifiers/ has the package under another name."""
    for path in MODULES:
        named = {name for name in imports_of(path) if name.startswith("env_runtime")}
        assert named == set(), path


def test_the_release_is_the_templates():
    versions = [
        tomllib.loads(path.read_text())["project"]["version"]
        for path in (ROOT / "pyproject.toml", RUNTIME / "pyproject.toml")
    ]
    assert versions[0] == versions[1]


@pytest.mark.skipif(
    not HAS_ENVIRONMENT_SERVERS, reason="types are those of nemo-gym 0.7"
)
def test_types():
    ty = Path(sys.executable).with_name("ty")
    run([ty, "check", "--error-on-warning"], ROOT)
