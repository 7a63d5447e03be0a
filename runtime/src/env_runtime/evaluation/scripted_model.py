"""A model that follows plans, for checks without a key."""

import contextlib
import json
import re
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ..episode.answers import Answer
from ..episode.types import (
    REPLY,
    Calls,
    Row,
    Solution,
    as_response,
    function_call,
    message,
)
from .observations import with_observation


class ScriptedModel(ThreadingHTTPServer):
    """A model behind OpenAI's Responses API and Chat Completions that follows plans.

    A plan is a list of tool calls, or a Solution: one call or message per answer, then
    the Solution's answer. A request names its plan by `metadata.row`, or else in its
    prompt, see `numbered`; in Chat Completions by `model`. Plans are counted from 0.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        plans: Sequence[Calls | Solution],
        port: int = 0,
        on_unnamed: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.plans = [
            plan if isinstance(plan, Solution) else Solution(plan) for plan in plans
        ]
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.unnamed = 0  # requests that named no plan
        self.on_unnamed = on_unnamed  # called after the first of them
        self.images = 0  # the most images that one request showed
        self.offered: set[str] = set()  # the names of tools in requests with a plan

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response to a request: the next call of the row's plan, or a message."""
        plan, answer = self._plan_of(request)
        tools = [tool["name"] for tool in _functions(request.get("tools") or [])]
        steps = images = 0
        items = request.get("input")
        for item in items if isinstance(items, list) else []:
            # The prompt may have messages of an assistant, which have no id.
            steps += item.get("type") == "function_call" or (
                item.get("role") == "assistant" and "id" in item
            )
            if isinstance(item.get("content"), list):
                images += sum(part["type"] == "input_image" for part in item["content"])
        self.images = max(self.images, images)
        if steps < len(plan):
            tool, arguments = plan[steps]
            name = next((name for name in tools if is_named(name, tool)), tool)
            item = function_call(name, json.dumps(arguments))
            if tool == REPLY:
                item = message(arguments["answer"])
        else:
            item = message(answer or "I am done.")
        item = {"id": f"item_{uuid.uuid4().hex}", "status": "completed", **item}
        return as_response("scripted", request.get("tools", []), [item])

    def _plan_of(self, request: dict[str, Any]) -> Solution:
        """The plan that a request names. An agent may also ask for something else."""
        number = (request.get("metadata") or {}).get("row")
        if number is None:
            found = re.search(r"\[plan (\d+)\]", json.dumps(request.get("input")))
            number = found[1] if found else len(self.plans)
        if int(number) < len(self.plans):
            tools = _functions(request.get("tools") or [])
            self.offered |= {tool["name"] for tool in tools}
            return self.plans[int(number)]
        self.unnamed += 1
        if self.unnamed == 1:
            self.on_unnamed()
        return Solution([])

    def chunk(self, request: dict[str, Any]) -> dict[str, Any]:
        """The response for Chat Completions, as the only chunk of a stream."""
        plan, answer = self.plans[int(request["model"])]
        calls = sum(each["role"] == "assistant" for each in request["messages"])
        delta: dict[str, Any] = {"role": "assistant"}
        if calls >= len(plan):
            delta["content"] = answer or "I am done: reward 1.0"
        elif plan[calls][0] == REPLY:
            delta["content"] = plan[calls][1]["answer"]
        else:
            tool, arguments = plan[calls]
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call = {"index": 0, "id": f"call_{calls}", "type": "function"}
            delta["tool_calls"] = [{**call, "function": function}]
        reason = "tool_calls" if "tool_calls" in delta else "stop"
        choice = {"index": 0, "finish_reason": reason, "delta": delta}
        about = {"id": "chatcmpl", "object": "chat.completion.chunk", "created": 0}
        return {**about, "model": request["model"], "choices": [choice]}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert isinstance(self.server, ScriptedModel)
        try:
            if self.path.endswith("/chat/completions"):
                chunk = json.dumps(self.server.chunk(body))
                self._send(f"data: {chunk}\n\ndata: [DONE]\n\n", "text/event-stream")
            else:
                self._send(json.dumps(self.server.answer(body)))
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # NeMo Gym would ask again for ever, if there were no answer.
            self.send_error(400, explain=f"{type(error).__name__}: {error}")

    def do_GET(self) -> None:
        self._send(json.dumps({"object": "list", "data": []}))

    def _send(self, text: str, kind: str = "application/json") -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _functions(tools: list[Any]) -> Iterator[dict[str, Any]]:
    """The tools of a request that have a name, those in namespaces, too."""
    for tool in tools:
        yield from _functions(tool.get("tools") or [])
        if tool.get("name") and "tools" not in tool:
            yield tool


def is_named(offered: str, tool: str) -> bool:
    """Whether an agent offers `tool` by this name; over MCP: `mcp__<server>__<tool>`."""
    return offered == tool or offered.endswith(f"__{tool}")


def numbered(rows: Sequence[Row]) -> list[Row]:
    """Rows that name their plans, in metadata and in the prompt.

    Some agents write requests of their own, which have no metadata.
    """
    named = []
    for number, row in enumerate(rows):
        row = with_observation(row, Answer(f"[plan {number}]"))
        params = {**row["responses_create_params"], "metadata": {"row": str(number)}}
        named.append({**row, "responses_create_params": params})
    return named


@contextlib.contextmanager
def scripted_model(
    plans: Sequence[Calls | Solution], port: int = 0, **options: Any
) -> Generator[ScriptedModel, None, None]:
    """A running ScriptedModel on this machine, by default on a free port."""
    with running(ScriptedModel(plans, port, **options)) as model:
        yield model


@contextlib.contextmanager
def running[T: ScriptedModel](model: T) -> Generator[T]:
    """Serves a model until the with block ends."""
    with model:
        threading.Thread(target=model.serve_forever, daemon=True).start()
        try:
            yield model
        finally:
            model.shutdown()
