"""The form: its values, and what a mouse and a keyboard do to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from PIL import ImageFont

PADDING = 12  # pixels between the edge of a field and its text
SCROLLBAR = 14  # width of the scroll bar at the right edge of the view
_OVERLAP = 40  # pixels that PageUp and PageDown keep in sight
_MARGIN = 20  # pixels around a control that is scrolled into view
# The most characters in a field, like `maxlength` in the page of the other backends
MAX_LENGTH = 1000


class Box(NamedTuple):
    left: int
    top: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.left + self.width

    @property
    def bottom(self) -> int:
        return self.top + self.height

    def holds(self, x: int, y: int) -> bool:
        return self.left <= x < self.right and self.top <= y < self.bottom

    def moved(self, dx: int, dy: int) -> Box:
        return self._replace(left=self.left + dx, top=self.top + dy)

    def inset(self, by: int) -> Box:
        return Box(
            self.left + by, self.top + by, self.width - 2 * by, self.height - 2 * by
        )


@lru_cache
def font(size: int = 15) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font: the same glyphs on every machine."""
    return ImageFont.load_default(size)


def edges(text: str) -> list[float]:
    """The pixels at which the characters of `text` begin, and the last one ends."""
    return list(accumulate(map(_step, ["", *text], text), initial=0.0))


@lru_cache(maxsize=10_000)
def _step(before: str, character: str) -> float:
    """How far `character` moves the pen after the character `before`."""
    return font().getlength(before + character) - font().getlength(before)


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


