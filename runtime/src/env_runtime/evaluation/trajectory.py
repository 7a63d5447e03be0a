"""Trajectories: the items of an episode in the Responses API."""

import json
import time
import uuid
from typing import Any

from ..episode.tools import arguments_text
from ..episode.types import Definitions, Row

Item = dict[str, Any]  # a message, function_call, function_call_output, ...

# Cap on the images in one trajectory, as JSON; /verify accepts 32 MiB.
IMAGE_BYTES = 24 << 20


def as_response(
    model: str,
    definitions: Definitions,
    output: list[Item],
    *,
    incomplete_reason: str | None = None,
    input_tokens: int = 0,
    output_tokens: int = 0,
) -> dict[str, Any]:
    """An episode as one response of the Responses API, as /verify accepts it.

    `output` is the whole trajectory. Its images are left out if they exceed IMAGE_BYTES.
    """
    images = [item for item in output if isinstance(item.get("content"), list)]
    images = [item for item in images if item.get("role") == "user"]
    if len(json.dumps(images)) > IMAGE_BYTES:
        output = [item for item in output if item not in images]
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "created_at": time.time(),
        "model": model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": definitions,
        "incomplete_details": (
            {"reason": incomplete_reason} if incomplete_reason else None
        ),
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + output_tokens,
        },
    }


def function_call(
    name: str, arguments: str | dict[str, Any] | None, call_id: str | None = None
) -> Item:
    """A call of a tool; `arguments` is JSON text, or an object."""
    return {
        "type": "function_call",
        "call_id": call_id or f"call_{uuid.uuid4().hex}",
        "name": name,
        "arguments": arguments_text(arguments),
    }


def message(text: str) -> Item:
    """A message of the policy."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message",
        "id": f"msg_{uuid.uuid4().hex}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def with_tools(row: Row, definitions: Definitions) -> Row:
    """The row with these tools in place of its own."""
    params = {**row["responses_create_params"], "tools": definitions}
    return {**row, "responses_create_params": params}
