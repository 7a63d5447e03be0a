"""NeMo Gym's own agents, as `under_gym --agent` configures them.

An agent with a loop of its own reaches the tools over MCP. Nothing is installed here:
NeMo Gym would install a missing program on its own, and any version.
"""

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from .episode.declaration import declared
from .episode.types import Row
from .errors import RolloutError
from .facts import NEEDS_NEWEST
from .gym_series import HAS_ENVIRONMENT_SERVERS, HAS_MCP
from .resources_server.over_mcp import unplayable
from .resources_server.verdict import RECEIVED


@dataclass(frozen=True)
class GymAgent:
    """An agent of NeMo Gym, and what it needs."""

    implementation: str  # its folder in responses_api_agents/
    # Makes its block from a folder for its files and the most answers of the model
    settings: Callable[[Path, int], dict[str, Any]]
    over_mcp: bool = True
    program: str = ""  # a command that must be on PATH
    packages: tuple[str, ...] = ()
    tried: str = ""  # the versions that were tried, as npm or uv takes them
    variables: dict[str, str] = field(default_factory=dict)


def _haystack(folder: Path, turns: int) -> dict[str, Any]:
    spec = find_spec("responses_api_agents.haystack_agent")
    assert spec and spec.submodule_search_locations
    own = Path(spec.submodule_search_locations[0], "configs/pipeline_mcp.yaml")
    pipeline: Any = OmegaConf.load(own)
    agent = pipeline.components.agent.init_parameters
    # Otherwise one call with wrong arguments ends the whole run.
    agent.raise_on_tool_invocation_failure = False
    agent.max_agent_steps = turns
    path = folder / "haystack_pipeline.yaml"
    OmegaConf.save(pipeline, path)
    return {"pipeline_yaml": str(path)}


# Everything in Claude Code that reads or changes files, runs commands, or goes online.
CLAUDE_TOOLS = ["Bash", "Edit", "Read", "Write", "Glob", "Grep", "NotebookEdit"]
CLAUDE_TOOLS += ["WebFetch", "WebSearch", "Task", "Agent"]


def _claude_code(folder: Path, turns: int) -> dict[str, Any]:
    return {
        "model": "${policy_model_name}",
        "anthropic_api_key": "none",  # the model server of the run needs none
        "max_turns": turns,
        "disallowed_tools": ",".join(CLAUDE_TOOLS),
    }


def _codex(folder: Path, turns: int) -> dict[str, Any]:
    # Without these tools, Codex reads images only: view_image cannot be switched off.
    off = dict.fromkeys(["shell_tool", "unified_exec"], False)
    return {
        "model": "${policy_model_name}",
        "openai_api_key": "none",
        "codex_version": _version("codex"),
        "sandbox_mode": "read-only",
        "extra_config": {"features": off},
    }


AGENTS = {
    "simple": GymAgent(
        "simple_agent", lambda _, turns: {"max_steps": turns}, over_mcp=False
    ),
    "haystack": GymAgent(
        "haystack_agent",
        _haystack,
        packages=("haystack-ai", "mcp-haystack"),
        tried="haystack-ai==3.0.0 mcp-haystack==1.4.1",
    ),
    "claude_code": GymAgent(
        "claude_code_agent",
        _claude_code,
        program="claude",
        tried="@anthropic-ai/claude-code@2.1.197",
        # Otherwise some of its first requests name no tool of the environment.
        variables={"MCP_CONNECTION_NONBLOCKING": "0"},
    ),
    "codex": GymAgent(
        "codex_agent", _codex, program="codex", tried="@openai/codex@0.144.4"
    ),
}


