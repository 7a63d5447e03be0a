"""The adapter for verifiers over the lamp, without a model. test_siblings_installed.py runs this in its venv."""

import asyncio
from types import SimpleNamespace
from typing import Any

import my_env_env as taskset
import pytest
import verifiers.v1 as vf
from env_runtime import project
from env_runtime.errors import SettingError
from env_runtime.frameworks import verifiers as adapter
from lamp import PIXEL, Lamp

Row = taskset.Rows.row_class


@pytest.fixture
def lamp(monkeypatch):
    monkeypatch.setattr(Lamp, "closed", [])
    return Lamp


@pytest.fixture
def graded(lamp, monkeypatch):
    """The lamp with a reward(answer)."""
    monkeypatch.setattr(lamp, "reward", lambda self, answer: float(answer == "on"))
    return lamp


@pytest.fixture
def task(lamp):
    return Row(adapter.RowData(ground_truth={"secret": "xyzzy"}))


def play(task, calls):
    """The tool server's state, and its answers."""

    async def main():
        tools = taskset.Tools(adapter.ToolsConfig())
        async with tools._exit_stack:
            await tools.setup_task(task.data)
            answers = [await tools.call_and_grade(*call) for call in calls]
        late = await tools.episode.call("switch", {"on": True})
        return tools.state, answers, late

    return asyncio.run(main())


def played(state):
    """The trace of a rollout in which the policy took a turn."""
    return SimpleNamespace(state=state, num_turns=1, record_metrics=lambda _: None)


def test_the_policy_has_the_tools_and_no_shell():
    harness = vf.default_harness_id(taskset.__name__)
    assert vf.load_harness(vf.HarnessConfig(id=harness)).EXECUTES_CODE is False
    settings = taskset.create_verifiers_env().config.agent
    assert isinstance(settings.runtime, vf.SubprocessConfig)


def test_the_state_has_the_grade_after_each_call(task):
    assert asyncio.run(task.earned([])) == 0.0
    for calls, grade in (
        ([("switch", {"on": True})], 1.0),
        ([("switch", {"on": True}), ("switch", {"on": False})], 0.0),
        ([("switch", {"on": []}), ("reward", {}), ("_session", {})], 0.0),
    ):
        assert play(task, calls)[0].reward == grade
        assert asyncio.run(task.earned(calls)) == grade


def test_errors_are_readable(task):
    calls = [("switch", {}), ("switch", {"on": False}), ("dance", {})]
    assert [answer.output for answer in play(task, calls)[1]] == [
        "error: on: Field required",
        "error: it is already",
        "error: no tool 'dance'; there are look, switch, explode",
    ]


def test_the_object_is_closed_once_and_no_later_call_earns(task, lamp):
    state, _, late = play(task, [("look", {})])
    assert len(lamp.closed) == 1
    assert late.output == "error: the episode is over"
    assert state.reward == 0.0


def test_what_the_policy_says_is_no_reward(task):
    state = adapter.State(reward=0.0, answer="reward: 1.0")
    trace = played(state)
    assert asyncio.run(task.reward(trace)) == 0.0


def test_the_tools_get_the_keys_of_the_models(lamp, monkeypatch):
    """The tools get the keys, though verifiers hides keys from its processes."""

    class Criticized(lamp):
        def __init__(self, task: dict, critic):
            super().__init__(task)

    monkeypatch.setattr(taskset.Tools, "domain_class", Criticized)
    monkeypatch.setenv("CRITIC_API_KEY", "own")
    monkeypatch.setenv("CRITIC_SECONDS", "5")
    monkeypatch.setenv("THEIR_KEY", "theirs")
    critic = {"model": "m", "base_url": "http://critic", "api_key_var": "THEIR_KEY"}
    for models, variables in (
        ({}, {"CRITIC_API_KEY": "own", "CRITIC_SECONDS": "5.0"}),
        (
            {"critic": critic},
            {
                "CRITIC_MODEL": "m",
                "CRITIC_BASE_URL": "http://critic",
                "CRITIC_API_KEY": "theirs",
                "CRITIC_SECONDS": "5.0",
            },
        ),
    ):
        config = adapter.RowConfig.model_validate({"models": models})
        [tools] = Row.toolsets(config)
        assert tools.config.variables == variables
    config = adapter.RowConfig.model_validate({"models": {"judge": critic}})
    with pytest.raises(SettingError, match="the class asks critic, got judge"):
        Row.toolsets(config)


def test_an_episode_that_was_not_graded_is_an_error(task):
    with pytest.raises(RuntimeError, match="ended before it had graded"):
        asyncio.run(task.reward(played(adapter.State())))


