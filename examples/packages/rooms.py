"""MiniGrid's empty room as frames: the policy sees a picture after each action."""

import base64
import io
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import minigrid  # noqa: F401  # registers the environments
from PIL import Image

Action = Literal["left", "right", "forward"]


class Seen(NamedTuple):
    """A text, and a picture as a data: URL."""

    output: str
    image: str


class Rooms:
    """One room of `size` 5, 6 or 8. The policy walks to the green square."""

    def __init__(self, task: dict[str, Any]) -> None:
        size = task["size"]
        name = f"MiniGrid-Empty-{size}x{size}-v0"
        self._env = gymnasium.make(name, render_mode="rgb_array")
        self._env.reset(seed=0)
        self._return, self._done = 0.0, False

    def observation(self) -> Seen:
        """The room from above."""
        frame: Any = self._env.render()
        file = io.BytesIO()
        Image.fromarray(frame).resize((160, 160)).save(file, "PNG")
        picture = base64.b64encode(file.getvalue()).decode()
        return Seen("The room:", f"data:image/png;base64,{picture}")

    def step(self, action: Action) -> Seen:
        """Turn to the left or to the right, or go forward.

        Args:
            action: What to do.
        """
        if self._done:
            raise ValueError("the episode is over")
        number = get_args(Action).index(action)
        _, reward, terminated, truncated, _ = self._env.step(number)
        self._return += float(reward)
        self._done = terminated or truncated
        text = "The episode is over." if self._done else "The room:"
        return self.observation()._replace(output=text)

    def reward(self) -> float:
        return self._return

    def close(self) -> None:
        self._env.close()

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        straight = ["forward"] * (task["size"] - 3)
        return [("step", {"action": each}) for each in [*straight, "right", *straight]]
