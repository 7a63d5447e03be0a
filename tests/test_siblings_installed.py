"""verifiers, OpenEnv and ORS play the same classes as NeMo Gym."""

import functools
import json
import re
import shutil
import tomllib
from contextlib import contextmanager

import pytest
import sibling_scripts
from chat_model import playing

from nights import GAME_BY_DAY, nightly
from projects import (
    CLASSES,
    FACTS,
    FRAMEWORKS,
    GATES,
    ROOT,
    RUNTIME,
    UV,
    check_types,
    run,
    running,
)

# It is closed in the process of a framework's server.
CLOSE = """
    def close(self):
        with open(f"{__file__}.log", "a") as log:
            print("closed", file=log)
"""


@pytest.fixture(scope="session")
def stall(copy, game, tmp_path_factory):
    """A class that differs from the archetypes in everything, on the game's venvs.

    Its oracle needs more turns than a model has.
    """
    project = tmp_path_factory.mktemp("own") / "my_env"
    project.mkdir()
    (project / "stall.py").write_text((CLASSES / "stall.py").read_text() + CLOSE)
    answers = {"domain_class": "Stall", "domain_module": "stall", "max_turns": 4}
    copy(project, siblings=FRAMEWORKS, tools="look, prices, buy, pack", **answers)
    borrow_venvs(project, game)
    shutil.copy(CLASSES / "stall.jsonl", project / "nemo_gym/data/example.jsonl")
    manifest = project / "openenv/openenv.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("range: [0.0, 1.0]", "range: [-1.0, 2.0]"))
    return project


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_class_as_it_is(stall, name):
    """Native rows, a reward from -1 to 2, JSON as an answer, and a last message."""
    # verifiers' smoke gate takes half a minute.
    details = gates_of(
        stall, name, *(["import", "rollout"] if name == "verifiers" else [])
    )
    assert details["import"] == "stall.Stall has look, prices, buy, pack"
    assert details["rollout"] == (
        "2 rows: the oracle earns 2.0, noop and nonsense at most 0.0"
    )


@pytest.mark.nightly
def test_verifiers_smoke_gate_and_close(stall):
    """close() runs in the tool server's process, which ends by a signal."""
    log = stall / "stall.py.log"
    log.unlink(missing_ok=True)
    [detail] = gates_of(stall, "verifiers", "smoke").values()
    assert detail == "4 tools, two rollouts at once"
    assert log.read_text() == "closed\n" * 3  # one shows what the policy sees first


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly("openenv"), "ors"])
def test_a_model_sees_images_and_its_last_message_counts(stall, name):
    plan = [("look", {}), ("buy", {"item": "apples", "offer": 4.0})]
    with scripted(plan, "I bought apples.") as model, serving(stall, name) as url:
        settings = {"MODEL": "m", "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": model.url}
        command = ["rollout.py", "--url", url, "--limit", "1"]
        assert "mean reward: 2.0" in python(stall, name, *command, **settings)
        noop = python(stall, name, *command, "--policy", "noop")
    assert "mean reward: 0.0" in noop
    *opening, assistant, tool, image = model.seen[1]
    assert "On the stall: apples, pears." in json.dumps(opening)
    assert "data:image/png;base64," in json.dumps(opening)
    roles = [message["role"] for message in (assistant, tool, image)]
    assert roles == ["assistant", "tool", "user"]
    assert "data:image/png;base64," in json.dumps(image)


CLIENTS = """
import urllib.request
from gradio_client import Client
from openenv.core.mcp_client import MCPToolClient

with MCPToolClient(base_url=url).sync() as env:
    env.reset(split="test", index=1)
    seen = [[tool.name for tool in env.list_tools()], env.call_tool("prices")]
    try:
        env.call_tool("buy", item="nuts", offer=1)
    except RuntimeError as error:
        seen.append(str(error))

def get(path):
    return urllib.request.urlopen(url + path).read().decode()

seen.append([json.loads(get(path)) for path in ("/metadata", "/web/metadata")])
seen.append(get("/web/config"))
page = Client(url + "/web/", verbose=False)
page.predict("test", 1, api_name="/choose")
seen.append(json.loads(page.predict(api_name="/reset_env")[3])["observation"]["prompt"])
*_, result, _, episode = page.predict("buy", "nuts", 1, "", "", api_name="/step_fn")
typed = json.dumps({"item": "pears", "offer": 6})
action = {"type": "call_tool", "tool_name": "buy", "arguments": typed}
body, headers = json.dumps({"action": action}), {"Content-Type": "application/json"}
request = urllib.request.Request(url + "/web/step", body.encode(), headers)
answer = json.load(urllib.request.urlopen(request))["observation"]["data"]
page.predict("test", 999, api_name="/choose")
seen += [result, episode, answer, page.predict(api_name="/reset_env")[2]]
print(json.dumps(seen))
"""


