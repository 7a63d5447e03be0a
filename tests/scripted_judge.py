"""A judge behind OpenAI's Chat Completions and Responses API, on loopback."""

import json
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple

TEXT = {"type": "output_text", "annotations": []}


class Reply(NamedTuple):
    """What a judge sends if a test chooses every byte."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


class Judge(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint.

    `say` makes a text, calls as (tool, arguments), a status or a Reply of a request.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.say: Callable[[str], str | list[tuple[str, Any]] | int | Reply] = (
            lambda text: "GOOD"
        )
        self.requests: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.lock = threading.Lock()
        self.busy = self.most = 0
        self.finish_reason = "stop"

    @property
    def texts(self) -> list[str]:
        """The text of each request."""
        return [text_of(request) for request in self.requests]


@contextmanager
def serving() -> Generator[Judge]:
    """A judge that answers until the with block ends."""
    with Judge() as judge:
        threading.Thread(target=judge.serve_forever, args=[0.01]).start()
        try:
            yield judge
        finally:
            judge.shutdown()


def text_of(request: dict[str, Any]) -> str:
    messages = request.get("messages") or request["input"]
    return "\n".join(
        each.get("content") or each.get("output") or "" for each in messages
    )


def answer_of(
    said: str | list[tuple[str, Any]] | int, path: str, finish_reason: str = "stop"
) -> dict[str, Any]:
    """The body of an answer that says a text, or of one with an error's status."""
    usage: dict[str, Any] = {"total_tokens": 15}
    content: dict[str, Any] = {"error": {"message": "scripted"}}
    calls = [
        {"name": name, "arguments": json.dumps(arguments)}
        for name, arguments in (said if isinstance(said, list) else [])
    ]
    if not isinstance(said, int) and path == "/v1/chat/completions":
        message: dict[str, Any] = {"role": "assistant", "content": None}
        if calls:
            message["tool_calls"] = [
                {"id": f"c{number}", "type": "function", "function": call}
                for number, call in enumerate(calls)
            ]
        else:
            message["content"] = said
        usage |= {"prompt_tokens": 10, "completion_tokens": 5}
        choice = {"index": 0, "message": message, "finish_reason": finish_reason}
        content = {"object": "chat.completion", "choices": [choice]}
    elif not isinstance(said, int) and path == "/v1/responses":
        item: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant"}
        item |= {"status": "completed", "content": [{**TEXT, "text": said}]}
        usage |= {"input_tokens": 10, "output_tokens": 5}
        items = [
            {"type": "function_call", "call_id": f"c{number}", **call}
            for number, call in enumerate(calls)
        ]
        content = {"object": "response", "output": items or [item], "tools": []}
        content |= {"parallel_tool_calls": False, "tool_choice": "auto"}
        usage["input_tokens_details"] = {"cached_tokens": 0}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
    content |= {"id": "x", "created": 0, "created_at": 0, "model": "m"}
    return {**content, "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    server: Judge  # type: ignore

    def do_POST(self) -> None:
        judge = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with judge.lock:
            judge.requests.append(request)
            judge.headers.append(self.headers)
            judge.busy += 1
            judge.most = max(judge.most, judge.busy)
        said = judge.say(text_of(request))
        with judge.lock:
            judge.busy -= 1
        if not isinstance(said, Reply):
            content = answer_of(said, self.path, judge.finish_reason)
            headers = {"Content-Type": "application/json", "Retry-After-Ms": "1"}
            status = said if isinstance(said, int) else 200
            said = Reply(json.dumps(content).encode(), status, headers)
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            self.wfile.write(said.body)
        except OSError:
            pass  # the client has stopped waiting

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
