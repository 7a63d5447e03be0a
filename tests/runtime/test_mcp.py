"""NeMo Gym 0.7 serves the tools over MCP, too: `expose_tools_over_mcp: true`."""

import json
from typing import Any

import pytest
from env_runtime import gym_series
from env_runtime.errors import SettingError
from env_runtime.server import SessionServer

from .support import PNG, Camera, Mover, Player, app_of, outcome, refusal

newer_only = pytest.mark.skipif(not gym_series.HAS_MCP, reason="NeMo Gym 0.7 has it")


def exposed(server: SessionServer) -> Any:
    """The app of a server whose configuration exposes its tools over MCP."""
    server.config.expose_tools_over_mcp = True
    app = app_of(server)
    if not any(getattr(route, "path", "") == "/mcp" for route in app.routes):
        gym_series.expose_over_mcp(server, app)
    return app


def call(client: Player, token: dict[str, str], tool: str, arguments: str = "{}"):
    """The result of a tool call over MCP."""
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": '
    body += f'{{"name": "{tool}", "arguments": {arguments}}}}}'
    headers = {"accept": "application/json, text/event-stream"}
    headers |= {"content-type": "application/json", **token}
    answer = client.post("/mcp", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


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
        assert json.loads(call(client, token, "move")["content"][0]["text"]) == {
            "output": "moved"
        }
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


class Talks(Mover):
    def reply(self, answer: str) -> str | None:
        return None


class TakesCalls(Mover):
    def call_row_tool(self, name: str, arguments: dict) -> str:
        return "called"


@newer_only
@pytest.mark.parametrize(
    ("kind", "named"), [(Talks, "reply()"), (TakesCalls, "call_row_tool()")]
)
def test_a_class_that_mcp_cannot_play_does_not_start(server_of, kind, named):
    text = refusal(SettingError, exposed, server_of(kind))
    assert f"{kind.__name__} cannot be played over MCP, because it has {named}" in text
    assert "remove `expose_tools_over_mcp: true` from configs/" in text


@pytest.mark.skipif(gym_series.HAS_MCP, reason="NeMo Gym 0.4 has no MCP")
def test_an_older_nemo_gym_ignores_the_setting(server_of):
    with Player(exposed(server_of(Talks))) as client:
        assert client.seed().call("move") == "moved"
