"""Questions of a dataset, with a grade."""

from typing import Any

from ... import graders


class DomainClass:
    """One question, whose row has the tools. Nobody executes their calls."""

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._grader = graders.Calls(self.oracle(task))
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call of one of the row's tools."""
        self._made.append((name, arguments))
        return "noted"

    def reward(self) -> float:
        """1.0 for the expected calls and no others, in any order; else 0.0."""
        return self._grader.reward(self._made)

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The calls that solve `task`, as (name, arguments)."""
        return [(call["name"], call["arguments"]) for call in task["expected_answer"]]
