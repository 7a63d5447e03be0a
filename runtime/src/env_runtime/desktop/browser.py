"""The desktop, as a page in real headless Chromium driven by Playwright.

One browser process serves all episodes; each has a context of its own, offline.
Playwright runs on an event loop of its own, because episodes have a thread each.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Page, Playwright, async_playwright

from ..event_loop import wait
from ..settings import Settings
from . import page

__all__ = ["Desktop", "missing"]

_TIMEOUT = 60.0  # seconds for one action, the start of the browser included
_INSTALL = (
    "run `playwright install --with-deps chromium`, or install chromium, or set "
    "CHROMIUM_PATH to its path"
)
_COMMANDS = ("chromium", "chromium-browser", "google-chrome")
_CACHES = ("~/.cache/ms-playwright", "~/Library/Caches/ms-playwright")
_ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    # A tile that is repainted in part differs a little from a tile painted in one go.
    "--disable-partial-raster",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]
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


class ChromiumSettings(Settings):
    chromium_path: str | None = None
    playwright_browsers_path: str | None = None  # the folder of Playwright's browsers


def missing() -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    settings = ChromiumSettings.read()
    folder = settings.playwright_browsers_path
    caches = [folder] if folder else _CACHES
    if (
        settings.chromium_path
        or any(map(shutil.which, _COMMANDS))
        or any(list(Path(cache).expanduser().glob("chromium*")) for cache in caches)
    ):
        return None
    return f"there is no Chromium: {_INSTALL}"


class SharedBrowser:
    """The one Chromium of this process, open while an episode uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of `work` on Playwright's loop. Raises TimeoutError."""
        return wait("playwright", work, _TIMEOUT)

    def acquire(self) -> Browser:
        """Count one more user. Raises RuntimeError if there is no Chromium."""
        with self._lock:
            self._users += 1
            try:
                # A crashed browser is replaced, even if episodes still use it.
                if self._browser is None or not self._browser.is_connected():
                    self._browser = self.run(self._launch())
            except BaseException:
                self._leave()
                raise
            return self._browser

    def release(self) -> None:
        """Count one user fewer."""
        with self._lock:
            self._leave()

    def _leave(self) -> None:
        self._users -= 1
        if self._users == 0:
            self.run(self._stop())

    async def _launch(self) -> Browser:
        if self._playwright is None:
            self._playwright = await async_playwright().start()
        path = ChromiumSettings.read().chromium_path
        installed = filter(None, map(shutil.which, _COMMANDS))
        try:
            return await self._playwright.chromium.launch(
                # None means the Chromium that Playwright has installed.
                executable_path=path or next(installed, None),
                args=_ARGUMENTS,
                headless=True,
                chromium_sandbox=os.geteuid() != 0,  # root cannot use it
            )
        except Error as error:
            reason = next(iter(error.message.splitlines()), "no reason given")
            raise RuntimeError(
                f"Chromium does not start ({reason}): {_INSTALL}"
            ) from error

    async def _stop(self) -> None:
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        with contextlib.suppress(Error):
            if browser is not None:
                await browser.close()
        if playwright is not None:
            await playwright.stop()


_SHARED = SharedBrowser()


class Desktop:
    """A desktop with one window that shows the form.

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
