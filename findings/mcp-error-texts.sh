#!/usr/bin/env bash
# Expected: a tool's ValueError tells the model what was wrong with its arguments, as it did with the SDK's release 1.
# Instead: with mcp 2 the model reads "Error executing tool NAME" only. The text of a ToolError reaches it with both.
# Versions: mcp 1.30.0, mcp 2.3.0
# In this project: docs/from/mcp-server.md says which servers hide it. Tools of a class are not concerned.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat > errors.py <<'PY'
import asyncio
import logging
from importlib.metadata import version

release = version("mcp")
if release.startswith("1."):
    from mcp.server.fastmcp import FastMCP as Server
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.shared.memory import create_connected_server_and_client_session as client
else:
    from mcp import Client as client
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.exceptions import ToolError

logging.disable()
server = Server("bank")


@server.tool()
def balance(account: int) -> str:
    """The balance of an account."""
    raise ValueError(f"there is no account {account}, only 1 to 9")


@server.tool()
def close(account: int) -> str:
    """Close an account."""
    raise ToolError(f"there is no account {account}, only 1 to 9")


async def main():
    async with client(server) as session:
        texts = [(await session.call_tool(name, {"account": 17})).content[0].text for name in ("balance", "close")]
    print("mcp", release, *texts, sep="\n  ")
    told = ["only 1 to 9" in text for text in texts]
    assert told == [release.startswith("1."), True], told


asyncio.run(main())
PY
for release in 1.30.0 2.3.0; do
  uv venv -q --python '>=3.11,<3.14' "$release"
  uv pip install -q --python "$release/bin/python" "mcp==$release"
  "$release/bin/python" errors.py
done
