"""The adapter for OpenEnv over the lamp. test_siblings_installed.py runs this in its venv."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from env_runtime.errors import RolloutError, ToolError
from env_runtime.frameworks import episodes, openenv
from env_runtime.project import Project
from fastapi.testclient import TestClient
from lamp import PIXEL, Lamp
from my_env_trl import environment
from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from starlette.websockets import WebSocketDisconnect

from server.app import ClassEnvironment, app


@pytest.fixture(autouse=True)
def lamp(monkeypatch):
    monkeypatch.setattr(Lamp, "closed", [])
    return Lamp


@pytest.fixture
def graded(lamp, monkeypatch):
    """The lamp with a reward(answer)."""
    monkeypatch.setattr(lamp, "reward", lambda self, answer: float(answer == "on"))
    return lamp


def play(*calls, reset=True):
    """The observations of one session."""

    async def main():
        session = ClassEnvironment()
        if reset:
            await session.reset_async()
        actions = [
            CallToolAction(tool_name=name, arguments=arguments)
            for name, arguments in calls
        ]
        try:
            return [await session.step_async(action) for action in actions]
        finally:
            session.close()
            await (session._closing or asyncio.sleep(0))

    return asyncio.run(main())


def test_the_last_reward_is_the_grade(lamp):
    on, off = ("switch", {"on": True}), ("switch", {"on": False})
    steps = play(("look", {}), on, ("look", {}), off, on)
    assert [step.reward for step in steps] == [0.0, 1.0, 1.0, 0.0, 1.0]
    assert not any(step.done for step in steps)
    assert len(lamp.closed) == 1


def test_errors_are_readable():
    calls = [("switch", {}), ("switch", {"on": False}), ("dance", {})]
    assert [step.data for step in play(*calls)] == [
        "error: on: Field required",
        "error: it is already",
        "error: no tool 'dance'; there are look, switch, explode",
    ]
    errors = [step.error for step in play(("look", {}), *calls)]
    assert [error and error.error_type.value for error in errors] == [
        *(None, "invalid_args", "execution_error", "tool_not_found")
    ]
    assert errors[2].message == "it is already"


def test_a_step_without_an_episode_is_an_error_of_the_protocol():
    refusal = "no episode: reset the environment first"
    with pytest.raises(openenv.RequestError, match=refusal):
        play(("switch", {"on": True}), reset=False)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"index": 999}, "test has the rows 0 to 0, got 999"),
        ({"split": "dev"}, "no split 'dev'"),
        ({"seed": "x"}, "seed must be a whole number, got 'x'"),
        ({"seed": True, "index": 0}, "seed must be a whole number, got True"),
        ({"episode_id": 5}, "valid string"),
    ],
)
def test_a_reset_that_fails_ends_the_episode_before(lamp, options, problem):
    async def main():
        session = ClassEnvironment()
        await session.reset_async()
        with pytest.raises((openenv.RequestError, ValueError), match=problem):
            await session.reset_async(**options)
        await session.step_async(CallToolAction(tool_name="look"))

    with pytest.raises(openenv.RequestError, match="no episode"):
        asyncio.run(main())
    assert lamp.closed


def test_a_constructor_that_fails_leaves_no_episode(lamp, monkeypatch):
    def refuse(self, task):
        raise ValueError("not this task")

    async def main():
        session = ClassEnvironment()
        await session.reset_async()
        monkeypatch.setattr(lamp, "__init__", refuse)
        with pytest.raises(ValueError, match="not this task"):
            await session.reset_async()
        await session.step_async(CallToolAction(tool_name="look"))

    with pytest.raises(openenv.RequestError, match="no episode"):
        asyncio.run(main())


def test_metrics_are_metadata(lamp, monkeypatch):
    assert play(("look", {}))[0].metadata == {}
    monkeypatch.setattr(lamp, "metrics", lambda self: {"lit": self.on}, raising=False)
    assert reset().metadata == {"metrics": {"lit": 0.0}}
    [on] = play(("switch", {"on": True}))
    assert on.metadata == {"metrics": {"lit": 1.0}}


def test_calls_over_mcp():
    """A failed call is an error of the protocol; the policy gets no reward."""

    with TestClient(app) as client:

        def send(method, **params):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            return client.post("/mcp", json=body).json()

        session = send("openenv/session/create")["result"]

        def call(name, **arguments):
            return send("tools/call", name=name, arguments=arguments, **session)

        assert "no episode" in call("look")["error"]["message"]
        address = f"/ws?session_id={session['session_id']}"
        with client.websocket_connect(address) as socket:
            socket.send_json({"type": "reset", "data": {}})
            socket.receive_json()
            names = [tool["name"] for tool in send("tools/list")["result"]["tools"]]
            assert names == ["look", "switch", "explode"]
            assert call("look")["result"] == {"data": "off", "image": PIXEL}
            failed = [call("dance"), call("switch"), call("switch", on=False)]
            assert [answer["error"]["message"] for answer in failed] == [
                "no tool 'dance'; there are look, switch, explode",
                "on: Field required",
                "it is already",
            ]
        send("openenv/session/close", **session)


def test_posts_that_cannot_be_made_say_why():
    with TestClient(app) as client:
        step = client.post("/step", json={"action": {"tool_name": "look"}})
        row = client.post("/reset", json={"index": 7})
        found = client.post("/reset", json={"index": 0})
    assert step.status_code == row.status_code == 400
    assert "no episode" in step.json()["detail"]
    assert "play over the WebSocket /ws" in step.json()["detail"]
    assert row.json()["detail"] == "test has the rows 0 to 0, got 7"
    assert found.json()["observation"]["prompt"] == "Switch it on."


def reset(**options):
    async def main():
        session = ClassEnvironment()
        try:
            return await session.reset_async(**options)
        finally:
            session.close()
            await (session._closing or asyncio.sleep(0))

    return asyncio.run(main())


def test_a_seed_draws_a_row(monkeypatch):
    def numbered(number):
        return {**row, "responses_create_params": {"input": str(number)}}

    [row] = episodes.split_rows(Lamp, "test")
    rows = [numbered(number) for number in range(9)]
    for module in (episodes, openenv):
        monkeypatch.setattr(module, "split_rows", lambda *_: rows)
    drawn = [reset(seed=seed).prompt for seed in range(20)]
    assert drawn == [reset(seed=seed).prompt for seed in range(20)]
    assert len(set(drawn)) > 3
    assert reset().prompt == "0"
    assert reset(seed=1, index=5).prompt == "5"


def test_an_unknown_keyword_is_refused():
    refusal = "index, seed and episode_id, not indx"
    with pytest.raises(openenv.RequestError, match=refusal):
        reset(indx=3)


def test_what_the_class_shows_first(lamp, monkeypatch):
    monkeypatch.setattr(lamp, "observation", lamp.look, raising=False)
    start = reset()
    assert start.prompt == "Switch it on.\noff"
    assert (start.image, start.reward) == (PIXEL, 0.0)


def test_the_last_message_is_graded(graded):
    """The tool `answer` ends the episode, and the first answer counts."""
    assert "answer" in [tool.name for tool in openenv.list_tools(Lamp)]
    right, wrong = ("answer", {"text": "on"}), ("answer", {"text": "off"})
    steps = play(("look", {}), right, wrong)
    assert [(step.reward, step.done) for step in steps] == [
        *((0.0, False), (1.0, True), (1.0, True))
    ]
    assert [step.reward for step in play(wrong, right)] == [0.0, 0.0]


def test_metadata():
    about = ClassEnvironment().get_metadata()
    assert about.name == "my_env"
    readme = about.readme_content or ""
    assert f"\n# {about.name} for OpenEnv\n" in readme
    assert about.description in readme


def test_an_environment_that_failed_earns_nothing():
    with pytest.raises(RuntimeError, match="the lamp exploded"):
        play(("switch", {"on": True}), ("explode", {}))


def test_images():
    [look] = play(("look", {}))
    assert (look.data, look.image) == ("off", PIXEL)
    assert look.result == {"data": "off", "image": PIXEL}  # for MCPToolClient
    page = ClassEnvironment().render_web(look.model_dump())
    assert page == f'<img src="{PIXEL}" width="540">'


def test_over_a_web_socket(lamp):
    on = {"type": "call_tool", "tool_name": "switch", "arguments": {"on": True}}
    look = {"type": "call_tool", "tool_name": "look"}

    def send(socket, kind, **data):
        socket.send_json({"type": kind, "data": data})
        return socket.receive_json()["data"]

    with TestClient(app) as client:
        connect = client.websocket_connect
        with connect("/ws") as first, connect("/ws") as second:
            for socket in (first, second):
                start = send(socket, "reset", split="test", index=0)
                assert start["observation"]["prompt"] == "Switch it on."
            assert send(first, "step", **on)["reward"] == 1.0
            assert send(second, "step", **look)["reward"] == 0.0
            send(first, "reset", split="test", index=0)
            assert send(first, "step", **look)["reward"] == 0.0
            assert "rows 0 to 0" in send(first, "reset", index=7)["message"]
            for socket in (first, second):
                socket.send_json({"type": "close"})
                with pytest.raises(WebSocketDisconnect):
                    socket.receive_json()
    assert len(lamp.closed) == 3


def test_what_clients_see_has_no_answer():
    async def main():
        session = ClassEnvironment()
        start = await session.reset_async()
        tools = await session.step_async(ListToolsAction())
        models = [start, tools, session.state]
        public = [model.model_dump() for model in models]
        return [*public, session.list_tasks("train")]

    assert "xyzzy" not in json.dumps(asyncio.run(main()))


def test_a_name_of_openenvs_own_is_refused(lamp, monkeypatch):
    monkeypatch.setattr(lamp, "reset", lamp.look, raising=False)
    monkeypatch.setattr(Project, "served_tools", lambda _: ["reset"])
    with pytest.raises(ToolError, match="called reset: rename the tool"):
        openenv.list_tools(Lamp)


class Broken:
    """A client whose server ends the call with an error."""

    def step(self, call):
        raise RuntimeError("the lamp exploded")


def test_trl_has_no_reward_for_an_environment_that_failed():
    playing = environment()()
    playing._episode = Broken()
    with pytest.raises(RuntimeError, match="the lamp exploded"):
        playing._call("switch", {"on": True})
    assert playing.get_reward() is None


class Blurred:
    """A client whose server answers with an image that is none."""

    def step(self, call):
        seen = {"data": "A lamp.", "image": "data:image/png;base64,AA=="}
        return SimpleNamespace(reward=1.0, observation=seen)


def test_trl_has_no_reward_for_an_image_that_cannot_be_read():
    playing = environment()()
    with pytest.raises(RolloutError, match=r"call reset\(row\) first"):
        playing._call("look", {})
    playing._episode = Blurred()
    with pytest.raises(RolloutError, match="its image cannot be read"):
        playing._call("look", {})
    assert playing.get_reward() is None


def test_a_name_of_trls_own_is_refused(lamp, monkeypatch):
    monkeypatch.setattr(lamp, "get_reward", lamp.look, raising=False)
    monkeypatch.setattr(Project, "served_tools", lambda _: ["get_reward"])
    with pytest.raises(ToolError, match="TRL calls get_reward"):
        environment()


def test_parameters_are_arguments_of_reset(lamp, monkeypatch):
    class Sized(lamp):
        def __init__(self, task: dict, *, size: int = 8):
            super().__init__(task)
            self.size = size

        def observation(self) -> str:
            return f"The size is {self.size}."

    monkeypatch.setattr(ClassEnvironment, "domain_class", Sized)

    async def main():
        session = ClassEnvironment()
        seen = [await session.reset_async(), await session.reset_async(size=12)]
        bad: list[dict[str, Any]] = [{"size": "x"}, {"sizes": 3}]
        for wrong in bad:
            with pytest.raises(openenv.RequestError, match="size"):
                await session.reset_async(**wrong)
        session.close()
        await (session._closing or asyncio.sleep(0))
        return seen

    usual, other = asyncio.run(main())
    assert "The size is 8." in usual.prompt
    assert "The size is 12." in other.prompt and "The size is 8." not in other.prompt
    assert other.metadata["parameters"] == {"size": 12}