@pytest.mark.slow
def test_openenvs_client_for_tools_and_its_page(stall):
    """The page has a field for each parameter, and plays the row that is chosen."""
    variables = {"ENABLE_WEB_INTERFACE": "true"}
    names, prices, wrong, about, form, prompt, result, episode, typed, missing = (
        json_of(stall, "openenv", SERVE + CLIENTS, **variables)
    )
    assert names == ["look", "prices", "buy", "pack", "answer"]
    assert prices == '{"apples": 4.0, "pears": 6.0}'
    assert "there are only apples, pears" in wrong
    for metadata in about:
        named = metadata["name"], metadata["description"]
        assert named == ("my_env", "The Stall environment.")
    assert "At least three quarters of its price." in form
    assert prompt.startswith("Buy pears.")
    assert ">Error: there are only apples, pears<" in result
    assert "error: there are only" in episode
    assert "error: error:" not in episode
    assert "test has the rows 0 to 1, got 999" in missing
    assert typed == "Sold."


@pytest.fixture(scope="session")
def archetypes(render, game, tmp_path_factory):
    """Each archetype with all frameworks, on the venvs of the game."""

    @functools.cache
    def of(archetype):
        if archetype == "game":
            return game
        project = tmp_path_factory.mktemp(archetype) / "my_env"
        shutil.copytree(render(archetype=archetype, siblings=FRAMEWORKS), project)
        packages = {"vision": ["pillow"]}
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


def json_of(project, name, code, *arguments, **variables):
    """The JSON of the last line that code prints in a framework's folder."""
    printed = python(project, name, "-c", code, *arguments, **variables)
    return json.loads(printed.splitlines()[-1])


# Nothing answers there, and nothing on this machine is behind a proxy.
PROXY = {"http_proxy": "http://127.0.0.1:9"}


def gates_of(project, name, *gates, **variables):
    """What each gate says. All of them pass."""
    command = ["gates.py", *gates, "--json"]
    printed = python(project, name, *command, **variables)
    results = json.loads(printed[printed.index("[\n") :])  # after notes of slow gates
    assert all(result["passed"] for result in results), results
    return {result["gate"]: result["detail"] for result in results}


@pytest.mark.slow
@pytest.mark.parametrize("name", [nightly("verifiers"), "openenv", "ors"])
def test_gates_and_tests_are_green(game, name):
    details = gates_of(game, name, **PROXY)
    assert list(details) == GATES
    earned = "24 rows: the oracle earns 1.0, noop and nonsense 0.0"
    assert details["rollout"] == earned
    assert re.search(r"\d+ passed", python(game, name, "-m", "pytest", "-q", **PROXY))
    check_types(game / name, game / name / ".venv/bin/python")


@pytest.fixture(scope="session")
def lamp(copy, game, tmp_path_factory):
    """A class whose tools answer text, an image, an error or a failure, on the game's venvs."""
    project = tmp_path_factory.mktemp("own") / "my_env"
    project.mkdir()
    shutil.copy(CLASSES / "lamp.py", project)
    answers = {"domain_class": "Lamp", "domain_module": "lamp"}
    copy(project, siblings=FRAMEWORKS, tools="look, switch, explode", **answers)
    borrow_venvs(project, game)
    shutil.copy(CLASSES / "lamp.jsonl", project / "nemo_gym/data/example.jsonl")
    return project


@pytest.mark.slow
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_adapter_over_the_lamp(lamp, name):
    """The tests in tests/adapters/, and the types of the adapter, with the framework."""
    tests = shutil.copy(ROOT / f"tests/adapters/{name}_adapter.py", lamp / name)
    options = ["-q", "-p", "no:cacheprovider", tests]
    assert re.search(r"\d+ passed", python(lamp, name, "-m", "pytest", *options))
    adapter = RUNTIME / f"src/env_runtime/frameworks/{name}.py"
    check_types(lamp / name, lamp / name / ".venv/bin/python", adapter)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FRAMEWORKS)
def test_an_environment_without_tools(archetypes, name):
    """The import gate is left out: the venv is the game's."""
    details = gates_of(archetypes("answer"), name, "smoke", "rollout")
    earned = "30 rows: the oracle earns 1.0, noop and nonsense 0.0"
    assert details["rollout"] == earned


# The row that each archetype's scripts are written for.
ROW = {"game": 0, "sandbox": 4, "vision": 2}

SOLVE = """
import json, sys
from env_runtime import project
from env_runtime.episode.tasks import task_of
from env_runtime.evaluation.rows import read_rows
from env_runtime.frameworks.episodes import calls_for
MyEnv = project.here().load_class()
row = read_rows(MyEnv)[int(sys.argv[1])]
print(json.dumps([task_of(row), calls_for(MyEnv, row, "oracle")]))
"""

# One process for a framework's server and its client: their imports cost most.
SERVE = """
import asyncio, json, os, sys, threading, time
from pathlib import Path
import uvicorn
from env_runtime import project
from env_runtime.evaluation.rows import read_rows
from env_runtime.frameworks.episodes import calls_for
from env_runtime.frameworks.rollouts import play_calls
MyEnv = project.here().load_class()
if Path.cwd().name == "openenv":
    from env_runtime.frameworks.openenv import connect
    from server.app import app
else:
    from env_runtime.frameworks.ors import connect, make_app
    from server import Environment
    app = make_app(Environment)

server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.05)
url = "http://127.0.0.1:%s" % server.servers[0].sockets[0].getsockname()[1]

def solution():
    return calls_for(MyEnv, read_rows(MyEnv)[0], "oracle")
"""

