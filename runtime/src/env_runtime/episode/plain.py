"""What a class returns as JSON's types: the same in each process, or an error that names it."""

import json
from collections.abc import Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from pathlib import PurePath
from typing import Any

from pydantic_core import to_jsonable_python

from ..errors import NotTextError, one_line

_BYTES = (str, bytes, bytearray, memoryview)  # sequences that are one value


def plain(value: Any) -> Any:
    """`value` as JSON's types, which have no NaN, and no date that is missing: it is null.

    A set is a sorted list: its own order is another one in each process. Raises
    NotTextError, which names the part that JSON cannot hold.
    """
    try:
        return _jsonable(_ready(value))
    except RecursionError:
        raise NotTextError("returned a value that is nested too deeply") from None
    except Exception as error:
        place, part = _culprit(value)
        at = place and f", at {place}"
        if isinstance(error, NotTextError):
            raise NotTextError(f"{error}{at}") from None
        reason = ascii(one_line(error, 100))[1:-1]
        raise NotTextError(f"{_cannot_hold(part)}{at} ({reason})") from error


def is_missing(value: Any) -> bool:
    """Whether a value is pandas's NaT or NA. Their types are the only ones of the names."""
    kind = type(value)
    return kind.__name__ in ("NaTType", "NAType") and kind.__module__.startswith(
        "pandas"
    )


def _jsonable(value: Any) -> Any:
    return to_jsonable_python(value, inf_nan_mode="null", fallback=_of_other_type)


def _of_other_type(value: Any) -> Any:
    if hasattr(value, "tolist"):  # a number or an array of numpy, in a model
        return _ready(value)
    raise NotTextError(_cannot_hold(value))


def _cannot_hold(value: Any) -> str:
    """Why a value is none of JSON. In ASCII: a gate reads it in a header."""
    try:
        shown = one_line(ascii(value), 60)
    except Exception:  # noqa: BLE001 - the class may define it
        shown = "it cannot be shown"
    kind = type(value).__name__
    return f"returned JSON with a {kind} in it, which JSON cannot hold: {shown}"


def _ready(value: Any) -> Any:
    """`value` without sets, missing values, numpy, and containers that pydantic lacks."""
    kind = type(value)
    if kind in (str, int, float, bool) or value is None:
        return value
    if is_missing(value):
        return None
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(kind, "__pydantic_serializer__"):
        dump = kind.__pydantic_serializer__.to_python
        return _in_order(_jsonable(value), dump(value, by_alias=True, warnings=False))
    if hasattr(value, "tolist"):
        return _ready(value.tolist())
    if isinstance(value, AbstractSet | MappingView):
        items = [_jsonable(_ready(item)) for item in value]
        return _sorted(items) if isinstance(value, set | frozenset) else items
    if isinstance(value, Mapping):
        items = value.items()
        return {None if is_missing(key) else key: _ready(item) for key, item in items}
    if isinstance(value, Sequence) and not isinstance(value, _BYTES):
        return [_ready(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _ready(getattr(value, one.name)) for one in fields(value)}
    return value


def _in_order(found: Any, value: Any) -> Any:
    """The JSON of a model, in which each list that was a set of `value` is sorted."""
    if isinstance(found, dict):
        parts = list(value.values()) if isinstance(value, Mapping) else []
        if len(parts) != len(found):
            return found
        pairs = zip(found.items(), parts, strict=True)
        return {key: _in_order(item, part) for (key, item), part in pairs}
    if isinstance(found, list) and isinstance(value, Sequence | AbstractSet):
        if len(value) == len(found):
            pairs = zip(found, value, strict=True)
            found = [_in_order(item, part) for item, part in pairs]
        return _sorted(found) if isinstance(value, set | frozenset) else found
    return found


def _sorted(items: list[Any]) -> list[Any]:
    try:
        return sorted(items)
    except TypeError:  # of several types
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _culprit(value: Any, place: str = "", depth: int = 20) -> tuple[str, Any]:
    """The smallest part of a value that cannot be JSON, and its place, such as `[0]['day']`."""
    parts: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        parts = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, _BYTES):
        parts = list(enumerate(value))
    for key, part in parts if depth else []:
        try:
            _jsonable(_ready(part))
        except Exception:  # noqa: BLE001 - whatever it is, the part is found
            return _culprit(part, f"{place}[{key!a:.40}]", depth - 1)
        try:
            _jsonable({key: None})
        except Exception:  # noqa: BLE001
            return place, key
    return place, value
