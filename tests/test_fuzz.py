"""Requests that nobody would write: none is answered with a 5xx."""

import sys
from pathlib import Path

import pytest

from conftest import ARCHETYPES, ROOT, run


@pytest.mark.slow
@pytest.mark.parametrize("series", ["0.7"], indirect=True)
@pytest.mark.parametrize("archetype", ARCHETYPES)
def test_no_input_is_answered_with_a_server_error(generate, archetype):
    """Random requests for each, and 20,000 at the edges of its schemas for the game.

    The edges of the others, a minute each, are for benchmarks/fuzz.py.
    """
    environment = generate(archetype=archetype)
    phases = "coverage,fuzzing" if archetype == "game" else "fuzzing"
    tools = Path(sys.executable).parent  # schemathesis is one of the template's own
    script = ROOT / "benchmarks/fuzz.py"
    done = run(
        [environment.python, script, "50"],
        environment.folder,
        check=False,
        FUZZ_PHASES=phases,
        PATH=f"{tools}:/usr/local/bin:/usr/bin:/bin",
    )
    assert done.returncode == 0, done.stdout[-3000:]
    print(done.stdout.splitlines()[-1])
