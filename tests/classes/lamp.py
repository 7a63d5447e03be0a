"""A lamp whose answers show an image instead of describing it."""

import base64
import struct
import zlib
from typing import ClassVar, NamedTuple


class View(NamedTuple):
    output: str
    image: str


def _png(red: int, green: int, blue: int) -> str:
    """A data: URL of an image of 8 x 8 pixels of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    rows = (b"\0" + bytes([red, green, blue]) * 8) * 8
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    data += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(data).decode()


class Lamp:
    """Turn the lamp until it has the wanted color."""

    COLORS: ClassVar = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}

    def __init__(self, task: dict):
        self.wanted = task.get("color", "blue")
        self.index = 0
        self.sure = False

    def look(self) -> View:
        """Look at the lamp."""
        return View("Here it is.", _png(*list(self.COLORS.values())[self.index]))

    def turn(self, times: int = 1) -> View:
        """Turn the knob, once or several times.

        Args:
            times: How often.
        """
        self.index = (self.index + times) % len(self.COLORS)
        return self.look()

    def done(self, color: str) -> str:
        """Say that the lamp has the wanted color, and which it is.

        Args:
            color: The color's name.
        """
        self.sure = color == self.wanted
        return "Noted."

    def reward(self) -> float:
        return float(self.sure and list(self.COLORS)[self.index] == self.wanted)

    @staticmethod
    def oracle(task: dict):
        times = list(Lamp.COLORS).index(task["color"])
        return [("turn", {"times": times}), ("done", {"color": task["color"]})]
