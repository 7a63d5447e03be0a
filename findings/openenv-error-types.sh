#!/usr/bin/env bash
# Expected: the error type of an observation says what happened: no such tool, wrong arguments, or an error of the tool.
# Instead: it is guessed from words of the message, to which the tool's name belongs. A tool that says "user 17 not found" is
#   itself "tool_not_found"; any error of a tool called invalidate is "invalid_args"; a text for a number is
#   "execution_error", and a missing argument "invalid_args". A policy that retries by type repeats the wrong thing.
# Version: openenv 0.10.0, with fastmcp 3.4.11
# In this project: error_of() of runtime/src/env_runtime/frameworks/openenv.py takes the type from the call, and not from its text.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python openenv==0.10.0 fastmcp==3.4.11
cat > errors.py <<'PY'
import logging
from importlib.metadata import version

from fastmcp import FastMCP
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Observation, State

logging.disable()
server = FastMCP("users")


@server.tool
def find(user: int) -> str:
    """Find a user."""
    raise ValueError(f"user {user} not found" if user > 10 else f"there is no user {user}")


@server.tool
def invalidate(user: int) -> str:
    """Take a user's session away."""
    raise ValueError(f"there is no user {user}")


class Users(MCPEnvironment):
    state = State()

    def reset(self, seed=None, episode_id=None, **options):
        return Observation()

    def _step_impl(self, action, timeout_s=None, **options):
        return Observation()


print("openenv", version("openenv"), "fastmcp", version("fastmcp"))
users = Users(server)
users.reset()
for tool, arguments, expected in [
    ("find", {"user": 3}, "execution_error"),
    ("find", {"user": 17}, "tool_not_found"),
    ("invalidate", {"user": 3}, "invalid_args"),
    ("find", {"user": "Ann"}, "execution_error"),
    ("find", {}, "invalid_args"),
    ("delete", {"user": 3}, "tool_not_found"),
]:
    error = users.step(CallToolAction(tool_name=tool, arguments=arguments)).error
    print(f"  {tool:10} {arguments!s:15} {error.error_type.value:16} {error.message.splitlines()[0]}")
    assert error.error_type.value == expected
PY
venv/bin/python errors.py 2> log.txt || { cat log.txt; exit 1; }
