"""Answers to calls: a method's return value becomes text, with an image beside it."""

import binascii
import inspect
import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from ..errors import NotTextError
from .tasks import is_model
from .text_match import sendable
from .tools import fields_of

# The beginning of an image's data: URL
_IMAGE = re.compile(r"data:image/[^,]+;base64")


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
    if "output" in fields_of(type(value)):
        fields = {name: getattr(value, name) for name in fields_of(type(value))}
        output = as_answer(fields.pop("output")).output
        if "image" in fields:
            fields["image"] = _image(fields["image"])
        extra = {name: item for name, item in fields.items() if item is not None}
        return Answer(output, _plain(extra))
    json_types = (bool, int, float, list, dict)
    if isinstance(value, json_types) or is_model(type(value)):
        return Answer(sendable(json.dumps(_plain(value), ensure_ascii=False)))
    hint = ""
    if inspect.iscoroutine(value):
        value.close()
        hint = ": make it `async def`, or await the coroutine"
    kind = "None" if value is None else type(value).__name__
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


def _plain(value: Any) -> Any:
    """`value` as JSON's types. JSON lacks NaN and infinity: they become null.

    Numbers and arrays of numpy become numbers and lists. Raises NotTextError.
    """
    return to_jsonable_python(value, inf_nan_mode="null", fallback=_without_numpy)


def _without_numpy(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    kind = type(value).__name__
    raise NotTextError(f"returned JSON with a {kind} in it, which JSON cannot hold")
