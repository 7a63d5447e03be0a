"""Whether a row that is posted to /verify has the task of the session."""

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

from ..episode.types import Task
from .messages import VerifyRequest


def same_task(task: Task, body: VerifyRequest) -> bool:
    """Whether the row of /verify has the task that the session was seeded with."""
    return _compared(body, task) == task


@dataclass(frozen=True)
class TaskDigest:
    """The keys of a task, and a digest of their values: a row may be 30 MB long."""

    keys: tuple[str, ...]
    digest: bytes

    @classmethod
    def of(cls, task: Task) -> Self:
        text = json.dumps(task, sort_keys=True).encode()
        return cls(tuple(sorted(task)), hashlib.sha256(text).digest())

    def fits(self, body: VerifyRequest) -> bool:
        """Whether the row of /verify has this task."""
        task = _compared(body, self.keys)
        return len(task) == len(self.keys) and TaskDigest.of(task) == self


def _compared(body: VerifyRequest, keys: Collection[str]) -> Task:
    """The part of a row's task that counts.

    In a native row, these are the `keys` that the session's task has: between
    /seed_session and /verify, NeMo Gym may add keys of its own.
    """
    if body.native and keys:
        return {key: body.task[key] for key in keys if key in body.task}
    return body.task
