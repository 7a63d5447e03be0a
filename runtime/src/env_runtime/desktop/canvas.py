"""The desktop, drawn with Pillow: no browser, no system fonts, always the same bytes.

Time is virtual: nothing on the screen changes on its own, so wait() returns at once.
"""

from __future__ import annotations

import io
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from PIL import Image, ImageDraw

from .form import PADDING, Box, Form, font

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
# Screens as PNG files by what they show: episodes of a task have most of theirs in common
_SCREENS: dict[str, bytes] = {}
_MOST_SCREENS = 300  # of about 10 KB

_SMOOTH = 4  # shapes are drawn this much larger, then reduced: that smooths their edges


class Desktop(Form):
    """A desktop with one window that shows the form."""

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        super().__init__(form, values)
        self._layout = repr(form)

    def wait(self, seconds: float) -> None:
        """Do nothing: this desktop has no clock."""

    def screenshot(self) -> bytes:
        """The screen as a PNG file."""
        texts = [(one.value, one.anchor, one.caret) for one in self.texts.values()]
        place = self.focus, self.highlight, self.offset
        shown = repr((self._layout, self.values, self.saved, texts, place))
        if (png := _SCREENS.get(shown)) is None:
            if len(_SCREENS) >= _MOST_SCREENS:
                _SCREENS.clear()
            png = _SCREENS[shown] = self._draw_png()
        return png

    def _draw_png(self) -> bytes:
        png = io.BytesIO()
        # A palette makes the file a third of the size and quicker to compress.
        palette = self._draw_screen().quantize(
            256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        palette.save(png, "PNG")
        return png.getvalue()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _draw_screen(self) -> Image.Image:
        """The whole screen as it is now."""
        screen = self._backdrop.copy()
        screen.paste(self._draw_view(), self.view[:2])
        self._draw_status(screen)
        if self.open:
            self._draw_list(screen, self.open)
        return screen

    @cached_property
    def _backdrop(self) -> Image.Image:
        """The parts that never change: wallpaper, task bar and the window's frame."""
        width, height = self.layout["screen"]
        window = Box(*self.layout["window"])
        title = self.layout["title"]
        screen = Image.new("RGB", (width, height), _WALLPAPER)
        panel(screen, window.inset(-1), _WHITE, border="#0f2236", radius=10)
        pen = ImageDraw.Draw(screen)
        bar = window._replace(height=self.view.top - window.top)
        panel(screen, bar, _BAR, radius=9)
        pen.rectangle(
            (bar.left, bar.bottom - 10, bar.right - 1, bar.bottom - 1), fill=_BAR
        )
        pen.line((bar.left, bar.bottom - 1, bar.right - 1, bar.bottom - 1), fill=_LINE)
        middle = bar.top + bar.height // 2
        for index, color in enumerate(("#f26d6d", "#f4bf4f", "#61c554")):
            dot = Box(bar.left + 18 + 22 * index, middle - 6, 12, 12)
            panel(screen, dot, color, radius=6)
        center = (bar.left + bar.width // 2, middle)
        write(screen, center, title, size=16, anchor="mm")

        taskbar = Box(0, height - _TASKBAR_HEIGHT, width, _TASKBAR_HEIGHT)
        pen.rectangle((0, taskbar.top, width, height), fill=_TASKBAR)
        panel(screen, Box(8, taskbar.top + 5, 170, 30), "#2c4a6e", radius=6)
        panel(screen, Box(18, taskbar.top + 13, 14, 14), _ACCENT, radius=3)
        write(screen, (42, taskbar.top + 20), title, _WHITE, 14)
        return screen

    def _draw_status(self, screen: Image.Image) -> None:
        window, top = Box(*self.layout["window"]), self.view.bottom
        if self.saved is None:
            text, color = "Not saved yet", _MUTED
        elif self.saved == self.values:
            text, color = "Record saved", _GREEN
        else:
            text, color = "Changed since the last save", _MUTED
        pen = ImageDraw.Draw(screen)
        pen.line((window.left, top, window.right - 1, top), fill=_LINE)
        middle = (top + window.bottom) // 2
        panel(screen, Box(window.left + 20, middle - 4, 8, 8), color, radius=4)
        write(screen, (window.left + 38, middle), text, color)

    def _draw_view(self) -> Image.Image:
        view = Image.new("RGB", (self.view.width, self.view.height), _WHITE)
        for name, control in self.controls.items():
            box = self.boxes[name].moved(0, -self.offset)
            if box.bottom < 0 or box.top - self.layout["label"] > self.view.height:
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
        panel(view, self.thumb(), "#9aa8b8", radius=4)
        return view

    def _draw_frame(self, view: Image.Image, name: str, box: Box) -> None:
        """The label and the border of a text field or a drop-down, with its focus ring."""
        label = self.controls[name]["label"]
        write(view, (box.left, box.top - 11), label, _MUTED, 14)
        focused = name == self.focus
        if focused:
            panel(view, box.inset(-2), _SELECTION, radius=8)
        panel(view, box, _WHITE, border=_ACCENT if focused else _LINE)

    def _draw_text_field(self, view: Image.Image, name: str, box: Box) -> None:
        self._draw_frame(view, name, box)
        text = self.texts[name]
        inner = box._replace(
            left=box.left + PADDING - 2, width=box.width - 2 * PADDING + 4
        )
        inner = inner._replace(top=box.top + 4, height=box.height - 8)
        # The text has its own image, so that long text ends at the edge of the field.
        piece = Image.new("RGB", (inner.width, inner.height), _WHITE)
        pen = ImageDraw.Draw(piece)
        ends = text.ends
        origin = 2 - text.shift
        start, end = (origin + ends[at] for at in text.selection)
        if name == self.focus:
            if start != end:
                pen.rectangle((start, 3, end, inner.height - 4), fill=_SELECTION)
            caret = origin + ends[text.caret]
            pen.line((caret, 4, caret, inner.height - 5), fill=_INK)
        # Draw only the characters that show, and one more at both ends.
        first = max(0, bisect_right(ends, -origin) - 2)
        last = bisect_left(ends, inner.width - origin) + 1
        at = (origin + ends[first], inner.height // 2)
        write(piece, at, text.value[first:last])
        view.paste(piece, inner[:2])

    def _draw_choice(self, view: Image.Image, name: str, box: Box) -> None:
        self._draw_frame(view, name, box)
        value = self.values[name]
        middle = box.top + box.height // 2
        text, color = (value, _INK) if value else ("Choose...", _MUTED)
        write(view, (box.left + PADDING, middle), text, color)
        stroke(view, (box.right - 26, middle - 7), ((2, 5), (7, 10), (12, 5)), _MUTED)

    def _draw_check(self, view: Image.Image, name: str, box: Box) -> None:
        middle = box.top + box.height // 2
        square = Box(box.left, middle - 10, 20, 20)
        if name == self.focus:
            panel(view, square.inset(-2), _SELECTION, radius=7)
        if self.values[name]:
            panel(view, square, _ACCENT, radius=5)
            stroke(
                view,
                (square.left + 3, square.top + 3),
                ((2, 7), (6, 11), (12, 4)),
                _WHITE,
            )
        else:
            border = _ACCENT if name == self.focus else _MUTED
            panel(view, square, _WHITE, border=border, radius=5)
        label = self.controls[name]["label"]
        write(view, (box.left + 32, middle), label)

    def _draw_button(self, view: Image.Image, name: str, box: Box) -> None:
        if name == self.focus:
            panel(view, box.inset(-3), _SELECTION, radius=9)
        panel(view, box, _ACCENT)
        center = (box.left + box.width // 2, box.top + box.height // 2)
        label = self.controls[name]["label"]
        write(view, center, label, _WHITE, 16, "mm")

    def _draw_list(self, screen: Image.Image, name: str) -> None:
        box = self.list_box(name)
        panel(screen, box.inset(-1), _WHITE, border=_MUTED)
        row = box._replace(height=self.layout["option"])
        for index, option in enumerate(self.controls[name]["options"]):
            if index == self.highlight:
                panel(screen, row.inset(2), _ACCENT, radius=4)
            color = _WHITE if index == self.highlight else _INK
            middle = row.top + row.height // 2
            write(screen, (row.left + PADDING, middle), option, color)
            row = row.moved(0, row.height)


def missing() -> str | None:
    """Return None: every machine can run an episode."""
    return None


@lru_cache(maxsize=64)
def _rounded(width: int, height: int, radius: int) -> Image.Image:
    """A mask of a rectangle with smooth round corners."""
    mask = Image.new("L", (width * _SMOOTH, height * _SMOOTH))
    corner = (mask.width - 1, mask.height - 1)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, *corner), radius * _SMOOTH, fill=255)
    return mask.resize((width, height), Image.Resampling.BOX)


def panel(
    image: Image.Image, box: Box, fill: str, border: str | None = None, radius: int = 6
) -> None:
    """Fill a rectangle with round corners; `border` is the color of a line around it."""
    image.paste(border or fill, box[:2], _rounded(box.width, box.height, radius))
    if border:
        panel(image, box.inset(1), fill, radius=radius - 1)


def write(
    image: Image.Image,
    at: tuple[float, float],
    text: str,
    color: str = _INK,
    size: int = 15,
    anchor: str = "lm",
) -> None:
    """Write a text whose middle is at `at`, from there to the right, or around it."""
    ImageDraw.Draw(image).text(at, text, color, font(size), anchor=anchor)


def stroke(
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
