"""Rollouts as .jsonl files, which a later run resumes."""

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from ..episode.types import Row
from ..errors import RolloutError
from .stats import REPEAT, TASK, RolloutStats, measure

# The start of each line of an output file.
START = ('{"' + TASK + '": ').encode()


@contextlib.contextmanager
def only_writer(path: Path) -> Generator[None]:
    """Lock an output file. It is made, with its folders, and removed if it stays empty.

    Raises RolloutError if another process has the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = not path.exists()
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RolloutError(
                f"another rollout.py or play.py writes to {path}: wait until it ends, or "
                "name another file with --output"
            ) from None
        try:
            yield
        finally:
            if made and os.fstat(file.fileno()).st_size == 0:
                path.unlink(missing_ok=True)


def rollouts_in(
    path: Path, row_of: Callable[[int, int], Row], policy: str
) -> dict[tuple[int, int], RolloutStats]:
    """The rollouts in an output file by task and repeat; cuts off a half-written line.

    `row_of(task, repeat)` returns the row that the policy plays, and raises LookupError
    if there is none. Raises RolloutError if the file holds anything but rollouts of
    these rows by this policy: other rewards would count as this policy's.
    """
    finished: dict[tuple[int, int], RolloutStats] = {}
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
                twice = key in finished
                same = rollout["response"]["model"] == policy
                same &= row_of(*key).items() <= rollout.items()
                finished[key] = measure(rollout)
                same &= finished[key].reward is not None
            except (ValueError, LookupError, TypeError, RecursionError):
                same, twice = False, False
            if not same:
                raise RolloutError(
                    f"{path}, line {number}, is not a rollout of {policy} on these "
                    "rows, temperature and seed as they are now: name another file "
                    "with --output"
                )
            if twice:
                raise RolloutError(
                    f"{path}, line {number}, is a second rollout of row {key[0] + 1}, "
                    f"repeat {key[1] + 1}: remove it, or name another file with --output"
                )
    if last:
        if not last.startswith(START[: len(last)]):
            raise RolloutError(
                f"{path} holds no rollouts: name another file with --output"
            )
        os.truncate(path, size)
    return finished


def as_rollout(
    task: int, repeat: int, row: Row, result: dict[str, Any]
) -> dict[str, Any]:
    """An episode as NeMo Gym's rollout files have it, with the dataset's row in it."""
    ids = {TASK: task, REPEAT: repeat}
    graded = {key: result[key] for key in ("response", "reward")}
    agent = {"name": "rollout.py"}
    return {**ids, "agent_ref": agent, **result, **row, **ids, **graded}


def append_rollout(path: Path, rollout: dict[str, Any]) -> None:
    """Add a line to an output file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(rollout) + "\n")
