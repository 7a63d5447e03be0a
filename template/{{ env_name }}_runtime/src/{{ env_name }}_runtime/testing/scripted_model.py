"""A model that follows plans, for checks without a key."""

import contextlib
import json
import threading
import uuid
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from plumbing.policies import Calls
from plumbing.records import as_response, function_call


class ScriptedModel(ThreadingHTTPServer):
    """An OpenAI-compatible Responses API that follows plans.

    A plan is the list of tool calls for the row that a request's metadata names: one
    call per answer, then a message.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, plans: list[Calls]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plans = plans
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.images = 0  # the most that one request showed

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        plan = self.plans[int(request["metadata"]["row"])]
        made = images = 0
        for item in request["input"]:
            made += item.get("type") == "function_call"
            if isinstance(item.get("content"), list):
                images += sum(x["type"] == "input_image" for x in item["content"])
        self.images = max(self.images, images)
        if made < len(plan):
            tool, arguments = plan[made]
            item = function_call(tool, json.dumps(arguments))
        else:
            text = {"type": "output_text", "text": "I am done.", "annotations": []}
            item = {"type": "message", "role": "assistant", "content": [text]}
        item = {"id": f"item_{uuid.uuid4().hex}", "status": "completed", **item}
        return as_response("scripted", request.get("tools", []), [item])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, ScriptedModel)
        self._send(self.server.answer(body))

    def do_GET(self) -> None:
        self._send({"object": "list", "data": []})

    def _send(self, answer: dict[str, Any]) -> None:
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said about requests."""


@contextlib.contextmanager
def scripted_model(
    plans: list[Calls],
) -> Generator[ScriptedModel, None, None]:
    """A running ScriptedModel, on a free port of this machine."""
    with ScriptedModel(plans) as model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            model.shutdown()
