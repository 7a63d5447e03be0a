"""The core: what the processes of a game load, and what is left if every room is deleted."""

import re
import shutil
import subprocess
import sys

import pytest
from test_layers import ROOMS

from projects import git, run
from rendering import copy_working_tree

from .rendered import PROJECT

# Prints the modules of env_runtime that a script has loaded.
REPORT = """
import sys
for name, module in sorted(sys.modules.items()):
    if name.partition(".")[0] == "env_runtime" and getattr(module, "__file__", None):
        print("loaded", name)
"""
SERVER = """
import json
from fastapi.testclient import TestClient
import server
row = json.loads(open("data/example.jsonl").readline())
with TestClient(server.MyEnvResourcesServer.worker(), base_url="http://127.0.0.1") as client:
    assert client.post("/seed_session", json=row).status_code == 200
    assert "output" in client.post("/guess", json={"word": "crane"}).json()
    response = {"id": "1", "created_at": 0, "model": "m", "object": "response", "output": []}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    answer = client.post("/verify", json={**row, "response": response})
    assert answer.json()["reward"] == 0.0, answer.text
"""
GATES = """
import runpy, sys
sys.argv = ["gates.py"]
try:
    runpy.run_path("gates.py", run_name="__main__")
except SystemExit as end:
    assert not end.code
"""


@pytest.mark.parametrize(
    ("script", "needed"), [(SERVER, set()), (GATES, {"probe"})], ids=["server", "gates"]
)
def test_what_everybody_runs_loads_no_other_room(script, needed):
    done = subprocess.run(
        [sys.executable, "-c", script + REPORT],
        cwd=PROJECT / "nemo_gym",
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    loaded = re.findall(r"^loaded env_runtime\.(\w+)", done.stdout, re.MULTILINE)
    assert "server" in loaded
    assert ROOMS & set(loaded) == needed


# Tests of the core alone: of episodes, sessions, verdicts, limits, threads and gates
CORE = ["failures", "hangs", "large_bodies", "limits", "own_suite", "properties"]
CORE += ["reward_range", "seeding", "text_match", "threads"]


@pytest.mark.nightly
@pytest.mark.parametrize("room", ["all", *sorted(ROOMS)])
def test_a_room_can_be_taken_away(room, tmp_path):
    """The tests of the core pass, and so do a game's gates and tests."""
    clone = tmp_path / "nemo-gym-template"
    copy_working_tree(clone)
    git(clone, "init", "--quiet")
    package = clone / "runtime/src/env_runtime"
    for name in ROOMS if room == "all" else {room}:
        for place in (package / name, package / f"{name}.py"):
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
    tests = [f"tests/runtime/test_{name}.py" for name in CORE]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
    ]
    run([*command, *tests], clone, PYTHONPATH=str(package.parent))
    game = tmp_path / "game"
    shutil.copytree(PROJECT, game)
    gym = game / "nemo_gym"
    path = f"{package.parent}:{gym}:{game}"
    printed = run([sys.executable, "gates.py"], gym, PYTHONPATH=path).stdout
    assert "the oracle earns 1.0, noop and nonsense 0.0" in printed
    run([*command, "-o", "addopts=", "tests"], gym, PYTHONPATH=path)
