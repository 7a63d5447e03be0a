"""NeMo Gym's grl_tetris: clear a line of a small board."""

import re
from typing import Any

from resources_servers.grl_tetris.tetris_env import TetrisEnv

LEFT, RIGHT, DOWN = range(3)
MOVES = 100
WORDS = ["left", "right", "down"]
ACTION = re.compile(r"<action>\s*(left|right|down|[0-2])\s*</action>", re.IGNORECASE)


class Tetris:
    """One game, with pieces of `box_type`, drawn by `seed`. It ends with a full line.

    NeMo Gym draws a random number of pieces before it sets the seed, and the weight of
    each shape is lower the more often it was drawn. `drawn` says how often; without it,
    the seed alone decides.
    """

    blocking = False
    reward_range = (-0.1 * MOVES, 20.0)

    def __init__(self, task: dict[str, Any]) -> None:
        self._game = TetrisEnv({"box_type": task.get("box_type", 3)})
        shapes = len(self._game.shapes)
        self._game._shape_counts = list(task.get("drawn") or [0] * shapes)
        self._board: str = self._game.reset(seed=task["seed"])
        self._reward, self._moves, self._over = 0.0, 0, False

    def look(self) -> str:
        """See the board: _ is empty, # is settled, X is the falling piece."""
        return self._board

    def left(self) -> str:
        """Move the piece to the left."""
        return self._move(LEFT)

    def right(self) -> str:
        """Move the piece to the right."""
        return self._move(RIGHT)

    def down(self) -> str:
        """Move the piece down by one."""
        return self._move(DOWN)

    def reward(self) -> float:
        """10.0 for each full line, and -0.1 for each move."""
        return self._reward

    def _move(self, action: int) -> str:
        if self._over:
            raise ValueError("the game is over")
        self._board, reward, self._over, _ = self._game.step(action)
        self._reward += float(reward)
        self._moves += 1
        self._over = self._over or self._moves == MOVES
        return self._board


class TalkingTetris(Tetris):
    """The same game, with moves in messages, as in NeMo Gym. The rows show the board."""

    def observation(self) -> str:
        return self._board

    def reply(self, answer: str) -> str | None:
        """The board after all moves of a message. None ends the game."""
        actions = ACTION.findall(answer)
        if not actions:
            raise ValueError("write <action>Left</action>, Right or Down")
        for word in map(str.lower, actions):
            self._move(WORDS.index(word) if word in WORDS else int(word))
            if self._over:
                return None
        return self._board
