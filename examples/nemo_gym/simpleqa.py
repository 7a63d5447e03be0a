"""NeMo Gym's simpleqa: short facts, which a judge calls right, wrong or not attempted."""

from typing import Any

INSTRUCTIONS = """\
You grade an answer to a question by the reference.
A: it holds all of the reference that the question asks for, and contradicts none of it.
B: it contradicts the reference, also if it sounds unsure.
C: it lacks a part of the reference, and contradicts none of it.
Spelling and wording do not count.

Question: {question}

Reference: {reference}"""
RIGHT, WRONG, NOT_ATTEMPTED = "A", "B", "C"


class SimpleQA:
    """One `question`, whose `expected_answer` is a text."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        self._question = str(task["question"])
        self._expected = str(task["expected_answer"])
        self._grade = NOT_ATTEMPTED

    def reward(self, answer: str) -> float:
        """1.0 if the judge finds the answer right, else 0.0."""
        if answer.strip():
            prompt = INSTRUCTIONS.format(
                question=self._question, reference=self._expected
            )
            grades = [RIGHT, WRONG, NOT_ATTEMPTED]
            self._grade = self.judge.ask(prompt, choices=grades, data=answer)
        return float(self._grade == RIGHT)

    def metrics(self) -> dict[str, float]:
        """`is_correct`, `is_incorrect` and `is_not_attempted`: one of them is 1.0."""
        return {
            "is_correct": float(self._grade == RIGHT),
            "is_incorrect": float(self._grade == WRONG),
            "is_not_attempted": float(self._grade == NOT_ATTEMPTED),
        }

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The expected answer."""
        return task["expected_answer"]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge: only the reference itself is right."""
        reference, _, answer = prompt.partition("\n\nReference: ")[2].partition("\n\n")
        return RIGHT if answer == reference else WRONG
