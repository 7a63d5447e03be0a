"""Mutants: each weakness of the runtime, or of a class, turns a test red."""

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from mutants import MUTANTS, SUITES, classes, gates, limits, models, sandbox, sessions

from conftest import ROOT, import_path, run

__all__ = ["classes", "gates", "limits", "models", "sandbox", "sessions"]

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
        if (
            suite == "gymnasium"
        ):  # other than FrozenLake, each step of Taxi has a reward
            for command in (
                ["-m", "env_runtime.gymnasium_class", "Taxi-v4"],
                ["make_rows.py", "--example", "--overwrite"],
                ["gates.py", "--write-tools"],
            ):
                path = import_path(project)
                run([sys.executable, *command], project / "nemo_gym", PYTHONPATH=path)
        return project / "nemo_gym", import_path(project)

    return folder


@pytest.fixture(scope="module")
def problems(request, folder_of, tmp_path_factory):
    """For each suite, the problems with its mutants, and what was printed.

    Two suites run at a time.
    """
    tests = [item for item in request.session.items if hasattr(item, "callspec")]
    wanted = {test.callspec.params.get("suite") for test in tests}
    suites = {suite: folder_of(suite) for suite in SUITES if suite in wanted}
    reports = tmp_path_factory.mktemp("mutants")

    def run_suite(suite):
        folder, path = suites[suite]
        report = reports / f"{suite}.json"
        done = run(
            [sys.executable, "-m", "mutants", suite, report],
            folder,
            PYTHONPATH=os.pathsep.join(filter(None, [path, str(ROOT / "tests")])),
            SANDBOX_SECONDS="10",  # a weak limit shall not take half a minute
        )
        return json.loads(report.read_text()), done.stdout

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(suites, pool.map(run_suite, suites), strict=True))


def test_there_are_enough_mutants_with_names_of_their_own():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "name"), CASES)
def test_a_mutant_is_noticed(problems, suite, name):
    by_name, printed = problems[suite]
    problem = by_name[name]
    if problem.startswith("skipped: "):
        pytest.skip(problem)
    assert not problem, f"{problem}\n{printed}"
