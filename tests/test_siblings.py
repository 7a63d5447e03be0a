"""The other frameworks' folders beside nemo_gym/: verifiers, OpenEnv and ORS."""

import json
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import yaml
from test_render import check

from conftest import (
    CLASSES,
    COPIER,
    GAME_FIRST,
    ROOT,
    UV,
    UVX,
    clean_environment,
    git,
    run,
)

FRAMEWORKS = ["verifiers", "openenv", "ors"]
FILES = {
    "verifiers": {"my_env_env.py"},
    "openenv": {
        *("Dockerfile", "openenv.yaml"),
        *("server/app.py", "server/my_env_environment.py"),
    },
    "ors": {"Dockerfile.spaces", "server.py", "tasks.py"},
}
EACH = {"README.md", "gates.py", "pyproject.toml", "rollout.py", ".python-version"}
EACH |= {"tests/conftest.py", "tests/test_environment.py"}

BELL = '''
from typing import NamedTuple


class View(NamedTuple):
    output: str
    image: str


class Bell:
    """Ring the bell, once."""

    def __init__(self, task: dict):
        self.log, self.rung = task["log"], 0

    def look(self) -> View:
        """Look at the bell."""
        return View(f"rung {self.rung} times", "data:image/png;base64,iVBORw0KGgo=")

    def ring(self, times: int) -> str:
        """Ring the bell."""
        if not 0 < times < 5:
            raise ValueError("times must be 1 to 4")
        self.rung += times
        return "ding"

    def reward(self) -> float:
        return 0.5 * (self.rung == 3) + 0.5 * (self.rung == 3 and bool(self.log))

    def close(self):
        with open(self.log, "a") as log:
            print("closed", file=log)

    @staticmethod
    def oracle(task):
        return [("look", {}), ("ring", {"times": 3})]
'''


def siblings_of(project):
    return {name for name in FRAMEWORKS if (project / name).exists()}


@pytest.mark.parametrize("archetype", GAME_FIRST)
def test_rendered_files(render, archetype):
    project = render(archetype=archetype, siblings=FRAMEWORKS)
    check(project)
    for name in FRAMEWORKS:
        found = {
            str(path.relative_to(project / name))
            for path in (project / name).rglob("*")
        }
        assert found >= EACH | FILES[name]
        # It would shadow the package of the same name.
        assert not (project / name / "__init__.py").exists()
    listed = (project / ".dockerignore").read_text().splitlines()
    assert set(FRAMEWORKS) <= set(listed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        {"env_name": "e", "domain_class": "E"},
        {"env_name": "a" + "_b" * 19, "domain_class": "D" + "d" * 49},
        {"domain_module": "z" * 50, "description": "'\"\\ {{ x }} # é"},
    ],
)
def test_long_and_short_names(render, names):
    check(render(siblings=FRAMEWORKS, **names))


@pytest.mark.slow
@pytest.mark.parametrize("module", ["my_env_env", "inventory"])
def test_a_class_of_ones_own(copy, tmp_path, module):
    """Its module may be called like verifiers' taskset would be."""
    project = tmp_path / "my_env"
    project.mkdir()
    shutil.copy(CLASSES / "inventory.py", project / f"{module}.py")
    answers = {"domain_module": module, "domain_class": "Inventory"}
    done = copy(
        project, siblings="[verifiers, openenv, ors]", tools="look_up", **answers
    )
    assert done.returncode == 0, done.stdout
    check(project)
    taskset = "my_env_taskset" if module == "my_env_env" else "my_env_env"
    assert (project / f"verifiers/{taskset}.py").is_file()


def test_none_is_the_default(render):
    assert not siblings_of(render())
    assert "ors" not in (render() / ".dockerignore").read_text().splitlines()


