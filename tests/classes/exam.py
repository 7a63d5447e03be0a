"""An exam: the task is a pydantic model, and each right answer is worth its share."""

from pydantic import BaseModel, Field


class Question(BaseModel):
    text: str
    answer: str | None = None  # None: nobody knows it


class Exam(BaseModel):
    """The row's ground_truth[0]."""

    questions: list[Question] = Field(min_length=1)


class Candidate:
    """One exam: read the questions, answer them, in any order."""

    def __init__(self, task: Exam):
        self._exam = task
        self._given: dict[int, str] = {}

    def read_question(self, number: int) -> str:
        """Read a question.

        Args:
            number: From 1.
        """
        return self._question(number).text

    def answer(self, number: int, text: str) -> str:
        """Answer a question. A later answer replaces an earlier one.

        Args:
            number: From 1.
            text: The answer, in one or two words.
        """
        self._question(number)
        self._given[number] = text
        return f"Noted. {len(self._given)} of {len(self._exam.questions)} are answered."

    def _question(self, number: int) -> Question:
        if not 1 <= number <= len(self._exam.questions):
            raise ValueError(f"there is no question {number}")
        return self._exam.questions[number - 1]

    def progress(self) -> dict[int, str]:
        """The answers so far. This helper is not a tool."""
        return self._given

    def reward(self) -> float:
        right = [
            question.answer is not None and self._given.get(number) == question.answer
            for number, question in enumerate(self._exam.questions, start=1)
        ]
        return sum(right) / len(right)

    def metrics(self) -> dict[str, float]:
        return {"answered": len(self._given)}

    @staticmethod
    def oracle(task: Exam) -> list[tuple[str, dict]]:
        return [
            ("answer", {"number": number, "text": question.answer})
            for number, question in enumerate(task.questions, start=1)
            if question.answer is not None
        ]
