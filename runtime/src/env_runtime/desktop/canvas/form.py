"""The form: its values, and what a mouse and a keyboard do to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .shapes import Box
from .text_field import TextField

PADDING = 12  # pixels between the edge of a field and its text
SCROLLBAR = 14  # width of the scroll bar at the right edge of the view
_OVERLAP = 40  # pixels that PageUp and PageDown keep in sight
_MARGIN = 20  # pixels around a control that is scrolled into view


class Form:
    """The form in its window.

    `layout` is what lay_out() beside the environment class returns; `values` maps the
    name of each field to the value that it opens with. Points are pixels of the screen.
    """

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
            self._page_towards(y)
            return
        self.focus = name = self._control_at(x, y)
        if name is None:
            return
        match self.controls[name]["kind"]:
            case "text":
                self.texts[name].move(self._character_at(name, x))
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

    def _character_at(self, name: str, x: int) -> int:
        left = self._on_screen(name).left + PADDING
        return self.texts[name].character_at(x - left)

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

    def _page_towards(self, y: int) -> None:
        thumb = self.thumb().moved(0, self.view.top)
        if y < thumb.top:
            self.key("PageUp")
        elif y >= thumb.bottom:
            self.key("PageDown")

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
