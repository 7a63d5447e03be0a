"""The names of episodes and calls in the log, in verdicts, and on the page of view.py."""

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from .types import Task

TASK = "_ng_task_index"  # NeMo Gym's key in a row: the row's number, from 0
REPEAT = "_ng_rollout_index"  # the number of the row's repeat, from 0

# The keys that name a row, in the order of preference.
ROW_IDS = (TASK, "id", "uuid")

MOST_ARGUMENTS = 8  # of a call in the log
MOST_CHARACTERS = 40  # of each
SECRET = re.compile("key|token|secret|passw|credential|auth", re.IGNORECASE)


def session_name(session_id: str) -> str:
    """A session's public name: a hash, because its id would let others play in it."""
    data = session_id.encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:12]


def episode_name(
    row: Mapping[str, Any], task: Task | None = None, session: str = ""
) -> str:
    """A row, its repeat and a session: `_ng_task_index 3, _ng_rollout_index 0, session ab`.

    A row without a key of ROW_IDS is named by a hash of its task, if there is one.
    """
    found = [key for key in ROW_IDS if row.get(key) is not None][:1]
    parts = [f"{key} {row[key]!r:.80}" for key in found]
    if not found and task is not None:
        text = json.dumps(task, sort_keys=True).encode()
        parts.append(f"task {hashlib.sha256(text).hexdigest()[:12]}")
    if row.get(REPEAT) is not None:
        parts.append(f"{REPEAT} {row[REPEAT]!r:.80}")
    return ", ".join(parts + ([f"session {session}"] if session else []))


def numbers_in(rollout_id: str) -> dict[str, int]:
    """The keys TASK and REPEAT, of which NeMo Gym 0.7 makes a rollout's id, such as `3-0`.

    {} for an id that somebody else made.
    """
    found = re.fullmatch(r"(\d{1,18})-(\d{1,18})", rollout_id)
    return {TASK: int(found[1]), REPEAT: int(found[2])} if found else {}


def shown_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call in a few words, on one line, without values whose name is a secret's."""
    shown = [
        f"{_plain(name)}={'***' if SECRET.search(name) else _value(value)}"
        for name, value in islice(arguments.items(), MOST_ARGUMENTS)
    ]
    more = ["..."] if len(arguments) > MOST_ARGUMENTS else []
    return f"{_plain(tool)}({', '.join(shown + more)})"


def _plain(name: str) -> str:
    """A name. A policy may have made it up."""
    return name if name.isidentifier() and len(name) < 80 else repr(name[:80])


def _value(value: Any) -> str:
    if isinstance(value, str):
        cut = "..." if len(value) > MOST_CHARACTERS else ""
        return f"{value[:MOST_CHARACTERS]!r}{cut}"
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return str(value) if abs(value) < 1 << 64 else "a long integer"
    if isinstance(value, list | tuple | dict):
        return f"<{type(value).__name__} of {len(value)}>"
    return f"<{type(value).__name__}>"
