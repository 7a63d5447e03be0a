"""Tests that no request, however strange, is answered with a 5xx."""

import sys
from pathlib import Path

import pytest

from projects import ROOT, run


@pytest.mark.nightly
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
def test_no_input_is_answered_with_a_server_error(generate):
    """The server gets 20,000 requests at the limits of the schemas, and random ones.

    benchmarks/fuzz.py tests the other archetypes, for two minutes each.
    """
    environment = generate(archetype="game")
    tools = Path(sys.executable).parent  # the template's venv has schemathesis
    script = ROOT / "benchmarks/fuzz.py"
    done = run(
        [environment.python, script, "50"],
        environment.folder,
        check=False,
        PATH=f"{tools}:/usr/local/bin:/usr/bin:/bin",
    )
    assert done.returncode == 0, done.stdout[-3000:]
    print(done.stdout.splitlines()[-1])