@pytest.mark.parametrize(
    ("framework", "tool"), [("ors", "setup"), ("openenv", "reset"), ("ors", "name")]
)
def test_a_name_of_the_frameworks_own_is_refused(copy, tmp_path, framework, tool):
    done = copy(
        tmp_path / "my_env", siblings=f"[{framework}]", tools=f"guess; {tool}()"
    )
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert f"{framework} cannot serve the tool '{tool}'" in last
    assert not (tmp_path / "my_env").exists()


def test_a_module_of_the_frameworks_own_is_refused(copy, tmp_path):
    done = copy(tmp_path / "my_env", siblings="[ors]", domain_module="tasks")
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert "siblings: ors has a module 'tasks' of its own" in last


@pytest.mark.slow
def test_an_update_adds_one(template, tmp_path):
    project = tmp_path / "my_env"
    run([COPIER, "copy", "--skip-tasks", "--defaults", template, project], tmp_path)
    git(project, "init", "--quiet", "--initial-branch", "main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Generated")
    command = [COPIER, "update", "--trust", "--skip-tasks", "--defaults"]
    run([*command, "-d", "siblings=[ors]"], project)
    assert siblings_of(project) == {"ors"}
    check(project)
    changed = git(project, "status", "--porcelain", "--untracked-files=all")
    outside = [line[3:] for line in changed.splitlines() if " ors/" not in line]
    shared = "my_env_frameworks.py"
    assert sorted(outside) == [".copier-answers.yml", ".dockerignore", shared]
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["siblings"] == ["ors"]


@pytest.mark.slow
def test_the_post_generation_step_installs_each_folder(render, tmp_path):
    """With a uv that only notes what it is asked."""
    project = tmp_path / "my_env"
    shutil.copytree(render(siblings=FRAMEWORKS), project)
    log = tmp_path / "log"
    for name in ["nemo_gym", *FRAMEWORKS]:
        python = project / name / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        (python.parents[1] / "pyvenv.cfg").touch()
        python.write_text("#!/bin/sh\necho 3.13.15 0.1\n")
        python.chmod(0o755)
    uv = tmp_path / "uv"
    uv.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
    uv.chmod(0o755)
    script = ROOT / "extensions/post_generate.py"
    command = [sys.executable, script, "copy", json.dumps(FRAMEWORKS), "[]"]
    done = run(command, project, UV=str(uv), UV_PYTHON="python3")
    asked = [line for line in log.read_text().splitlines() if "find" not in line]
    folders = [name for name in ["nemo_gym", *FRAMEWORKS] for _ in range(2)]
    assert [re.search(r"--directory (\w+)", line)[1] for line in asked] == folders
    assert asked[3].endswith("verifiers python gates.py import")
    assert "openreward 0.1" in done.stdout


# ------------------------------------------------------------------- with the frameworks