PLAYS = {
    "bare": """
import asyncio, json, sys
from env_runtime import project
from env_runtime.evaluation.rows import read_rows
from env_runtime.frameworks.episodes import bare_reward
MyEnv = project.here().load_class()
row = read_rows(MyEnv)[int(sys.argv[1])]
play = lambda calls: bare_reward(MyEnv, row, calls)
""",
    "verifiers": """
import asyncio, json, sys
from my_env_env import create_verifiers_env
play = list(create_verifiers_env().taskset)[int(sys.argv[1])].earned
""",
    "openenv": SERVE
    + """
play = lambda calls: play_calls(connect(url, project.here()), int(sys.argv[1]), calls)
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
    task, solution = json_of(project, folder, SOLVE, number)
    solution = [tuple(call) for call in solution]
    scripts = getattr(sibling_scripts, archetype)(task, solution)
    calls = json.dumps([calls for _, calls, _ in scripts])
    earned = json_of(project, folder, PLAYS[framework] + EARN, number, calls)
    names = [name for name, _, _ in scripts]
    expected = {name: worth for name, _, worth in scripts}
    assert dict(zip(names, earned, strict=True)) == expected


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
seen.append(asyncio.run(play_calls(connect(url, project.here()), 0, solution())))
os.environ["API_TOKEN"] = "wrong"
try:
    asyncio.run(play_calls(connect(url, project.here()), 0, solution()))
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
    seen = json_of(game, name, SERVE + TOKEN, API_TOKEN="secret")
    assert seen == [200, 401, 401, 200, 1.0, refusal]


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
    seen = json_of(game, name, SERVE + TRL[name], packages)
    names, schema, prompt, text, rewards = seen
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


@pytest.mark.nightly
def test_verifiers_loads_the_taskset_by_its_id_on_the_hub(game, tmp_path):
    text = (game / "verifiers/pyproject.toml").read_text()
    hub_id = f"owner/{tomllib.loads(text)['project']['name']}@0.1.0"
    code = (
        "import sys; from verifiers.v1.utils.loaders import import_taskset, taskset_class;"
        "print(import_taskset(sys.argv[1]).__name__, taskset_class(sys.argv[1]).__name__)"
    )
    command = [game / "verifiers/.venv/bin/python", "-c", code, hub_id]
    assert run(command, tmp_path).stdout.split() == ["my_env_env", "Rows"]


@pytest.mark.nightly
def test_pip_installs_what_openenvs_server_imports(game, tmp_path):
    """From the project's folder, and as AutoEnv does it, from the folder of a Space."""
    interpreter = (game / "openenv/.venv/bin/python").resolve()
    run([UV, "venv", "--quiet", "--seed", "--python", interpreter, "venv"], tmp_path)
    space = tmp_path / "space"
    python(game, "openenv", "-m", "env_runtime.frameworks.openenv_space", space)
    installed = [tmp_path / "venv/bin/python"]
    for folder in (game / "openenv", space):
        pip = [*installed, "-m", "pip", "install", "--quiet", "--force-reinstall"]
        run([*pip, *(["--no-deps"] if folder == space else []), folder], tmp_path)
        run([*installed, "-c", "import server.app, my_env_trl"], game / "openenv")
    run(
        [UV, "pip", "install", "--quiet", space],
        tmp_path,
        VIRTUAL_ENV=str(tmp_path / "venv"),
    )


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


NAMES = {
    "ors": "from env_runtime.frameworks.ors import ClassEnvironment as base; "
    "print(*(x for x in dir(base) if x[0] != '_'))",
    "openenv": "from openenv.core.env_server.mcp_types import RESERVED_TOOL_NAMES as names; print(*names)",
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_refused_are_those_of_the_base_classes(game, name):
    names = set(python(game, name, "-c", NAMES[name]).split())
    assert names <= {*FACTS["frameworks"][name]["members"]}


# A tool server of verifiers, as far as its configuration, which is no JSON.
TOOL_SERVER = """
import os, runpy, sys
os.environ["VF_CONFIG"] = "nothing"
try:
    runpy.run_module("my_env_env", run_name="__main__")
except ValueError:
    print(*sorted({"anthropic", "mcp", "sympy", "verifiers.v1"} & set(sys.modules)))
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


@pytest.mark.nightly
def test_vf_eval_and_what_its_model_sees(archetypes):
    """The form that the first row wants, in the second row, too."""
    folder = archetypes("vision") / "verifiers"
    _, plan = json_of(folder.parent, "verifiers", SOLVE, "0")
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
    # The policy sees a screenshot for each call, and not always the same.
    shown = [re.findall('data:image[^"]*', json.dumps(one)) for one in model.seen]
    assert sum(len(images) == len(plan) for images in shown) == 2
    assert len(set(max(shown, key=len))) > 3
