"""A model behind OpenAI's Chat Completions that follows plans, on loopback."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Messages = list[dict[str, Any]]
# The calls that a model makes, one per answer, and what it says after them.
Plan = tuple[list[Any], str]


class ChatModel(ThreadingHTTPServer):
    """Follows the plan for a conversation's messages, at `url`.

    `seen` has the messages of each request, `keys` its Authorization.
    """

    def __init__(self, plan_of: Callable[[Messages], Plan]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.plan_of = plan_of
        self.seen: list[Messages] = []
        self.keys: set[str] = set()


class _Handler(BaseHTTPRequestHandler):
    server: ChatModel  # type: ignore

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = request["messages"]
        self.server.seen.append(messages)
        self.server.keys.add(self.headers["authorization"])
        calls, claim = self.server.plan_of(messages)
        made = sum(message["role"] == "assistant" for message in messages)
        said: dict[str, Any] = {"role": "assistant", "content": claim}
        if made < len(calls):
            name, arguments = calls[made]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{made}", "type": "function"}
            said |= {"content": None, "tool_calls": [{**call, "function": function}]}
        reason = "tool_calls" if "tool_calls" in said else "stop"
        choice = {"index": 0, "finish_reason": reason}
        about = {"id": "1", "created": 0, "model": "m", "object": "chat.completion"}
        if request.get("stream"):  # verifiers wants it so
            about["object"] += ".chunk"
            text = json.dumps({**about, "choices": [{**choice, "delta": said}]})
            kind, text = "text/event-stream", f"data: {text}\n\ndata: [DONE]\n\n"
        else:
            text = json.dumps({**about, "choices": [{**choice, "message": said}]})
            kind = "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def playing(plan_of: Callable[[Messages], Plan]) -> Generator[ChatModel]:
    """A model that answers until the with block ends."""
    with ChatModel(plan_of) as model:
        threading.Thread(target=model.serve_forever, args=[0.01]).start()
        try:
            yield model
        finally:
            model.shutdown()
