"""NeMo Gym's longmemeval: questions about old chats, which a judge grades by their kind."""

from typing import Any

# The rule for a right answer to each kind of question
RULES = {
    "single-session-preference": (
        "The reference describes what the user would like. The answer is right if it "
        "recalls and uses what it knows of the user. It need not have every point."
    ),
    "temporal-reasoning": (
        "The answer is right if it says what the reference says. A number of days, "
        "weeks or months may be off by one."
    ),
    "knowledge-update": (
        "The answer is right if it has the updated fact of the reference. It may also "
        "tell what was true before."
    ),
}
CONTAINS = (
    "The answer is right if it says all of what the reference says, or something "
    "equivalent. A part of it is not enough."
)
UNANSWERABLE = (
    "The question cannot be answered, for the reason in the reference. The answer is "
    "right if it says so."
)


class LongMemEval:
    """One question. Its prompt has the chats, `verifier_metadata` the rest."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge, about = judge, task["verifier_metadata"]
        self._question, self._expected = str(about["question"]), str(about["answer"])
        self._rule = RULES.get(about["question_type"], CONTAINS)
        if about.get("abstention") or "_abs" in str(about.get("question_id", "")):
            self._rule = UNANSWERABLE

    def reward(self, answer: str) -> float:
        """1.0 if the judge says yes, else 0.0."""
        if not answer.strip():
            return 0.0
        prompt = (
            f"Is the answer right? {self._rule}\n\nQuestion: {self._question}\n\n"
            f"Reference: {self._expected}"
        )
        said = self.judge.ask(prompt, choices=["yes", "no"], data=answer)
        return float(said == "yes")

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The reference."""
        return str(task["verifier_metadata"]["answer"])

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge: only the reference itself is right."""
        reference, _, answer = prompt.partition("\n\nReference: ")[2].partition("\n\n")
        return "yes" if answer == reference else "no"