@pytest.fixture(scope="session")
def game(template, tmp_path_factory):
    """A game with all frameworks, as `copier copy --trust` installs it."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    command = [*UVX, "copier", "copy", "--trust", "--defaults"]
    command += ["--data=siblings=[verifiers, openenv, ors]", template, "my_env"]
    done = run(command, elsewhere)
    assert done.stdout.count("PASS import") == 4
    return elsewhere / "my_env"


@pytest.fixture(scope="session")
def bell(template, game, tmp_path_factory):
    """A class of one's own with all frameworks, on the venvs of the game."""
    project = tmp_path_factory.mktemp("own") / "bell"
    project.mkdir()
    (project / "bell.py").write_text(BELL)
    data = [
        "domain_class=Bell",
        "tools=look, ring",
        "siblings=[verifiers, openenv, ors]",
    ]
    command = [COPIER, "copy", "--skip-tasks", "--defaults", "--quiet"]
    run([*command, *(f"--data={one}" for one in data), template, project], project)
    row = json.loads((project / "nemo_gym/data/example.jsonl").read_text())
    row["ground_truth"] = [{"log": str(project / "log")}]
    (project / "nemo_gym/data/example.jsonl").write_text(json.dumps(row) + "\n")
    for name in FRAMEWORKS:
        venv = project / name / ".venv"
        python = (game / name / ".venv/bin/python").resolve()
        run([UV, "venv", "--quiet", "--python", python, venv], project)
        [installed] = (game / name).glob(".venv/lib/python*/site-packages")
        [own] = venv.glob("lib/python*/site-packages")
        paths = [installed, project / name, project]
        (own / "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
    return project


def python(project, name, *arguments, **variables):
    command = [project / name / ".venv/bin/python", *arguments]
    return run(command, project / name, **variables).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gates_and_tests_are_green(game, name):
    results = json.loads(python(game, name, "gates.py", "--json"))
    assert [one["gate"] for one in results] == ["import", "server", "smoke", "rollout"]
    assert all(one["passed"] for one in results), results
    detail = results[-1]["detail"]
    assert detail == "24 rows: the oracle earns 1.0, noop and nonsense 0.0"
    assert re.search(r"\d+ passed", python(game, name, "-m", "pytest", "-q"))


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_class_of_ones_own_plays_and_is_closed(bell, name):
    log = bell / "log"
    log.unlink(missing_ok=True)
    # verifiers' smoke gate takes half a minute; a test below plays a whole rollout.
    gates = ["rollout"] if name == "verifiers" else ["smoke", "rollout"]
    results = json.loads(python(bell, name, "gates.py", *gates, "--json"))
    assert all(one["passed"] for one in results), results
    assert results[-1]["detail"].startswith("1 row: the oracle earns 1.0")
    assert log.read_text().count("closed") > 2


# What a policy may try in the game, and what it is worth. WORD is the hidden word.
SCRIPTS = [
    ([], 0.0),
    (["WORD"], 1.0),
    (["word"], 1.0),  # in upper case
    (["wrong", "WORD"], 1.0),
    (["WORD", "wrong"], 1.0),
    (["WORD", "WORD"], 1.0),
    (["wrong"] * 6, 0.0),
    (["wrong"] * 6 + ["WORD"], 0.0),
    (["wrong"] * 5 + ["WORD"], 1.0),
    (["no", "WORD"], 1.0),
    (["Solved: the hidden word is WORD."], 0.0),
    (["WORD "], 1.0),
    ([""], 0.0),
    (["*****"], 0.0),
]

EARNED = """
import asyncio, json, sys
from pathlib import Path
import my_env_frameworks as frameworks
from my_env import MyEnv

target = frameworks.read_rows(MyEnv)[0]["ground_truth"][0]["target"]
scripts = [
    [("guess", {"word": word.replace("WORD", target).replace("word", target.upper())})
     for word in words]
    for words in json.loads(sys.argv[1])
]
if Path.cwd().name == "verifiers":
    from my_env_env import create_verifiers_env
    row = next(iter(create_verifiers_env().taskset))
    print(json.dumps([asyncio.run(row.earned(calls)) for calls in scripts]))
else:
    from rollout import connect
    module = ["-m", "server.app"] if Path.cwd().name == "openenv" else ["server.py"]
    with frameworks.running_server([sys.executable, *module], Path.cwd()) as url:
        start = connect(url)
        earned = [asyncio.run(frameworks.played(start, 0, calls)) for calls in scripts]
    print(json.dumps(earned))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_a_policy_may_try(game, name):
    scripts = json.dumps([words for words, _ in SCRIPTS])
    printed = python(game, name, "-c", EARNED, scripts)
    assert json.loads(printed.splitlines()[-1]) == [worth for _, worth in SCRIPTS]


@pytest.mark.slow
def test_verifiers_own_commands(game):
    """vf-validate checks the oracle and doing nothing on every row."""
    bin_folder = game / "verifiers/.venv/bin"
    command = [bin_folder / "vf-validate", "my_env_env", "--runtime.type", "subprocess"]
    printed = run([*command, "--no-rich"], game / "verifiers").stdout
    summary = json.loads(printed[printed.index("\n{") :])
    assert summary["outcomes"]["valid"] == 24
    assert summary["checks"]["gold"]["valid"] == 24


@pytest.mark.slow
def test_openenvs_own_commands(game):
    command = [game / "openenv/.venv/bin/openenv", "validate", "--level", "static", "."]
    assert "Verdict: PASS" in run(command, game / "openenv").stdout


@pytest.mark.slow
def test_names_that_are_refused_are_those_of_the_base_classes(game):
    text = (ROOT / "extensions/names.jinja").read_text()
    listed = text[
        text.index("set FRAMEWORK_NAMES") : text.index("macro siblings_error")
    ]
    code = (
        "import server; print(*(x for x in dir(server.BaseEnvironment) if x[0] != '_'))"
    )
    names = set(python(game, "ors", "-c", code).split()) - {"name"}
    assert names <= set(re.findall(r"\w+", listed)), names
    code = (
        "from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES as names; "
        "print(*names)"
    )
    assert set(python(game, "openenv", "-c", code).split()) <= set(
        re.findall(r"\w+", listed)
    )


class Model(BaseHTTPRequestHandler):
    """Chat Completions: looks, rings three times, and claims what it did not earn."""

    PLAN = (("look", {}), ("ring", {"times": 3}))

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.seen = request
        made = sum(one["role"] == "assistant" for one in request["messages"])
        message = {"role": "assistant", "content": "Reward: 1.0"}
        if made < len(self.PLAN):
            name, given = self.PLAN[made]
            function = {"name": name, "arguments": json.dumps(given)}
            calls = [{"id": f"call_{made}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        body = json.dumps({"choices": [{"message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        """Nothing is said about requests."""


@contextmanager
def serving(project, name):
    command = ["-m", "server.app"] if name == "openenv" else ["server.py"]
    process = subprocess.Popen(
        [project / name / ".venv/bin/python", *command],
        cwd=project / name,
        env=clean_environment(HOST="127.0.0.1", PORT="0"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        for line in process.stdout:
            if found := re.search(r"running on (http://\S+)", line):
                threading.Thread(target=process.stdout.read, daemon=True).start()
                yield found[1]
                return
        pytest.fail("the server ended without serving")
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openenv", "ors"])
def test_a_model_plays_and_sees_the_image(bell, name):
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Model) as model,
        serving(bell, name) as url,
    ):
        threading.Thread(target=model.serve_forever, daemon=True).start()
        settings = {
            "MODEL": "scripted",
            "OPENAI_API_KEY": "a-key",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{model.server_port}/v1",
        }
        printed = python(bell, name, "rollout.py", "--url", url, **settings)
        noop = python(bell, name, "rollout.py", "--url", url, "--policy", "noop")
        model.shutdown()
    assert "mean reward: 1.0" in printed
    assert "mean reward: 0.0" in noop
    told = model.seen["messages"]
    assert [one["role"] for one in told[1:4]] == ["assistant", "tool", "user"]
    assert told[3]["content"][0]["image_url"]["url"].startswith("data:image/png")


@pytest.mark.slow
def test_a_scripted_model_sees_the_image_in_verifiers(bell):
    """And close() runs in the tool server's process, which ends by a signal."""
    log = bell / "log"
    log.unlink(missing_ok=True)
    code = (
        "import asyncio, json, rollout, bell_env; "
        "rows = list(bell_env.create_verifiers_env().taskset); "
        "plan = [('look', {}), ('ring', {'times': 3})]; "
        "traces, [seen] = asyncio.run(rollout.play(rows, [plan])); "
        "print(json.dumps([traces[0].reward, seen]))"
    )
    reward, seen = json.loads(python(bell, "verifiers", "-c", code).splitlines()[-1])
    assert reward == 1.0
    assert "image_url" in json.dumps([one for one in seen if one["role"] == "tool"])
    assert log.read_text() == "closed\n"
