"""The desktop, as a page in real headless Chromium driven by Playwright.

One browser process serves all episodes; each has a context of its own, offline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from playwright.async_api import Browser, Error, Page

from ..page import page
from .chromium import SharedBrowser, missing

__all__ = ["Desktop", "missing"]

# Playwright's names of keys that differ from ours. On macOS, Meta+a selects all.
_KEYS = {
    "shift+Tab": "Shift+Tab",
    "ctrl+a": "ControlOrMeta+a",
    "space": "Space",
    "Left": "ArrowLeft",
    "Right": "ArrowRight",
    "Up": "ArrowUp",
    "Down": "ArrowDown",
}

_SHARED = SharedBrowser()


class Desktop:
    """A desktop with one window that shows the form.

    `form` is what lay_out() beside the environment class returns; `values` maps the
    name of each field to the value that it opens with. Points are pixels from the top
    left corner of the screen. The caller has checked points, keys and text.
    Raises RuntimeError if there is no Chromium, and Playwright's errors.
    """

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        browser = _SHARED.acquire()
        self._open = True
        try:
            self._page: Page = _SHARED.run(_new_page(browser, form, values))
        except BaseException:
            self._open = False
            _SHARED.release()
            raise

    def click(self, x: int, y: int, count: int = 1) -> None:
        """Press and release the left button count times at the same point."""
        _SHARED.run(self._page.mouse.click(x, y, click_count=count))

    def scroll(self, x: int, y: int, dy: int) -> None:
        """Scroll the form by dy pixels if the point is over it."""
        _SHARED.run(self._page.mouse.move(x, y))
        _SHARED.run(self._page.mouse.wheel(0, dy))

    def type(self, text: str) -> None:
        """Insert text into the focused text field, if one is."""
        _SHARED.run(self._page.keyboard.insert_text(text))

    def key(self, key: str) -> None:
        """Press one key; what it does depends on the focused control."""
        _SHARED.run(self._page.keyboard.press(_KEYS.get(key, key)))

    def wait(self, seconds: float) -> None:
        """Let time pass in the browser."""
        _SHARED.run(asyncio.sleep(seconds))

    def state(self) -> dict[str, Any]:
        """The form's state, as state() of the environment class describes it."""
        return _SHARED.run(self._page.evaluate("state()"))

    def screenshot(self) -> bytes:
        """The screen as a PNG file. The caret is left out: it blinks."""
        return _SHARED.run(self._page.screenshot(animations="disabled", caret="hide"))

    def close(self) -> None:
        """Close the page, and the browser if no other episode has a page."""
        if not self._open:
            return
        self._open = False
        try:
            with contextlib.suppress(Error, TimeoutError):
                _SHARED.run(self._page.context.close())
        finally:
            _SHARED.release()


async def _new_page(
    browser: Browser, form: Mapping[str, Any], values: Mapping[str, Any]
) -> Page:
    width, height = form["screen"]
    context = await browser.new_context(
        viewport={"width": width, "height": height}, device_scale_factor=1, offline=True
    )
    tab = await context.new_page()
    await tab.set_content(page(form, values, notch=0))
    return tab
