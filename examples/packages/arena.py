"""TextArena's games for one player, in messages, as TextArena itself plays them."""

import re
import threading
from collections.abc import Iterator
from typing import Any

import textarena
from textarena.core import ObservationType

# TextArena draws from Python's global generator, which all episodes share.
GLOBAL_RANDOM = threading.Lock()


class Arena:
    """One game. `game` is its id in TextArena, and `seed` decides what it draws."""

    def __init__(self, task: dict[str, Any]) -> None:
        # The raw game, because the conversation has what was said before.
        self._game = textarena.make(f"{task['game']}-raw")
        with GLOBAL_RANDOM:
            self._game.reset(num_players=1, seed=task["seed"])
        self._rules, self._over = self._heard(), False

    def observation(self) -> str:
        """The rules."""
        return self._rules

    def reply(self, answer: str) -> str | None:
        """Return what the game says to a move; None ends it.

        The last move of a message counts: TextArena would take one that is taken back.
        """
        found = re.findall(r"\[[^\[\]]*\]", answer)
        self._over, _ = self._game.step(found[-1] if found else answer)
        return None if self._over else self._heard()

    def reward(self) -> float:
        """TextArena's own reward: 1.0 for the solution, and 0.0 before the end."""
        if not self._over:
            return 0.0
        rewards, _ = self._game.close()
        return float(rewards[0])

    def _heard(self) -> str:
        """Return what the game said since the last time, without the player's own words."""
        _, heard = self._game.get_observation()
        own = ObservationType.PLAYER_ACTION
        return "\n".join(text.strip() for _, text, kind in heard if kind is not own)

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[str]:
        state = cls(task)._game.state.game_state
        if "game_number" in state:
            return [f"[{state['game_number']}]"]
        if "secret_code" in state:
            return [f"[{' '.join(map(str, state['secret_code']))}]"]
        return [f"[{move}]" for move in moves(len(state["towers"]["A"]), "A", "C", "B")]


def moves(disks: int, start: str, goal: str, other: str) -> Iterator[str]:
    """The moves of TowerOfHanoi."""
    if disks:
        yield from moves(disks - 1, start, other, goal)
        yield f"{start} {goal}"
        yield from moves(disks - 1, other, goal, start)
