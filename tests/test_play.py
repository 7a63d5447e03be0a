"""Five games on play.py's page in real headless Chromium, each to its reward.

The page's server and its forms without a browser: tests/runtime/test_play.py.
"""

import contextlib
import json
import shutil
import signal
import subprocess
import sys

import pytest

from projects import ROOT, UV, clean_environment, import_path, make_taxi, python_in, run

# By day, tests/test_view.py runs the other page in Chromium.
pytestmark = pytest.mark.nightly

# Their first rows, and what is special about each game
GAMES = {
    "game": ({"archetype": "game"}, {"again": True, "scheme": "dark"}),
    "vision": ({"archetype": "vision"}, {}),
    "conversation": ({"archetype": "conversation"}, {}),
    "sandbox": ({"archetype": "sandbox"}, {"scheme": "dark"}),
    "taxi": ({"archetype": "gymnasium"}, {"keep": True}),
}

# Without the server's modules, which take seconds to import
SOLVE = """
import json
from env_runtime.episode.tasks import oracle_reward
from env_runtime.evaluation.policies import solution_for
from env_runtime.evaluation.rows import load_rows
from env_runtime.project import here
row = load_rows()[0]
calls, answer = solution_for(row, row["responses_create_params"]["tools"])
steps = [sent["answer"] if tool == "reply" else [tool, sent] for tool, sent in calls]
print(json.dumps({"steps": steps, "reward": oracle_reward(here().load_class(), row)}))
"""


@contextlib.contextmanager
def page_of(project, *arguments):
    """The link of play.py's page. Ctrl-C must end play.py, and what it started."""
    process = subprocess.Popen(
        [sys.executable, "play.py", "--no-browser", *arguments],
        cwd=project / "nemo_gym",
        env=clean_environment(PYTHONPATH=import_path(project)),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "pass@1          1.000" in printed


@pytest.fixture(scope="module")
def projects(render, tmp_path_factory):
    """A project for each game. Taxi's class lost its oracle; its solution is known."""
    projects, solved = {}, {}
    for name, (answers, _) in GAMES.items():
        project = tmp_path_factory.mktemp(name) / "my_env"
        shutil.copytree(render(**answers), project)
        if name == "taxi":
            make_taxi(project)
        projects[name] = project
        solved[name] = json.loads(python_in(project, "-c", SOLVE).splitlines()[-1])
    domain = projects["taxi"] / "my_env.py"
    domain.write_text(f"{domain.read_text()}\n\ndel MyEnv.oracle\n")
    return projects, solved


def test_five_games_in_chromium(projects, chromium, tmp_path):
    folders, solved = projects
    with contextlib.ExitStack() as stack:
        pages = {
            name: stack.enter_context(page_of(folders[name], "--player", "ada"))
            for name in GAMES
        }
        games = []
        for name, (_, special) in GAMES.items():
            link = pages[name].stdout.readline().split()[-1]
            games.append({"name": name, "link": link, **solved[name], **special})
        script = ROOT / "tests/play_in_chromium.py"
        browse = [UV, "run", "--quiet", "--no-project", "--with", "playwright>=1.50"]
        command = [*browse, "python", script, chromium, json.dumps(games)]
        assert run(command, tmp_path).stdout == "all is well\n"
    for name, project in folders.items():
        lines = (project / "nemo_gym/results/ada.jsonl").read_text().splitlines()
        assert len(lines) == (2 if name == "game" else 1)
        rollout = json.loads(lines[0])
        assert rollout["reward"] == pytest.approx(solved[name]["reward"])
        assert rollout["played_by"] == "ada"
    # A row's oracle was made by playing: the class has none.
    rows = (folders["taxi"] / "nemo_gym/data/example.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["oracle"] == solved["taxi"]["steps"]
    assert "oracle" not in json.loads(rows[1])
    printed = python_in(folders["taxi"], "gates.py", "rollout")
    assert "the oracle earns what each row says" in printed
    assert "19 of the rows have no known solution" in printed
