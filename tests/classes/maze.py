"""A class with parameters: easy and hard are one."""

from typing import Annotated, Literal

from pydantic import Field


class Maze:
    """A corridor, whose last cell is the goal. Who bumps into a wall earns nothing."""

    def __init__(
        self,
        task: dict,
        *,
        size: Annotated[int, Field(ge=3, le=50)] = 4,
        noise: float = 0.0,
    ):
        self.cell, self.size, self.bumped = task["start"], size, False

    def observation(self) -> str:
        return f"You are in cell {self.cell} of {self.size}."

    def step(self, direction: Literal["left", "right"]) -> str:
        """Take a step.

        Args:
            direction: Where to.
        """
        self.cell += 1 if direction == "right" else -1
        if not 1 <= self.cell <= self.size:
            self.cell, self.bumped = max(1, min(self.size, self.cell)), True
        return f"You are in cell {self.cell}."

    def reward(self) -> float:
        return float(self.cell == self.size and not self.bumped)

    @staticmethod
    def oracle(task: dict, *, size: int = 4):
        return [("step", {"direction": "right"})] * (size - task["start"])
