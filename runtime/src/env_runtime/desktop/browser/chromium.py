"""One headless Chromium for all episodes, driven by Playwright.

Playwright runs on one event loop in a thread of its own, because episodes, which have a
thread each, share the browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Error, Playwright, async_playwright

from ...settings import Settings

_TIMEOUT = 60.0  # seconds for one action, the start of the browser included
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
    return (
        "there is no Chromium: run `playwright install --with-deps chromium`, or install "
        "chromium, or set CHROMIUM_PATH to its path"
    )


class SharedBrowser:
    """The one Chromium of this process, open while an episode uses it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """The result of the coroutine, which runs on Playwright's loop."""
        assert self._loop is not None, "run() comes after acquire()"
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(_TIMEOUT)
        except TimeoutError:
            future.cancel()
            raise

    def acquire(self) -> Browser:
        """Count one more user. Raises RuntimeError if there is no Chromium."""
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=loop.run_forever, name="playwright", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError:  # no thread can be started
                    loop.close()  # it has open files
                    raise
                self._loop = loop
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
                f"Chromium does not start ({reason}): run `playwright install --with-deps "
                "chromium`, or install chromium, or set CHROMIUM_PATH to its path"
            ) from error

    async def _stop(self) -> None:
        browser, self._browser = self._browser, None
        playwright, self._playwright = self._playwright, None
        with contextlib.suppress(Error):
            if browser is not None:
                await browser.close()
        if playwright is not None:
            await playwright.stop()
