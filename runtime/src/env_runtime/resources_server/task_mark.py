"""A task that is remembered by its digest: a row may be 30 MB long."""

import hashlib
import json
from dataclasses import dataclass
from typing import Self

from ..episode.types import Task


@dataclass(frozen=True)
class TaskMark:
    """The keys of a task, and a digest of their values."""

    keys: tuple[str, ...]
    digest: bytes

    @classmethod
    def of(cls, task: Task) -> Self:
        text = json.dumps(task, sort_keys=True).encode("utf-8", "surrogatepass")
        return cls(tuple(sorted(task)), hashlib.sha256(text).digest())

    def fits(self, task: Task, *, native: bool) -> bool:
        """Whether `task` is the same task.

        In a native row, keys beside the task's own do not count: between /seed_session
        and /verify, NeMo Gym may add keys of its own.
        """
        if native and self.keys:
            if any(key not in task for key in self.keys):
                return False
            task = {key: task[key] for key in self.keys}
        elif len(task) != len(self.keys):
            return False
        return TaskMark.of(task) == self
