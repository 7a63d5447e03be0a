"""The notes of plain_notes_server.py, and what only a server with the SDK can do."""

import os
from typing import Any

import anyio
import plain_notes_server as plain
from mcp import McpError
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import CallToolRequest, ErrorData, ListToolsRequest

# The smallest PNG: one pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c"
    "49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)

server = FastMCP("notes", log_level="ERROR")


for name, function in plain.server.tools.items():
    server.tool(name)(function)


@server.tool()
def token(context: Context) -> str:
    """The token of this request."""
    return context.request_context.request.headers["authorization"]


@server.tool()
def draw() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def refuse(code: int) -> str:
    """Answer with an error of JSON-RPC."""
    raise AssertionError("main() answers it")


@server.tool()
async def say_raw(context: Context, escaped: str) -> str:
    """Answer with bytes, which may be no UTF-8, or an escaped lone surrogate."""
    odd = b"\xff" if escaped == r"\xff" else escaped.encode()
    content = b'{"content": [{"type": "text", "text": "%s"}]}' % odd
    answer = b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n'
    os.write(1, answer % (int(context.request_id), content))
    await anyio.sleep_forever()
    return ""


if __name__ == "__main__":
    handle = server._mcp_server.request_handlers[CallToolRequest]

    async def refusing(request: CallToolRequest) -> Any:
        if request.params.name == "refuse":
            code = (request.params.arguments or {})["code"]
            raise McpError(ErrorData(code=code, message="no such page"))
        return await handle(request)

    server._mcp_server.request_handlers[CallToolRequest] = refusing

    async def offline(_: ListToolsRequest) -> Any:
        raise McpError(ErrorData(code=-32603, message="fetch failed"))

    mode = os.environ.get("MODE", "")
    if mode == "offline":
        server._mcp_server.request_handlers[ListToolsRequest] = offline
    plain.break_down(mode)
    server.run()
