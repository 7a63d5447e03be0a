"""The notes of notes_server.py without an SDK: it starts at once, for tests that start many."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODE = os.environ.get("MODE", "")
NOTES = Path(os.environ["NOTES"])
TEXT = {"type": "string"}
# The arguments of each tool, as JSON schemas
TOOLS = {
    "add": {"title": TEXT, "text": TEXT},
    "remove": {"title": TEXT},
    "clear": {},
    "read_all": {},
    "where": {},
    "write_much": {"count": {"type": "integer"}},
    "die": {},
    "hang": {},
    **{name: {} for name in os.environ.get("NAMES", "").split()},
}


def called(name: str, arguments: dict[str, Any]) -> Any:
    """What a tool returns: a text, or an object."""
    match name:
        case "add":
            (NOTES / arguments["title"]).write_text(arguments["text"])
            return f"added {arguments['title']}"
        case "remove":
            (NOTES / arguments["title"]).unlink()
            return f"removed {arguments['title']}"
        case "clear":
            for path in NOTES.iterdir():
                path.unlink()
            return "cleared"
        case "read_all":
            found = [(path, path.stat()) for path in NOTES.iterdir() if path.is_file()]
            return {
                "notes": [
                    {"title": p.name, "text": p.read_text(), "changed": about.st_mtime}
                    for p, about in found
                ]
            }
        case "where":
            return str(NOTES)
        case "write_much":
            return "x" * arguments["count"]
        case "die":
            sys.stderr.write("out of ink\n")
            sys.stderr.flush()
            os._exit(3)
        case "hang":
            time.sleep(3600)
    return name


def result_of(method: str, sent: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        about = {"name": "notes", "version": "1"}
        version = sent["protocolVersion"]
        return {
            "protocolVersion": version,
            "capabilities": {"tools": {}},
            "serverInfo": about,
        }
    if method == "tools/list":
        listed = [
            {
                "name": name,
                "description": f"The tool {name}.",
                "inputSchema": {
                    "type": "object",
                    "properties": its,
                    "required": [*its],
                },
            }
            for name, its in TOOLS.items()
        ]
        return {"tools": listed}
    if method != "tools/call":
        return {}
    try:
        if sent["name"] not in TOOLS:
            raise LookupError(f"Unknown tool: {sent['name']}")
        value = called(sent["name"], sent.get("arguments") or {})
    except (OSError, LookupError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if isinstance(value, str):
        return {"content": [{"type": "text", "text": value}]}
    text = json.dumps(value, indent=2)
    return {"content": [{"type": "text", "text": text}], "structuredContent": value}


if MODE == "dies":
    sys.exit("no ink")
if MODE == "slow":
    time.sleep(3600)
if MODE == "says hello":
    sys.exit(print("Hello!", flush=True))
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = result_of(request["method"], request.get("params") or {})
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        print(json.dumps(answer), flush=True)