def check_agent(name: str, domain_class: type) -> str:
    """The installed versions that an agent needs, for people to read; "" for none.

    Raises RolloutError if the agent lacks something, or cannot play the class.
    """
    if name not in AGENTS:
        raise RolloutError(f"unknown agent {name!r}: choose {', '.join(AGENTS)}")
    agent, declaration = AGENTS[name], declared(domain_class)
    if agent.over_mcp and not HAS_MCP:
        raise RolloutError(
            f"--agent {name} needs MCP: install {NEEDS_NEWEST}. See requires-python in "
            "pyproject.toml"
        )
    reason = unplayable(domain_class) if agent.over_mcp else None
    if not agent.over_mcp and declaration.replies:
        reason = (
            f"{declaration.name} has reply(), and {agent.implementation} ends at the "
            "first message"
        )
    if reason:
        raise RolloutError(
            f"--agent {name}: {reason}; without --agent, this environment's own agent "
            "plays it"
        )
    try:
        if agent.program:
            return f"{agent.program} {_version(agent.program)}"
        return ", ".join(f"{one} {metadata.version(one)}" for one in agent.packages)
    except metadata.PackageNotFoundError as error:
        lacking = f"{error.name}, which is not installed"
    except FileNotFoundError:
        lacking = f"{agent.program}, which is not on PATH"
    installer = "npm install -g" if agent.program else "uv add --dev"
    raise RolloutError(f"--agent {name} needs {lacking}: {installer} {agent.tried}")


def _version(program: str) -> str:
    """The version of a program on PATH. Raises FileNotFoundError, and RolloutError."""
    path = shutil.which(program)
    if path is None:
        raise FileNotFoundError(program)
    command = [path, "--version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False
        )
    except subprocess.TimeoutExpired:
        raise RolloutError(f"{program} --version did not answer in 30 s") from None
    found = re.search(r"\d+(\.\d+)+\S*", done.stdout)
    if done.returncode or not found:
        raise RolloutError(f"{program} --version failed: {done.stderr.strip()[:200]}")
    return found[0]


def write_config(
    name: str, environment: str, turns: int, folder: Path, implementation: str = ""
) -> Path:
    """Write the configuration of a run with an agent into `folder`. Returns its path.

    `environment` is the environment's name in configs/, which a variant has for itself,
    and `implementation` that of its server's folder, by default the same. `turns` is the most answers of
    the model in an episode; Codex knows no such limit.
    """
    agent = AGENTS[name]
    server = f"{environment}_resources_server"
    own = f"{environment}_{agent.implementation}"
    blocks: dict[str, Any] = {"config_paths": [f"configs/{environment}.yaml"]}
    if agent.over_mcp:
        exposed = {implementation or environment: {"expose_tools_over_mcp": True}}
        blocks[server] = {"resources_servers": exposed}
    block = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": server},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        **agent.settings(folder, turns),
    }
    blocks[own] = {"responses_api_agents": {agent.implementation: block}}
    if HAS_ENVIRONMENT_SERVERS:
        relay: dict[str, Any] = {
            "entrypoint": "app.py",
            "agent_server": {"type": "responses_api_agents", "name": own},
        }
        kind = "legacy_agent"
        if not agent.over_mcp:
            kind = "single_agent_turn_legacy"
            relay["resources_server"] = block["resources_server"]
            relay["resources_tool_transports"] = ["direct_http"]
            relay["cleanup_timeout_seconds"] = 180
        servers = {"environment_servers": {kind: relay}}
        blocks[f"{environment}_environment_server"] = servers
    path = folder / f"{name}.yaml"
    OmegaConf.save(OmegaConf.create(blocks), path)
    return path


def without_calls(rollouts: Sequence[Row]) -> list[int]:
    """The rollouts, counted from 0, whose row has tools of which none was called.

    Over MCP the verdict says what arrived: agents also record calls that they cancelled.
    """
    found = []
    for number, rollout in enumerate(rollouts):
        tools = rollout["responses_create_params"].get("tools") or []
        names = {tool.get("name") for tool in tools}
        received = rollout.get(RECEIVED)
        if received is None:
            called = {each.get("name") for each in rollout["response"]["output"]}
            received = len(names & called)
        if names and not received and not rollout.get("mask_sample"):
            found.append(number)
    return found
