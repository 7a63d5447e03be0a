"""How golds name options: by letter, text, label, number, or the name of a column."""

import contextlib
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..graders import Choice
from .columns import OPTION, Looked, folded
from .plan import Path, Unfit
from .records import Record


class Naming:
    """The ways in which the golds at a path may name an option, and the one that fits best."""

    def __init__(self, looked: Looked, path: Path) -> None:
        self.looked, self.path = looked, path
        self.ways = self._ways()
        # By way, the letter of each record's gold; None for a gold that it cannot read
        self.letters = {why: self._letters(way) for why, way in self.ways.items()}
        self.fits = {why: sum(map(bool, each)) for why, each in self.letters.items()}
        self.best = max(self.fits, key=lambda why: self.fits[why])

    @property
    def found(self) -> list[str | None]:
        """The letters in the best way."""
        return self.letters[self.best]

    @cached_property
    def countable(self) -> list[bool]:
        """Whether each record has a gold, and options that a choice can take."""
        return [*map(self._is_countable, self.looked.records)]

    def fit(self, share: float) -> bool:
        """Whether the best way fits so many of the records."""
        return self.fits[self.best] >= share * sum(self.countable)

    @property
    def as_good(self) -> list[str]:
        """Other ways that fit as many golds, and differ."""
        return [
            why
            for why, letters in self.letters.items()
            if why != self.best
            and self.fits[why] == self.fits[self.best]
            and any(a != b for a, b in zip(letters, self.found, strict=True) if a and b)
        ]

    def _ways(self) -> dict[str, Any]:
        """The names of options in each way, the surest first: see Columns.names."""
        options = self.looked.plan.options
        ways: dict[str, Any] = {}
        if options and options.kind == "column":
            ways["the label of an option"] = ()
        if options and options.kind == "columns":
            names = [path.column for path in options.paths]
            ways["the name of a column"] = tuple(names)
            ends = [OPTION.fullmatch(folded(name)) for name in names]
            ways["the end of a column's name"] = tuple(end[2] for end in ends if end)
        ways["a letter or the text of an option"] = None
        ways["the number of an option, from 0"] = range(26)
        ways["the number of an option, from 1"] = range(1, 27)
        return ways

    def _letters(self, way: Any) -> list[str | None]:
        plan = replace(self.looked.plan.columns, names=way, expected=self.path)
        letters: list[str | None] = []
        for record in self.looked.records:
            letter = None
            with contextlib.suppress(Unfit):
                options = plan.options.of(record) if plan.options else []
                gold = plan.letter(record, plan.gold(record))
                if Choice.takes(gold, options):
                    letter = Choice(gold, options).solution()[7:-1]
                elif way == ():  # its label is sure, though no choice takes the options
                    letter = gold
            letters.append(letter)
        return letters

    def _is_countable(self, record: Record) -> bool:
        plan = self.looked.plan
        try:
            plan.gold(record)
        except Unfit:
            return False
        options = plan.options.of(record) if plan.options else []
        return isinstance(options, int) or Choice.takes("A", options)
