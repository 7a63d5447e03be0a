"""Mutants: each weakness of the runtime, or of a class, turns a test red."""

import ast
import json
import os
import shutil
import sys

import pytest
from mutants import (
    MUTANTS,
    SUITES,
    classes,
    gates,
    limits,
    models,
    room,
    sandbox,
    sessions,
)

from conftest import ROOT, RUNTIME, import_path, make_taxi, only_once, run

__all__ = ["classes", "gates", "limits", "models", "room", "sandbox", "sessions"]

BY_DAY = "game"  # the other suites' mutants are for the nights
CASES = [(suite, "nothing") for suite in SUITES]
CASES += [(mutant.suite, mutant.name) for mutant in MUTANTS]


@pytest.fixture(scope="module")
def folder_of(render, tmp_path_factory):
    """The folder of a suite's tests, and the PYTHONPATH that they need."""

    def folder(suite):
        if suite == "runtime":  # its own conftest.py renders a game
            return ROOT, ""
        project = tmp_path_factory.mktemp(suite) / "my_env"
        shutil.copytree(render(archetype=suite), project)
        if suite == "sandbox":
            for tests in ("test_contract.py", "local/test_backend.py"):
                shutil.copy(ROOT / "tests/backends" / tests, project / "nemo_gym/tests")
        if suite == "gymnasium":  # unlike FrozenLake's, each step of Taxi has a reward
            make_taxi(project)
        return project / "nemo_gym", import_path(project)

    return folder


@pytest.fixture(scope="module")
def problems(folder_of, shared):
    """The problems with a suite's mutants, and what was printed."""

    def run_suite(suite):
        place = shared / f"mutants-{suite}"
        report, printed = place / "report.json", place / "printed"
        with only_once(place) as first:
            if first:
                folder, path = folder_of(suite)
                done = run(
                    [sys.executable, "-m", "mutants", suite, report],
                    folder,
                    PYTHONPATH=os.pathsep.join(
                        filter(None, [path, str(ROOT / "tests")])
                    ),
                    SANDBOX_SECONDS="10",  # a weak limit shall not take half a minute
                )
                printed.write_text(done.stdout)
        return json.loads(report.read_text()), printed.read_text()

    return run_suite


def test_there_are_enough_mutants_with_names_of_their_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


def test_what_mutants_replace_is_there():
    """By day, so that a function with a new name does not wait for the night."""
    places = set()
    rendered = {"DomainClass": "MyEnv", "domain": "my_env"}
    files = [*RUNTIME.rglob("*.py"), *(ROOT / "archetypes").rglob("*.py")]
    for file in files:
        module = ast.parse(file.read_text())
        for owner in ast.walk(module):
            if isinstance(owner, ast.Module | ast.ClassDef):
                first = getattr(owner, "name", file.stem)
                for each in owner.body:
                    imported = each.names if isinstance(each, ast.ImportFrom) else []
                    names = {alias.asname or alias.name for alias in imported}
                    names |= {getattr(each, "name", "")}
                    first = rendered.get(first, first)
                    places.update(f"{first}.{name}" for name in names)
    named = {name for one in MUTANTS for name in (one.place, one.without) if name}
    assert named - places == set()


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        pytest.param(
            *case, marks=pytest.mark.slow if case[0] == BY_DAY else pytest.mark.nightly
        )
        for case in CASES
    ],
)
def test_a_mutant_is_noticed(problems, suite, name):
    by_name, printed = problems(suite)
    problem = by_name[name]
    if problem.startswith("skipped: "):
        pytest.skip(problem)
    assert not problem, f"{problem}\n{printed}"
