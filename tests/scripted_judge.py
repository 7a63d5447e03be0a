"""A judge behind OpenAI's Chat Completions and Responses API, on loopback."""

import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXT = {"type": "output_text", "annotations": []}


class Judge(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint. `say` makes a text, or a status, of a request."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.say: Callable[[str], str | int] = lambda text: "GOOD"
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
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
    return "\n".join(message["content"] for message in messages)


class _Handler(BaseHTTPRequestHandler):
    server: Judge  # type: ignore

    def do_POST(self) -> None:
        judge = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with judge.lock:
            judge.requests.append(request)
            judge.keys.append(self.headers["Authorization"])
            judge.busy += 1
            judge.most = max(judge.most, judge.busy)
        said = judge.say(text_of(request))
        with judge.lock:
            judge.busy -= 1
        status = said if isinstance(said, int) else 200
        usage: dict[str, Any] = {"total_tokens": 15}
        content: dict[str, Any] = {"error": {"message": "scripted"}}
        if isinstance(said, str) and self.path == "/v1/chat/completions":
            message = {"role": "assistant", "content": said}
            usage |= {"prompt_tokens": 10, "completion_tokens": 5}
            choice = {"index": 0, "message": message}
            choice["finish_reason"] = judge.finish_reason
            content = {"object": "chat.completion", "choices": [choice]}
        elif isinstance(said, str) and self.path == "/v1/responses":
            item: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant"}
            item |= {"status": "completed", "content": [{**TEXT, "text": said}]}
            usage |= {"input_tokens": 10, "output_tokens": 5}
            content = {"object": "response", "output": [item], "tools": []}
            content |= {"parallel_tool_calls": False, "tool_choice": "auto"}
            usage["input_tokens_details"] = {"cached_tokens": 0}
            usage["output_tokens_details"] = {"reasoning_tokens": 0}
        content |= {"id": "x", "created": 0, "created_at": 0, "model": "m"}
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Retry-After-Ms", "1")
        self.end_headers()
        try:
            self.wfile.write(json.dumps({**content, "usage": usage}).encode())
        except OSError:
            pass  # the client has stopped waiting

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""
