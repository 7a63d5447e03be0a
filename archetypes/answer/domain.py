r"""Word problems. The only import beside Python's own is the grader.

The policy solves a problem in its last message, and writes the answer, a number, in
\boxed{}.
"""

from __future__ import annotations

from typing import Any

from env_runtime import graders


class DomainClass:
    r"""One word problem. The policy's last message has the answer in \boxed{}.

    `task` holds the `problem` and the `expected_answer`, such as "42", "12.50" or "3/4".
    """

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False
    format_credit = 0.1  # the reward for one number in \boxed{} that is not the answer

    def __init__(self, task: dict[str, Any]) -> None:
        self._number = graders.Number(task.get("expected_answer", "42"))
        self._boxed = False

    def reward(self, answer: str) -> float:
        r"""1.0 for the expected number in \boxed{}, `format_credit` for another one.

        0.0 for an answer without a number in \boxed{}, or with different numbers.
        """
        self._boxed = self._number.read(answer) is not None
        if not self._boxed:
            return 0.0
        return self._number.reward(answer) or self.format_credit

    def metrics(self) -> dict[str, float]:
        r"""`boxed`: whether the answer had one number in \boxed{}, right or wrong."""
        return {"boxed": float(self._boxed)}

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return graders.Number(task["expected_answer"]).solution()
