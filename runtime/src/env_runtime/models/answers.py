"""An answer of an endpoint: its limits, and the text in it.

The endpoint may be a third party's, and may answer anything.
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..episode.tools import arguments_text
from ..errors import ModelError, one_line

# The most that is read of an answer. An endpoint could fill the memory otherwise.
MAX_ANSWER_BYTES = 4 << 20
MAX_TOKENS = 1 << 40

# Asks for an answer that is not compressed: a compressed one has no limit.
PLAIN = {"Accept-Encoding": "identity"}


@dataclass(frozen=True)
class ToolCall:
    """A model's call of a tool that ask() gave it."""

    id: str
    name: str
    arguments: str  # JSON, as the model wrote it


@dataclass(frozen=True)
class Said:
    """A model's answer, and its cost."""

    text: str
    calls: tuple[ToolCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    # Whether the token limit cut it off: the verdict at its end may be missing.
    cut_off: bool = False


def called(said: Said) -> dict[str, Any]:
    """The message of Chat Completions with a model's calls."""
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in said.calls
    ]
    return {"role": "assistant", "content": said.text, "tool_calls": calls}


def returned(call: ToolCall, output: str) -> dict[str, Any]:
    """The message of Chat Completions with the output of a model's call."""
    return {"role": "tool", "tool_call_id": call.id, "content": output}


def check_encoding(headers: Mapping[str, str]) -> None:
    """Raise ModelError if an answer is compressed: it may become a thousand times larger."""
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise ModelError(
            "the answer has a Content-Encoding, which the request did not accept"
        )


async def bounded(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The parts of an answer's body. Raises ModelError after MAX_ANSWER_BYTES."""
    size = 0
    async for part in parts:
        size += len(part)
        if size > MAX_ANSWER_BYTES:
            raise ModelError(f"the answer has more than {MAX_ANSWER_BYTES} bytes")
        yield part


def read_answer(answer: dict[str, Any]) -> Said:
    """The text and the calls in an answer of either API, without reasoning.

    Raises ModelError, or any other exception, if the answer is malformed.
    """
    usage = answer.get("usage") or {}
    read = usage.get("input_tokens") or usage.get("prompt_tokens")
    wrote = usage.get("output_tokens") or usage.get("completion_tokens")
    if "choices" in answer:
        choice = answer["choices"][0]
        text = choice["message"].get("content") or ""
        calls = [
            (call["id"], call["function"]["name"], call["function"].get("arguments"))
            for call in choice["message"].get("tool_calls") or ()
        ]
        cut_off = choice.get("finish_reason") == "length"
    else:
        status = answer.get("status")
        if status in ("failed", "cancelled"):
            raise ModelError(f"the response is {status}", one_line(answer.get("error")))
        cut_off = status == "incomplete"
        text = "".join(
            part.get("text") or ""
            for item in answer["output"]
            if item["type"] == "message"
            for part in item["content"]
        )
        calls = [
            (item["call_id"], item["name"], item.get("arguments"))
            for item in answer["output"]
            if item["type"] == "function_call"
        ]
    if not isinstance(text, str):
        raise ModelError("the answer's text is not text", one_line(text))
    listed = tuple(
        ToolCall(_sendable(made), _sendable(name), _sendable(arguments_text(given)))
        for made, name, given in calls
    )
    return Said(_sendable(text), listed, _tokens(read), _tokens(wrote), cut_off)


def _sendable(text: Any) -> str:
    """`text` without lone surrogates."""
    return str(text).encode("utf-8", "replace").decode()


def _tokens(count: Any) -> int:
    return min(max(count, 0), MAX_TOKENS) if isinstance(count, int) else 0
