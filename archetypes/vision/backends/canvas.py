"""The desktop, drawn with Pillow: no browser, no system fonts, always the same bytes.

Time is virtual: nothing on the screen changes on its own, so wait() returns at once.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

from PIL import Image, ImageDraw, ImageFont

_WALLPAPER = "#27496d"
_TASKBAR = "#16293f"
_WHITE = "#ffffff"
_BAR = "#e8edf3"
_LINE = "#c5ceda"
_INK = "#1d2733"
_MUTED = "#5b6b7d"
_ACCENT = "#2563eb"
_SELECTION = "#bfd7ff"
_GREEN = "#15803d"

_TASKBAR_HEIGHT = 40
_PADDING = 12  # between the edge of a field and its text
_SCROLLBAR = 14  # width of the scroll bar at the right edge of the view
_OVERLAP = 40  # pixels that PageUp and PageDown keep in sight
_MARGIN = 20  # kept free around a control that is scrolled into view
_SMOOTH = 4  # shapes are drawn this much larger, then reduced: that smooths their edges


class _Box(NamedTuple):
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

    def moved(self, dx: int, dy: int) -> _Box:
        return self._replace(left=self.left + dx, top=self.top + dy)

    def inset(self, by: int) -> _Box:
        return _Box(
            self.left + by, self.top + by, self.width - 2 * by, self.height - 2 * by
        )


class _Text:
    """The value of a text field; the selection runs from anchor to caret."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.anchor = self.caret = len(value)

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
        start, end = self.selection
        self.value = self.value[:start] + text + self.value[end:]
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


