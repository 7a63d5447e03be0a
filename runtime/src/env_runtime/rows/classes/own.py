"""Questions of a dataset, with a grade."""

from typing import Any


class DomainClass:
    """One question, whose answer a rule grades. The task has all columns of its record."""

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task

    def reward(self, answer: str) -> float:
        """1.0 if the last message is right for the task, else 0.0."""
        raise NotImplementedError("write reward()")

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`. It is still to be written."""
        return ""
