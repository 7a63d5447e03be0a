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


class Desktop(Form):
    """A desktop with one window that shows the form.

    `form` is what lay_out() returns; `values` maps the
    name of each field to the value that it opens with. Points are pixels from the top
    left corner of the screen. The caller has checked points, keys and text.
    """

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        super().__init__(form, values)
        self._painter = Painter(self)

    def wait(self, seconds: float) -> None:
        """Do nothing: this desktop has no clock."""

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
