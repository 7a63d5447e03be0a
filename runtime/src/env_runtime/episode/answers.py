"""Answers to calls: a method's return value becomes text, with an image beside it."""

import binascii
import contextlib
import inspect
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..errors import NotTextError
from .declaration import is_model
from .plain import is_missing, plain
from .tools import fields_of
from .types import last_message

# The beginning of an image's data: URL
_IMAGE = re.compile(r"data:image/[^,]+;base64")
# What makes JSON of a type that is none by itself
_HINTS = {"set": "sorted(...)", "frozenset": "sorted(...)"}
_HINTS |= dict.fromkeys(["tuple", "range", "deque", "generator", "map"], "list(...)")


@dataclass(frozen=True)
class Answer:
    """The answer to a tool call."""

    output: str  # the policy reads it
    # Further fields of what the method returned, such as an image.
    extra: dict[str, Any] = field(default_factory=dict)
    error: Literal["", "expected", "unexpected"] = ""
    fault: str = ""  # describes an unexpected error to a gate, never to a policy


def as_answer(value: Any) -> Answer:
    """A tool's return value as an answer.

    Text stays as it is. The field `output` of a NamedTuple or a dataclass is the text,
    and the other fields are beside it; `image` must be a data: URL, None or "". Numbers,
    lists, dicts, pydantic models and other dataclasses become JSON text. Raises
    NotTextError for anything else, None included.
    """
    if isinstance(value, str):
        return Answer(sendable(value))
    if hasattr(value, "tolist"):  # a number or an array of numpy
        value = value.tolist()
    if is_missing(value):
        return Answer("null")  # as NaN is
    if "output" in fields_of(type(value)):
        fields = {name: getattr(value, name) for name in fields_of(type(value))}
        output = as_answer(fields.pop("output")).output
        if "image" in fields:
            fields["image"] = _image(fields["image"])
        extra = {name: item for name, item in fields.items() if item is not None}
        return Answer(output, plain(extra))
    json_types = (bool, int, float, list, dict)
    kind = "None" if value is None else type(value).__name__
    if isinstance(value, json_types) or is_model(type(value)):
        try:
            text = json.dumps(plain(value), ensure_ascii=False)
        except ValueError as error:  # an integer of thousands of digits
            raise NotTextError(f"returned a number that is too long: {error}") from None
        return Answer(sendable(text))
    hint = "" if value is None else f": write {_HINTS.get(kind, 'str(...)')} around it"
    if kind == "DataFrame":
        hint = ': write .to_dict("records") or .to_string() behind it'
    if inspect.iscoroutine(value):
        value.close()
        hint = ": make it `async def`, or await the coroutine"
    raise NotTextError(f"returned {kind}, but a tool must return text{hint}")


def _image(value: Any) -> str | None:
    """An answer's image; None if it has none. Raises NotTextError if none can be shown."""
    if value is None:
        return None
    shown = f"a {type(value).__name__}"
    if isinstance(value, str):
        start, _, data = value.partition(",")
        if not value or (_IMAGE.fullmatch(start) and _is_base64(data)):
            return value or None
        shown = f"which begins {value[:60]!a}"  # ASCII: a gate reads it in a header
    raise NotTextError(
        f"returned an image that cannot be shown, {shown}: `image` must be "
        '"data:image/png;base64," (or jpeg, gif, webp) and base64.b64encode(data).decode()'
    )


def _is_base64(data: str) -> bool:
    try:  # without strict_mode, letters that are not base64 would be left out
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


class PlayedCall(Protocol):
    """The parts of a call that a grade by text reads."""

    arguments: dict[str, Any]
    output: str
    failed: bool


def printed(calls: Iterable[PlayedCall], text: str) -> bool:
    """Whether the environment itself printed `text` to the policy, as whole lines.

    Errors do not count, and neither does a text that can be put together from what the
    policy has written so far: the output may be an echo of it.
    """
    expected = _normal(text)
    written: list[str] = []  # everything that the policy wrote, in order
    strings: set[str] = set()  # the same without numbers and keys
    for call in calls:
        arguments = list(call.arguments.values())
        written += map(_squeezed, scalars(arguments))
        strings.update(map(_squeezed, scalars(arguments, only=str)))
        is_line = f"\n{expected}\n" in f"\n{_normal(call.output)}\n"
        if expected and is_line and not call.failed:
            bare = _squeezed(expected)
            return not (
                bare in "".join(written)
                or bare in "".join(reversed(written))
                or _composed(bare, strings)
            )
    return False


def scalars(value: Any, only: type = object) -> list[str]:
    """Every scalar of a type in a JSON value, as text. Keys come after their values."""
    if isinstance(value, dict):
        parts = [*value.values(), *value]
        return [text for part in parts for text in scalars(part, only)]
    if isinstance(value, list):
        return [text for item in value for text in scalars(item, only)]
    counts = value is not None and isinstance(value, only)
    return [sendable(str(value))] if counts else []


def sendable(text: str) -> str:
    """`text` without lone surrogates, which no JSON answer can carry."""
    return text.encode("utf-8", "replace").decode()


def _composed(text: str, pieces: set[str]) -> bool:
    """Whether `text` is a sequence of the pieces, each as often as needed."""
    pieces = {piece for piece in pieces if piece and piece in text}
    reached = {0}
    for start in range(len(text)):
        if start in reached:
            reached |= {
                start + len(piece) for piece in pieces if text.startswith(piece, start)
            }
    return len(text) in reached


def _squeezed(text: str) -> str:
    """`text` without case and white space, which a tool may well change."""
    return "".join(_normal(text).casefold().split())


def _normal(text: str) -> str:
    """`text` for comparisons: one form of each character and line end, no padding."""
    lines = unicodedata.normalize("NFKC", text).replace("\u2212", "-").splitlines()
    return "\n".join(" ".join(line.split()) for line in lines).strip()


def clipped(text: str, most: int) -> str:
    """A text, or its two ends if it is longer than `most` characters."""
    if len(text) <= most:
        return text
    note = f"\n[truncated: {len(text) - most} of {len(text)} characters left out]\n"
    return text[: most // 2] + note + text[len(text) - most // 2 :]


def without_thinking(text: str) -> str:
    """The answer in a message: what follows the last `</think>`.

    A thought that is not closed was cut off before there was an answer. Most model
    servers take thoughts out themselves.
    """
    _, end, answer = text.rpartition("</think>")
    if "<think>" in answer:
        return ""
    return answer.strip() if end else text


def says_more(items: Sequence[Any]) -> bool:
    """Whether a turn of the policy has a message with more than the model's thinking."""
    return bool(without_thinking(last_message(items)).strip())


# The policy reads this if the server refuses its message's body.
TOO_LONG = "error: the message is too long: write a shorter one"
NOT_SENT = (
    "the message beside this call was not sent: send it in a turn of its own, "
    "without calls"
)


def with_note(output: str) -> str:
    """The output of a call, {"output": ...}, with NOT_SENT as its `note`."""
    answer: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(output)
    if not isinstance(answer, dict):
        answer = {"output": output}
    return sendable(json.dumps({**answer, "note": NOT_SENT}, ensure_ascii=False))
