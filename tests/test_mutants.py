"""Mutants: each weakness of the runtime, or of a class, turns a test red."""

import ast
import json
import os
import shutil
import sys

import pytest
from mutants import MUTANTS, SUITES, classes, gates, limits, models, sandbox, sessions

from conftest import ROOT, RUNTIME, import_path, make_taxi, only_once, run

__all__ = ["classes", "gates", "limits", "models", "sandbox", "sessions"]

BY_DAY = "game"  # the other suites' mutants are for the nights
CLASS = ("myenv", "my_env")  # the class of a project, and its module
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
            for tests in ("test_contract.py", "backends/local/test_backend.py"):
                place = project / "nemo_gym/tests"
                shutil.copy(ROOT / "archetypes/sandbox/tests" / tests, place)
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


def test_what_a_mutant_replaces_is_there():
    """A change of the runtime may leave a mutant behind, which only the nights run."""
    defined = set()
    for path in (RUNTIME / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            defined.add((path.stem, getattr(node, "name", "")))
            if isinstance(node, ast.ClassDef):
                names = {getattr(part, "name", "") for part in node.body}
                defined |= {(node.name, name) for name in names}
    places = {mutant.place for mutant in MUTANTS} | {one.without for one in MUTANTS}
    ours = {tuple(place.split(".")) for place in places if place}
    assert {one for one in ours - defined if one[0].lower() not in CLASS} == set()


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