class Desktop:
    """A desktop with one window that shows the form.

    `form` is what lay_out() beside the environment class returns; `values` maps the
    name of each field to the value that it opens with. Points are pixels from the top
    left corner of the screen. The caller has checked points, keys and text.
    """

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._form = form
        self._view = _Box(*form["view"])
        self._controls = {control["name"]: control for control in form["controls"]}
        self._boxes = {
            name: _Box(*control["box"]) for name, control in self._controls.items()
        }
        self._values = dict(values)
        self._texts = {
            name: _Text(values[name])
            for name, control in self._controls.items()
            if control["kind"] == "text"
        }
        self._focus: str | None = None
        self._highlight: int | None = (
            None  # a row of the list the focused drop-down has open
        )
        self._scroll = 0
        self._saved: dict[str, Any] | None = None
        self._backdrop = self._draw_backdrop()

    # Actions

    def click(self, x: int, y: int, count: int = 1) -> None:
        """Press and release the left button count times at the same point."""
        for _ in range(count):
            self._click(x, y)
        if (
            count == 2
            and self._focus in self._texts
            and self._control_at(x, y) == self._focus
        ):
            self._texts[self._focus].select_word()

    def scroll(self, x: int, y: int, dy: int) -> None:
        """Scroll the form by dy pixels if the point is over it."""
        if self._view.holds(x, y):
            self._highlight = None
            self._scroll_to(self._scroll + dy)

    def type(self, text: str) -> None:
        """Insert text into the focused text field, if one is."""
        if self._focus in self._texts:
            self._texts[self._focus].insert(text)
            self._values[self._focus] = self._texts[self._focus].value
            self._reveal(self._focus)

    def key(self, key: str) -> None:
        """Press one key; what it does depends on the focused control."""
        page = self._view.height - _OVERLAP
        match key:
            case "Tab":
                self._step_focus(1)
            case "shift+Tab":
                self._step_focus(-1)
            case "PageUp":
                self._scroll_to(self._scroll - page)
            case "PageDown":
                self._scroll_to(self._scroll + page)
            case _ if self._focus is not None:
                self._press(self._focus, key)

    def wait(self, seconds: float) -> None:
        """Do nothing: there is no clock here."""

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    # What is seen and known

    def state(self) -> dict[str, Any]:
        """The form's state, as state() of the environment class describes it."""
        return {
            "values": dict(self._values),
            "focus": self._focus,
            "open": None if self._highlight is None else self._focus,
            "scroll": self._scroll,
            "saved": self._saved,
        }

    def screenshot(self) -> bytes:
        """The screen as a PNG file."""
        screen = self._backdrop.copy()
        screen.paste(self._draw_view(), self._view[:2])
        self._draw_status(screen)
        if self._highlight is not None:
            self._draw_list(screen)
        png = io.BytesIO()
        # A palette makes the file a third of the size and quicker to compress.
        palette = screen.quantize(
            256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        palette.save(png, "PNG")
        return png.getvalue()

    # Mouse and focus

    def _click(self, x: int, y: int) -> None:
        if self._highlight is not None and self._list_box().holds(x, y):
            self._choose((y - self._list_box().top) // self._form["option"])
            return
        was_open = self._focus if self._highlight is not None else None
        self._highlight = None
        if self._view.holds(x, y) and x >= self._view.right - _SCROLLBAR:
            self._page_towards(y)
            return
        self._focus = name = self._control_at(x, y)
        if name is None:
            return
        match self._controls[name]["kind"]:
            case "text":
                self._texts[name].move(self._character_at(name, x))
            case "check":
                self._values[name] = not self._values[name]
            case "choice" if was_open != name:
                self._open(name)
            case "button":
                self._save()

    def _control_at(self, x: int, y: int) -> str | None:
        if not self._view.holds(x, y):
            return None
        return next(
            (name for name in self._boxes if self._on_screen(name).holds(x, y)), None
        )

    def _on_screen(self, name: str) -> _Box:
        return self._boxes[name].moved(self._view.left, self._view.top - self._scroll)

    def _step_focus(self, step: int) -> None:
        self._highlight = None
        names = list(self._controls)
        if self._focus is None:
            self._focus = names[0 if step > 0 else -1]
        else:
            self._focus = names[(names.index(self._focus) + step) % len(names)]
        if self._focus in self._texts:
            self._texts[self._focus].press("ctrl+a")
        self._reveal(self._focus)

    def _press(self, name: str, key: str) -> None:
        kind = self._controls[name]["kind"]
        self._reveal(name)
        if kind == "choice":
            self._press_choice(name, key)
        elif key == "Enter" or (kind == "button" and key == "space"):
            self._save()
        elif kind == "text":
            self._texts[name].press(key)
            self._values[name] = self._texts[name].value
        elif kind == "check" and key == "space":
            self._values[name] = not self._values[name]

    def _save(self) -> None:
        self._saved = dict(self._values)

    # Scrolling

    def _scroll_to(self, offset: int) -> None:
        self._scroll = max(0, min(offset, self._form["height"] - self._view.height))

    def _reveal(self, name: str) -> None:
        """Scroll no further than it takes to show the control with its label."""
        box = self._boxes[name]
        lowest = box.top - self._form["label"] - _MARGIN
        highest = box.bottom + _MARGIN - self._view.height
        self._scroll_to(min(max(self._scroll, highest), lowest))

    def _thumb(self) -> _Box:
        """The scroll bar's handle, relative to the view."""
        visible, whole = self._view.height, self._form["height"]
        height = min(visible, visible * visible // whole)
        top = self._scroll * visible // whole
        return _Box(self._view.width - _SCROLLBAR + 3, top, 8, height)

    def _page_towards(self, y: int) -> None:
        thumb = self._thumb().moved(0, self._view.top)
        if y < thumb.top:
            self.key("PageUp")
        elif y >= thumb.bottom:
            self.key("PageDown")

    # Drop-downs

    def _open(self, name: str) -> None:
        options = self._controls[name]["options"]
        self._highlight = options.index(self._values[name]) if self._values[name] else 0

    def _choose(self, row: int) -> None:
        self._values[self._focus] = self._controls[self._focus]["options"][row]
        self._highlight = None

    def _press_choice(self, name: str, key: str) -> None:
        last = len(self._controls[name]["options"]) - 1
        match key:
            case "Enter" | "space" | "Up" | "Down" if self._highlight is None:
                self._open(name)
            case _ if self._highlight is None:
                pass
            case "Enter" | "space":
                self._choose(self._highlight)
            case "Escape":
                self._highlight = None
            case "Up":
                self._highlight = max(0, self._highlight - 1)
            case "Down":
                self._highlight = min(last, self._highlight + 1)
            case "Home":
                self._highlight = 0
            case "End":
                self._highlight = last

    def _list_box(self) -> _Box:
        """The open list: below its drop-down, or above it if it does not fit below."""
        field = self._on_screen(self._focus)
        height = len(self._controls[self._focus]["options"]) * self._form["option"]
        fits = field.bottom + height <= self._view.bottom
        return field._replace(
            top=field.bottom if fits else field.top - height, height=height
        )

    # Text metrics

    def _text_shift(self, name: str) -> float:
        """How far the text of a field is moved left so that its caret shows."""
        text = self._texts[name]
        room = self._boxes[name].width - 2 * _PADDING - 2
        return max(0.0, _edges(text.value)[text.caret] - room)

    def _character_at(self, name: str, x: int) -> int:
        edges = _edges(self._texts[name].value)
        offset = x - self._on_screen(name).left - _PADDING + self._text_shift(name)
        return min(range(len(edges)), key=lambda end: abs(edges[end] - offset))

    # Drawing

    def _draw_backdrop(self) -> Image.Image:
        """All that never changes: the wallpaper, the task bar and the window's frame."""
        width, height = self._form["screen"]
        window = _Box(*self._form["window"])
        title = self._form["title"]
        screen = Image.new("RGB", (width, height), _WALLPAPER)
        _panel(screen, window.inset(-1), _WHITE, border="#0f2236", radius=10)
        pen = ImageDraw.Draw(screen)
        bar = window._replace(height=self._view.top - window.top)
        _panel(screen, bar, _BAR, radius=9)
        pen.rectangle(
            (bar.left, bar.bottom - 10, bar.right - 1, bar.bottom - 1), fill=_BAR
        )
        pen.line((bar.left, bar.bottom - 1, bar.right - 1, bar.bottom - 1), fill=_LINE)
        middle = bar.top + bar.height // 2
        for index, color in enumerate(("#f26d6d", "#f4bf4f", "#61c554")):
            dot = _Box(bar.left + 18 + 22 * index, middle - 6, 12, 12)
            _panel(screen, dot, color, radius=6)
        pen.text(
            (bar.left + bar.width // 2, middle), title, _INK, _font(16), anchor="mm"
        )

        taskbar = _Box(0, height - _TASKBAR_HEIGHT, width, _TASKBAR_HEIGHT)
        pen.rectangle((0, taskbar.top, width, height), fill=_TASKBAR)
        _panel(screen, _Box(8, taskbar.top + 5, 170, 30), "#2c4a6e", radius=6)
        _panel(screen, _Box(18, taskbar.top + 13, 14, 14), _ACCENT, radius=3)
        pen.text((42, taskbar.top + 20), title, _WHITE, _font(14), anchor="lm")
        return screen

    def _draw_status(self, screen: Image.Image) -> None:
        window = _Box(*self._form["window"])
        if self._saved is None:
            text, color = "Not saved yet", _MUTED
        elif self._saved == self._values:
            text, color = "Record saved", _GREEN
        else:
            text, color = "Changed since the last save", _MUTED
        pen = ImageDraw.Draw(screen)
        pen.line(
            (window.left, self._view.bottom, window.right - 1, self._view.bottom),
            fill=_LINE,
        )
        middle = (self._view.bottom + window.bottom) // 2
        _panel(screen, _Box(window.left + 20, middle - 4, 8, 8), color, radius=4)
        pen.text((window.left + 38, middle), text, color, _font(), anchor="lm")

    def _draw_view(self) -> Image.Image:
        view = Image.new("RGB", (self._view.width, self._view.height), _WHITE)
        for name, control in self._controls.items():
            box = self._boxes[name].moved(0, -self._scroll)
            if box.bottom < 0 or box.top - self._form["label"] > self._view.height:
                continue
            match control["kind"]:
                case "text":
                    self._draw_text_field(view, name, box)
                case "choice":
                    self._draw_choice(view, name, box)
                case "check":
                    self._draw_check(view, name, box)
                case "button":
                    self._draw_button(view, name, box)
        _panel(view, self._thumb(), "#9aa8b8", radius=4)
        return view

    def _draw_frame(self, view: Image.Image, name: str, box: _Box) -> None:
        """The label and the border of a text field or a drop-down, with its focus ring."""
        label = self._controls[name]["label"]
        pen = ImageDraw.Draw(view)
        pen.text((box.left, box.top - 11), label, _MUTED, _font(14), anchor="lm")
        focused = name == self._focus
        if focused:
            _panel(view, box.inset(-2), _SELECTION, radius=8)
        _panel(view, box, _WHITE, border=_ACCENT if focused else _LINE)

    def _draw_text_field(self, view: Image.Image, name: str, box: _Box) -> None:
        self._draw_frame(view, name, box)
        text = self._texts[name]
        inner = box._replace(
            left=box.left + _PADDING - 2, width=box.width - 2 * _PADDING + 4
        )
        inner = inner._replace(top=box.top + 4, height=box.height - 8)
        # Drawn on a piece of its own, so that long text ends at the edge of the field.
        piece = Image.new("RGB", (inner.width, inner.height), _WHITE)
        pen = ImageDraw.Draw(piece)
        edges = _edges(text.value)
        origin = 2 - self._text_shift(name)
        start, end = (origin + edges[at] for at in text.selection)
        if name == self._focus:
            if start != end:
                pen.rectangle((start, 3, end, inner.height - 4), fill=_SELECTION)
            caret = origin + edges[text.caret]
            pen.line((caret, 4, caret, inner.height - 5), fill=_INK)
        # Only what shows, with a character more at both ends.
        first = max(0, bisect_right(edges, -origin) - 2)
        last = bisect_left(edges, inner.width - origin) + 1
        at = (origin + edges[first], inner.height // 2)
        pen.text(at, text.value[first:last], _INK, _font(), anchor="lm")
        view.paste(piece, inner[:2])

    def _draw_choice(self, view: Image.Image, name: str, box: _Box) -> None:
        self._draw_frame(view, name, box)
        value = self._values[name]
        pen = ImageDraw.Draw(view)
        middle = box.top + box.height // 2
        text, color = (value, _INK) if value else ("Choose...", _MUTED)
        pen.text((box.left + _PADDING, middle), text, color, _font(), anchor="lm")
        _stroke(view, (box.right - 26, middle - 7), ((2, 5), (7, 10), (12, 5)), _MUTED)

    def _draw_check(self, view: Image.Image, name: str, box: _Box) -> None:
        middle = box.top + box.height // 2
        square = _Box(box.left, middle - 10, 20, 20)
        if name == self._focus:
            _panel(view, square.inset(-2), _SELECTION, radius=7)
        if self._values[name]:
            _panel(view, square, _ACCENT, radius=5)
            _stroke(
                view,
                (square.left + 3, square.top + 3),
                ((2, 7), (6, 11), (12, 4)),
                _WHITE,
            )
        else:
            border = _ACCENT if name == self._focus else _MUTED
            _panel(view, square, _WHITE, border=border, radius=5)
        label = self._controls[name]["label"]
        ImageDraw.Draw(view).text(
            (box.left + 32, middle), label, _INK, _font(), anchor="lm"
        )

    def _draw_button(self, view: Image.Image, name: str, box: _Box) -> None:
        if name == self._focus:
            _panel(view, box.inset(-3), _SELECTION, radius=9)
        _panel(view, box, _ACCENT)
        center = (box.left + box.width // 2, box.top + box.height // 2)
        label = self._controls[name]["label"]
        ImageDraw.Draw(view).text(center, label, _WHITE, _font(16), anchor="mm")

    def _draw_list(self, screen: Image.Image) -> None:
        box = self._list_box()
        _panel(screen, box.inset(-1), _WHITE, border=_MUTED)
        pen = ImageDraw.Draw(screen)
        row = box._replace(height=self._form["option"])
        for index, option in enumerate(self._controls[self._focus]["options"]):
            if index == self._highlight:
                _panel(screen, row.inset(2), _ACCENT, radius=4)
            color = _WHITE if index == self._highlight else _INK
            middle = row.top + row.height // 2
            pen.text((row.left + _PADDING, middle), option, color, _font(), anchor="lm")
            row = row.moved(0, row.height)


@lru_cache
def _font(size: int = 15) -> ImageFont.FreeTypeFont:
    """Pillow's own font: the same glyphs on every machine."""
    return ImageFont.load_default(size)


@lru_cache(maxsize=64)
def _edges(text: str) -> list[float]:
    """Where each character of `text` begins, in pixels, and where the last one ends."""
    return list(accumulate(map(_step, ["", *text], text), initial=0.0))


@lru_cache(maxsize=10_000)
def _step(before: str, character: str) -> float:
    """How far `character` moves the pen behind the character `before`."""
    return _font().getlength(before + character) - _font().getlength(before)


@lru_cache(maxsize=64)
def _rounded(width: int, height: int, radius: int) -> Image.Image:
    """A mask of a rectangle with smooth round corners."""
    mask = Image.new("L", (width * _SMOOTH, height * _SMOOTH))
    corner = (mask.width - 1, mask.height - 1)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, *corner), radius * _SMOOTH, fill=255)
    return mask.resize((width, height), Image.Resampling.BOX)


def _panel(
    image: Image.Image, box: _Box, fill: str, border: str | None = None, radius: int = 6
) -> None:
    """Fill a rectangle with round corners; `border` is the color of a line around it."""
    image.paste(border or fill, box[:2], _rounded(box.width, box.height, radius))
    if border:
        _panel(image, box.inset(1), fill, radius=radius - 1)


def _stroke(
    image: Image.Image,
    at: tuple[int, int],
    points: tuple[tuple[int, int], ...],
    color: str,
) -> None:
    """Draw a smooth line of two pixels through the points of a square of 14 pixels."""
    mask = Image.new("L", (14 * _SMOOTH, 14 * _SMOOTH))
    path = [(x * _SMOOTH, y * _SMOOTH) for x, y in points]
    ImageDraw.Draw(mask).line(path, fill=255, width=2 * _SMOOTH, joint="curve")
    image.paste(color, at, mask.resize((14, 14), Image.Resampling.BOX))


def missing() -> str | None:
    """What this machine lacks to run an episode: nothing."""
    return None
