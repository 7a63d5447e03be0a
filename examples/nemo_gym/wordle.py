"""NeMo Gym's wordle: six guesses, rewarded by their number, with penalties."""

from collections import Counter
from typing import Any, ClassVar

REPEATED = -0.2
GREEN_IGNORED = -0.05  # for each position whose letter is known
YELLOWS_IGNORED = -0.03  # a guess without any letter that is known to be in the word
GRAY_USED = -0.02  # for each letter that is known to be absent
NOT_A_WORD = -0.02


def marks(guess: str, target: str) -> str:
    """`G`, `Y` or `_` for each letter: in its place, in another, or too often."""
    left = Counter(t for g, t in zip(guess, target, strict=True) if g != t)
    result = ""
    for g, t in zip(guess, target, strict=True):
        if g == t:
            result += "G"
        else:
            result += "Y" if left[g] > 0 else "_"
            left[g] -= 1
    return result


class Wordle:
    """One game. `custom_target` is the word.

    The list of guesses that count as words is not in NeMo Gym's wheel: set `words`.
    """

    blocking = False
    reward_range = (0.0, 1.8)
    words: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, task: dict[str, Any]) -> None:
        self._target: str = (task.get("custom_target") or "").lower()
        self._length: int = task.get("word_length", 5)
        self._turns: int = task.get("max_turns", 6)
        if len(self._target) != self._length or self._target not in self.words:
            raise ValueError(f"custom_target must be a word, got {self._target!r}")
        self._turn = 0
        self._points = 0.0
        self._guesses: list[str] = []
        self._feedback: list[str] = []
        self._greens: dict[int, str] = {}
        self._yellows: set[str] = set()
        self._grays: set[str] = set()
        self._won = False

    @property
    def _over(self) -> bool:
        return self._won or self._turn >= self._turns

    def submit_guess(self, guess: str) -> dict[str, Any]:
        """Guess the word.

        Args:
            guess: An English word of five letters.
        """
        if self._over:
            shown = self._target.upper()
            return self._answer(error="Game is already over.", target_word=shown)
        guess = guess.lower().strip()
        self._turn += 1
        if problem := self._problem(guess):
            self._points += NOT_A_WORD
            return self._answer(error=problem)
        feedback = marks(guess, self._target)
        self._won = guess == self._target
        self._points += self._prize() if self._won else self._penalty(guess)
        self._learn(guess, feedback)
        shown = self._target.upper() if self._over else None
        return self._answer(valid=True, feedback=feedback, target_word=shown)

    def check_word_validity(self, word: str) -> dict[str, Any]:
        """Ask whether a guess would be a word, which costs nothing.

        Args:
            word: The word.
        """
        word = word.lower().strip()
        if len(word) != self._length:
            reason = f"Word must be {self._length} letters, got {len(word)}"
        elif not word.isalpha():
            reason = "Word must contain only letters"
        elif word not in self.words:
            reason = f"'{word}' is not a valid English word"
        else:
            return {"valid": True, "reason": "Valid word"}
        return {"valid": False, "reason": reason}

    def get_game_state(self) -> dict[str, Any]:
        """The guesses so far, and what is known about the word."""
        greens = {str(place + 1): x.upper() for place, x in self._greens.items()}
        return {
            "turn": self._turn,
            "turns_remaining": self._turns - self._turn,
            "guesses": [guess.upper() for guess in self._guesses],
            "feedback_history": self._feedback,
            "known_greens": greens,
            "known_yellows": sorted(letter.upper() for letter in self._yellows),
            "eliminated_letters": sorted(letter.upper() for letter in self._grays),
            "game_over": self._over,
            "won": self._won,
        }

    def reward(self) -> float:
        """0.0 for a game that is lost or not finished, else at least 0.1."""
        return max(self._points, 0.1) if self._won else 0.0

    def metrics(self) -> dict[str, float]:
        turns = float(self._turn) if self._won else 0.0
        return {"turns_used": self._turn, "won": self._won, "turns_if_won": turns}

    @classmethod
    def oracle(cls, task: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
        """Another word, then the right one: a first guess that is right earns less."""
        target = task["custom_target"]
        guesses = [min(cls.words - {target}), target]
        return [("submit_guess", {"guess": guess}) for guess in guesses]

    # ------------------------------------------------------------------ the rules

    def _problem(self, guess: str) -> str:
        """What is wrong with a guess; "" if nothing is."""
        if len(guess) != self._length:
            return f"Guess must be {self._length} letters. Got {len(guess)} letters."
        known = guess in self.words
        return "" if known else f"'{guess}' is not a valid English word."

    def _prize(self) -> float:
        """1.8 in the second turn, 0.2 less in each later one. A first turn is luck."""
        turn = 3 if self._turn == 1 else self._turn
        return 2.0 - 0.2 * (turn - 1)

    def _penalty(self, guess: str) -> float:
        penalty = REPEATED if guess in self._guesses else 0.0
        for place, letter in self._greens.items():
            if guess[place] != letter:
                penalty += GREEN_IGNORED
        if self._yellows and self._yellows.isdisjoint(guess):
            penalty += YELLOWS_IGNORED
        for letter in guess:
            if letter in self._grays:
                penalty += GRAY_USED
        return penalty

    def _learn(self, guess: str, feedback: str) -> None:
        self._guesses.append(guess)
        self._feedback.append(feedback)
        pairs = list(zip(guess, feedback, strict=True))
        for place, (letter, mark) in enumerate(pairs):
            if mark == "G":
                self._greens[place] = letter
            elif mark == "Y":
                self._yellows.add(letter)
        present = self._yellows.union(self._greens.values())
        self._grays |= {letter for letter, mark in pairs if mark == "_"} - present

    def _answer(self, *, valid: bool = False, **values: Any) -> dict[str, Any]:
        over = self._over
        return {
            "valid": valid,
            "feedback": None,
            "won": self._won,
            "game_over": over,
            "turn": self._turn,
            "turns_remaining": 0 if over else self._turns - self._turn,
            "error": None,
            "target_word": None,
            **values,
        }
