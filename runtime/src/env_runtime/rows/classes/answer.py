"""Questions of a dataset, with a grade."""

from typing import Any

from ... import graders


class DomainClass:
    r"""One question. The last message has the answer in \boxed{}."""

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._grader = graders.Text(task["expected_answer"])

    def reward(self, answer: str) -> float:
        """1.0 for the expected answer, else 0.0."""
        return self._grader.reward(answer)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return graders.Text(task["expected_answer"]).solution()
