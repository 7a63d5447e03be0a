"""FrozenLake-v1 of Gymnasium as one class: an object plays one episode."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Tuple

ID = "FrozenLake-v1"
MAX_STEPS = 50  # the episode is truncated after this many actions
RENDER_MODE = "ansi"
Action = Literal["move_left", "move_down", "move_right", "move_up"]

# Brackets replace a terminal's colors: (blue), <magenta>, and [highlighted].
COLORED = re.compile(r"\x1b\[([\d;]*)m([^\x1b]*)\x1b\[0m")
BRACKETS = {"34;1": "()", "35": "<>"}


def bracket(color: str) -> str:
    """The two brackets that stand for a color."""
    return BRACKETS.get(color, "[]")


def numbers(array: Any) -> Any:
    """An array of an observation as JSON has it."""
    array = np.asarray(array)
    whole = array.dtype.kind != "f"
    return array.tolist() if whole else np.round(array.astype(float), 4).tolist()


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
        if RENDER_MODE is not None:
            options["render_mode"] = RENDER_MODE
        self._env = gymnasium.make(ID, **options)
        self._seen, _ = self._env.reset(seed=task.get("seed", 0))
        self._return, self._done = 0.0, False

    def observation(self) -> str:
        """The board as text. Without a board, the observation: a text, or JSON."""
        if RENDER_MODE is None:
            seen = self._seen
            return seen if isinstance(seen, str) else json.dumps(seen, default=numbers)
        text = str(self._env.render())
        while COLORED.search(text):
            text = COLORED.sub(lambda found: found[2].join(bracket(found[1])), text)
        return text.strip("\n")

    def step(self, action: Action) -> str:
        """Take one action, and see what follows.

        Args:
            action: The action.
        """
        if self._done:
            raise ValueError("the episode is over")
        names, space = get_args(Action), self._env.action_space
        move = move_in(space, names.index(action) if action in names else action)
        if not space.contains(move):
            raise ValueError(f"action must be in {space}, got {action}")
        self._seen, gained, terminated, truncated, _ = self._env.step(move)
        reward = float(np.asarray(gained).item())
        self._return += reward
        self._done = bool(terminated or truncated)
        end = " The episode is over." if self._done else ""
        return f"{self.observation()}\nReward: {reward:g}.{end}"

    def reward(self) -> float:
        """The return. An episode that is not over earns the lowest reward."""
        return self._return if self._done else self.reward_range[0]

    def close(self) -> None:
        self._env.close()

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
            episode.step(action)
            calls.append(("step", {"action": action}))
        episode.close()
        return calls