class Form:
    """The form in its window."""

    def __init__(self, layout: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self.layout = layout
        self.view = Box(*layout["view"])
        self.controls = {control["name"]: control for control in layout["controls"]}
        self.boxes = {
            name: Box(*control["box"]) for name, control in self.controls.items()
        }
        self.values = dict(values)
        self.texts = {
            name: TextField(values[name], self.boxes[name].width - 2 * PADDING - 2)
            for name, control in self.controls.items()
            if control["kind"] == "text"
        }
        self.focus: str | None = None
        # The highlighted row in the open list of the focused drop-down.
        self.highlight: int | None = None
        self.offset = 0  # how far the content is scrolled
        self.saved: dict[str, Any] | None = None

    @property
    def open(self) -> str | None:
        """The name of the drop-down whose list is open."""
        return None if self.highlight is None else self.focus

    def state(self) -> dict[str, Any]:
        """The form's state, as state() of the environment class describes it."""
        return {
            "values": dict(self.values),
            "focus": self.focus,
            "open": self.open,
            "scroll": self.offset,
            "saved": self.saved,
        }

    def click(self, x: int, y: int, count: int = 1) -> None:
        """Press and release the left button count times at the same point."""
        for _ in range(count):
            self._click(x, y)
        if (
            count == 2
            and self.focus in self.texts
            and self._control_at(x, y) == self.focus
        ):
            self.texts[self.focus].select_word()

    def scroll(self, x: int, y: int, dy: int) -> None:
        """Scroll the form by dy pixels if the point is over it."""
        if self.view.holds(x, y):
            self.highlight = None
            self._scroll_to(self.offset + dy)

    def type(self, text: str) -> None:
        """Insert text into the focused text field, if one is."""
        name = self.focus
        if name is not None and name in self.texts:
            self.texts[name].insert(text)
            self.values[name] = self.texts[name].value
            self._reveal(name)

    def key(self, key: str) -> None:
        """Press one key; what it does depends on the focused control."""
        page = self.view.height - _OVERLAP
        match key:
            case "Tab":
                self._step_focus(1)
            case "shift+Tab":
                self._step_focus(-1)
            case "PageUp":
                self._scroll_to(self.offset - page)
            case "PageDown":
                self._scroll_to(self.offset + page)
            case _ if self.focus is not None:
                self._press(self.focus, key)

    # Mouse and focus

    def _click(self, x: int, y: int) -> None:
        was_open = self.open
        if was_open and self.list_box(was_open).holds(x, y):
            row = (y - self.list_box(was_open).top) // self.layout["option"]
            self._choose(was_open, row)
            return
        self.highlight = None
        if self.view.holds(x, y) and x >= self.view.right - SCROLLBAR:
            thumb = self.thumb().moved(0, self.view.top)
            if y < thumb.top:
                self.key("PageUp")
            elif y >= thumb.bottom:
                self.key("PageDown")
            return
        self.focus = name = self._control_at(x, y)
        if name is None:
            return
        match self.controls[name]["kind"]:
            case "text":
                left = self._on_screen(name).left + PADDING
                self.texts[name].move(self.texts[name].character_at(x - left))
            case "check":
                self.values[name] = not self.values[name]
            case "choice" if was_open != name:
                self._open_list(name)
            case "button":
                self._save()

    def _control_at(self, x: int, y: int) -> str | None:
        if not self.view.holds(x, y):
            return None
        return next(
            (name for name in self.boxes if self._on_screen(name).holds(x, y)), None
        )

    def _on_screen(self, name: str) -> Box:
        return self.boxes[name].moved(self.view.left, self.view.top - self.offset)

    def _step_focus(self, step: int) -> None:
        self.highlight = None
        names = list(self.controls)
        if self.focus is None:
            self.focus = names[0 if step > 0 else -1]
        else:
            self.focus = names[(names.index(self.focus) + step) % len(names)]
        if self.focus in self.texts:
            self.texts[self.focus].press("ctrl+a")
        self._reveal(self.focus)

    def _press(self, name: str, key: str) -> None:
        kind = self.controls[name]["kind"]
        self._reveal(name)
        if kind == "choice":
            self._press_choice(name, key)
        elif key == "Enter" or (kind == "button" and key == "space"):
            self._save()
        elif kind == "text":
            self.texts[name].press(key)
            self.values[name] = self.texts[name].value
        elif kind == "check" and key == "space":
            self.values[name] = not self.values[name]

    def _save(self) -> None:
        self.saved = dict(self.values)

    # Scrolling

    def _scroll_to(self, offset: int) -> None:
        self.offset = max(0, min(offset, self.layout["height"] - self.view.height))

    def _reveal(self, name: str) -> None:
        """Scroll just far enough to show the control with its label."""
        box = self.boxes[name]
        lowest = box.top - self.layout["label"] - _MARGIN
        highest = box.bottom + _MARGIN - self.view.height
        self._scroll_to(min(max(self.offset, highest), lowest))

    def thumb(self) -> Box:
        """The scroll bar's handle, relative to the view."""
        visible, whole = self.view.height, self.layout["height"]
        height = min(visible, visible * visible // whole)
        top = self.offset * visible // whole
        return Box(self.view.width - SCROLLBAR + 3, top, 8, height)

    # Drop-downs

    def _open_list(self, name: str) -> None:
        options = self.controls[name]["options"]
        self.highlight = options.index(self.values[name]) if self.values[name] else 0

    def _choose(self, name: str, row: int) -> None:
        self.values[name] = self.controls[name]["options"][row]
        self.highlight = None

    def _press_choice(self, name: str, key: str) -> None:
        last = len(self.controls[name]["options"]) - 1
        match key:
            case "Enter" | "space" | "Up" | "Down" if self.highlight is None:
                self._open_list(name)
            case _ if self.highlight is None:
                pass
            case "Enter" | "space":
                self._choose(name, self.highlight)
            case "Escape":
                self.highlight = None
            case "Up":
                self.highlight = max(0, self.highlight - 1)
            case "Down":
                self.highlight = min(last, self.highlight + 1)
            case "Home":
                self.highlight = 0
            case "End":
                self.highlight = last

    def list_box(self, name: str) -> Box:
        """The list of a drop-down: below it, or above it if it does not fit below."""
        field = self._on_screen(name)
        height = len(self.controls[name]["options"]) * self.layout["option"]
        fits = field.bottom + height <= self.view.bottom
        return field._replace(
            top=field.bottom if fits else field.top - height, height=height
        )
