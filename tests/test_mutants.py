"""Weakened servers and graders: the tests that every project has turn red."""

import json
import sys

import pytest
from mutants import CLASSES, SERVER

from conftest import ROOT, import_path, run

CASES = [
    *(("game", name) for name in ["nothing", *SERVER, *CLASSES["game"]]),
    *(("sandbox", name) for name in ["nothing", *CLASSES["sandbox"]]),
    *(("vision", name) for name in ["nothing", *CLASSES["vision"]]),
]


@pytest.fixture(scope="module")
def statuses(render, tmp_path_factory):
    """The exit statuses of an archetype's tests, by weakness."""
    runs = {}

    def of(archetype):
        if archetype not in runs:
            project = render(archetype=archetype)
            report = tmp_path_factory.mktemp("mutants") / "report.json"
            done = run(
                [sys.executable, ROOT / "tests/mutants.py", archetype, report],
                project / "nemo_gym",
                PYTHONPATH=import_path(project),
            )
            runs[archetype] = json.loads(report.read_text()), done.stdout
        return runs[archetype]

    return of


@pytest.mark.slow
@pytest.mark.parametrize(("archetype", "name"), CASES)
def test_a_weakness_turns_the_tests_red(statuses, archetype, name):
    by_name, printed = statuses(archetype)
    red = {"nothing": pytest.ExitCode.OK}.get(name, pytest.ExitCode.TESTS_FAILED)
    assert by_name[name] == red, printed
