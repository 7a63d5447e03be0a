"""NeMo Gym's example_multi_turn_gymnasium: questions that follow, whatever was said."""

from typing import Any


class FollowUps:
    """One conversation. The answer to the last of `follow_ups` must name a text."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._follow_ups: list[str] = task.get("follow_ups", [])
        self._expected: str = task.get("expected_answer", "")
        self._said: list[str] = []

    def reply(self, answer: str) -> str | None:
        """The next question. None after the answer to the last one."""
        self._said.append(answer)
        return next(iter(self._follow_ups[len(self._said) - 1 :]), None)

    def reward(self) -> float:
        """1.0 if `expected_answer` is in the answer to the last question."""
        if not self._expected or len(self._said) <= len(self._follow_ups):
            return 0.0
        return float(self._expected.lower() in self._said[-1].lower())

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[str]:
        return ["Yes."] * len(task["follow_ups"]) + [task["expected_answer"]]
