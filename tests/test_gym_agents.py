"""Agents of NeMo Gym that bring a loop of their own play generated environments.

The programs are npm's and PyPI's, and a scripted model tells them what to do.
"""

import json
import os
import shutil

import pytest
from env_runtime.gym_agents import AGENTS

from projects import run

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.parametrize("series", ["0.7"], indirect=True),
    pytest.mark.skipif(not shutil.which("npm"), reason="needs npm"),
]

MEMORY = {
    "archetype": "mcp",
    "mcp_server": "npx -y @modelcontextprotocol/server-memory",
}
# Codex has no switch for these, and none of them reads the rows.
OTHER_TOOLS = {
    "codex": {
        *("list_mcp_resource_templates", "list_mcp_resources", "read_mcp_resource"),
        *("request_user_input", "update_plan", "view_image"),
    }
}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """PATH, with the programs of the agents."""
    folder = tmp_path_factory.mktemp("npm")
    programs = [agent.tried for agent in AGENTS.values() if agent.program]
    run(["npm", "install", "--silent", "--prefix", folder, *programs], folder)
    return os.pathsep.join([str(folder / "node_modules/.bin"), os.environ["PATH"]])


@pytest.mark.parametrize(
    ("agent", "answers"),
    [
        ("simple", {"archetype": "game"}),
        ("haystack", {"archetype": "game"}),
        ("claude_code", {"archetype": "game"}),
        ("codex", {"archetype": "game"}),
        ("claude_code", MEMORY),
        ("codex", MEMORY),
        ("claude_code", {"archetype": "conversation"}),
    ],
    ids=lambda each: each if isinstance(each, str) else each["archetype"],
)
def test_an_agent_plays(generate, path, agent, answers):
    if AGENTS[agent].packages:
        answers = {**answers, "dependencies": AGENTS[agent].tried}
    environment = generate(**answers)
    options = ["rollout", "--under-gym", "--agent", agent]
    printed = environment.run("gates.py", "--json", *options, PATH=path)
    # NeMo Gym's import prints, too.
    [gate] = json.loads(printed[printed.index("[") :])
    earned, _, others = gate["detail"].partition("; the agent also offers the model ")
    assert earned.endswith(f"by {agent}: the oracle earns 1.0, noop 0.0")
    assert set(filter(None, others.split(", "))) <= OTHER_TOOLS.get(agent, set())
