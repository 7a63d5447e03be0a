"""NeMo Gym 0.7 serves the tools over MCP, too: `expose_tools_over_mcp: true`."""

import json
from typing import Any

import pytest
from env_runtime import gym_series
from env_runtime.episode.types import function_call
from env_runtime.errors import SettingError
from env_runtime.resources_server import over_mcp
from env_runtime.server import SessionServer

from .support import PNG, ROW, Camera, Mover, Player, app_of, outcome, refusal

newer_only = pytest.mark.skipif(not gym_series.HAS_MCP, reason="NeMo Gym 0.7 has it")


def exposed(server: SessionServer) -> Any:
    """The app of a server whose configuration exposes its tools over MCP."""
    server.config.expose_tools_over_mcp = True
    app = app_of(server)
    if not any(getattr(route, "path", "") == "/mcp" for route in app.routes):
        over_mcp.expose(server, app)
    return app


def ask(client: Player, token: dict[str, str], method: str, **params: Any) -> Any:
    """The result of a request over MCP."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"accept": "application/json, text/event-stream", **token}
    answer = client.post("/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def call(client: Player, token: dict[str, str], tool: str, **arguments: Any) -> Any:
    """The result of a tool call over MCP."""
    return ask(client, token, "tools/call", name=tool, arguments=arguments)


def text_of(result: Any) -> str:
    """The output in the first text of a tool's answer."""
    return json.loads(result["content"][0]["text"])["output"]


def seed(client: Player) -> dict[str, str]:
    """Seeds a row. Returns the headers with the token of its session."""
    answer = client.post("/seed_session", json=client.row)
    assert answer.status_code == 200, answer.text
    return answer.json()["mcp"]["headers"]


@newer_only
def test_a_session_that_is_lost_stays_lost(server_of, monkeypatch):
    """A token is of a seeded session. A default episode would earn an unmasked 0.0."""
    monkeypatch.setenv("SESSION_SECRET", "kept over a restart")
    with Player(exposed(server_of(Mover))) as client:
        token = seed(client)
        assert text_of(call(client, token, "move")) == "moved"
        cookies = client.cookies
    server = server_of(Mover)
    with Player(exposed(server), cookies=cookies) as client:
        [text] = call(client, token, "move")["content"]
        assert "error: this episode was lost" in text["text"]
        assert not server.sessions
        verdict = client.verdict()
    assert outcome(verdict) == (0.0, True)
    assert "the session was lost" in verdict["failure_reason"]


@newer_only
def test_an_image_arrives_as_an_image(server_of):
    with Player(exposed(server_of(Camera))) as client:
        result = call(client, seed(client), "look")
    text, image = result["content"]
    assert json.loads(text["text"]) == {"output": "A click."}
    data = PNG.partition(",")[2]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert image["data"] == data
    assert data not in json.dumps(result.get("structuredContent"))


class Shop:
    def __init__(self, task: dict) -> None:
        self.bought: list[str] = []

    def buy(self, item: str, pieces: int = 1) -> str:
        """Buy an item.

        Args:
            item: Its name.
        """
        self.bought += pieces * [item]
        return f"{len(self.bought)} bought"

    def look(self) -> str:
        """Look at the shelves."""
        return "tea"

    def reward(self) -> float:
        return float(self.bought == ["tea"])


@newer_only
def test_a_tool_is_listed_as_rows_list_it_and_as_harmless(server_of):
    """Codex, which asks nobody, cancels each call of a tool that may be harmful."""
    server = server_of(Shop)
    with Player(exposed(server)) as client:
        listed = ask(client, {}, "tools/list")["tools"]
        definitions = client.get("/tools").json()["tools"]
    keys = ["name", "description", "inputSchema"]
    shown = [tuple(tool[key] for key in keys) for tool in listed]
    keys[-1] = "parameters"
    assert shown == [tuple(each[key] for key in keys) for each in definitions]
    assert "title" not in json.dumps(listed)
    hints = ["readOnlyHint", "destructiveHint", "openWorldHint"]
    assert [tool["annotations"] for tool in listed] == 2 * [dict.fromkeys(hints, False)]


