"""FrozenLake-v1 of Gymnasium as one class: an object plays one episode."""

from __future__ import annotations

import base64
import io
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple
from PIL import Image

ID = "FrozenLake-v1"
MAX_STEPS = 50  # the episode is truncated after this many actions
RENDER_MODE = "rgb_array"
PIXELS = 256  # a larger frame is scaled down to this width and height
Action = Literal["move_left", "move_down", "move_right", "move_up"]


class Seen(NamedTuple):
    """A text, and a picture as a data: URL."""

    output: str
    image: str


def move_in(space: Any, value: Any) -> Any:
    """An action as its space has it. A Box clips each number to its own bounds."""
    if isinstance(space, Dict):
        return {key: move_in(part, value[str(key)]) for key, part in space.items()}
    if isinstance(space, Tuple):
        parts = enumerate(space.spaces)
        return tuple(move_in(part, value[f"action_{n}"]) for n, part in parts)
    if isinstance(value, str):
        return value
    move = np.asarray(value, space.dtype).reshape(space.shape)[()]
    return np.clip(move, space.low, space.high) if isinstance(space, Box) else move


class DomainClass:
    """One episode.

    `task` may have the `seed`, and `options` for gymnasium.make(). Its `id` must be ID.
    """

    reward_range = (0.0, 1.0)  # for a whole episode

    def __init__(self, task: dict[str, Any]) -> None:
        # gymnasium.make() would import the module in another id.
        if task.get("id", ID) != ID:
            raise ValueError(f"id must be {ID}, got {task['id']!r}")
        options = {"max_episode_steps": MAX_STEPS, **task.get("options", {})}
        options["render_mode"] = RENDER_MODE
        self._env = gymnasium.make(ID, **options)
        self._env.reset(seed=task.get("seed", 0))
        self._return, self._done = 0.0, False

    def observation(self) -> Seen:
        """The frame that the environment draws."""
        return self._see("The first frame:")

    def step(self, action: Action) -> Seen:
        """Take one action, and see the next frame.

        Args:
            action: The action.
        """
        reward = self._act(action)
        end = " The episode is over." if self._done else ""
        return self._see(f"Reward: {reward:g}.{end}")

    def reward(self) -> float:
        """The return. An episode that is not over earns the lowest reward."""
        return self._return if self._done else self.reward_range[0]

    def close(self) -> None:
        self._env.close()

    def _act(self, action: Action) -> float:
        """Take one action, draw nothing, and return what it gained."""
        if self._done:
            raise ValueError("the episode is over")
        names, space = get_args(Action), self._env.action_space
        move = move_in(space, names.index(action) if action in names else action)
        if not space.contains(move):
            raise ValueError(f"action must be in {space}, got {action}")
        _, gained, terminated, truncated, _ = self._env.step(move)
        self._done = bool(terminated or truncated)
        reward = float(np.asarray(gained).item())
        self._return += reward
        return reward

    def _see(self, text: str) -> Seen:
        frame: Any = self._env.render()
        picture, file = Image.fromarray(frame), io.BytesIO()
        picture.thumbnail((PIXELS, PIXELS))
        picture.save(file, "PNG")
        data = base64.b64encode(file.getvalue()).decode()
        return Seen(text, f"data:image/png;base64,{data}")

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The best actions, by value iteration over all transitions."""
        episode = cls(task)
        env: Any = episode._env.unwrapped
        table: dict[int, Any] = env.P
        values = dict.fromkeys(table, 0.0)

        def worth(outcomes: list[tuple[float, int, float, bool]]) -> float:
            return sum(
                p * (r + 0.99 * values[s] * (not end)) for p, s, r, end in outcomes
            )

        change = 1.0
        while change > 1e-6:
            new = {s: max(map(worth, moves.values())) for s, moves in table.items()}
            change = max(abs(new[s] - values[s]) for s in table)
            values.update(new)
        calls = []
        while not episode._done:
            moves = table[int(env.s)]
            move = max(moves, key=lambda number: worth(moves[number]))
            action = get_args(Action)[move]
            episode._act(action)
            calls.append(("step", {"action": action}))
        episode.close()
        return calls
