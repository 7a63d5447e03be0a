"""TextArena's Mastermind: a code of four different digits from 1 to 6."""

import threading
from typing import Annotated, Any

import textarena
from pydantic import Field

Digit = Annotated[int, Field(ge=1, le=6)]
Code = Annotated[list[Digit], Field(min_length=4, max_length=4)]

# TextArena draws the code from Python's global generator, which all episodes share.
GLOBAL_RANDOM = threading.Lock()


class Mastermind:
    """One game of at most 20 guesses. `seed` decides the code."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._game = textarena.make("Mastermind-v0")
        with GLOBAL_RANDOM:
            self._game.reset(num_players=1, seed=task["seed"])
        self._done = False

    def observation(self) -> str:
        """The rules."""
        return self._game.get_observation()[1].strip()

    def guess(self, code: Code) -> str:
        """Guess the code.

        Args:
            code: Four different digits.
        """
        if self._done:
            raise ValueError("the game is over")
        if len(set(code)) < 4:
            raise ValueError(f"the digits must be different, got {code}")
        self._done, info = self._game.step(f"[{' '.join(map(str, code))}]")
        if self._done:
            return f"The game is over. {info.get('reason', '')}".strip()
        return self._game.get_observation()[1].splitlines()[-1]

    def reward(self) -> float:
        """TextArena's own reward: 1.0 for the code, and 0.0 before the end."""
        if not self._done:
            return 0.0
        rewards, _ = self._game.close()
        return float(rewards[0])

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        code = cls(task)._game.state.game_state["secret_code"]
        return [("guess", {"code": code})]
