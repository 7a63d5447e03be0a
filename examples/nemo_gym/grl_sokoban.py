"""NeMo Gym's grl_sokoban: push a box onto its target, a step with each message."""

import re
from collections import deque
from typing import Any

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
MAX_STEPS = 100
# NeMo Gym reads a word or a number, with or without the tag.
TAGGED = re.compile(r"<action>\s*(up|down|left|right|[1-4])\s*</action>", re.IGNORECASE)
PLAIN = re.compile(r"\b(up|down|left|right|[1-4])\b", re.IGNORECASE)

Place = tuple[int, int]


def moved(place: Place, step: Place) -> Place:
    return place[0] + step[0], place[1] + step[1]


class Sokoban:
    """One puzzle. `board` has a line for each row of it.

    `#` is a wall, `_` floor, `O` a target, `X` a box, `P` the player; `√` is a box and
    `S` the player on a target. NeMo Gym's rows have the seed of a board instead.
    """

    blocking = False
    reward_range = (-0.1 * MAX_STEPS, 11.0)

    def __init__(self, task: dict[str, Any]) -> None:
        self._lines: list[str] = task["board"].splitlines()
        self._targets, self._boxes = self._all("O√S"), self._all("X√")
        [self._player] = self._all("PS")
        self._steps, self._reward = 0, 0.0

    def observation(self) -> str:
        """The board."""
        return "\n".join(
            "".join(self._shown((row, column)) for column in range(len(line)))
            for row, line in enumerate(self._lines)
        )

    def reply(self, answer: str) -> str | None:
        """The board after one step. None if it is solved, or after MAX_STEPS."""
        action = TAGGED.search(answer) or PLAIN.search(answer)
        if action is None:
            raise ValueError("write <action>Up</action>, Down, Left or Right")
        word = action[1].lower()
        step = STEPS[word] if word in STEPS else list(STEPS.values())[int(word) - 1]
        before = len(self._boxes & self._targets)
        self._player, self._boxes = self._after(self._player, self._boxes, step)
        self._steps += 1
        on_target = len(self._boxes & self._targets)
        gained = -0.1 + (on_target > before) - (on_target < before)
        self._reward += gained + 10 * self._solved
        over = self._solved or self._steps == MAX_STEPS
        return None if over else self.observation()

    def reward(self) -> float:
        """10.0 for the solution, 1.0 for a box on a target, -0.1 for each step."""
        return self._reward

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[str]:
        """The shortest solution."""
        game = cls(task)
        start = (game._player, game._boxes)
        found: dict[Any, list[str]] = {start: []}
        waiting = deque([start])
        while waiting:
            state = waiting.popleft()
            if state[1] == game._targets:
                return [f"<action>{word.title()}</action>" for word in found[state]]
            for word, step in STEPS.items():
                after = game._after(*state, step)
                if after not in found:
                    found[after] = [*found[state], word]
                    waiting.append(after)
        raise ValueError("the board has no solution")

    @property
    def _solved(self) -> bool:
        return self._boxes == self._targets

    def _all(self, kinds: str) -> frozenset[Place]:
        return frozenset(
            (row, column)
            for row, line in enumerate(self._lines)
            for column, kind in enumerate(line)
            if kind in kinds
        )

    def _after(
        self, player: Place, boxes: frozenset[Place], step: Place
    ) -> tuple[Place, frozenset[Place]]:
        """The player and the boxes after a step. A wall or a second box stops it."""
        ahead = moved(player, step)
        behind = moved(ahead, step)
        if self._is_wall(ahead) or (
            ahead in boxes and (self._is_wall(behind) or behind in boxes)
        ):
            return player, boxes
        return ahead, boxes - {ahead} | {behind} if ahead in boxes else boxes

    def _is_wall(self, place: Place) -> bool:
        return self._lines[place[0]][place[1]] == "#"

    def _shown(self, place: Place) -> str:
        on_target = place in self._targets
        if place == self._player:
            return "S" if on_target else "P"
        if place in self._boxes:
            return "√" if on_target else "X"
        if on_target:
            return "O"
        return "#" if self._is_wall(place) else "_"
