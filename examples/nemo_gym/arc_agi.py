"""NeMo Gym's arc_agi: the grid that follows from examples, in the last message."""

import json
from typing import Any

from resources_servers.arc_agi import app


class ArcAgi:
    r"""One puzzle, in the row's prompt. The answer is a grid in \boxed{}."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._expected: list[list[int]] = task["expected_output"]

    def reward(self, answer: str) -> float:
        """1.0 if the first grid in the answer is right, else 0.0."""
        return float(app._parse_grid(answer.strip()) == self._expected)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return "\\boxed{" + json.dumps(task["expected_output"]) + "}"
