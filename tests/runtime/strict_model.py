"""An OpenAI-compatible endpoint on loopback, as strict as OpenAI's own."""

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from env_runtime.episode import types

Call = tuple[str, str]  # a tool and its arguments, which need not be JSON


Answer = list[Call] | str | int | dict[str, Any]


class StrictModel(ThreadingHTTPServer):
    """Answers with `script`, in order, and keeps the bodies of requests in `requests`.

    An answer is a list of calls, a text, the status of an error, or a whole body. After
    the last answer, the model says goodbye. It answers 400 to a request that breaks the
    protocol.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.script: list[Answer] = []
        self.requests: list[dict[str, Any]] = []
        self.together: threading.Barrier | None = None

    def next_answer(self, request: dict[str, Any]) -> Answer:
        self.requests.append(request)
        if not follows_the_protocol(request):
            return 400
        if self.together:
            try:
                self.together.wait(10)
            except threading.BrokenBarrierError:
                return 400
        return self.script.pop(0) if self.script else "Goodbye."


class _Handler(BaseHTTPRequestHandler):
    server: StrictModel  # type: ignore

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.next_answer(json.loads(body))
        make = {
            "/v1/responses": as_response,
            "/v1/chat/completions": as_completion,
        }[self.path[self.path.index("/v1/") :]]  # an observed episode has a prefix
        if isinstance(answer, dict):
            status, content = 200, answer
        elif isinstance(answer, int):
            status, content = answer, {"error": {"message": "scripted failure"}}
        else:
            status, content = 200, make(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def follows_the_protocol(request: dict[str, Any]) -> bool:
    """Whether every call has its result, in a chat directly after it, and no reasoning
    has a status.
    """
    waiting: list[str] = []
    for item in request.get("input") or request["messages"]:
        kind = item.get("type") or item["role"]
        if kind in ("function_call_output", "tool"):
            waiting.remove(item.get("call_id") or item["tool_call_id"])
        elif (waiting and "messages" in request) or (
            kind == "reasoning" and "status" in item
        ):
            return False
        if kind == "function_call":
            waiting.append(item["call_id"])
        waiting += [call["id"] for call in item.get("tool_calls", [])]
    return not waiting


def as_response(answer: list[Call] | str) -> dict[str, Any]:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "status": "completed",
    }
    if isinstance(answer, str):
        items = [types.message(answer)]
    else:
        done = {"id": "fc_1", "status": "completed"}
        items = [{**types.function_call(*call), **done} for call in answer]
    output = [reasoning, *items]
    return types.as_response("scripted", [], output, input_tokens=10, output_tokens=1)


def as_completion(answer: list[Call] | str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer}
    if not isinstance(answer, str):
        message["content"] = "I will call a tool."
        message["tool_calls"] = [
            {
                "id": f"call_{uuid.uuid4().hex}",
                "type": "function",
                "function": {"name": tool, "arguments": arguments},
            }
            for tool, arguments in answer
        ]
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }


def results(request: dict[str, Any]) -> list[str]:
    """The results of tool calls that a request shows to the model."""
    return [
        item.get("output") or item["content"]
        for item in request.get("input") or request["messages"]
        if item.get("type") == "function_call_output" or item.get("role") == "tool"
    ]
