"""Questions of a dataset, with a grade."""

from typing import Any

RULES = """\
You grade an answer to a question by a reference. It is RIGHT if it says what the reference
says and nothing that contradicts it, else WRONG. Neither its length nor its style counts.

Question: {question}

Reference: {reference}"""


class DomainClass:
    """One question. A judge compares the last message with a reference."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        question, reference = task["question"], task["expected_answer"]
        self._rules = RULES.format(question=question, reference=reference)

    async def reward(self, answer: str) -> float:
        """1.0 if the judge finds the answer right, else 0.0."""
        choices = ["RIGHT", "WRONG"]
        said = await self.judge.ask(self._rules, choices=choices, data=answer)
        return float(said == "RIGHT")

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return task["expected_answer"]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge in gates and tests: only the reference is right."""
        text = prompt.partition("\n\nReference: ")[2]  # the reference, then the answer
        half = (len(text) - 2) // 2
        return "RIGHT" if text[:half] == text[-half:] else "WRONG"
