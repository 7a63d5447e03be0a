"""The desktop, drawn with Pillow: no browser, no system fonts, always the same bytes.

Time is virtual: nothing on the screen changes on its own, so wait() returns at once.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from PIL import Image

from .form import Form
from .painter import Painter


class Desktop:
    """A desktop with one window that shows the form.

    `form` is what lay_out() beside the environment class returns; `values` maps the
    name of each field to the value that it opens with. Points are pixels from the top
    left corner of the screen. The caller has checked points, keys and text.
    """

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        self._form = Form(form, values)
        self._painter = Painter(self._form)

    def click(self, x: int, y: int, count: int = 1) -> None:
        """Press and release the left button count times at the same point."""
        self._form.click(x, y, count)

    def scroll(self, x: int, y: int, dy: int) -> None:
        """Scroll the form by dy pixels if the point is over it."""
        self._form.scroll(x, y, dy)

    def type(self, text: str) -> None:
        """Insert text into the focused text field, if one is."""
        self._form.type(text)

    def key(self, key: str) -> None:
        """Press one key; what it does depends on the focused control."""
        self._form.key(key)

    def wait(self, seconds: float) -> None:
        """Do nothing: this desktop has no clock."""

    def state(self) -> dict[str, Any]:
        """The form's state, as state() of the environment class describes it."""
        return self._form.state()

    def screenshot(self) -> bytes:
        """The screen as a PNG file."""
        png = io.BytesIO()
        # A palette makes the file a third of the size and quicker to compress.
        palette = self._painter.screen().quantize(
            256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
        palette.save(png, "PNG")
        return png.getvalue()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def missing() -> str | None:
    """Return None: every machine can run an episode."""
    return None
