"""Wordle, with no framework around it."""

from __future__ import annotations

from collections import Counter
from typing import Any

WORD_LENGTH = 5
MAX_GUESSES = 6


def _word(text: str) -> str:
    """`text` in lower case. Raises ValueError if it is not five letters a to z."""
    word = text.strip().lower()
    if len(word) != WORD_LENGTH or not (word.isascii() and word.isalpha()):
        raise ValueError(f"{text!r} is not a word of five letters, a to z")
    return word


def _marks(guess: str, target: str) -> list[str]:
    """`correct`, `present` or `absent` for each letter of `guess`.

    A letter is present as often as the target still holds it: with the target `crane`,
    the second e of `speed` is absent.
    """
    left = Counter(t for g, t in zip(guess, target, strict=True) if g != t)
    marks = []
    for g, t in zip(guess, target, strict=True):
        if g == t:
            marks.append("correct")
        elif left[g]:
            left[g] -= 1
            marks.append("present")
        else:
            marks.append("absent")
    return marks


class DomainClass:
    """One game of Wordle: find a hidden five-letter word in six guesses.

    `task` may hold `target`, the hidden word. Without one the word is "crane".
    """

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._target = _word(task.get("target", "crane"))
        self._guesses: list[str] = []

    def guess(self, word: str) -> str:
        """Guess the hidden word.

        Args:
            word: A guess of exactly five letters, a to z.

        Returns:
            One line of feedback, such as `Guess 2 of 6: C correct, R absent, A present,
            N absent, E absent.`, and a second line when the game ends.

        Raises:
            ValueError: `word` is not a guess, or the game is over.
        """
        if self._target in self._guesses:
            raise ValueError("the game is over: the word is solved")
        if len(self._guesses) == MAX_GUESSES:
            raise ValueError("the game is over: all six guesses are used")
        guess = _word(word)
        self._guesses.append(guess)
        feedback = ", ".join(
            f"{letter.upper()} {mark}"
            for letter, mark in zip(guess, _marks(guess, self._target), strict=True)
        )
        output = f"Guess {len(self._guesses)} of {MAX_GUESSES}: {feedback}."
        if guess == self._target:
            output += f"\nSolved: the hidden word is {self._target.upper()}."
        elif len(self._guesses) == MAX_GUESSES:
            output += f"\nLost: it was {self._target.upper()}."
        return output

    def reward(self) -> float:
        """1.0 if a guess was the hidden word, else 0.0."""
        return float(self._target in self._guesses)

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The tool calls that solve `task`: (tool, arguments) pairs."""
        return [("guess", {"word": task["target"]})]
