"""An MCP server over stdio that keeps notes, and breaks in the way that MODE says."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import McpError
from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import CallToolRequest, ErrorData, ListToolsRequest

MODE = os.environ.get("MODE", "")
NOTES = Path(os.environ["NOTES"])

# The smallest PNG: one pixel.
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c"
    "49444154789c63f8cfc0000003010100c9fe92ef0000000049454e44ae426082"
)

server = FastMCP("notes", log_level="ERROR")


@server.tool()
def add(title: str, text: str) -> str:
    """Add a note."""
    if (NOTES / title).exists():
        raise ValueError(f"there is a note {title!r} already")
    (NOTES / title).write_text(text)
    return f"added {title}"


@server.tool()
def remove(title: str) -> str:
    """Remove a note."""
    (NOTES / title).unlink()
    return f"removed {title}"


@server.tool()
def clear() -> str:
    """Remove all notes."""
    for path in NOTES.iterdir():
        path.unlink()
    return "cleared"


@server.tool()
def read_all() -> dict:
    """All notes."""
    notes = [
        {"title": path.name, "text": path.read_text(), "changed": path.stat().st_mtime}
        for path in NOTES.iterdir()
        if path.is_file()
    ]
    return {"notes": notes}


@server.tool()
def read_file(path: str) -> str:
    """A file of this machine."""
    return Path(path).read_text()


for name in os.environ.get("NAMES", "").split():

    @server.tool(name)
    def named(name: str = name) -> str:
        """Its own name."""
        return name


@server.tool()
def where() -> str:
    """The folder of the notes."""
    return str(NOTES)


@server.tool()
def variables() -> dict:
    """The server's environment."""
    return dict(os.environ)


@server.tool()
def token(context: Context) -> str:
    """The token of this request."""
    return context.request_context.request.headers["authorization"]


@server.tool()
def reaches(port: int) -> bool:
    """Whether a port of this machine can be reached."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@server.tool()
def write_much(count: int) -> str:
    """As many letters."""
    return "x" * count


@server.tool()
def draw() -> Image:
    """A picture."""
    return Image(data=PIXEL, format="png")


@server.tool()
def die() -> str:
    """End the server."""
    sys.stderr.write("out of ink\n")
    sys.stderr.flush()
    os._exit(3)


@server.tool()
def hang() -> str:
    """Never answer."""
    time.sleep(3600)
    return ""


@server.tool()
def babble() -> str:
    """Print to standard output."""
    os.write(1, b'Hello from a library!\n{"level": 30}\n')
    return "done"


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


@server.tool()
def leave_behind() -> str:
    """Start a process that outlives its parent, and say which."""
    daemon = ["sleep", "3600"]
    return str(subprocess.Popen(daemon, start_new_session=True).pid)


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

    if MODE == "offline":
        server._mcp_server.request_handlers[ListToolsRequest] = offline
    if MODE == "dies":
        sys.exit("no ink")
    if MODE == "slow":
        time.sleep(3600)
    if MODE == "banner":
        print("Welcome to notes!", flush=True)
    if MODE == "says hello":
        sys.exit(print("Hello!", flush=True))
    server.run()
