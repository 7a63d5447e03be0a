"""An MCP server over stdio that keeps notes, and breaks in the way that MODE says."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from plain_mcp import Server

NOTES = Path(os.environ["NOTES"])
server = Server()


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


def named(name: str):
    """A tool that returns its own name."""

    def tool() -> str:
        """Its own name."""
        return name

    return tool


for name in os.environ.get("NAMES", "").split():
    server.tool(name)(named(name))


@server.tool()
def where() -> str:
    """The folder of the notes."""
    return str(NOTES)


@server.tool()
def variables() -> dict:
    """The server's environment."""
    return dict(os.environ)


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
def leave_behind() -> str:
    """Start a process that outlives its parent, and say which."""
    daemon = ["sleep", "3600"]
    return str(subprocess.Popen(daemon, start_new_session=True).pid)


def break_down(mode: str) -> None:
    """Break as the server starts, or print a line before it does."""
    match mode:
        case "dies":
            sys.exit("no ink")
        case "slow":
            time.sleep(3600)
        case "banner":
            print("Welcome to notes!", flush=True)
        case "says hello":
            sys.exit(print("Hello!", flush=True))


if __name__ == "__main__":
    break_down(os.environ.get("MODE", ""))
    server.run()
