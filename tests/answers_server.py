"""An MCP server over stdio that answers in the ways of Python's and TypeScript's SDKs."""

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

server = Server("answers")


def texts(*lines: str) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=line) for line in lines]


# The content and the structuredContent of each tool's answer, as FastMCP 1.30 gives them to a
# function with an annotation, and the plain ones to a function without one
ANSWERS = {
    "words": (texts("owl", "bee"), {"result": ["owl", "bee"]}),
    "one_word": (texts("owl"), {"result": ["owl"]}),
    "no_words": ([], {"result": []}),
    "nothing": ([], {"result": None}),
    "no_text": (texts(""), {"result": ""}),
    "digits": (texts("1", "true"), {"result": ["1", "true"]}),
    "numbers": (texts("1", "2"), {"result": [1, 2]}),
    "number": (texts("3"), {"result": 3}),
    "pairs": (texts("1", "2", "3"), {"result": [[1, 2], [3]]}),
    "quoted": (texts('"owl"'), None),
    "plain_words": (texts("owl", "bee"), None),
    "plain_digits": (texts("1", "true"), None),
    "plain_nothing": ([], None),
    "plain_text": (texts("owl"), None),
    "of_json": (texts('{"a": 1}'), {"a": 1}),
    "only_json": ([], {"a": 1}),
}


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    return [types.Tool(name=name, inputSchema={"type": "object"}) for name in ANSWERS]


@server.call_tool()
async def call(name: str, arguments: dict) -> types.CallToolResult:
    content, structured = ANSWERS[name]
    return types.CallToolResult(content=[*content], structuredContent=structured)


async def main() -> None:
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
