"""NeMo Gym's string_match: the policy's last message, compared with a text."""

from typing import Any

from resources_servers.string_match import app


class StringMatch:
    """One question, whose `expected_answer` is a text."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._expected: str = task["expected_answer"]
        self._mode: str = task.get("extraction_mode", "final_answer")
        self._case_sensitive: bool = task.get("case_sensitive", False)

    def reward(self, answer: str) -> float:
        """How well the text in the answer matches. The rules are NeMo Gym's."""
        extracted = app._extract_answer(answer.strip(), self._mode)
        if extracted is None or not self._expected:
            return 0.0
        return app._answers_match(extracted, self._expected, self._case_sensitive)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The answer in the form that the row's mode reads."""
        expected = task["expected_answer"]
        forms = {
            "boxed": "\\boxed{" + expected + "}",
            "final_answer": f"Answer: {expected}",
        }
        return forms.get(task.get("extraction_mode", "final_answer"), expected)