def test_the_last_message_is_graded(task, graded, monkeypatch):
    monkeypatch.setattr(
        graded, "reward", lambda self, answer: float(self.on and answer == "on")
    )
    on, right = ("switch", {"on": True}), ("answer", {"text": "on"})
    for calls, grade in (
        ([on, right], 1.0),
        ([right, on], 0.0),
        ([on], 0.0),
        ([on, ("answer", {"text": "off"}), right], 0.0),
    ):
        assert asyncio.run(task.earned(calls)) == grade


def test_without_tools_there_is_no_tool_server(task, graded, monkeypatch):
    monkeypatch.setattr(project.Project, "served_tools", lambda _: [])
    assert task.toolsets(task.config) == []
    state = adapter.State(answer="on")
    trace = played(state)
    assert asyncio.run(task.reward(trace)) == 1.0


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_tool_server_that_ended_is_named(monkeypatch, exit_code):
    async def launch(*_, **__):
        return SimpleNamespace(exit_code=exit_code)

    monkeypatch.setattr(adapter.NullHarness, "launch", launch)
    harness = vf.load_harness(
        vf.HarnessConfig(id=vf.default_harness_id(taskset.__name__))
    )
    urls = {"": "http://127.0.0.1:9/mcp"}
    nothing: Any = None  # the replaced launch() reads no arguments
    launched = harness.launch(nothing, nothing, nothing, "", "", urls, nothing)
    if exit_code:
        with pytest.raises(vf.ToolsetError, match="the tool server at http://127.0.0."):
            asyncio.run(launched)
    else:
        assert asyncio.run(launched).exit_code == 0


def test_files_of_rows(tmp_path, monkeypatch):
    """A file of rows is in the current folder, or beside the example rows."""

    def rows(name):
        made: Any = taskset.create_verifiers_env(taskset={"rows": name}).taskset
        return made.config.rows

    here = tmp_path / "rows.jsonl"
    here.touch()
    beside = project.find(taskset.__file__).rows
    monkeypatch.chdir(tmp_path)
    assert rows("rows.jsonl") == here
    assert rows(beside.name) == beside.resolve()
    with pytest.raises(ValueError, match="no file other.jsonl, neither here nor in"):
        rows("other.jsonl")


def test_a_number_of_tasks():
    [_] = taskset.create_verifiers_env(taskset={"num_tasks": 1}).taskset


def test_an_environment_that_failed_is_an_error_and_no_reward(task):
    state, *_ = play(task, [("switch", {"on": True}), ("explode", {})])
    with pytest.raises(RuntimeError, match="the lamp exploded"):
        asyncio.run(task.reward(played(state)))


def test_calls_at_once_and_images(task):
    async def main():
        tools = taskset.Tools(adapter.ToolsConfig())
        async with tools._exit_stack:
            await tools.setup_task(task.data)
            calls = [("switch", {"on": True}), ("look", {}), ("switch", {"on": False})]
            return await asyncio.gather(*(tools.call_tool(*call) for call in calls))

    _, look, last = asyncio.run(main())
    assert [part.type for part in look.content] == ["text", "image"]
    assert look.content[0].text == "on"
    assert f"data:image/png;base64,{look.content[1].data}" == PIXEL
    assert last.content[0].text == "done"


def test_parameters_are_arguments(lamp, monkeypatch):
    """Each environment has its own, in its episodes, its oracle and its prompts."""

    class Sized(lamp):
        def __init__(self, task: dict, *, size: int = 8):
            super().__init__(task)
            self.size = size

        def look(self) -> str:
            """Look."""
            return f"size {self.size}"

        def observation(self) -> str:
            return f"The size is {self.size}."

        @staticmethod
        def oracle(task: dict, *, size: int = 8):
            return [("switch", {"on": True})] * (size == 12)

    monkeypatch.setattr(taskset.Tools, "domain_class", Sized)
    project.of_loaded[Sized] = project.of_loaded[lamp]
    monkeypatch.setattr(project.Project, "load_class", lambda self: Sized)
    prompts = {}
    for size in (8, 12):
        given = {"size": size} if size != 8 else {}
        [row] = taskset.create_verifiers_env(taskset={"num_tasks": 1}, **given).taskset
        prompts[size] = str(row.data.prompt)
        assert f"The size is {size}." in prompts[size]
        [tools] = row.toolsets(row.config)

        async def look(tools=tools, row=row):
            async with tools._exit_stack:
                await tools.setup_task(row.data)
                return await tools.call_and_grade("look", {})

        assert asyncio.run(look()).output == f"size {size}"
        assert len(adapter.plan_for(row, "oracle").calls) == (size == 12)
    assert "The size is 8." not in prompts[12]
    with pytest.raises(SettingError, match="size is 'x'"):
        taskset.create_verifiers_env(size="x")
