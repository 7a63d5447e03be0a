"""The report on a command that has ended, for the policy."""

from __future__ import annotations

import signal
from contextlib import suppress


def report(text: str, status: int) -> str:
    """The output of a command, and its exit status unless that is 0.

    After death by a signal, `status` is negative, as with Popen, or above 128, as with
    a shell.
    """
    text = text.rstrip("\n")
    if status == 0:
        return text or "(no output)"
    code = 128 - status if status < 0 else status
    note = f"[exit status {code}]"
    with suppress(ValueError):
        note = f"[exit status {code}, {signal.Signals(code - 128).name}]"
    return f"{text}\n{note}".lstrip("\n")


def failure(reason: str, text: str = "") -> str:
    """The output of a command that did not end by itself."""
    return f"error: {reason}\n{text}".rstrip("\n")


def time_limit(seconds: float) -> str:
    """The reason for a failure at the time limit."""
    return f"killed after {seconds:g} seconds"


def check_size(path: str, data: bytes, limit: int) -> None:
    """Raise ValueError if a file is too large to be written."""
    if len(data) > limit:
        raise ValueError(
            f"content for {path!r} has {len(data)} bytes, the limit is {limit}; write "
            "less, or in several files"
        )
