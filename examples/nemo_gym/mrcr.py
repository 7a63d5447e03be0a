"""NeMo Gym's mrcr: an earlier text of a long conversation, repeated word for word."""

from difflib import SequenceMatcher
from typing import Any


class Mrcr:
    """One conversation, in the row's prompt, and the text that answers it."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._prefix: str = task["random_string_to_prepend"]
        self._expected: str = task["expected_answer"]

    def reward(self, answer: str) -> float:
        """How alike the texts are after the prefix, which the answer must have."""
        answer = answer.strip()
        if not answer.startswith(self._prefix):
            return 0.0
        said = answer.removeprefix(self._prefix)
        expected = self._expected.removeprefix(self._prefix)
        return SequenceMatcher(None, said, expected).ratio()

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The text itself."""
        return task["expected_answer"]
