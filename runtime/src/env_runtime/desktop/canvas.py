"""The desktop, drawn with Pillow: no browser, no system fonts, always the same bytes.

Time is virtual: nothing on the screen changes on its own, so wait() returns at once.
"""

from __future__ import annotations

import io
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from PIL import Image, ImageColor, ImageDraw

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
_FRAME = "#0f2236"
_TASK = "#2c4a6e"
_THUMB = "#9aa8b8"
_DOTS = ("#f26d6d", "#f4bf4f", "#61c554")
# Each color, and what it lies on: their smooth edges have colors between the two.
_EDGES = {
    _WHITE: (_INK, _MUTED, _LINE, _ACCENT, _SELECTION, _GREEN, _THUMB),
    _SELECTION: (_INK, _ACCENT),
    _ACCENT: (_WHITE,),
    _BAR: (_INK, *_DOTS),
    _TASKBAR: (_TASK,),
    _TASK: (_WHITE, _ACCENT),
    _WALLPAPER: (_FRAME,),
    _FRAME: (_WHITE, _BAR),
}

_TASKBAR_HEIGHT = 40
_SMOOTH = 4  # shapes are drawn this much larger, then reduced: that smooths their edges
# Pixels around a control, for its focus ring, and above a field, for its label
_MARGIN, _ABOVE = 4, 24


class _Part(NamedTuple):
    """A part of the screen: where it is, and the function that draws it."""

    left: int
    top: int
    draw: Callable[..., Image.Image]
    arguments: tuple[Any, ...]

    def put(self, image: Image.Image) -> None:
        image.paste(_drawn(self.draw, *self.arguments), (self.left, self.top))


@lru_cache(maxsize=300)
def _drawn(draw: Callable[..., Image.Image], *arguments: Any) -> Image.Image:
    """Return what a function draws, in the colors of the palette.

    It is kept: episodes of a task show most of it again.
    """
    # A palette makes the file a third of the size and quicker to compress.
    dither = Image.Dither.NONE
    return draw(*arguments).quantize(palette=_palette(), dither=dither)


class Desktop(Form):
    """A desktop with one window that shows the form."""

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        super().__init__(form, values)
        self._layout = json.dumps(form)

    def wait(self, seconds: float) -> None:
        """Do nothing: this desktop has no clock."""

    def screenshot(self) -> bytes:
        """The screen as a PNG file."""
        window = Box(*self.layout["window"])
        status = self._status(), window.width, window.bottom - self.view.bottom
        parts = [_Part(window.left, self.view.bottom, _draw_status, status)]
        if self.open:
            box = self.list_box(self.open).inset(-1)
            options = tuple(self.controls[self.open]["options"])
            size = box.width, box.height, self.layout["option"]
            listed = options, self.highlight, *size
            parts.append(_Part(box.left, box.top, _draw_list, listed))
        return _screen(self._layout, tuple(self._in_view()), tuple(parts))

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _status(self) -> tuple[str, str]:
        """Return the text of the line below the form, and its color."""
        if self.saved is None:
            return "Not saved yet", _MUTED
        if self.saved == self.values:
            return "Record saved", _GREEN
        return "Changed since the last save", _MUTED

    def _in_view(self) -> Iterator[_Part]:
        """The parts of the view that scrolls, with their places in it."""
        for name, control in self.controls.items():
            box = self.boxes[name].moved(0, -self.offset)
            if box.bottom < 0 or box.top - self.layout["label"] > self.view.height:
                continue
            about = control["label"], box.width, box.height, name == self.focus
            left, top = box.left - _MARGIN, box.top - _MARGIN
            match control["kind"]:
                case "text":
                    shown = self._shown(name, box.width)
                    top = box.top - _ABOVE
                    yield _Part(left, top, _draw_text_field, (*about, *shown))
                case "choice":
                    about = *about, self.values[name] or ""
                    yield _Part(left, box.top - _ABOVE, _draw_choice, about)
                case "check":
                    yield _Part(left, top, _draw_check, (*about, self.values[name]))
                case "button":
                    yield _Part(left, top, _draw_button, about)
        thumb = self.thumb()
        yield _Part(thumb.left, thumb.top, _draw_thumb, (thumb.width, thumb.height))

    def _shown(self, name: str, width: int) -> tuple[Any, ...]:
        """Return the visible text of a field, its left edge, its selection and its caret.

        All are pixels from the left of the text's room; None for what does not show.
        """
        text = self.texts[name]
        ends, origin = text.ends, 2 - text.shift
        # Only the characters that show, and one more at both ends.
        first = max(0, bisect_right(ends, -origin) - 2)
        last = bisect_left(ends, width - 2 * PADDING + 4 - origin) + 1
        selected = caret = None
        if name == self.focus:
            start, end = (origin + ends[at] for at in text.selection)
            selected = (start, end) if start != end else None
            caret = origin + ends[text.caret]
        return text.value[first:last], origin + ends[first], selected, caret


