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

    expected_answers: list[Call]


class XlamFC:
    """One question, whose row has the tools that could answer it."""

    def __init__(self, task: Task) -> None:
        self._expected = task.expected_answers
        self._made = 0
        # For each expected call that was made: all that the same call could stand for
        self._met: dict[int, list[int]] = {}

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call. NeMo Gym's server has no tools either."""
        self._made += 1
        calls = enumerate(self._expected)
        self._meets([n for n, call in calls if call.fits(name, arguments)], set())
        return '{"detail":"Not Found"}'

    def metrics(self) -> dict[str, float]:
        return {"num_predicted": self._made, "num_correct": len(self._met)}

    def reward(self) -> float:
        """1.0 for the expected calls and no others."""
        return float(len(self._met) == len(self._expected) == self._made)

    def _meets(self, fitting: list[int], tried: set[int]) -> bool:
        """Whether a call can stand for one of these, if earlier calls make room."""
        for number in fitting:
            if number not in tried:
                tried.add(number)
                earlier = self._met.get(number)
                if earlier is None or self._meets(earlier, tried):
                    self._met[number] = fitting
                    return True
        return False

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [(call.name, call.arguments) for call in task.expected_answers]
