"""NeMo Gym's circle_count: how many circles of one color are on a picture."""

import re
from typing import Any


class CircleCount:
    r"""One picture, in the row's prompt. The answer is a number in \boxed{}."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._count = count(task)

    def reward(self, answer: str) -> float:
        """1.0 if the first number in a box is right, else 0.0."""
        boxed = re.search(r"\\boxed\{(\d+)\}", answer)
        return float(boxed is not None and int(boxed[1]) == self._count)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return "\\boxed{" + str(count(task)) + "}"


def count(task: dict[str, Any]) -> int:
    """How many circles have the color that the task asks for."""
    colors = [circle["color"] for circle in task.get("circles", [])]
    return colors.count(task.get("target_color", ""))
