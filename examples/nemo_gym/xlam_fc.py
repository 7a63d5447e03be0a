"""NeMo Gym's xlam_fc: calls of tools that nobody executes, one set of them per row."""

from typing import Any

from env_runtime.graders import Calls
from pydantic import BaseModel


class Call(BaseModel):
    """A call that answers a part of the question."""

    name: str
    arguments: dict[str, Any]


class Task(BaseModel):
    """`expected_answers` are the calls that answer the question, in any order."""

    expected_answers: list[Call]


class XlamFC:
    """One question, whose row has the tools that could answer it."""

    def __init__(self, task: Task) -> None:
        self._calls = Calls(self.oracle(task), subset=True)
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call. NeMo Gym's server has no tools either."""
        self._made.append((name, arguments))
        return '{"detail":"Not Found"}'

    def metrics(self) -> dict[str, float]:
        correct = self._calls.matched(self._made)
        return {"num_predicted": len(self._made), "num_correct": correct}

    def reward(self) -> float:
        """1.0 for the expected calls and no others; further arguments do not matter."""
        return self._calls.reward(self._made)

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, Any]]]:
        return [(call.name, call.arguments) for call in task.expected_answers]
