"""Parameters of an environment: who sets them, who gets them, and who is refused."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
import yaml
from env_runtime import package
from env_runtime.checks.runner import described_parameters
from env_runtime.episode.parameters import forget
from env_runtime.episode.tasks import solution_of
from env_runtime.episode.tools import tools_of
from env_runtime.errors import GateError, RolloutError, SettingError
from env_runtime.evaluation.client import Client
from env_runtime.evaluation.episodes import LocalEpisode
from env_runtime.evaluation.rows import load_rows
from env_runtime.package import rules
from env_runtime.project import Project
from env_runtime.trainers.trl import environment

import forked
from projects import CLASSES, clean_environment, import_path, load_module
from rendering import render_project

from .rendered import FOLDER
from .support import Player, add_wheel, app_of, refusal, row_of, server_class

# The class of the rendered project, in this process, too
Maze: Any = load_module(CLASSES / "maze.py", "parameterized").Maze


class Free(Maze):
    """Rows choose how long a corridor is."""

    row_parameters = frozenset({"size"})


class Typed:
    def __init__(
        self,
        task: dict,
        *,
        level: Literal["easy", "hard"] = "easy",
        goals: list[int] = [1],  # noqa: B006
        name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        plain=3,
    ) -> None:
        self.level, self.goals, self.name = level, goals, name
        self.goals.append(0)

    def look(self) -> str:
        return json.dumps([self.level, self.goals, self.name])

    def reward(self) -> float:
        return 1.0


@pytest.fixture(autouse=True)
def parameters(monkeypatch):
    """Sets the values of this process."""

    def give(**values: Any) -> None:
        forget()
        monkeypatch.setenv("ENV_PARAMETERS", json.dumps(values) if values else "")

    monkeypatch.setenv("ENV_VARIANT", "")
    give()
    yield give
    forget()


def player(domain_class: type, **config: Any) -> Player:
    built = server_class(domain_class).build()
    settings = built.config.model_copy(update={})
    settings = type(built.config)(**{**settings.model_dump(), **config})
    server = type(built)(config=settings, server_client=built.server_client)
    return Player(app_of(server))


START = row_of(start=1)


def steps(player: Player, count: int) -> float:
    for _ in range(count):
        player.call("step", direction="right")
    return player.reward()


def test_a_server_plays_with_the_values_of_its_configuration():
    with player(Maze) as easy, player(Maze, parameters={"size": 6}) as hard:
        assert steps(easy.seed(START), 3) == 1.0
        assert steps(hard.seed(START), 3) == 0.0
        assert easy.get("/tools").json()["parameters"] == {"size": 4, "noise": 0.0}
    with player(Maze, parameters={"size": 6}) as hard:
        hard.seed(START)
        for _ in range(5):
            hard.call("step", direction="right")
        verdict = hard.verdict()
    assert verdict["reward"] == 1.0
    assert verdict["parameters"] == {"size": 6, "noise": 0.0}
    # NeMo Gym's metrics are the numbers of a verdict.
    assert (verdict["parameter_size"], verdict["parameter_noise"]) == (6, 0)


def test_the_variable_is_above_the_configuration(parameters):
    parameters(size=5)
    with player(Maze, parameters={"size": 9, "noise": 0.5}) as client:
        about = client.get("/tools").json()
    assert about["parameters"] == {"size": 5, "noise": 0.5}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": 2}, "size is 2: Input should be greater than or equal to 3"),
        ({"size": "wide"}, "`size: .*int.* = 4`, but size is 'wide'"),
        ({"sizes": 5}, "Maze has no parameter 'sizes': write size"),
        ({"task": {}}, "Maze has no parameter 'task'; there are size, noise"),
        ([1], "must be names and values"),
    ],
)
def test_a_bad_value_is_refused_at_the_start(values, message):
    with pytest.raises(SettingError, match=message):
        player(Maze, parameters=values)


def test_a_variable_that_is_no_object(monkeypatch):
    monkeypatch.setenv("ENV_PARAMETERS", "size=3")
    with pytest.raises(SettingError, match="ENV_PARAMETERS must be a JSON object"):
        player(Maze)


def test_a_policy_sets_none():
    """Neither by a row that it seeds, nor by the arguments of a call."""
    with player(Maze) as client:
        sized = {**START, "parameters": {"size": 3}}
        status, detail = client.turned_away(sized)
        assert status == 422
        assert "the row asks for size=3, but Maze plays with 4" in detail
        assert "row_parameters" in detail
        assert client.turned_away({**START, "parameters": 3})[0] == 422
        client.seed(START)
        client.post("/step", json={"direction": "right", "parameters": {"size": 3}})
        client.post("/step", json={"direction": "right", "size": 2})
        assert client.reward() == 0.0


def test_a_row_may_repeat_the_values():
    with player(Maze) as client:
        assert steps(client.seed({**START, "parameters": {"size": 4}}), 3) == 1.0


def test_a_row_sets_what_the_class_allows():
    with player(Free) as client:
        row = {**START, "parameters": {"size": 3}}
        client.seed(row)
        client.call("step", direction="right")
        client.call("step", direction="right")
        verdict = client.verdict(row)
        assert (verdict["reward"], verdict["parameters"]["size"]) == (1.0, 3)
    with player(Free) as client:
        assert (
            "noise=0.5"
            in client.turned_away({**START, "parameters": {"noise": 0.5}})[1]
        )
        status, detail = client.turned_away({**START, "parameters": {"size": 1}})
        assert (status, "greater than or equal to 3" in detail) == (422, True)


def test_an_easier_row_at_the_end_does_not_count():
    """/verify takes the row that was seeded, with its parameters."""
    with player(Free) as client:
        client.seed({**START, "parameters": {"size": 3}})
        client.call("step", direction="right")
        client.call("step", direction="right")
        assert client.reward({**START, "parameters": {"size": 4}}) == 0.0


def test_a_class_without_parameters_never_sees_a_rows_own_key():
    class Plain:
        def __init__(self, task: dict) -> None:
            self.task = task

        def look(self) -> str:
            return json.dumps(self.task)

        def reward(self) -> float:
            return 1.0

    with player(Plain) as client:
        client.seed({**START, "parameters": ["of", "somebody", "else"]})
        assert client.call("look") == '{"start": 1}'
        assert "parameters" not in client.verdict()


def played_here(domain_class: type, **values: Any) -> Any:
    async def play() -> Any:
        tools = tools_of(domain_class)
        given = values or None
        async with LocalEpisode(domain_class, {}, tools, parameters=given) as episode:
            return json.loads((await episode.call("look", {})).output)

    return asyncio.run(play())


def test_types_as_for_tools(parameters):
    assert played_here(Typed) == ["easy", [1, 0], None]
    parameters(level="hard", goals="[2, 3]", name="7")
    assert played_here(Typed) == ["hard", [2, 3, 0], "7"]
    assert played_here(Typed)[1] == [2, 3, 0]  # no episode changes another's values
    assert played_here(Typed, level="easy", name=None) == ["easy", [1, 0, 0], None]


def test_what_has_no_type_of_json_cannot_be_set(parameters):
    parameters(plain=4)
    message = refusal(SettingError, described_parameters, Typed)
    assert "plain of Typed cannot be set" in message
    assert "write `plain: int = 3`" in message


def test_the_oracle_gets_what_it_names(parameters):
    assert len(solution_of(Maze, START).calls) == 3
    parameters(size=7)
    assert len(solution_of(Maze, START).calls) == 6
    row = {**START, "parameters": {"size": 5}}
    assert len(solution_of(Free, row).calls) == 4


def test_the_import_gate_lists_them(parameters):
    parameters(size=6)
    [line] = described_parameters(Maze)
    assert line.startswith("parameters: size: int = 4")
    assert "= 4, now 6; noise: float = 0.0" in line
    assert "set by rows" in described_parameters(Free)[0]
    parameters()
    assert described_parameters(Typed)[1].endswith("that JSON has: clock, plain")

    class Wrong(Maze):
        row_parameters = frozenset({"sizes"})

    message = refusal(GateError, described_parameters, Wrong)
    assert (
        "row_parameters must be a set of names of its parameters (size, noise)"
        in message
    )


# ---------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    """A project over the class, with rows for its usual size."""
    project = tmp_path_factory.mktemp("parameters") / "maze"
    project.mkdir()
    shutil.copy(CLASSES / "maze.py", project)
    render_project(
        FOLDER / "template", project, env_name="maze", domain_class="Maze", tools="step"
    )
    shutil.copy(CLASSES / "maze_rows.py", project / "nemo_gym/make_rows.py")
    python(project, "make_rows.py", "--example", "--overwrite")
    return project


def python(project, *command, check=True, **variables):
    given = clean_environment(PYTHONPATH=import_path(project), **variables)
    return forked.run(command, project / "nemo_gym", given, check=check).stdout


def rows_in(project, *folder):
    path = project.joinpath("nemo_gym", "data", *folder, "example.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_gates_with_other_values(maze, tmp_path):
    rows = tmp_path / "rows"
    printed = python(maze, "gates.py", "--quick")
    assert "parameters: size: " in printed
    assert "FAIL" not in printed
    sizes = ["-p", "size=6"]
    python(maze, "make_rows.py", "--example", "--output", str(rows), *sizes)
    file = rows / "example.jsonl"
    assert "of 6." in file.read_text()
    printed = python(maze, "gates.py", "--quick", "--rows", str(file), *sizes)
    assert "= 4, now 6" in printed
    assert "the oracle earns 1.0" in printed
    # The prompts show a corridor of four cells.
    printed = python(maze, "gates.py", *sizes, check=False)
    assert "prompt does not end with Maze.observation()" in printed


def test_gates_refuse_a_bad_value(maze):
    for gate in ("import", "smoke"):
        printed = python(maze, "gates.py", gate, "-p", "size=1", check=False)
        assert f"FAIL {gate}" in printed
        assert "size is '1': Input should be greater than or equal to 3" in printed
    printed = python(maze, "gates.py", "-p", "size", check=False)
    assert "-p: write NAME=VALUE, such as size=12; got 'size'" in printed


def served(maze, *options):
    place: Any = {"HOST": "127.0.0.1", "PORT": "0", "PYTHONPATH": import_path(maze)}
    command = ["server.py", *options]
    return forked.serving(command, maze / "nemo_gym", clean_environment(**place))


def test_rollouts_say_with_which_values(maze, tmp_path):
    output = tmp_path / "rollouts.jsonl"
    play = ["rollout.py", "--policy", "oracle", "--output", str(output)]
    with served(maze, "-p", "size=5", "-p", "noise=0.5") as url:
        assert Client(url).parameters() == {"size": 5, "noise": 0.5}
        printed = python(maze, *play, ENV_URL=url)
        assert "mean reward: 1.0" in printed
        rollouts = [json.loads(line) for line in output.read_text().splitlines()]
        assert all(one["parameters"]["size"] == 5 for one in rollouts)
        page = tmp_path / "page.html"
        python(maze, "view.py", str(output), "--output", str(page))
        assert "size=5, noise=0.5" in page.read_text()
        printed = python(maze, *play, "-p", "size=6", ENV_URL=url, check=False)
        assert f"the server at {url} plays with size=5" in printed
        assert "python server.py -p size=6" in printed
    with served(maze) as url:
        printed = python(maze, *play, ENV_URL=url, check=False)
        assert "is not a rollout of oracle" in printed
        assert "parameters" in printed


def test_trls_rows_ask_for_values(maze, tmp_path):
    row = json.dumps(rows_in(maze)[0])
    file, freed = maze / "maze.py", "class Maze:\n    row_parameters = {'size'}\n"
    with served(maze) as url:
        same, other = environment(url, size=4)(), environment(url, size=6)()
        same.reset(row=row)
        assert same.get_reward() == 0.0
        message = refusal(RolloutError, other.reset, row=row)
        assert "the row asks for size=6, but Maze plays with 4" in message
    text = file.read_text()
    file.write_text(text.replace("class Maze:\n", freed))
    try:
        with served(maze) as url:
            other = environment(url, size=6)()
            other.reset(row=row)
            for _ in range(6 - json.loads(row)["ground_truth"][0]["start"]):
                other.step(direction="right")
            assert other.get_reward() == 1.0
            play = ["rollout.py", "--policy", "oracle", "-p", "size=6"]
            assert "mean reward: 1.0" in python(maze, *play, ENV_URL=url)
    finally:
        file.write_text(text)


def test_the_server_reads_the_configuration(maze, tmp_path):
    config = maze / "nemo_gym/configs/maze.yaml"
    text = config.read_text()
    entry = "      entrypoint: server.py\n"
    try:
        config.write_text(
            text.replace(entry, f"{entry}      parameters: {{size: 5}}\n")
        )
        with served(maze) as url:
            assert Client(url).parameters()["size"] == 5
        # The oracle is in the process of the gates.
        printed = python(maze, "make_rows.py", "--example", "--output", str(tmp_path))
        rows = str(tmp_path / "example.jsonl")
        assert "the oracle earns 1.0" in python(
            maze, "gates.py", "--quick", "--rows", rows
        )
        config.write_text(
            text.replace(entry, f"{entry}      parameters: {{size: 1}}\n")
        )
        printed = python(maze, "server.py", check=False)
        assert printed.startswith("server.py: Maze takes `size: ")
    finally:
        config.write_text(text)


# ---------------------------------------------------------------------- variants


@pytest.fixture(scope="module")
def hard(maze):
    """The project, with a variant."""
    python(maze, "-m", "env_runtime.variant", "hard", "size=6", "noise=0.5")
    return maze


def loaded(project, path):
    return yaml.safe_load((project / "nemo_gym" / path).read_text())


def test_a_variant_has_a_server_an_agent_and_rows_of_its_own(hard):
    server = loaded(hard, "configs/maze_hard.yaml")
    [settings] = server["maze_hard_resources_server"]["resources_servers"].values()
    assert settings["parameters"] == {"size": 6, "noise": 0.5}
    assert settings["entrypoint"] == "server.py"
    agent = loaded(hard, "configs/maze_hard_agent.yaml")
    assert agent["config_paths"] == ["configs/maze_hard.yaml"]
    [kind] = agent["maze_hard_agent"]["responses_api_agents"].items()
    assert kind[0] == "maze_agent"  # the folder of the agent's code
    assert kind[1]["resources_server"]["name"] == "maze_hard_resources_server"
    assert kind[1]["datasets"][0]["jsonl_fpath"] == "data/hard/example.jsonl"
    whole = loaded(hard, "environments/maze_hard/config.yaml")
    assert whole["config_paths"] == ["configs/maze_hard_agent.yaml"]
    [relay] = whole["maze_hard_environment_server"]["environment_servers"].values()
    assert relay["agent_server"]["name"] == "maze_hard_agent"
    assert loaded(hard, "environments/maze_hard/manifest.yaml")["name"] == "maze_hard"
    for row in rows_in(hard, "hard"):
        assert row["agent_ref"]["name"] == "maze_hard_agent"
        assert "of 6." in json.dumps(row)
    assert all("agent_ref" not in row for row in rows_in(hard))


def test_a_variant_is_played_beside_the_usual_environment(hard):
    printed = python(hard, "gates.py", "--quick", "--variant", "hard")
    assert "= 4, now 6" in printed
    assert "the oracle earns 1.0" in printed
    assert "now 6" not in python(hard, "gates.py", "--quick")
    with served(hard, "--variant", "hard") as url:
        assert Client(url).parameters() == {"size": 6, "noise": 0.5}
        play = ["rollout.py", "--policy", "oracle", "--variant", "hard"]
        assert "mean reward: 1.0" in python(hard, *play, ENV_URL=url)
    with served(hard) as url:
        assert Client(url).parameters()["size"] == 4


def test_a_variant_is_written_anew(hard):
    python(hard, "-m", "env_runtime.variant", "wide", "size=8")
    python(hard, "-m", "env_runtime.variant", "wide", "size=7")
    assert all("of 7." in json.dumps(row) for row in rows_in(hard, "wide"))


def test_a_package_of_a_variant(hard, tmp_path, monkeypatch):
    """Its server plays with the variant's values, and its rows name the variant's agent."""
    monkeypatch.setenv("ENV_VARIANT", "hard")
    add_wheel(hard)
    own, environment = Project.read(hard), tmp_path / "environment"
    package.write_dataset(tmp_path / "dataset", [own], None, None)
    made = load_rows(tmp_path / "dataset/training.jsonl")
    assert {row["agent_ref"]["name"] for row in made} == {"maze_hard_agent"}
    environment.mkdir()
    pins = {"pydantic": "==2.9", "httpx": "==1.0", "nemo-gym": "==0.7.0"}
    package.write_environment(environment, [own], pins, "native-v1", "x86_64", True)
    rules.check(rules.Package(tmp_path, "x86_64", True))
    [path] = environment.glob("resources_servers/maze/configs/*.yaml")
    [servers] = yaml.safe_load(path.read_text()).values()
    [settings] = servers["resources_servers"].values()
    assert settings["parameters"] == {"size": 6, "noise": 0.5}


def test_rows_that_cannot_be_made(maze):
    """What make_rows.py prints is shown, and the command to run again."""
    file = maze / "nemo_gym/make_rows.py"
    text = file.read_text()
    try:
        file.write_text("raise SystemExit('no task fits')")
        command = ["-m", "env_runtime.variant", "tall", "size=9"]
        printed = python(maze, *command, check=False)
    finally:
        file.write_text(text)
    assert printed.index("no task fits") < printed.index("but no rows, because of")
    assert "make_rows.py --example --overwrite --variant tall`" in printed


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["wide", "size=1"], "variant: Maze takes `size: .*size is '1'"),
        (["wide", "depth=1"], "variant: Maze has no parameter 'depth'"),
        (["wide"], "required: NAME=VALUE"),
        (["agent", "size=5"], "variant: a variant is called by small letters.*'agent'"),
        (["../up", "size=5"], "variant: a variant is called by small letters"),
    ],
)
def test_a_bad_variant_is_refused(maze, command, message):
    before = sorted((maze / "nemo_gym").rglob("*"))
    printed = python(maze, "-m", "env_runtime.variant", *command, check=False)
    assert re.search(message, printed)
    assert sorted((maze / "nemo_gym").rglob("*")) == before


def test_a_file_of_the_users_own_is_kept(maze):
    own = maze / "nemo_gym/configs/maze_mine.yaml"
    own.write_text("mine: true\n")
    command = ["-m", "env_runtime.variant", "mine", "size=5"]
    printed = python(maze, *command, check=False)
    assert f"{own} is there, and this command did not write it" in printed
    assert own.read_text() == "mine: true\n"
    own.unlink()


def test_an_unknown_variant(maze):
    for command in ("gates.py", "server.py"):
        printed = python(maze, command, "--variant", "soft", check=False)
        assert "configs/maze_soft.yaml" in printed
        assert "env_runtime.variant soft NAME=VALUE" in printed
