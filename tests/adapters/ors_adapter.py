"""The adapter for ORS over the lamp, in this process. test_siblings_installed.py runs this in its venv."""

import asyncio
import json

import pytest
from env_runtime.errors import ToolError
from env_runtime.frameworks import ors
from env_runtime.project import Project
from lamp import PIXEL, Lamp

import server


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
def environment(lamp):
    return ors.environment_of(server.__file__)


def play(environment, calls):
    """The answers of one session: outputs, or ORS's own refusals."""

    async def main():
        session = environment(environment.list_tasks("test")[0])
        await session.setup()
        try:
            return [(await session._call_tool(*call)).root for call in calls]
        finally:
            await session.teardown()

    return asyncio.run(main())


END = ("end_of_episode", {})


@pytest.mark.parametrize(
    ("calls", "rewards"),
    [
        ([], [0.0]),
        ([("look", {})], [0.0, None]),
        ([("look", {}), ("switch", {"on": True})], [0.0, 1.0, None]),
        ([("switch", {"on": True}), ("look", {})], [1.0, None, None]),
        ([("switch", {"on": on}) for on in (True, False)], [1.0, -1.0, None]),
        ([("switch", {"on": False}), ("switch", {"on": True})], [0.0, 1.0, None]),
    ],
)
def test_rewards_sum_to_the_grade(environment, calls, rewards):
    outputs = [answer.output for answer in play(environment, [*calls, END])]
    assert [output.reward for output in outputs] == rewards
    *before, last = [output.finished for output in outputs]
    assert last
    assert not any(before)


def test_the_last_message_is_graded(graded):
    """It is graded once: by the tool `answer`, or when the harness ends the episode."""
    look, right = ("look", {}), ("answer", {"text": "on"})
    environment = ors.environment_of(server.__file__)
    for calls, rewards in (
        ([look, right], [None, 1.0]),
        ([("answer", {"text": "off"})], [0.0]),
        ([look, ("end_of_episode", {"message": "on"})], [None, 1.0]),
        ([look, END], [None, 0.0]),
    ):
        outputs = [answer.output for answer in play(environment, calls)]
        assert [output.reward for output in outputs] == rewards
        assert [output.finished for output in outputs][-1]
    *_, late = play(environment, [("answer", {"text": "off"}), right])
    assert late.reason == "episode_finished"


def test_what_the_class_shows_first(environment, lamp, monkeypatch):
    monkeypatch.setattr(lamp, "observation", lamp.look, raising=False)

    async def prompt():
        session = environment(environment.list_tasks("test")[0])
        await session.setup()
        try:
            return await session.get_prompt()
        finally:
            await session.teardown()

    text, image = asyncio.run(prompt())
    assert text.text == "Switch it on.\noff"
    assert f"data:{image.mimeType};base64,{image.data}" == PIXEL


def test_parameters_are_in_a_sessions_task(environment, lamp, monkeypatch):
    class Sized(lamp):
        def __init__(self, task: dict, *, size: int = 8):
            super().__init__(task)
            self.size = size

        def observation(self) -> str:
            return f"The size is {self.size}."

    monkeypatch.setattr(environment, "_domain_class", Sized)
    first = environment.list_tasks("test")[0]

    async def prompt(task):
        session = environment(task)
        await session.setup()
        try:
            [block] = await session.get_prompt()
            return block.text
        finally:
            await session.teardown()

    sized = {**first, "parameters": {"size": 12}}
    seen = [asyncio.run(prompt(task)) for task in (first, sized)]
    assert [text.splitlines()[-1] for text in seen] == [
        f"The size is {size}." for size in (8, 12)
    ]
    for bad in ({"size": "x"}, {"sizes": 3}, [3]):
        with pytest.raises(ValueError, match="size|must be an object"):
            environment({**first, "parameters": bad})


def test_errors_are_readable(environment):
    [answer] = play(environment, [("switch", {"on": False})])
    assert answer.output.blocks[0].text == "error: it is already"


def test_calls_that_are_not_made_are_errors_without_a_reward(environment):
    """They are ORS's own, and the rewards of the other calls sum to the grade."""
    calls = [("dance", {}), ("switch", {}), ("switch", {"on": "?"})]
    *refused, on, last = play(environment, [*calls, ("switch", {"on": True}), END])
    reasons = ["not_found", "input_validation", "input_validation"]
    assert [answer.reason for answer in refused] == reasons
    assert "'loc': ('on',), 'msg': 'Field required'" in refused[1].error
    assert [on.output.reward, last.output.reward] == [1.0, None]


def test_metrics_are_metadata(environment, lamp, monkeypatch):
    calls = [("look", {}), ("switch", {"on": True}), END]
    assert {answer.output.metadata for answer in play(environment, calls)} == {None}
    monkeypatch.setattr(lamp, "metrics", lambda self: {"lit": self.on}, raising=False)
    metadata = [answer.output.metadata for answer in play(environment, calls)]
    assert metadata == [{"metrics": {"lit": lit}} for lit in (0.0, 1.0, 1.0)]


def test_playing_on_after_the_end(environment, lamp):
    *_, late = play(environment, [("look", {}), END, ("switch", {"on": True})])
    assert not late.ok
    assert late.reason == "episode_finished"
    assert [closed.on for closed in lamp.closed] == [False]


def test_an_environment_that_failed_ends_the_session(environment):
    with pytest.raises(RuntimeError, match="the lamp exploded"):
        play(environment, [("switch", {"on": True}), ("explode", {})])


def test_images_are_blocks(environment):
    [answer] = play(environment, [("look", {})])
    text, image = answer.output.blocks
    assert text.text == "off"
    assert f"data:{image.mimeType};base64,{image.data}" == PIXEL


def test_what_clients_see_has_no_answer(environment):
    session = environment(environment.list_tasks("test")[0])
    prompt = [block.text for block in asyncio.run(session.get_prompt())]
    tools = environment.list_tools().model_dump()
    assert "xyzzy" not in json.dumps([tools, environment.list_tasks("train"), prompt])
    assert prompt == ["Switch it on."]


@pytest.mark.parametrize(
    "spec",
    [{}, {"split": "test"}, {"split": "test", "index": 9}, {"ground_truth": [{}]}],
)
def test_a_task_of_ones_own_is_refused(environment, spec):
    with pytest.raises(ValueError, match="a task has a split and an index"):
        environment(spec)


def test_the_splits(environment):
    assert environment.list_splits() == ["train", "validation", "test"]
    for split in environment.list_splits():
        assert environment.list_tasks(split)


def test_a_name_of_ors_own_is_refused(environment, lamp, monkeypatch):
    monkeypatch.setattr(lamp, "setup", lamp.look, raising=False)
    monkeypatch.setattr(Project, "served_tools", lambda _: ["setup"])
    with pytest.raises(ToolError, match="called setup: rename the tool"):
        ors.environment_of(server.__file__)