@lru_cache(maxsize=1500)  # of about 10 KB
def _screen(layout: str, in_view: tuple[_Part, ...], above: tuple[_Part, ...]) -> bytes:
    """The screen as a PNG file."""
    screen = _drawn(_draw_backdrop, layout).copy()
    left, top, width, height = json.loads(layout)["view"]
    view = _drawn(_draw_nothing, width, height).copy()
    for part in in_view:
        part.put(view)
    screen.paste(view, (left, top))
    for part in above:
        part.put(screen)
    png = io.BytesIO()
    # In half the time of the usual level, 6, and half as large again
    screen.save(png, "PNG", compress_level=3)
    return png.getvalue()


@cache
def _palette() -> Image.Image:
    """An image with the palette of all screens."""
    steps = 256 // sum(map(len, _EDGES.values())) - 1
    colors: list[int] = []
    for lower, uppers in _EDGES.items():
        for upper in uppers:
            ends = zip(ImageColor.getrgb(lower), ImageColor.getrgb(upper), strict=True)
            of_channels = [(low, high - low) for low, high in ends]
            for step in range(steps + 1):
                colors += [low + by * step // steps for low, by in of_channels]
    image = Image.new("P", (1, 1))
    image.putpalette(colors)
    return image


def _draw_nothing(width: int, height: int) -> Image.Image:
    return Image.new("RGB", (width, height), _WHITE)


def _draw_backdrop(layout: str) -> Image.Image:
    """The parts that never change: wallpaper, task bar and the window's frame."""
    form = json.loads(layout)
    (width, height), title = form["screen"], form["title"]
    window, view = Box(*form["window"]), Box(*form["view"])
    screen = Image.new("RGB", (width, height), _WALLPAPER)
    panel(screen, window.inset(-1), _WHITE, border=_FRAME, radius=10)
    pen = ImageDraw.Draw(screen)
    bar = window._replace(height=view.top - window.top)
    panel(screen, bar, _BAR, radius=9)
    pen.rectangle((bar.left, bar.bottom - 10, bar.right - 1, bar.bottom - 1), fill=_BAR)
    pen.line((bar.left, bar.bottom - 1, bar.right - 1, bar.bottom - 1), fill=_LINE)
    middle = bar.top + bar.height // 2
    for index, color in enumerate(_DOTS):
        dot = Box(bar.left + 18 + 22 * index, middle - 6, 12, 12)
        panel(screen, dot, color, radius=6)
    center = (bar.left + bar.width // 2, middle)
    write(screen, center, title, size=16, anchor="mm")

    taskbar = Box(0, height - _TASKBAR_HEIGHT, width, _TASKBAR_HEIGHT)
    pen.rectangle((0, taskbar.top, width, height), fill=_TASKBAR)
    panel(screen, Box(8, taskbar.top + 5, 170, 30), _TASK, radius=6)
    panel(screen, Box(18, taskbar.top + 13, 14, 14), _ACCENT, radius=3)
    write(screen, (42, taskbar.top + 20), title, _WHITE, 14)
    return screen


# ------------------------------------------------------------------- the parts


def _draw_status(said: tuple[str, str], width: int, height: int) -> Image.Image:
    """The line below the form, and its upper edge."""
    image = Image.new("RGB", (width, height - 10), _WHITE)  # above the round corners
    ImageDraw.Draw(image).line((0, 0, width - 1, 0), fill=_LINE)
    text, color = said
    panel(image, Box(20, height // 2 - 4, 8, 8), color, radius=4)
    write(image, (38, height // 2), text, color)
    return image


def _draw_list(
    options: tuple[str, ...], highlight: int, width: int, height: int, row: int
) -> Image.Image:
    """The open list of a drop-down, `row` pixels for each option."""
    image = Image.new("RGB", (width, height), _WHITE)
    ImageDraw.Draw(image).rectangle((0, 0, width - 1, height - 1), outline=_MUTED)
    for index, option in enumerate(options):
        box = Box(1, 1 + index * row, width - 2, row)
        if index == highlight:
            panel(image, box.inset(2), _ACCENT, radius=4)
        color = _WHITE if index == highlight else _INK
        write(image, (box.left + PADDING, box.top + row // 2), option, color)
    return image


def _draw_thumb(width: int, height: int) -> Image.Image:
    image = Image.new("RGB", (width, height), _WHITE)
    panel(image, Box(0, 0, width, height), _THUMB, radius=4)
    return image


def _frame(
    label: str, width: int, height: int, focused: bool
) -> tuple[Image.Image, Box]:
    """The label and the border of a text field or a drop-down, with its focus ring."""
    size = width + 2 * _MARGIN, _ABOVE + height + _MARGIN
    image, box = Image.new("RGB", size, _WHITE), Box(_MARGIN, _ABOVE, width, height)
    write(image, (box.left, box.top - 11), label, _MUTED, 14)
    if focused:
        panel(image, box.inset(-2), _SELECTION, radius=8)
    panel(image, box, _WHITE, border=_ACCENT if focused else _LINE)
    return image, box


def _draw_text_field(
    label: str,
    width: int,
    height: int,
    focused: bool,
    text: str,
    at: float,
    selected: tuple[float, float] | None,
    caret: float | None,
) -> Image.Image:
    image, box = _frame(label, width, height, focused)
    # The text has its own image, so that long text ends at the edge of the field.
    room = width - 2 * PADDING + 4, height - 8
    piece = Image.new("RGB", room, _WHITE)
    pen = ImageDraw.Draw(piece)
    if selected:
        pen.rectangle((selected[0], 3, selected[1], room[1] - 4), fill=_SELECTION)
    if caret is not None:
        pen.line((caret, 4, caret, room[1] - 5), fill=_INK)
    write(piece, (at, room[1] // 2), text)
    image.paste(piece, (box.left + PADDING - 2, box.top + 4))
    return image


def _draw_choice(
    label: str, width: int, height: int, focused: bool, value: str
) -> Image.Image:
    image, box = _frame(label, width, height, focused)
    middle = box.top + box.height // 2
    text, color = (value, _INK) if value else ("Choose...", _MUTED)
    write(image, (box.left + PADDING, middle), text, color)
    stroke(image, (box.right - 26, middle - 7), ((2, 5), (7, 10), (12, 5)), _MUTED)
    return image


def _draw_check(
    label: str, width: int, height: int, focused: bool, checked: bool
) -> Image.Image:
    size = width + 2 * _MARGIN, height + 2 * _MARGIN
    image = Image.new("RGB", size, _WHITE)
    middle = _MARGIN + height // 2
    square = Box(_MARGIN, middle - 10, 20, 20)
    if focused:
        panel(image, square.inset(-2), _SELECTION, radius=7)
    if checked:
        panel(image, square, _ACCENT, radius=5)
        corner = square.left + 3, square.top + 3
        stroke(image, corner, ((2, 7), (6, 11), (12, 4)), _WHITE)
    else:
        panel(image, square, _WHITE, border=_ACCENT if focused else _MUTED, radius=5)
    write(image, (_MARGIN + 32, middle), label)
    return image


def _draw_button(label: str, width: int, height: int, focused: bool) -> Image.Image:
    image = Image.new("RGB", (width + 2 * _MARGIN, height + 2 * _MARGIN), _WHITE)
    box = Box(_MARGIN, _MARGIN, width, height)
    if focused:
        panel(image, box.inset(-3), _SELECTION, radius=9)
    panel(image, box, _ACCENT)
    write(
        image, (box.left + width // 2, box.top + height // 2), label, _WHITE, 16, "mm"
    )
    return image


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
