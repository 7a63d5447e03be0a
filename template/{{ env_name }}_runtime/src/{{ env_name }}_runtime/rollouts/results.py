"""Rows of the dataset and rollouts of them, as .jsonl files."""

import argparse
import contextlib
import io
import json
import os
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from plumbing.figures import REPEAT, TASK, Episode, measure

HERE = Path(__file__).resolve().parents[1]
ROWS = HERE / "data" / "example.jsonl"
IMAGE_BYTES = 24 << 20  # of images in one trajectory; /verify takes 32 MiB
START = f'{{"{TASK}": '.encode()  # of each line of an output file

Row = dict[str, Any]  # of the dataset: responses_create_params, ground_truth
Item = dict[str, Any]  # of the Responses API: a message, function_call, ...
Tools = list[dict[str, Any]]  # definitions for the Responses API


class GateError(Exception):
    """What is wrong, and what to do, in one line."""


class RolloutError(Exception):
    """What went wrong, as one line for the user."""


def settings() -> dict[str, Any]:
    """[tool.environment] of pyproject.toml: max_turns, and the Space if there is one."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)["tool"]["environment"]


def number_of_turns() -> int:
    """MAX_TURNS, else max_turns of pyproject.toml. Raises RolloutError."""
    text = os.environ.get("MAX_TURNS") or str(settings()["max_turns"])
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise RolloutError(f"MAX_TURNS {error}") from None


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def file_name(path: str) -> str:
    """`my_env.py`, or `my_env/model.py` if that is in a package."""
    file = Path(path)
    in_package = (file.parent / "__init__.py").is_file()
    return f"{file.parent.name}/{file.name}" if in_package else file.name


def one_line(text: Any) -> str:
    return " ".join(str(text).split())[:500]


# ---------------------------------------------------------------------- rows


def load_rows(path: Path = ROWS) -> list[Row]:
    """The objects of a .jsonl file, one a line.

    Raises RolloutError if the file cannot be read, or a line is not a JSON object.
    """
    rows = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    rows.append(_row(line, f"{path}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise RolloutError(f"{path}: {error}") from None
    return rows


def _row(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        place = f"{where}, column {error.colno}"
        raise RolloutError(f"{place}: {error.msg}") from None
    if not isinstance(row, dict):
        raise RolloutError(
            f"{where}: a row is a JSON object, got {one_line(line)[:80]}"
        )
    return row


def with_tools(row: Row, tools: Tools) -> Row:
    """The row with these tools in place of its own."""
    params = {**row["responses_create_params"], "tools": tools}
    return {**row, "responses_create_params": params}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a .jsonl file whole, or leave it as it was."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    data = "".join(lines).encode("utf-8", "surrogatepass")
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mode = path.stat().st_mode if path.exists() else 0o644
        os.chmod(beside, mode)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


# ---------------------------------------------------------------------- trajectories


def as_response(
    model: str,
    tools: Tools,
    output: list[Item],
    *,
    incomplete_reason: str | None = None,
    input_tokens: int = 0,
    output_tokens: int = 0,
) -> dict[str, Any]:
    """An episode as one response of the Responses API, which is what /verify takes.

    Leaves out the images if they are more than a request may hold.
    """
    images = [item for item in output if item.get("role") == "user"]
    if len(json.dumps(images)) > IMAGE_BYTES:
        output = [item for item in output if item.get("role") != "user"]
    return {
        "id": f"resp_{uuid.uuid4().hex}",
        "created_at": time.time(),
        "model": model,
        "object": "response",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": tools,
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


def function_call(name: str, arguments: str, call_id: str | None = None) -> Item:
    return {
        "type": "function_call",
        "call_id": call_id or f"call_{uuid.uuid4().hex}",
        "name": name,
        "arguments": arguments,
    }


# ---------------------------------------------------------------------- rollouts


def rollouts_in(
    path: Path, row_of: Callable[[int, int], Row], policy: str
) -> dict[tuple[int, int], Episode]:
    """The episodes in an output file by task and repeat; cuts off a half-written line.

    `row_of` gives the row that the policy plays, and raises LookupError if there is
    none. Raises RolloutError if the file holds anything but rollouts of these rows by
    this policy: their rewards would count as its own.
    """
    found: dict[tuple[int, int], Episode] = {}
    size, last = 0, b""
    with path.open("rb") if path.is_file() else io.BytesIO() as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                last = line
                break
            size += len(line)
            try:
                rollout = json.loads(line)
                key = rollout[TASK], rollout[REPEAT]
                same = rollout["response"]["model"] == policy
                same &= row_of(*key).items() <= rollout.items()
                found[key] = measure(rollout)
                same &= found[key].reward is not None
            except (ValueError, LookupError, TypeError):
                same = False
            if not same:
                raise RolloutError(
                    f"{path}, line {number}, is not a rollout of {policy} on these "
                    "rows, temperature and seed as they are now: name another file "
                    "with --output"
                )
    if last:
        if not last.startswith(START[: len(last)]):
            raise RolloutError(f"{path} holds no rollouts: name another with --output")
        os.truncate(path, size)
    return found


def as_rollout(
    task: int, repeat: int, row: Row, result: dict[str, Any]
) -> dict[str, Any]:
    """An episode as NeMo Gym's rollout files have it, with the dataset's row in it."""
    ids = {TASK: task, REPEAT: repeat}
    graded = {key: result[key] for key in ("response", "reward")}
    agent = {"name": "rollout.py"}
    return {**ids, "agent_ref": agent, **result, **row, **ids, **graded}
