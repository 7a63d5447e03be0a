"""NeMo Gym's gui_coordinate: a point on a screenshot, rewarded by its distance."""

import re
from typing import Any

# These are thousandths of the screenshot's width and height.
POINT = re.compile(r"<point>[\s\[]*\(\s*(\d+)\s*,\s*(\d+)\s*\)[\s\]]*</point>")


class GuiCoordinate:
    """One screenshot, in the row's prompt. `expected_answer` is "0.6640,0.8410"."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        x, y = task["expected_answer"].split(",")
        self._target = float(x), float(y)
        self._reach: float = task.get("max_dist", 0.15)

    def reward(self, answer: str) -> float:
        """1.0 at the target; it falls to 0.0 with the square of the distance."""
        point = POINT.search(answer)
        if point is None:
            return 0.0
        x, y = (int(number) / 1000 for number in point.groups())
        distance = ((x - self._target[0]) ** 2 + (y - self._target[1]) ** 2) ** 0.5
        return 0.0 if distance >= self._reach else (1.0 - distance / self._reach) ** 2

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The target, to a thousandth of the screenshot."""
        parts = task["expected_answer"].split(",")
        x, y = (round(float(part) * 1000) for part in parts)
        return f"<point>({x}, {y})</point>"
