"""NeMo Gym's single_step_tool_use_with_argument_comparison: an expert's next step."""

import json
from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel


class Action(BaseModel):
    """An expert's step: a call with `arguments` in JSON, or a message."""

    type: Literal["function_call", "message"]
    name: str = ""
    arguments: str = "{}"


class Task(BaseModel):
    expected_action: Action


class SingleStep:
    """One step of a conversation, whose row has the tools."""

    similarity = 0.1  # the least share of words that two texts have in common

    def __init__(self, task: Task) -> None:
        self._expected = task.expected_action
        self._arguments = json.loads(task.expected_action.arguments)
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call, which nobody executes."""
        self._made.append((name, arguments))
        return "noted"

    def reward(self, answer: str) -> float:
        """1.0 if the policy made the expected call, or any message if one is expected."""
        if self._expected.type == "message":
            return float(bool(answer) and not self._made)
        return float(
            any(
                name == self._expected.name
                and self._similar(self._arguments, arguments)
                for name, arguments in self._made
            )
        )

    def _similar(self, expected: Any, made: Any) -> bool:
        if not isinstance(made, type(expected)):
            return False
        if isinstance(expected, dict):
            same = expected.keys() == made.keys()
            return same and all(self._similar(expected[key], made[key]) for key in made)
        if isinstance(expected, list):
            same = len(expected) == len(made)
            return same and all(map(self._similar, expected, made))
        if isinstance(expected, float):
            return abs(made - expected) < 1e-6
        if isinstance(expected, str):
            words, others = (Counter(text.lower().split()) for text in (expected, made))
            if min(words.total(), others.total()) < 2:
                return expected == made
            share = (words & others).total() / (words.total() + others.total())
            return share >= self.similarity
        return expected == made

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        expected = task["expected_action"]
        if expected["type"] == "message":
            return expected["content"]
        return [(expected["name"], json.loads(expected["arguments"]))]
