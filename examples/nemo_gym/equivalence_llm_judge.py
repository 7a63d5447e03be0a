"""NeMo Gym's equivalence_llm_judge: a judge compares the last message with an answer."""

from typing import Any

INSTRUCTIONS = """\
You compare a candidate's answer to a question with the reference. They are equivalent if
they state the same fact, or the same formula in another form. Each part of the reference
must be in the candidate's answer. The reference is right, even if you disagree.

Say [[A=B]] if they are equivalent, else [[A!=B]].

Question: {question}

Reference: {reference}"""
EQUAL, DIFFERENT = "[[A=B]]", "[[A!=B]]"


class EquivalenceJudge:
    """One question, whose `expected_answer` is a text."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        self._question = str(task.get("question", ""))
        self._expected = str(task["expected_answer"])

    def reward(self, answer: str) -> float:
        """1.0 if the judge finds the answer equivalent to the expected one, else 0.0."""
        if not answer.strip():
            return 0.0
        prompt = INSTRUCTIONS.format(question=self._question, reference=self._expected)
        said = self.judge.ask(prompt, choices=[EQUAL, DIFFERENT], data=answer)
        return float(said == EQUAL)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The expected answer."""
        return task["expected_answer"]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge: the same words are equivalent."""
        reference, _, answer = prompt.partition("\n\nReference: ")[2].partition("\n\n")
        return EQUAL if answer == reference else DIFFERENT
