#!/usr/bin/env bash
# Expected: the MCP SDK and FastMCP, which is built on it, send the same structured content for the same Python function.
# Instead: in the SDK a plain `dict` has none, `dict[int, str]` stands below a key "result", and FastMCP sends the object
#   itself for both. `None` is {"result": null} in the SDK and nothing in FastMCP. A list of two texts is two blocks of
#   content in the SDK, and one block of JSON in FastMCP.
# Versions: mcp 2.3.0, fastmcp 4.2.3
# In this project: runtime/src/env_runtime/mcp/state.py compares an answer's text first, and then its structured content.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python mcp==2.3.0 fastmcp==4.2.3

cat > shapes.py <<'PY'
import asyncio
from importlib.metadata import version

import fastmcp
import mcp
from mcp.server.mcpserver import MCPServer


def plain() -> dict:
    """An object."""
    return {"a": 1}


def numbered() -> dict[int, str]:
    """An object whose keys are numbers."""
    return {1: "a"}


def nothing() -> None:
    """Nothing."""


def names() -> list[str]:
    """Two texts."""
    return ["a", "b"]


async def answers(server, client):
    found = {}
    for tool in (plain, numbered, nothing, names):
        server.add_tool(tool)
    async with client(server) as session:
        for tool in (plain, numbered, nothing, names):
            result = await session.call_tool(tool.__name__, {})
            found[tool.__name__] = result.structured_content, [block.text for block in result.content]
            print(f"  {tool.__name__:9}", *found[tool.__name__])
    return found


print("mcp", version("mcp"))
sdk = asyncio.run(answers(MCPServer("a"), mcp.Client))
print("fastmcp", version("fastmcp"))
fast = asyncio.run(answers(fastmcp.FastMCP("b"), fastmcp.Client))
assert [sdk[name][0] for name in ("plain", "numbered", "nothing")] == [None, {"result": {"1": "a"}}, {"result": None}]
assert [fast[name][0] for name in ("plain", "numbered", "nothing")] == [{"a": 1}, {"1": "a"}, None]
assert (sdk["names"][1], fast["names"][1]) == (["a", "b"], ['["a","b"]'])
PY
venv/bin/python shapes.py
