"""The types that all layers share."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

Row = dict[str, Any]  # a row of the dataset: responses_create_params, ground_truth
Task = dict[str, Any]  # ground_truth[0] of a row
Calls = list[tuple[str, dict[str, Any]]]  # (tool, arguments) for each call
Definitions = list[dict[str, Any]]  # tool definitions for the Responses API


# In Calls, a message of the policy that the class answers with reply(): its arguments
# are {"answer": text}. No tool can have this name.
REPLY = "reply"

# The class's method for calls of tools that only the row has.
ROW_TOOL = "call_row_tool"

# A harness sets this header when it posts to /reply. A policy chooses the path and the
# body of what its agent posts, but no header.
HARNESS = "X-Harness"


class Solution(NamedTuple):
    """A row's solution: tool calls, then a final answer, "" if none is needed.

    For a class with reply(), the calls contain the messages, too, the last one included.
    """

    calls: Calls
    answer: str = ""


# The items of a trajectory are dicts, or NeMo Gym's models of them.


def by_model(item: Any) -> bool:
    """Whether the model wrote an item of a trajectory."""
    role = _field(item, "role") or "assistant"
    return role == "assistant" and not is_tool_output(item)


def is_tool_output(item: Any) -> bool:
    return _field(item, "type") == "function_call_output"


def last_message(items: Sequence[Any]) -> str:
    """The text of an assistant's last message in a trajectory; "" if there is none."""
    for item in reversed(items):
        if _field(item, "type") == "message" and _field(item, "role") == "assistant":
            return content_text(_field(item, "content"))
    return ""


def content_text(content: Any) -> str:
    """The text in the content of a message, without its images."""
    if isinstance(content, str):
        return content
    texts = [_field(part, "text") for part in content or []]
    return "".join(text for text in texts if isinstance(text, str))


def images_in(messages: Sequence[dict[str, Any]]) -> list[str]:
    """The images in the content of messages: URLs, mostly data: URLs."""
    contents = [message.get("content") for message in messages]
    parts = [part for each in contents if isinstance(each, list) for part in each]
    return [part["image_url"] for part in parts if part.get("image_url")]


def _field(item: Any, name: str) -> Any:
    return item.get(name) if isinstance(item, dict) else getattr(item, name, None)


class ModelUsage(Protocol):
    """An episode's models, which its class asks: models.client.EpisodeModels."""

    failure: str | None  # why a model could not be asked
    waiting: int  # questions without an answer yet

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments after the task."""
        ...

    def metrics(self) -> dict[str, float]:
        """Calls, tokens and seconds of each model."""
        ...

    def trace(self) -> list[dict[str, Any]]:
        """The calls so far, with their questions and answers."""
        ...
