"""The other frameworks' folders beside nemo_gym/: verifiers, OpenEnv and ORS."""

import base64
import functools
import json
import re
import shutil
import struct
import sys
import tomllib
import zipfile
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import sibling_scripts
import yaml
from chat_model import playing
from test_render import check, text_files

from conftest import (
    CLASSES,
    GAME_BY_DAY,
    GAME_FIRST,
    ROOT,
    RUNTIME,
    UV,
    check_types,
    copier,
    git,
    nightly,
    run,
    running,
)

FRAMEWORKS = ["verifiers", "openenv", "ors"]
FILES = {
    "verifiers": {"my_env_env.py", "hatch_build.py"},
    "openenv": {
        *("Dockerfile", "openenv.yaml"),
        *("server/__init__.py", "server/app.py", "server/my_env_environment.py"),
        "server/page.py",
        *("my_env_openenv/client.py", "my_env_openenv/models.py", "my_env_trl.py"),
    },
    "ors": {"Dockerfile", "requirements.txt", "server.py", "tasks.py"},
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

    def polish(self, tools: dict) -> str:
        """Polish the bell, which says nothing."""
        return ""

    def reward(self) -> float:
        return 0.5 * (self.rung == 3) + 0.5 * (self.rung == 3 and bool(self.log))

    def close(self):
        with open(self.log, "a") as log:
            print("closed", file=log)

    @staticmethod
    def oracle(task):
        return [("look", {}), ("polish", {"tools": {}}), ("ring", {"times": 3})]
'''


def siblings_of(project):
    return {name for name in FRAMEWORKS if (project / name).exists()}


@pytest.mark.parametrize("archetype", [*GAME_FIRST, "answer"])
def test_rendered_files(render, archetype):
    project = render(archetype=archetype, siblings=FRAMEWORKS)
    check(project)
    for name in FRAMEWORKS:
        rendered = {
            str(path.relative_to(project / name))
            for path in (project / name).rglob("*")
        }
        assert rendered >= EACH | FILES[name]
        # It would shadow the package of the same name.
        assert not (project / name / "__init__.py").exists()
    listed = (project / ".dockerignore").read_text().splitlines()
    assert set(FRAMEWORKS) <= set(listed)


@pytest.mark.parametrize(
    ("name", "framework"), [("openenv",) * 2, ("ors", "openreward")]
)
def test_an_image_leaves_out_what_no_server_imports(render, name, framework):
    """Its build plays the gates, before it gives up the right to write."""
    project = render(siblings=["openenv", "ors"])
    text = (project / name / "Dockerfile").read_text()
    packages, serving = text.split("\nFROM ")[1:]
    assert f"env_runtime.small_image options {framework} >" in packages
    [wheel] = re.findall(r"vendor/(\S+\.whl) python", packages)
    settings = (project / "nemo_gym/pyproject.toml").read_text()
    assert f'"vendor/{wheel}"' in settings
    assert ":/uv" not in serving and "COPY --from=packages /opt /opt" in serving
    gates = serving.index("python gates.py import server smoke")
    assert gates < serving.index("USER 1000") < serving.index('CMD ["python"')
    assert ("ARG WEB=false" in text) == (name == "openenv")


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


def test_the_readmes_call_a_tool_with_its_arguments(render):
    projects = {
        '{"word": "crane"}': render(siblings=FRAMEWORKS),
        '{"text": "..."}': render(archetype="answer", siblings=FRAMEWORKS),
        '{"n": 1, "on": True, "kind": "a b", "more": []}': render(
            siblings=FRAMEWORKS,
            tools="f(n: int, on: bool, kind: Literal['a b'], more: list[int], x: int = 1)",
        ),
    }
    for arguments, project in projects.items():
        for name in ("openenv", "ors"):
            assert arguments in (project / name / "README.md").read_text()


def test_what_prime_rl_reads_names_the_taskset(render):
    """The README's blocks for its training and its eval."""
    readme = (render(siblings=FRAMEWORKS) / "verifiers/README.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", readme, re.DOTALL)
    train, evaluation = map(tomllib.loads, blocks)
    for [source] in (train["orchestrator"]["train"]["source"], evaluation["source"]):
        assert source["env"] == {"taskset": {"id": "my_env_env"}}


def test_none_is_the_default(render):
    assert not siblings_of(render())
    assert "ors" not in (render() / ".dockerignore").read_text().splitlines()
    first, other = (
        {str(path.relative_to(project)): text for path, text in text_files(project)}
        for project in (render(), render(siblings=["ors"]))
    )
    changed = {path for path, text in other.items() if text != first.get(path)}
    outside = {path for path in changed if not path.startswith("ors/")}
    assert outside == {".copier-answers.yml", ".dockerignore"}


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


@pytest.mark.parametrize(
    ("framework", "module"),
    [("ors", "tasks"), ("openenv", "my_env_trl"), ("openenv", "my_env_openenv")],
)
def test_a_module_of_the_frameworks_own_is_refused(copy, tmp_path, framework, module):
    done = copy(tmp_path / "my_env", siblings=f"[{framework}]", domain_module=module)
    assert done.returncode == 1
    last = done.stdout.strip().splitlines()[-1]
    assert f"siblings: {framework} has a module '{module}' of its own" in last


@pytest.mark.slow
def test_an_update_adds_one(repository, tmp_path):
    project = tmp_path / "my_env"
    copier(tmp_path, "copy", "--skip-tasks", "--defaults", repository, project)
    git(project, "init", "--quiet", "--initial-branch", "main")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "Generated")
    command = ["update", "--trust", "--skip-tasks", "--defaults"]
    copier(project, *command, "-d", "siblings=[ors]")
    assert siblings_of(project) == {"ors"}
    check(project)
    changed = git(project, "status", "--porcelain", "--untracked-files=all")
    outside = {line[3:] for line in changed.splitlines() if " ors/" not in line}
    assert outside == {".copier-answers.yml", ".dockerignore"}
    answers = yaml.safe_load((project / ".copier-answers.yml").read_text())
    assert answers["siblings"] == ["ors"]


@pytest.fixture
def post_generate(render, tmp_path):
    """Runs the step after generation with a uv that only prints its arguments."""
    project = tmp_path / "my_env"
    shutil.copytree(render(siblings=FRAMEWORKS), project)
    for name in ["nemo_gym", *FRAMEWORKS]:
        python = project / name / ".venv/bin/python"
        python.parent.mkdir(parents=True)
        (python.parents[1] / "pyvenv.cfg").touch()
        python.write_text("#!/bin/sh\necho 3.13.15 0.1\n")
        python.chmod(0o755)

    def step(status=0):
        """Returns its output, if every import gate ends with this status."""
        uv = tmp_path / "uv"
        uv.write_text(f"""#!/bin/sh
echo "uv $@"
case "$@" in
    "build "*) while [ "$1" != --out-dir ]; do shift; done; touch "$2/env_runtime-0.whl" ;;
    "run --directory "*) exit {status} ;;
esac
""")
        uv.chmod(0o755)
        script = ROOT / "extensions/post_generate.py"
        command = [sys.executable, script, "copy", json.dumps(FRAMEWORKS), "[]"]
        done = run(command, project, check=False, UV=str(uv), UV_PYTHON="python3")
        assert done.returncode == status
        return project, done.stdout.splitlines()

    return step


def test_the_post_generation_step_installs_each_folder(post_generate):
    project, printed = post_generate()
    built, *asked = [line for line in printed if line.startswith("uv ")]
    assert built.endswith("/runtime")
    [wheel] = (project / "nemo_gym/vendor").iterdir()
    assert wheel.name == "env_runtime-0.whl"
    folders = [name for name in ["nemo_gym", *FRAMEWORKS] for _ in range(2)]
    assert [re.search(r"--directory (\w+)", line)[1] for line in asked] == folders
    assert asked[3].endswith("verifiers python gates.py import")
    assert printed.index("verifiers/") == printed.index(asked[2]) - 1
    [ready] = [line for line in printed if line.startswith("Ready: ")]
    assert "openreward 0.1" in ready
    for name in ["nemo_gym", *FRAMEWORKS]:
        assert f"  cd {project / name}" in printed


def test_the_post_generation_step_tries_each_folder_before_it_fails(post_generate):
    project, printed = post_generate(1)
    assert len([line for line in printed if "gates.py import" in line]) == 4
    # The first one's tools go into the rows, which an import gate that fails does not do.
    gates = ["gates.py --write-tools", *["gates.py"] * 3]
    for name, gate, line in zip(
        ["nemo_gym", *FRAMEWORKS], gates, printed[-4:], strict=True
    ):
        assert line.startswith("nemo-gym-template: the import gate failed")
        assert line.endswith(f"`uv run python {gate}` in {project / name}")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_missing_package_is_one_line(render, name):
    """This interpreter has none of the frameworks."""
    project = render(siblings=FRAMEWORKS)
    command = [sys.executable, "gates.py", "import"]
    done = run(command, project / name, check=False)
    [line] = done.stdout.splitlines()
    assert done.returncode == 1
    problem = (
        r"FAIL import .* ModuleNotFoundError in [\w/]+\.py, line \d+: No module .*"
    )
    advice = f"Add the package that has it: `uv add PACKAGE` in {name}/"
    assert re.fullmatch(problem + re.escape(advice), line)


# ------------------------------------------------------------------- with the frameworks


@pytest.fixture(scope="session")
def game(install):
    """A game with all frameworks, as `copier copy --trust` installs it."""
    project = install(siblings="[verifiers, openenv, ors]")
    assert (project.parent / "printed").read_text().count("PASS import") == 4
    return project


@pytest.fixture(scope="session")
def own(copy, game, tmp_path_factory):
    """A class of one's own with all frameworks, on the venvs of the game."""

    def of(name, source, **answers):
        project = tmp_path_factory.mktemp("own") / name
        project.mkdir()
        (project / f"{name}.py").write_text(source)
        answers |= {"domain_class": name.capitalize(), "domain_module": name}
        done = copy(project, siblings="[verifiers, openenv, ors]", **answers)
        assert done.returncode == 0, done.stdout
        borrow_venvs(project, game)
        return project

    return of


@pytest.fixture(scope="session")
def bell(own):
    # Fewer turns than the calls of each scripted policy
    project = own("bell", BELL, tools="look, ring, polish", max_turns=2)
    row = json.loads((project / "nemo_gym/data/example.jsonl").read_text())
    row["ground_truth"] = [{"log": str(project / "log")}]
    (project / "nemo_gym/data/example.jsonl").write_text(json.dumps(row) + "\n")
    return project


@pytest.fixture(scope="session")
def stall(own):
    """A class that differs from the archetypes in everything."""
    source = (CLASSES / "stall.py").read_text()
    project = own("stall", source, tools="prices, buy", env_name="my_env")
    shutil.copy(CLASSES / "stall.jsonl", project / "nemo_gym/data/example.jsonl")
    manifest = project / "openenv/openenv.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("range: [0.0, 1.0]", "range: [-1.0, 2.0]"))
    return project


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_class_as_it_is(stall, name):
    """Native rows, a reward from -1 to 2, JSON as an answer, and a last message."""
    # The class of another test passes verifiers' smoke gate, which takes half a minute.
    gates = ["import", "rollout"] if name == "verifiers" else []
    results = json.loads(python(stall, name, "gates.py", *gates, "--json"))
    details = {result["gate"]: result["detail"] for result in results}
    assert all(result["passed"] for result in results), results
    assert details["import"] == "stall.Stall has prices, buy"
    assert details["rollout"] == (
        "2 rows: the oracle earns 2.0, noop and nonsense at most 0.0"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openenv", "ors"])
def test_a_model_sees_the_first_observation_and_its_last_message_counts(stall, name):
    _, plan = json.loads(python(stall, name, "-c", SOLVE, "0"))
    claim = "I bought apples."
    with scripted(plan, claim) as model, serving(stall, name) as url:
        settings = {"MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.url}
        command = ["rollout.py", "--url", url, "--limit", "1"]
        assert "mean reward: 2.0" in python(stall, name, *command, **settings)
    opening = json.dumps(model.seen[0])
    assert "On the stall: apples, pears." in opening
    assert "data:image/png;base64," in opening
    assert '{\\"apples\\": 4.0' in json.dumps(model.seen[1])


MCP_CLIENT = """
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.mcp_client import MCPToolClient

def call(env, name, **arguments):
    step = env.step(CallToolAction(tool_name=name, arguments=arguments))
    error = step.observation.error
    return [step.observation.result, error and error.error_type.value, step.reward]

with MCPToolClient(base_url=url).sync() as env:
    seen = []
    try:
        call(env, "prices")
    except RuntimeError as error:
        seen.append(str(error))
    start = env.reset(split="test", index=1)
    seen.append(start.observation.image[:22])
    seen.append(call(env, "prices"))
    seen.append(call(env, "buy", item="nuts", offer=1))
    seen.append(call(env, "secret"))
    seen.append([tool.name for tool in env.list_tools()])
    seen.append(env.call_tool("prices"))
    for name, arguments in (
        ("dance", {}),
        ("buy", {"item": "pears"}),
        ("buy", {"item": "nuts", "offer": 1}),
    ):
        try:
            seen.append(env.call_tool(name, **arguments))
        except RuntimeError as error:
            seen.append(str(error))
    for row in ({"index": 999}, {"seed": "x"}):
        for play in (lambda: env.reset(**row), lambda: call(env, "prices")):
            try:
                seen.append(str(play()))
            except RuntimeError as error:
                seen.append(str(error))
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_openenvs_client_for_tools(stall):
    printed = python(stall, "openenv", "-c", SERVE + MCP_CLIENT)
    seen = json.loads(printed.splitlines()[-1])
    lost, image, prices, wrong, unserved, names, *called = seen
    assert "no episode: reset the environment first" in lost
    assert image == "data:image/png;base64,"
    assert prices == [{"data": '{"apples": 4.0, "pears": 6.0}'}, None, 0.0]
    assert wrong == [None, "execution_error", 0.0]
    assert unserved[1] == "tool_not_found"
    assert names == ["prices", "buy", "answer"]
    answer, *failed = called
    assert answer == '{"apples": 4.0, "pears": 6.0}'
    said = ["no tool 'dance'", "offer: Field required", "there are only apples, pears"]
    said += ["test has the rows 0 to 1, got 999", "no episode"]
    said += ["seed must be a whole number, got 'x'", "no episode"]
    for text, told in zip(failed, said, strict=True):
        assert told in text


@pytest.mark.slow
def test_openenvs_page_shows_the_tools(stall):
    """The form has a field for each parameter, and a call may be typed as text."""
    code = """
import os
os.environ["ENABLE_WEB_INTERFACE"] = "true"
import json
from fastapi.testclient import TestClient
from server.app import app
with TestClient(app) as client:
    client.post("/web/reset", json={})
    arguments = {"item": "pears", "offer": 6}
    action = {"type": "call_tool", "tool_name": "buy", "arguments": arguments}
    typed = {**action, "arguments": json.dumps(arguments)}
    steps = [client.post("/web/step", json={"action": each}) for each in (action, typed)]
    print(json.dumps([
        client.get("/metadata").json(),
        client.get("/web/metadata").json(),
        client.get("/web/config").text,
        [step.json()["observation"]["data"] for step in steps],
    ]))
"""
    printed = python(stall, "openenv", "-c", code)
    *about, page, answers = json.loads(printed.splitlines()[-1])
    for metadata in about:
        assert (metadata["name"], metadata["description"]) == (
            *("my_env", "The Stall environment."),
        )
    assert "At least three quarters of its price." in page
    assert answers == ["Sold.", "Sold."]


PAGE = """
from gradio_client import Client

page = Client(url + "/web/", verbose=False)
page.predict("test", 1, api_name="/choose")
raw = page.predict(api_name="/reset_env")[3]
*_, result, _, episode = page.predict("buy", "nuts", 1, "", api_name="/step_fn")
page.predict("test", 999, api_name="/choose")
missing = page.predict(api_name="/reset_env")[2]
print(json.dumps([json.loads(raw), result, episode, missing]))
"""


@pytest.mark.slow
def test_openenvs_page_plays_the_row_that_is_chosen(stall):
    """It says `error:` once if a call fails."""
    variables = {"ENABLE_WEB_INTERFACE": "true"}
    printed = python(stall, "openenv", "-c", SERVE + PAGE, **variables)
    start, result, episode, missing = json.loads(printed.splitlines()[-1])
    assert start["observation"]["prompt"].startswith("Buy pears.")
    assert ">Error: there are only apples, pears<" in result
    assert "error: there are only" in episode
    assert "error: error:" not in episode
    assert "test has the rows 0 to 1, got 999" in missing


@pytest.mark.parametrize(
    "rewards", [[1.0, 1.0], [1.0, -1.0, None], [0.0, None, 0.5], [0.0]]
)
def test_the_readmes_reward_for_trl_is_the_sum(render, rewards):
    readme = (render(siblings=FRAMEWORKS) / "ors/README.md").read_text()
    [code] = re.findall(r"^def reward\(.*?\n\n\n", readme, re.DOTALL | re.MULTILINE)
    scope = {}
    exec(code, scope)  # noqa: S102 - the README shows this code
    played = [SimpleNamespace(rewards=each) for each in (rewards, [], [None])]
    total = sum(reward or 0.0 for reward in rewards)
    assert scope["reward"](environments=played, prompts=[]) == [total, None, None]
    assert "reward_funcs=reward," in readme


@pytest.fixture(scope="session")
def archetypes(render, game, tmp_path_factory):
    """Each archetype with all frameworks, on the venvs of the game."""

    @functools.cache
    def of(archetype):
        if archetype == "game":
            return game
        project = tmp_path_factory.mktemp(archetype) / "my_env"
        shutil.copytree(render(archetype=archetype, siblings=FRAMEWORKS), project)
        packages = {"vision": ["pillow"], "answer": ["math-verify>=0.9"]}
        borrow_venvs(project, game, *packages.get(archetype, []))
        return project

    return of


def borrow_venvs(project, game, *packages):
    for name in FRAMEWORKS:
        venv = project / name / ".venv"
        python = (game / name / ".venv/bin/python").resolve()
        run([UV, "venv", "--quiet", "--python", python, venv], project)
        [installed] = (game / name).glob(".venv/lib/python*/site-packages")
        [own] = venv.glob("lib/python*/site-packages")
        paths = [installed, project / name, project]
        (own / "borrowed.pth").write_text("".join(f"{path}\n" for path in paths))
        if packages:
            run([UV, "pip", "install", "--quiet", *packages], project, VIRTUAL_ENV=venv)


def python(project, name, *arguments, **variables):
    command = [project / name / ".venv/bin/python", *arguments]
    return run(command, project / name, **variables).stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gates_and_tests_are_green(game, name):
    results = json.loads(python(game, name, "gates.py", "--json"))
    gates = [result["gate"] for result in results]
    assert gates == ["import", "server", "smoke", "rollout"]
    assert all(result["passed"] for result in results), results
    detail = results[-1]["detail"]
    assert detail == "24 rows: the oracle earns 1.0, noop and nonsense 0.0"
    assert re.search(r"\d+ passed", python(game, name, "-m", "pytest", "-q"))
    check_types(game / name, game / name / ".venv/bin/python")


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_readme_names_a_policy_for_a_class_without_an_oracle(render, name):
    answers = {"siblings": [name], "tools": "act", "gymnasium_id": "Blackjack-v1"}
    project = render(archetype="gymnasium", **answers)
    assert (
        "noop for a class without an oracle"
        in (project / name / "README.md").read_text()
    )
    usual = (render(siblings=FRAMEWORKS) / name / "README.md").read_text()
    assert "noop" not in usual


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verifiers", "openenv", nightly("ors")])
def test_a_class_of_ones_own_plays_and_is_closed(bell, name):
    log = bell / "log"
    log.unlink(missing_ok=True)
    # verifiers' smoke gate takes half a minute; a test below runs it.
    gates = ["rollout"] if name == "verifiers" else ["smoke", "rollout"]
    results = json.loads(python(bell, name, "gates.py", *gates, "--json"))
    assert all(result["passed"] for result in results), results
    assert results[-1]["detail"].startswith("1 row: the oracle earns 1.0")
    assert log.read_text().count("closed") > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["verifiers", nightly("openenv"), nightly("ors")])
def test_an_environment_without_tools(archetypes, name):
    """The import gate is left out: the venv is the game's, without math-verify."""
    project = archetypes("answer")
    gates = ["smoke", "rollout"]
    results = json.loads(python(project, name, "gates.py", *gates, "--json"))
    assert all(result["passed"] for result in results), results
    details = [result["detail"] for result in results]
    assert details[1] == "30 rows: the oracle earns 1.0, noop and nonsense 0.0"


# The row that each archetype's scripts are written for.
ROW = {"game": 0, "sandbox": 4, "vision": 2}

SOLVE = """
import json, sys
from env_runtime import frameworks, project
MyEnv = project.here().load_class()
row = frameworks.read_rows(MyEnv)[int(sys.argv[1])]
calls, _ = frameworks.PLANS["oracle"](row, frameworks.definitions_of(MyEnv))
print(json.dumps([frameworks.task_of(row), calls]))
"""

# One process for a framework's server and its client: their imports cost most.
SERVE = """
import asyncio, json, os, sys, threading, time
from pathlib import Path
import uvicorn
from env_runtime import frameworks, project
from rollout import connect
MyEnv = project.here().load_class()
if Path.cwd().name == "openenv":
    from server.app import app
else:
    from server import make_app
    app = make_app()

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.05)
url = "http://127.0.0.1:%s" % server.servers[0].sockets[0].getsockname()[1]

def solution():
    row = frameworks.read_rows(MyEnv)[0]
    return frameworks.PLANS["oracle"](row, frameworks.definitions_of(MyEnv)).calls
"""

PLAYS = {
    "bare": """
import asyncio, json, sys
from env_runtime import frameworks, project
MyEnv = project.here().load_class()
row = frameworks.read_rows(MyEnv)[int(sys.argv[1])]
play = lambda calls: frameworks.bare_reward(MyEnv, row, calls)
""",
    "verifiers": """
import asyncio, json, sys
from my_env_env import create_verifiers_env
play = list(create_verifiers_env().taskset)[int(sys.argv[1])].earned
""",
    "openenv": SERVE
    + """
play = lambda calls: frameworks.play(connect(url), int(sys.argv[1]), calls)
""",
}
PLAYS["ors"] = PLAYS["openenv"]

EARN = """
async def earned():
    print(json.dumps(await asyncio.gather(*map(play, json.loads(sys.argv[2])))))

asyncio.run(earned())
"""


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["bare", *FRAMEWORKS])
@pytest.mark.parametrize("archetype", GAME_BY_DAY)
def test_what_a_policy_may_try(archetypes, archetype, framework):
    project = archetypes(archetype)
    folder, number = "ors" if framework == "bare" else framework, str(ROW[archetype])
    task, solution = json.loads(python(project, folder, "-c", SOLVE, number))
    solution = [tuple(call) for call in solution]
    scripts = getattr(sibling_scripts, archetype)(task, solution)
    calls = json.dumps([calls for _, calls, _ in scripts])
    printed = python(project, folder, "-c", PLAYS[framework] + EARN, number, calls)
    names = [name for name, _, _ in scripts]
    earned = dict(zip(names, json.loads(printed.splitlines()[-1]), strict=True))
    assert earned == {name: worth for name, _, worth in scripts}


TOKEN = """
import urllib.error, urllib.request

def status(path, **headers):
    try:
        request = urllib.request.Request(url + path, headers=headers)
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code

seen = [
    status("/health"),
    status("/openapi.json"),
    status("/openapi.json", Authorization="Bearer wrong"),
    status("/openapi.json", Authorization="Bearer secret"),
]
seen.append(asyncio.run(frameworks.play(connect(url), 0, solution())))
os.environ["API_TOKEN"] = "wrong"
try:
    asyncio.run(frameworks.play(connect(url), 0, solution()))
except Exception as error:
    seen.append(type(error).__name__)
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "refusal"),
    [("openenv", "ConnectionError"), ("ors", "AuthenticationError")],
)
def test_only_who_sends_the_token_plays(game, name, refusal):
    printed = python(game, name, "-c", SERVE + TOKEN, API_TOKEN="secret")
    assert json.loads(printed.splitlines()[-1]) == [200, 401, 401, 200, 1.0, refusal]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openenv", "ors"])
def test_the_sandbox_is_served_to_others_with_a_token_only(archetypes, name):
    sandbox = archetypes("sandbox")
    code = (
        "from env_runtime import frameworks, project; "
        "print(frameworks.serving_problem(project.here().load_class(), '0.0.0.0'))"
    )
    problem = python(sandbox, name, "-c", code, SANDBOX_ISOLATION="none")
    assert "set API_TOKEN, which clients then send" in problem
    settings = {"SANDBOX_ISOLATION": "none", "API_TOKEN": "secret"}
    assert python(sandbox, name, "-c", code, **settings) == "None\n"


# TRL's environments as its GRPOTrainer uses them, without TRL.
TRL = {
    "openenv": """
import inspect
from my_env_trl import environment
sys.path.append(sys.argv[1])  # verifiers' packages have transformers
from transformers.utils import get_json_schema

made = environment(url)
members = inspect.getmembers(made, predicate=inspect.isfunction)
names = [name for name, _ in members if not name.startswith("_")]
playing = made()
prompt = playing.reset(prompt=[], split="test", index=0)
text = [playing.guess(word="wrong"), playing.guess(word="no")]
[(_, right)] = solution()
rewards = [playing.get_reward(), playing.guess(**right) and playing.get_reward()]
playing.reset(prompt=[], split="test", index=1)
rewards.append(playing.get_reward())
schema = get_json_schema(playing.guess)["function"]

import datetime, my_env_trl
from pydantic import BaseModel

class Move(BaseModel):
    to: str

class Mover:
    def move(self, moves: list[Move], day: datetime.date) -> str: ...

my_env_trl.EnvironmentClass = Mover
typed = get_json_schema(environment(url)().move)["function"]["parameters"]
types = {name: each["type"] for name, each in typed["properties"].items()}
assert types == {"moves": "array", "day": "string"}, typed
print(json.dumps([names, schema["parameters"], prompt, text, rewards]))
""",
    "ors": """
import openreward

os.environ["OPENREWARD_SESSION_URL"] = url
environment = openreward.OpenReward(base_url=url).environments.get("env")
with environment.session(split="test", index=0) as session:
    [guess] = session.list_tools()
    prompt = session.get_prompt()[0].text
    [(_, right)] = solution()
    words = ["wrong", "no", right["word"]]
    outputs = [session.call_tool("guess", {"word": word}) for word in words]
text = [output.blocks[0].text for output in outputs[:2]]
names = ["get_reward", guess.name, "reset"]
rewards = [outputs[0].reward, outputs[-1].reward, 0.0]
print(json.dumps([names, guess.input_schema, prompt, text, rewards]))
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["openenv", "ors"])
def test_trls_environment(game, name):
    [packages] = (game / "verifiers").glob(".venv/lib/python*/site-packages")
    printed = python(game, name, "-c", SERVE + TRL[name], packages)
    names, schema, prompt, text, rewards = json.loads(printed.splitlines()[-1])
    assert names == ["get_reward", "guess", "reset"]
    described = "A guess of exactly five letters, a to z."
    word = {"type": "string", "description": described}
    assert (schema["properties"], schema["required"]) == ({"word": word}, ["word"])
    assert prompt.startswith("Play Wordle")
    assert text[0].startswith("Guess 1 of 6")
    assert text[1] == "error: 'no' is not a word of five letters, a to z"
    assert rewards == [0.0, 1.0, 0.0]


@pytest.mark.nightly
def test_verifiers_own_commands(game):
    """vf-validate checks the oracle and doing nothing on every row."""
    bin_folder = game / "verifiers/.venv/bin"
    command = [bin_folder / "vf-validate", "my_env_env", "--runtime.type", "subprocess"]
    printed = run([*command, "--no-rich"], game / "verifiers").stdout
    summary = json.loads(printed[printed.index("\n{") :])
    assert summary["outcomes"]["valid"] == 24
    assert summary["checks"]["gold"]["valid"] == 24


# OpenEnv's own commands, with a Hub that copies what it gets.
PUSH = """
import shutil, sys
from env_runtime.frameworks import openenv_space
from openenv.cli.__main__ import app
from openenv.cli.commands import push
from typer.testing import CliRunner

class Hub:
    def create_repo(self, **options):
        assert options["space_sdk"] == "docker"

    def upload_folder(self, folder_path, **options):
        shutil.copytree(folder_path, sys.argv[2])

push.whoami, push.HfApi = lambda: {"name": "me"}, Hub
openenv_space.main([sys.argv[1]])
validate = ["validate", "--level", "static"]
for command in ([*validate, "."], [*validate, sys.argv[1]], ["push", sys.argv[1]]):
    done = CliRunner().invoke(app, command)
    print(done.output)
    assert done.exit_code == 0, command
"""

# A client's venv: OpenEnv, and the packages of two environments.
AUTO = """
import importlib.util, json, sys
from openenv import AutoAction, AutoEnv

url, word = sys.argv[1:]
Action = AutoAction.from_env("my-env")
with AutoEnv.from_env("my_env", base_url=url).sync() as env:
    start = env.reset(split="test", index=0)
    no, yes = [
        env.step(Action(tool_name="guess", arguments={"word": each}))
        for each in ("no", word)
    ]
    steps = env.state().step_count
names = "server client models rollout my_env env_runtime my_env_trl my_env_openenv"
print(json.dumps([
    [start.observation.prompt, start.reward, start.done],
    [no.observation.data, no.observation.error.error_type.value, no.reward],
    [yes.reward, yes.observation.reward, steps],
    [type(each.observation).__name__ for each in (start, no)],
    [AutoEnv.get_env_class(each).__name__ for each in ("my_env", "sea_envoy_2")],
    [*filter(importlib.util.find_spec, names.split())],
]))
"""


@pytest.mark.nightly
def test_openenvs_own_commands_and_a_space(game, render, tmp_path):
    """The folder that `openenv push` sends serves the game; AutoEnv plays it from elsewhere."""
    staged, space = tmp_path / "staged", tmp_path / "space"
    printed = python(game, "openenv", "-c", PUSH, staged, space)
    assert "The rows are among them" in printed
    assert printed.count("Verdict: PASS") == 2
    assert (space / "README.md").read_text().startswith("---\ntitle: My Env\n")
    image = (space / "Dockerfile").read_text()
    assert "\nARG WEB=true\nENV ENABLE_WEB_INTERFACE=$WEB\n" in image
    assert "ARG WEB=false" not in image
    [wheel] = (game / "nemo_gym/vendor").iterdir()
    assert (space / "nemo_gym/vendor" / wheel.name).read_bytes() == wheel.read_bytes()
    # Its rows, and not the game's, are those that it serves.
    rows = space / "nemo_gym/data/example.jsonl"
    row = json.loads(rows.read_text().splitlines()[0])
    row["responses_create_params"]["input"] = "Play."
    rows.write_text(json.dumps(row) + "\n")

    venv = tmp_path / "venv"
    interpreter = (game / "openenv/.venv/bin/python").resolve()
    run([UV, "venv", "--quiet", "--python", interpreter, venv], tmp_path)
    other = render(env_name="sea_envoy_2", siblings=["openenv"]) / "openenv"
    [installed] = (game / "openenv").glob(".venv/lib/python*/site-packages")
    [own] = venv.glob("lib/python*/site-packages")
    borrowed = tmp_path / "borrowed"  # OpenEnv, without the runtime
    borrowed.mkdir()
    for path in installed.iterdir():
        if "env_runtime" not in path.name:
            (borrowed / path.name).symlink_to(path)
    (own / "Borrowed.pth").write_text(f"{borrowed}\n")
    command = [UV, "pip", "install", "--quiet", "--no-deps", space, "--editable", other]
    run(command, tmp_path, VIRTUAL_ENV=str(venv))
    with serving(game, "openenv", space / "openenv", PYTHONPATH=str(space)) as url:
        command = [venv / "bin/python", "-c", AUTO, url]
        command += [row["ground_truth"][0]["target"]]
        printed = run(command, tmp_path, XDG_CACHE_HOME=str(tmp_path)).stdout
    start, no, yes, observed, clients, exposed = json.loads(printed.splitlines()[-1])
    assert start == ["Play.", 0.0, False]
    refusal = "error: 'no' is not a word of five letters, a to z"
    assert no == [refusal, "execution_error", 0.0]
    assert yes == [1.0, 1.0, 2]
    assert observed == ["ResetObservation", "ToolObservation"]
    assert clients == ["MyEnv", "Seaoy2Env"]  # as OpenEnv makes names of names
    assert exposed == ["my_env_trl", "my_env_openenv"]


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


# A tool server of verifiers, as far as its configuration, which is no JSON.
TOOL_SERVER = """
import os, runpy, sys
os.environ["VF_CONFIG"] = "nothing"
try:
    runpy.run_module("my_env_env", run_name="__main__")
except ValueError:
    print(*sorted({"anthropic", "mcp", "sympy", "verifiers.v1"} & set(sys.modules)))
import math_verify
assert math_verify.parse("1")
"""


@pytest.mark.slow
def test_a_tool_server_imports_what_it_uses(game):
    """Each rollout starts one: anthropic and SymPy take half of its time."""
    assert python(game, "verifiers", "-c", TOOL_SERVER).split() == [
        "mcp",
        "verifiers.v1",
    ]


@contextmanager
def scripted(plan, claim="Reward: 1.0"):
    """A model that makes the calls of a plan, then claims what it did not earn."""
    with playing(lambda messages: (plan, claim)) as model:
        yield model


@contextmanager
def serving(project, name, folder=None, **variables):
    """The server of a folder, by default the project's own, on the project's venv."""
    start = ["-m", "server.app"] if name == "openenv" else ["server.py"]
    command = [project / name / ".venv/bin/python", *start]
    variables |= {"HOST": "127.0.0.1", "PORT": "0"}
    with running(command, folder or project / name, **variables) as (url, _):
        yield url


def sees_the_screen(messages, times):
    """Whether messages show so many screenshots, and not always the same."""
    contents = [message["content"] for message in messages]
    parts = [
        part for content in contents if isinstance(content, list) for part in content
    ]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    sizes = set()
    for url in urls:
        png = base64.b64decode(url.removeprefix("data:image/png;base64,"))
        sizes.add(struct.unpack(">II", png[16:24]))
    return sizes == {(1024, 768)} and len(urls) == times and len(set(urls)) > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly("openenv"), "ors"])
def test_a_model_plays_and_sees_the_screen(archetypes, name):
    vision = archetypes("vision")
    _, plan = json.loads(python(vision, name, "-c", SOLVE, "0"))
    with scripted(plan) as model, serving(vision, name) as url:
        settings = {"MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.url}
        command = ["rollout.py", "--url", url, "--limit", "1"]
        printed = python(vision, name, *command, **settings)
        noop = python(vision, name, *command, "--policy", "noop")
    assert "mean reward: 1.0" in printed
    assert "mean reward: 0.0" in noop
    messages = model.seen[-1]
    roles = [message["role"] for message in messages[1:4]]
    assert roles == ["assistant", "tool", "user"]
    assert sees_the_screen(messages, len(plan))


@pytest.mark.nightly
def test_vf_eval_and_what_its_model_sees(archetypes):
    """The form that the first row wants, in the second row, too."""
    folder = archetypes("vision") / "verifiers"
    _, plan = json.loads(python(folder.parent, "verifiers", "-c", SOLVE, "0"))
    with scripted(plan) as model:
        # The venv is the game's, and so are its commands.
        code = (
            "import sys; from verifiers.v1.cli.eval.main import main; sys.exit(main())"
        )
        command = ["-c", code, "my_env_env", "--model", "m", "--no-push", "--no-rich"]
        client = ["--client.base-url", model.url, "--client.api-key-var", "KEY"]
        options = ["-n", "2", *client]
        python(folder.parent, "verifiers", *command, *options, KEY="k")
    [file] = folder.glob("outputs/*/traces.jsonl")
    episodes = [json.loads(line) for line in file.read_text().splitlines()]
    traces = [trace for episode in episodes for trace in episode["traces"]]
    assert [trace["errors"] for trace in traces] == [[], []]
    rewards = [trace["rewards"]["reward"]["score"] for trace in traces]
    assert sorted(rewards) == [0.0, 1.0]
    answers = [
        [message for message in messages if message["role"] == "tool"]
        for messages in model.seen
    ]
    last = [messages for messages in answers if len(messages) == len(plan)]
    assert [sees_the_screen(messages, len(plan)) for messages in last] == [True, True]


@pytest.mark.nightly
def test_verifiers_smoke_gate_and_close(bell):
    """close() runs in the tool server's process, which ends by a signal."""
    log = bell / "log"
    log.unlink(missing_ok=True)
    [result] = json.loads(python(bell, "verifiers", "gates.py", "smoke", "--json"))
    assert result["detail"] == "3 tools, two rollouts at once"
    assert log.read_text() == "closed\nclosed\n"


WHEEL = """
import asyncio, importlib.util, json, sys
import my_env_env, my_env_runtime
modules = [sys.modules["my_env"], my_env_env, my_env_runtime]
assert all(module.__file__.startswith(sys.prefix) for module in modules), modules
assert importlib.util.find_spec("env_runtime") is None
tasks = list(my_env_env.create_verifiers_env().taskset)
calls = [("guess", {"word": tasks[0].data.ground_truth["target"]})]
print(json.dumps([len(tasks), *(asyncio.run(tasks[0].earned(c)) for c in (calls, []))]))
"""


def build_wheel(folder, out):
    """The path of a folder's wheel."""
    out.mkdir(exist_ok=True)
    before = set(out.iterdir())
    run([UV, "build", "--quiet", "--wheel", "--out-dir", out, folder], out)
    [wheel] = {path for path in out.iterdir() if path.suffix == ".whl"} - before
    return wheel


def content_of(wheel):
    """The names that a wheel installs, and the packages that it requires."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        [metadata] = [name for name in names if name.endswith("/METADATA")]
        text = archive.read(metadata).decode()
    assert len(names) == len(set(names))
    top = {name.partition("/")[0] for name in names} - {metadata.partition("/")[0]}
    return top, re.findall(r"Requires-Dist: ([\w-]+)", text)


@pytest.mark.slow
def test_a_wheel_for_verifiers_plays_without_the_project(game, tmp_path):
    [packages] = (game / "verifiers").glob(".venv/lib/python*/site-packages")
    assert {path.suffix for path in packages.glob("my_env*")} == {".dist-info"}
    code = (
        "import importlib.util as u; names = 'nemo_gym gates rollout tests my_env "
        "my_env_env env_runtime'; print(*filter(u.find_spec, names.split()))"
    )
    exposed = run([game / "verifiers/.venv/bin/python", "-c", code], tmp_path).stdout
    assert exposed.split() == ["my_env_env", "env_runtime"]
    taskset = (game / "verifiers/my_env_env.py").read_text()
    wheel = build_wheel(game / "verifiers", tmp_path / "dist")
    assert (game / "verifiers/my_env_env.py").read_text() == taskset
    names, required = content_of(wheel)
    assert names == {"my_env_env.py", "my_env_runtime"}
    assert required == ["pydantic", "pydantic-settings", "mcp", "verifiers"]
    interpreter = (game / "verifiers/.venv/bin/python").resolve()
    run([UV, "venv", "--quiet", "--python", interpreter, "venv"], tmp_path)
    run(
        [UV, "pip", "install", "--quiet", wheel],
        tmp_path,
        VIRTUAL_ENV=str(tmp_path / "venv"),
    )
    printed = run([tmp_path / "venv/bin/python", "-c", WHEEL], tmp_path).stdout
    assert json.loads(printed) == [24, 1.0, 0.0]


@pytest.mark.slow
def test_a_wheel_for_verifiers_has_what_a_package_needs(copy, tmp_path):
    """The files of the class's package; the requirements of extras that name others."""
    project = tmp_path / "env"  # whose wheel must not install a package env_runtime
    (project / "maze").mkdir(parents=True)
    (project / "maze/words.txt").write_text("env_runtime\n")
    (project / "maze/__init__.py").write_text(
        "import env_runtime.errors\n\n\nclass Env:\n    def reward(self) -> float:\n"
        "        raise env_runtime.errors.RolloutError\n"
    )
    answers = {"domain_module": "maze", "domain_class": "Env", "tools": ""}
    done = copy(project, siblings="[verifiers]", **answers)
    assert done.returncode == 0, done.stdout
    build_wheel(RUNTIME, project / "nemo_gym/vendor")
    pyproject = project / "verifiers/pyproject.toml"
    text = pyproject.read_text()
    extras = text.replace("[verifiers]", "[gymnasium-frames,verifiers]")
    assert extras != text
    pyproject.write_text(extras)
    wheel = build_wheel(project / "verifiers", tmp_path / "dist")
    names, required = content_of(wheel)
    assert names == {"env_env.py", "env_env_runtime"}
    packages = ["gymnasium", "numpy", "pillow", "mcp", "verifiers"]
    assert required == ["pydantic", "pydantic-settings", *packages]
    with zipfile.ZipFile(wheel) as archive:
        package = "env_env_runtime/_project/maze"
        assert archive.read(f"{package}/words.txt") == b"env_runtime\n"
        module = archive.read(f"{package}/__init__.py").decode()
    assert module.startswith("import env_env_runtime.errors\n")
    assert "raise env_env_runtime.errors.RolloutError" in module


TWO = """
import asyncio, json
import a_env_env, b_env_env

async def play(taskset):
    tasks = list(taskset.create_verifiers_env().taskset)
    tools = taskset.Tools(taskset.ToolsConfig())
    async with tools._exit_stack:
        await tools.setup_task(tasks[0].data)
        answer = await tools.play("dance", {})
        await tools.play("guess", {"word": tasks[0].data.ground_truth["target"]})
        return len(tasks), answer.output, tools.state.reward

async def play_both():
    return await asyncio.gather(play(a_env_env), play(b_env_env))

classes = [a_env_env.EnvironmentClass, b_env_env.EnvironmentClass]
assert [hasattr(each, "b") for each in classes] == [False, True], classes
shared = a_env_env.frameworks is b_env_env.frameworks
print(json.dumps([shared, *asyncio.run(play_both())]))
"""


@pytest.fixture
def two_environments(render, tmp_path):
    """Each has a class in `world`, and rows of its own."""
    for name in ("a_env", "b_env"):
        answers = {"env_name": name, "domain_module": "world"}
        project = render(**answers, siblings=["verifiers"])
        shutil.copytree(project, tmp_path / name)
    module = tmp_path / "b_env/world.py"
    module.write_text(
        module.read_text().replace("class BEnv:", "class BEnv:\n    b = 1")
    )
    rows = tmp_path / "b_env/nemo_gym/data/example.jsonl"
    rows.write_text(rows.read_text().splitlines()[-1] + "\n")
    run([UV, "venv", "--quiet", "--python", "3.12", "venv"], tmp_path)

    def play(*commands):
        """The output of TWO if these packages are installed, one command after another."""
        for packages in commands:
            command = [UV, "pip", "install", "--quiet", *packages]
            run(command, tmp_path, VIRTUAL_ENV=str(tmp_path / "venv"))
        printed = run([tmp_path / "venv/bin/python", "-c", TWO], tmp_path).stdout
        return json.loads(printed)

    return tmp_path / "a_env", tmp_path / "b_env", play


@pytest.mark.slow
def test_environments_of_two_releases_play_in_one_venv(two_environments, tmp_path):
    """A trainer's venv: each wheel has a runtime and a class of its own."""
    a_env, b_env, play = two_environments
    other = tmp_path / "other"
    shutil.copytree(RUNTIME, other)
    pyproject = other / "pyproject.toml"
    text = pyproject.read_text()
    version = tomllib.loads(text)["project"]["version"]
    pyproject.write_text(text.replace(f'"{version}"', '"99.0"', 1))
    episodes = other / "src/env_runtime/frameworks/episodes.py"
    text = episodes.read_text()
    assert text.count("no tool {name!r}") == 1
    episodes.write_text(text.replace("no tool {name!r}", "another release: {name!r}"))
    wheels = []
    for project, runtime in ((a_env, RUNTIME), (b_env, other)):
        build_wheel(runtime, project / "nemo_gym/vendor")
        wheels.append(build_wheel(project / "verifiers", tmp_path / "dist"))
    assert play(wheels) == [
        False,
        [24, "error: no tool 'dance'; there are guess", 1.0],
        [1, "error: another release: 'dance'; there are guess", 1.0],
    ]


@pytest.mark.nightly
def test_editable_environments_share_env_runtime(two_environments):
    """Each plays its own class and rows."""
    a_env, b_env, play = two_environments
    for project in (a_env, b_env):
        build_wheel(RUNTIME, project / "nemo_gym/vendor")
    # In one command, uv refuses two paths of one package.
    folders = [["--editable", project / "verifiers"] for project in (a_env, b_env)]
    assert play(*folders) == [
        True,
        [24, "error: no tool 'dance'; there are guess", 1.0],
        [1, "error: no tool 'dance'; there are guess", 1.0],
    ]
