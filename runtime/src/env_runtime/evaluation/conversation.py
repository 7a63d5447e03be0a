"""A rollout as the entries of a conversation, which the report shows."""

import contextlib
import json
import re
from collections.abc import Callable
from typing import Any

from ..episode.tasks import is_native, task_of
from ..episode.types import is_tool_output
from .stats import is_error, items

IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")

Part = str | int  # a text, or the number of an image
Entry = dict[str, Any]
KeepImage = Callable[[str], int]  # stores an image, and returns its number


def conversation(rollout: dict[str, Any], keep: KeepImage) -> list[Entry]:
    """A rollout as entries: {"who": ..., "parts": [text or number of an image, ...]}.

    `who` is one of these:
    - a role, "reasoning", or "environment" for what it said or showed to the policy;
    - "call" or "output", both with the `name` of the tool; an error has `error`, too;
    - "data" for an item of an unknown kind, as JSON;
    - a title, for anything beside the trajectory.
    """
    params, response = rollout.get("responses_create_params"), rollout.get("response")
    entries = []
    if isinstance(params, dict):
        if instructions := params.get("instructions"):
            entries.append(_entry("system", _parts(instructions, keep)))
        entries += entries_of(params.get("input"), keep)
    elif params is not None:
        entries.append(_entry("data", _json(params, keep)))
    if isinstance(response, dict):
        for entry in entries_of(response.get("output"), keep):
            who = "environment" if entry["who"] == "user" else entry["who"]
            entries.append(entry | {"who": who})
        if reason := response.get("incomplete_details"):
            entries.append(_entry("cut off", _json(reason, keep)))
    elif response is not None:
        entries.append(_entry("data", _json(response, keep)))
    for call in items(rollout.get("model_calls")):
        name = str(call.get("model"))
        asked = [
            part
            for message in items(call.get("messages"))
            for part in [
                f"[{message.get('role')}]\n",
                *_parts(message["content"], keep),
            ]
        ]
        entries.append(_entry(f"asked {name}", asked))
        failed = call.get("error")
        if failed or call.get("said") or not call.get("tool_calls"):
            who = f"{name} {'failed' if failed else 'said'}"
            entries.append(_entry(who, [str(failed or call.get("said"))]))
        for used in items(call.get("tool_calls")):
            parts = _arguments(used.get("arguments"), keep)
            entries.append(_entry(f"{name} called {used.get('name')}", parts))
            entries.append(_entry(f"{name} got", [str(used.get("output"))]))
    if (reason := rollout.get("failure_reason")) is not None:
        entries.append(_entry("the environment failed", [str(reason)]))
    if not is_native(rollout):
        entries.append(_entry("ground truth", _json(rollout["ground_truth"], keep)))
    elif entries and (keys := task_of(rollout)):
        # Keys of the row, and keys that /verify answered beside the reward
        entries.append(_entry("other keys", _json(keys, keep)))
    # A rollout without a trajectory, as some agents of NeMo Gym write, is shown whole.
    return entries or [_entry("rollout", _json(rollout, keep))]


def entries_of(listed: Any, keep: KeepImage) -> list[Entry]:
    """The items of a prompt or a trajectory as entries. A text is a user's entry."""
    if isinstance(listed, str):
        return [_entry("user", [listed])]
    if not isinstance(listed, list):
        return [] if listed is None else [_entry("data", _json(listed, keep))]
    names = {
        str(item.get("call_id")): str(item.get("name"))
        for item in items(listed)
        if item.get("type") == "function_call"
    }
    return [
        entry
        for item in listed
        if (entry := _entry_of(item, names, keep))["parts"] or "name" in entry
    ]


def _entry(who: str, parts: list[Part], **more: Any) -> Entry:
    return {"who": who, "parts": parts, **more}


def _entry_of(item: Any, names: dict[str, str], keep: KeepImage) -> Entry:
    """One item as an entry. `names` has the tool's name for the id of each call."""
    if not isinstance(item, dict):
        return _entry("data", _json(item, keep))
    kind = item.get("type", "message" if "role" in item else None)
    if kind == "message" and isinstance(item.get("role"), str):
        return _entry(item["role"], _parts(item.get("content"), keep))
    if kind == "reasoning":
        parts = _parts(item.get("summary"), keep) + _parts(item.get("content"), keep)
        return _entry("reasoning", parts)
    if kind == "function_call":
        name = str(item.get("name", "?"))
        return _entry("call", _arguments(item.get("arguments"), keep), name=name)
    if is_tool_output(item):
        name = names.get(str(item.get("call_id")), "?")
        output = item.get("output")
        entry = _entry("output", _output(output, keep), name=name)
        return entry | ({"error": True} if is_error(output) else {})
    return _entry("data", _json(item, keep))


def _parts(content: Any, keep: KeepImage) -> list[Part]:
    """The content of a message: text, or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content] if content else []
    if not isinstance(content, list):
        return _json(content, keep)
    parts: list[Part] = []
    for part in content:
        image = part.get("image_url") if isinstance(part, dict) else None
        if isinstance(image, dict):  # as in Chat Completions
            image = image.get("url")
        if isinstance(image, str) and IMAGE.fullmatch(image):
            parts.append(keep(image))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            parts += [part["text"]] if part["text"] else []
        else:
            parts += _json(part, keep)
    return parts


def _arguments(arguments: Any, keep: KeepImage) -> list[Part]:
    """The arguments of a call as name=value, one a line if they are long."""
    values = arguments
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        values = json.loads(arguments)
    if not isinstance(values, dict):
        return [arguments] if isinstance(arguments, str) else _json(arguments, keep)
    texts = [f"{name}={_value(value)}" for name, value in values.items()]
    short = ", ".join(texts)
    if len(short) <= 80 and "\n" not in short:
        return [short]
    return ["\n".join(texts)]


def _value(value: Any) -> str:
    """A value as JSON, except that a text of several lines stays as it is."""
    if isinstance(value, str) and "\n" in value:
        return f"\n{value}"
    with contextlib.suppress(RecursionError):
        return json.dumps(value, ensure_ascii=False)
    return "(nested too deeply to be shown)"


def _output(output: Any, keep: KeepImage) -> list[Part]:
    """A tool's output. The server and NeMo Gym write JSON: {"output": text, ...}."""
    if not isinstance(output, str):
        return _parts(output, keep)
    try:
        answer = json.loads(output)
    except (ValueError, RecursionError):
        return _split(output, keep)
    if not isinstance(answer, dict) or not isinstance(answer.get("output"), str):
        return _split(output, keep)
    parts = _split(answer.pop("output"), keep)
    if isinstance(answer.get("image"), str):
        parts += _split(answer.pop("image"), keep)
    return parts + (_json(answer, keep) if answer else [])


def _json(value: Any, keep: KeepImage) -> list[Part]:
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        text = "(nested too deeply to be shown)"
    return _split(text, keep)


def _split(text: str, keep: KeepImage) -> list[Part]:
    """A text, and the images in it."""
    parts: list[Part] = []
    end = 0
    for match in IMAGE.finditer(text):
        parts += [text[end : match.start()], keep(match[0])]
        end = match.end()
    parts.append(text[end:])
    return [part for part in parts if part != ""]
