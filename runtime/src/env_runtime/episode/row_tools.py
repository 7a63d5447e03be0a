"""Tools that only a row has: the class's call_row_tool() takes their calls."""

import re
from typing import Any

from .types import REPLY, ROW_TOOL, Definitions, Row

# Paths of the server, where a call would not reach the class.
SERVER_PATHS = frozenset(
    ["seed_session", "close_session", "verify", "aggregate_metrics", "reverify_mode"]
    + ["health", "healthz", "livez", "readyz", "metrics", "stats", "mcp", "tools"]
    + ["", "docs", "redoc", "openapi.json", REPLY]
)


def has_row_tools(domain_class: type) -> bool:
    """Whether the class takes calls of tools that only a row has."""
    return hasattr(domain_class, ROW_TOOL)


def tools_in(domain_class: type, row: Row, served: Definitions) -> Definitions:
    """The tools that a row must list: the server's and, if the class takes them, its own."""
    return [*served, *_own_tools(domain_class, row, served)]


def lists_tools(row: Row, tools: Definitions) -> bool:
    """Whether a row lists these tools.

    Releases before 0.6.1 described a parameter without a description: "The word." Such
    rows stay valid.
    """
    listed = row["responses_create_params"].get("tools") or []
    return [*map(_without_filler, listed)] == [*map(_without_filler, tools)]


def _without_filler(tool: Any) -> Any:
    try:
        properties = {
            name: {
                key: value
                for key, value in schema.items()
                if (key, value)
                != ("description", f"The {name.replace('_', ' ').strip()}.")
            }
            for name, schema in tool["parameters"]["properties"].items()
        }
    except (LookupError, TypeError, AttributeError):
        return tool
    return {**tool, "parameters": {**tool["parameters"], "properties": properties}}


def check_row_tools(domain_class: type, row: Row) -> None:
    """Raise ValueError if a call of one of the row's own tools would not reach the class."""
    for tool in _own_tools(domain_class, row, []):
        name = tool.get("name")
        usable = isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name)
        if not usable or name in SERVER_PATHS:
            raise ValueError(f"responses_create_params.tools: {not_a_name(name)}")


def not_a_name(name: Any) -> str:
    """Why no tool can have the name of a server's path."""
    return (
        f"no tool can be called {name!r}, because its calls go to the server's path of "
        "that name: rename it"
    )


def _own_tools(domain_class: type, row: Row, served: Definitions) -> Definitions:
    if not has_row_tools(domain_class):
        return []
    names = {tool["name"] for tool in served}
    listed = row["responses_create_params"].get("tools") or []
    return [tool for tool in listed if tool.get("name") not in names]
