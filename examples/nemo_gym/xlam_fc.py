"""NeMo Gym's xlam_fc: calls of tools that nobody executes, one set of them per row."""

from typing import Any

from pydantic import BaseModel


class Call(BaseModel):
    """A call that answers a part of the question."""

    name: str
    arguments: dict[str, Any]

    def fits(self, name: str, arguments: dict[str, Any]) -> bool:
        """Whether a call has these arguments; others do not matter."""
        return name == self.name and self.arguments.items() <= arguments.items()


class Task(BaseModel):
    """`expected_answers` are the calls that answer the question, in any order."""

    expected_answers: list[Call] = []


class XlamFC:
    """One question, whose row has the tools that could answer it."""

    def __init__(self, task: Task) -> None:
        self._expected = task.expected_answers
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call. NeMo Gym's server has no tools either."""
        self._made.append((name, arguments))
        return '{"detail":"Not Found"}'

    def metrics(self) -> dict[str, float]:
        return {"num_predicted": len(self._made), "num_correct": self._correct()}

    def reward(self) -> float:
        """1.0 for the expected calls and no others."""
        return float(self._correct() == len(self._expected) == len(self._made))

    def _correct(self) -> int:
        left = list(self._made)
        for expected in self._expected:
            if fitting := [made for made in left if expected.fits(*made)]:
                left.remove(fitting[0])
        return len(self._made) - len(left)

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [(call.name, call.arguments) for call in task.expected_answers]