@newer_only
def test_a_verdict_says_how_many_calls_arrived(server_of):
    """A harness may record calls that it cancelled: their zero is not the policy's."""
    recorded = function_call("buy", {"item": "tea"})
    with Player(exposed(server_of(Shop))) as client:
        client.seed()
        assert client.verdict(output=[recorded])["tool_calls_received"] == 0
    with Player(exposed(server_of(Shop))) as client:
        token = seed(client)
        assert text_of(call(client, token, "buy", item="tea")) == "1 bought"
        verdict = client.verdict()
    assert (verdict["reward"], verdict["tool_calls_received"]) == (1.0, 1)
    with Player(app_of(server_of(Shop))) as client:
        assert "tool_calls_received" not in client.seed().verdict()


class Talks(Mover):
    def __init__(self, task: dict) -> None:
        super().__init__(task)
        self.heard: list[str] = []

    def reply(self, answer: str) -> str | None:
        self.heard.append(answer)
        return None if answer == "bye" else f"You said {answer}."

    def reward(self) -> float:
        return float(self.heard == ["hi", "bye"])


@newer_only
def test_a_class_that_replies_is_told_with_a_tool(server_of, monkeypatch):
    monkeypatch.setenv("REVERIFY", "1")
    with Player(exposed(server_of(Talks))) as client:
        token = seed(client)
        listed = ask(client, token, "tools/list")["tools"]
        assert [tool["name"] for tool in listed] == ["move", "say"]
        assert text_of(call(client, token, "say", text="hi")) == "You said hi."
        thought = call(client, token, "say", text="<think>bye</think>")
        assert text_of(thought) == "error: the text is empty"
        assert text_of(call(client, token, "say", text="bye")) == "The episode is over."
        said = [function_call("say", {"text": text}) for text in ("hi", "bye")]
        verdict = client.verdict(output=said)
    assert (verdict["reward"], verdict["ended_by"]) == (1.0, "environment")
    with Player(exposed(server_of(Talks))) as client:
        client.row = ROW
        assert client.verdict(output=said)["reward"] == 1.0, (
            "not the same when played again"
        )


class SaysItself(Talks):
    def say(self, text: str) -> str:
        return text


class ListsCalls(Mover):
    @classmethod
    def row_tools(cls) -> list[dict]:
        number = {"type": "object", "properties": {"n": {"type": "integer"}}}
        about = {"type": "function", "name": "add", "description": "Add to it."}
        return [{**about, "parameters": number, "strict": False}]

    def call_row_tool(self, name: str, arguments: dict) -> str:
        return f"{name} {arguments['n']}"


@newer_only
def test_tools_that_every_row_has_are_listed(server_of):
    with Player(exposed(server_of(ListsCalls))) as client:
        token = seed(client)
        listed = {tool["name"]: tool for tool in ask(client, {}, "tools/list")["tools"]}
        assert text_of(call(client, token, "add", n=2)) == "add 2"
    assert set(listed) == {"move", "add"}
    assert listed["add"]["inputSchema"] == ListsCalls.row_tools()[0]["parameters"]
    assert listed["add"]["annotations"]["openWorldHint"] is False


class OffersNothing(ListsCalls):
    @classmethod
    def row_tools(cls) -> list[dict]:
        raise ValueError("its server does not start")


class TakesCalls(Mover):
    def call_row_tool(self, name: str, arguments: dict) -> str:
        return "called"


@newer_only
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (TakesCalls, "TakesCalls cannot be played over MCP, because it has call_row_tool() without row_tools()"),
        (TakesCalls, "remove `expose_tools_over_mcp: true` from configs/"),
        (OffersNothing, "OffersNothing.row_tools(): its server does not start"),
        (SaysItself, "over MCP the tool 'say' takes the policy's messages: rename the class's own tool"),
    ],
)  # fmt: skip
def test_a_class_that_mcp_cannot_play_does_not_start(server_of, kind, reason):
    assert reason in refusal(SettingError, exposed, server_of(kind))


@pytest.mark.skipif(gym_series.HAS_MCP, reason="NeMo Gym 0.4 has no MCP")
def test_an_older_nemo_gym_ignores_the_setting(server_of):
    with Player(exposed(server_of(Talks))) as client:
        assert client.seed().call("move") == "moved"
