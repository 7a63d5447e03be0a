"""Grades by text: whether the environment printed a line that the policy did not write."""

import unicodedata
from collections.abc import Iterable
from typing import Any, Protocol


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
