"""An MCP server over stdio without an SDK: it starts at once, for tests that start many."""

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

TYPES = {str: "string", int: "integer"}  # of arguments, in JSON schemas


class Server:
    """Tools are functions. One returns text, a list of texts, or a value for JSON."""

    def __init__(self) -> None:
        self.tools: dict[str, Callable[..., Any]] = {}

    def tool[Tool: Callable[..., Any]](self, name: str = "") -> Callable[[Tool], Tool]:
        def added(function: Tool) -> Tool:
            self.tools[name or getattr(function, "__name__", "")] = function
            return function

        return added

    def listed(self) -> dict[str, Any]:
        """The result of tools/list."""
        tools = []
        for name, function in self.tools.items():
            its = inspect.signature(function).parameters
            schema = {
                "type": "object",
                "properties": {
                    key: {"type": TYPES[each.annotation]} for key, each in its.items()
                },
                "required": [*its],
            }
            about = inspect.getdoc(function) or ""
            tools.append({"name": name, "description": about, "inputSchema": schema})
        return {"tools": tools}

    def called(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the result of tools/call. An exception of a tool becomes an answer, as with the SDK."""
        if name not in self.tools:
            return answer(f"Unknown tool: {name}") | {"isError": True}
        try:
            value = self.tools[name](**arguments)
        except (OSError, TypeError, ValueError) as error:
            return answer(f"Error executing tool {name}: {error}") | {"isError": True}
        return answer(value)

    def result_of(self, method: str, sent: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        match method:
            case "initialize":
                return {
                    "protocolVersion": sent["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "plain", "version": "1"},
                }
            case "tools/list":
                return self.listed()
            case "tools/call":
                return self.called(sent["name"], sent.get("arguments") or {})
        return {}

    def run(self) -> None:
        """Answer the requests of standard input until it ends."""
        for line in sys.stdin:
            request = json.loads(line)
            if "id" in request:
                result = self.result_of(request["method"], request.get("params") or {})
                sent = {"jsonrpc": "2.0", "id": request["id"], "result": result}
                print(json.dumps(sent), flush=True)


def answer(value: Any) -> dict[str, Any]:
    """Return the result of tools/call for what a tool returned."""
    more = {"structuredContent": value} if isinstance(value, dict) else {}
    if not isinstance(value, list):
        value = [value if isinstance(value, str) else json.dumps(value, indent=2)]
    return {"content": [{"type": "text", "text": text} for text in value], **more}
