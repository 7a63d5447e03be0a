"""Puzzles of reasoning-gym, made from a seed and scored by the library."""

from typing import Any

import reasoning_gym


class Puzzles:
    """One puzzle: the first of the data set `name` with the seed `seed`."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._data, self._entry = puzzle(task)

    def observation(self) -> str:
        """The question."""
        return self._entry["question"]

    def reward(self, answer: str) -> float:
        """The library's score of the last message."""
        return float(self._data.score_answer(answer.strip() or None, self._entry))

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return puzzle(task)[1]["answer"]


def puzzle(task: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The data set of a task, and its only entry."""
    data = reasoning_gym.create_dataset(task["name"], size=1, seed=task["seed"])
    return data, data[0]
