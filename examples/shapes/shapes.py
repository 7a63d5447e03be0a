"""Shapes on a canvas, drawn with Python's library alone. Click the wanted shape."""

import base64
import random
import struct
import zlib
from typing import NamedTuple

WIDTH, HEIGHT, CELL, RADIUS = 320, 240, 80, 30  # pixels
COLORS = {"red": b"\xe0\x20\x20", "green": b"\x20\xa0\x40", "blue": b"\x20\x50\xe0"}
# Whether a point is in each shape, given its distance from the center in pixels.
FORMS = {
    "circle": lambda x, y: x * x + y * y <= RADIUS * RADIUS,
    "square": lambda x, y: max(abs(x), abs(y)) <= RADIUS - 4,
    "triangle": lambda x, y: 2 * abs(x) <= y + RADIUS <= 2 * RADIUS - 8,
}
NAMES = [f"{color} {form}" for color in COLORS for form in FORMS]
CENTERS = [
    (x, y)
    for x in range(CELL // 2, WIDTH, CELL)
    for y in range(CELL // 2, HEIGHT, CELL)
]


class View(NamedTuple):
    output: str
    image: str  # a data: URL


class Shapes:
    """One canvas. The task's `seed` places the shape `target` and `others` more."""

    def __init__(self, task: dict):
        draw = random.Random(task.get("seed", 0))
        self._target = task.get("target", "red circle")
        others = [name for name in NAMES if name != self._target]
        names = [self._target, *draw.sample(others, task.get("others", 2))]
        self._centers = dict(zip(names, draw.sample(CENTERS, len(names)), strict=True))
        self._clicked: list[str] = []

    def look(self) -> View:
        """Look at the canvas, which is 320 pixels wide and 240 high."""
        canvas = [bytearray(b"\xff" * 3 * WIDTH) for _ in range(HEIGHT)]
        for name, (left, top) in self._centers.items():
            color, form = name.split()
            for y in range(-RADIUS, RADIUS + 1):
                for x in range(-RADIUS, RADIUS + 1):
                    if FORMS[form](x, y):
                        start = 3 * (left + x)
                        canvas[top + y][start : start + 3] = COLORS[color]
        return View(f"There are {len(self._centers)} shapes.", _png(canvas))

    def click(self, x: int, y: int) -> str:
        """Click a point. Only the first click counts.

        Args:
            x: Pixels from the left.
            y: Pixels from the top.
        """
        if not (0 <= x < WIDTH and 0 <= y < HEIGHT):
            raise ValueError(f"({x}, {y}) is not on the canvas of {WIDTH} x {HEIGHT}")
        self._clicked.append(self._shape_at(x, y))
        return f"You clicked the {self._clicked[-1]}."

    def _shape_at(self, x: int, y: int) -> str:
        for name, (left, top) in self._centers.items():
            if FORMS[name.split()[1]](x - left, y - top):
                return name
        return "background"

    def reward(self) -> float:
        return float(self._clicked[:1] == [self._target])

    @staticmethod
    def oracle(task: dict) -> list[tuple[str, dict]]:
        x, y = Shapes(task)._centers[task["target"]]
        return [("look", {}), ("click", {"x": x, "y": y})]


def _png(rows: list[bytearray]) -> str:
    """The image as a data: URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
    data = b"\x89PNG\r\n\x1a\n" + head + body + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()
