"""NeMo Gym's circle_click: click the circle of one color on a picture."""

from math import hypot
from typing import Any


class CircleClick:
    """One picture, in the row's prompt. Only the first click counts."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        circles = task.get("circles", [])
        color = task.get("target_color", "")
        self._target = next((each for each in circles if each["color"] == color), None)
        self._clicked: tuple[Any, Any] | None = None

    def click(self, x: Any, y: Any) -> dict[str, Any]:
        """Click at a position.

        Args:
            x: Pixels from the left edge of the picture.
            y: Pixels from its top edge.
        """
        self._clicked = self._clicked or (x, y)
        return {"x": x, "y": y}

    def reward(self) -> float:
        """1.0 if the first click hit the circle, else 0.0."""
        if self._clicked is None or self._target is None:
            return 0.0
        try:
            x, y = map(int, self._clicked)
        except (TypeError, ValueError):  # some models send lists
            return 0.0
        distance = hypot(x - self._target["x"], y - self._target["y"])
        return float(distance <= self._target["radius"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, int]]]:
        color = task["target_color"]
        [*_, circle] = [
            each for each in reversed(task["circles"]) if each["color"] == color
        ]
        return [("click", {"x": circle["x"], "y": circle["y"]})]
