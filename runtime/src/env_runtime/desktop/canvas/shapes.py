"""Rectangles, text and smooth lines, drawn with Pillow and its own font."""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont

_SMOOTH = 4  # shapes are drawn this much larger, then reduced: that smooths their edges


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
