"""`under_gym --agent`: what an agent of NeMo Gym needs, and rows that it never played."""

import pytest
from env_runtime import gym_agents
from env_runtime.episode.types import function_call, message
from env_runtime.errors import RolloutError
from env_runtime.gym_agents import check_agent, without_calls
from env_runtime.gym_series import HAS_MCP

from .support import Mover, Sum, refusal

newer_only = pytest.mark.skipif(not HAS_MCP, reason="NeMo Gym 0.7 has the agents")


class Talks(Sum):
    def reply(self, answer: str) -> str | None:
        return None


class TakesCalls(Mover):
    def call_row_tool(self, name: str, arguments: dict) -> str:
        return ""


@newer_only
@pytest.mark.parametrize(
    ("agent", "kind", "reason"),
    [
        ("claude_code", Mover, "needs claude, which is not on PATH: npm install -g @anthropic-ai/claude-code@"),
        ("codex", Mover, "needs codex, which is not on PATH: npm install -g @openai/codex@"),
        ("haystack", Mover, "needs haystack-ai, which is not installed: uv add --dev haystack-ai=="),
        ("codex", TakesCalls, "TakesCalls cannot be played over MCP, because it has call_row_tool() without row_tools()"),
        ("simple", Talks, "Talks has reply(), and simple_agent ends at the first message; without --agent"),
        ("cline", Mover, "unknown agent 'cline': choose simple, haystack, claude_code, codex"),
    ],
)  # fmt: skip
def test_what_cannot_play_is_refused(agent, kind, reason, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason in refusal(RolloutError, check_agent, agent, kind)


def test_an_older_nemo_gym_has_no_agent_that_speaks_mcp(monkeypatch):
    monkeypatch.setattr(gym_agents, "HAS_MCP", False)
    text = refusal(RolloutError, check_agent, "codex", Mover)
    assert (
        "--agent codex needs MCP: install nemo-gym 0.7, which needs Python 3.13.14"
        in text
    )
    assert check_agent("simple", Mover) == ""


@newer_only
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo '2.1.197 (Claude Code)'", "claude 2.1.197"),
        ("echo no such option >&2; exit 1", "claude --version failed: no such option"),
    ],
)
def test_the_version_of_a_program_is_told(script, said, monkeypatch, tmp_path):
    program = tmp_path / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        told = check_agent("claude_code", Mover)
    except RolloutError as error:
        told = str(error)
    assert told == said


def rollout(*output, tools=("guess",), **verdict):
    listed = [{"type": "function", "name": name} for name in tools]
    params = {"input": "Go.", "tools": listed}
    response = {"output": list(output)}
    return {"responses_create_params": params, "response": response, **verdict}


CALLED = function_call("guess", {})


@pytest.mark.parametrize(
    ("rollout", "found"),
    [
        (rollout(message("I cannot call tools.")), True),
        (rollout(CALLED), False),
        (rollout(function_call("Read", {})), True),  # a tool of the harness
        (rollout(CALLED, tool_calls_received=0), True),  # it was cancelled
        (rollout(tool_calls_received=2), False),
        (rollout(message("42"), tools=()), False),  # there is nothing to call
        (rollout(mask_sample=True), False),
    ],
)
def test_rows_are_found_in_which_no_call_arrived(rollout, found):
    assert without_calls([rollout]) == ([0] if found else [])
