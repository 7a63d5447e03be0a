"""A text field: its value, its caret, and what keys do to them."""

from __future__ import annotations

import re

from .shapes import edges

# The most characters in a field, like `maxlength` in the page of the other backends
MAX_LENGTH = 1000


class TextField:
    """The value of a text field; the selection runs from anchor to caret.

    `room` is the width of its text in pixels.
    """

    def __init__(self, value: str, room: int) -> None:
        self.value = value
        self._measured, self._ends = "", [0.0]
        self._room = room
        self.anchor = self.caret = len(value)

    @property
    def ends(self) -> list[float]:
        """The pixels at which the characters begin, and the last one ends."""
        if self._measured != self.value:
            self._measured, self._ends = self.value, edges(self.value)
        return self._ends

    @property
    def selection(self) -> tuple[int, int]:
        return min(self.anchor, self.caret), max(self.anchor, self.caret)

    def move(self, caret: int) -> None:
        self.anchor = self.caret = max(0, min(caret, len(self.value)))

    def select(self, start: int, end: int) -> None:
        self.anchor, self.caret = start, end

    def select_word(self) -> None:
        for word in re.finditer(r"\w+|\W+", self.value):
            if word.start() <= self.caret <= word.end():
                self.select(*word.span())
                return

    def insert(self, text: str) -> None:
        """Replace the selection with as much of the text as the field holds."""
        start, end = self.selection
        before, after = self.value[:start], self.value[end:]
        text = text[: max(0, MAX_LENGTH - len(before) - len(after))]
        self.value = before + text + after
        self.move(start + len(text))

    def delete(self, step: int) -> None:
        """Delete the selection, else the character before (-1) or after (1) the caret."""
        if self.anchor == self.caret:
            self.anchor = max(0, min(self.caret + step, len(self.value)))
        self.insert("")

    def press(self, key: str) -> None:
        start, end = self.selection
        match key:
            case "space":
                self.insert(" ")
            case "Backspace":
                self.delete(-1)
            case "Delete":
                self.delete(1)
            case "ctrl+a":
                self.select(0, len(self.value))
            case "Left":
                self.move(start if start != end else start - 1)
            case "Right":
                self.move(end if start != end else end + 1)
            case "Home" | "Up":
                self.move(0)
            case "End" | "Down":
                self.move(len(self.value))

    @property
    def shift(self) -> float:
        """How far the text is moved left so that the caret shows, in pixels."""
        return max(0.0, self.ends[self.caret] - self._room)

    def character_at(self, x: float) -> int:
        """The place between two characters that is nearest to `x`.

        `x` counts pixels from the left edge of the text that shows.
        """
        ends = self.ends
        offset = x + self.shift
        return min(range(len(ends)), key=lambda end: abs(ends[end] - offset))
