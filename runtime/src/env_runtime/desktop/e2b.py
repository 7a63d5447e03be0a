"""The desktop, as a page in Chrome on a virtual desktop of E2B.

Each episode has a sandbox of its own, without internet access. A program there serves
the page to Chrome, which fills the screen. It also writes what the page reports after
every change into a file, which state() reads. Mouse, keyboard and screenshots are the
virtual desktop's own, through the e2b-desktop SDK. E2B_API_KEY must be set when the
first tool is called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from e2b_desktop import Sandbox

from ..settings import Settings
from . import page

_LIFETIME = 3600  # seconds until E2B ends a sandbox that was not closed
_START = 60.0  # seconds for Chrome to show the form
_SETTLE = 0.3  # seconds until an event has changed the state and the screen
_NOTCH = 40  # pixels that the page scrolls per notch of the wheel
_FOLDER = "/tmp/form"
_PORT = 8700
_BROWSER = (
    "google-chrome --kiosk --no-first-run --no-default-browser-check --password-store=basic "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-position=0,0 --window-size={width},{height} "
    f"--user-data-dir={_FOLDER}/profile http://127.0.0.1:{_PORT}/"
)
# python3 server.py FOLDER PORT. It serves FOLDER/page.html on the loopback interface, and
# writes what the page posts into FOLDER/state.json.
_SERVER = """\
import http.server, os, pathlib, sys
folder = pathlib.Path(sys.argv[1])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer((folder / "page.html").read_bytes())

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        (folder / "state.new").write_bytes(body)
        os.replace(folder / "state.new", folder / "state.json")
        self.answer(b"")

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

address = ("127.0.0.1", int(sys.argv[2]))
http.server.ThreadingHTTPServer(address, Handler).serve_forever()
"""
# The SDK's names of keys that differ from ours in more than case.
_KEYS = {"PageUp": "page_up", "PageDown": "page_down"}


class AccountSettings(Settings):
    e2b_api_key: str | None = None


def missing() -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    if AccountSettings.read().e2b_api_key:
        return None
    return "E2B_API_KEY is not set; export a key from https://e2b.dev"


class Desktop:
    """A desktop with one window that shows the form.

    Raises RuntimeError if there is no E2B_API_KEY or the form does not open, and the
    SDK's errors.
    """

    def __init__(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        if problem := missing():
            raise RuntimeError(problem)
        self._text_fields = {
            control["name"] for control in form["controls"] if control["kind"] == "text"
        }
        width, height = form["screen"]
        self._open = True
        self._sandbox = Sandbox.create(
            resolution=(width, height), timeout=_LIFETIME, allow_internet_access=False
        )
        try:
            self._open_form(form, values)
        except BaseException:
            self.close()
            raise

    def click(self, x: int, y: int, count: int = 1) -> None:
        """Press and release the left button count times at the same point."""
        # The SDK's own click ignores a coordinate of 0.
        self._sandbox.move_mouse(x, y)
        if count == 2:
            self._sandbox.double_click()
        else:
            self._sandbox.left_click()
        time.sleep(_SETTLE)

    def scroll(self, x: int, y: int, dy: int) -> None:
        """Scroll the form by dy pixels, in whole notches, if the point is over it."""
        if dy:
            self._sandbox.move_mouse(x, y)
            self._sandbox.scroll("down" if dy > 0 else "up", -(-abs(dy) // _NOTCH))
            time.sleep(_SETTLE)

    def type(self, text: str) -> None:
        """Type text into the focused text field, if one is."""
        # In other controls, a typed space would press a button or tick a box.
        if text and self.state()["focus"] in self._text_fields:
            self._sandbox.write(text, delay_in_ms=10)
            time.sleep(_SETTLE)

    def key(self, key: str) -> None:
        """Press one key; what it does depends on the focused control."""
        self._sandbox.press([_KEYS.get(name, name) for name in key.split("+")])
        time.sleep(_SETTLE)

    def wait(self, seconds: float) -> None:
        """Let time pass in the sandbox."""
        time.sleep(seconds)

    def state(self) -> dict[str, Any]:
        """The form's state, as state() of the environment class describes it."""
        return json.loads(self._sandbox.files.read(f"{_FOLDER}/state.json"))

    def screenshot(self) -> bytes:
        """The screen as a PNG file, with the mouse pointer."""
        return bytes(self._sandbox.screenshot())

    def close(self) -> None:
        """End the sandbox."""
        if self._open:
            self._open = False
            self._sandbox.kill()

    def _open_form(self, form: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        files, commands = self._sandbox.files, self._sandbox.commands
        files.write(f"{_FOLDER}/page.html", page(form, values, _NOTCH))
        files.write(f"{_FOLDER}/server.py", _SERVER)
        server = f"python3 {_FOLDER}/server.py {_FOLDER} {_PORT}"
        commands.run(server, background=True, timeout=0).disconnect()
        width, height = form["screen"]
        browser = _BROWSER.format(width=width, height=height)
        # Chrome does not try again, so the server must be up before it starts.
        commands.run(f"sleep 1; {browser}", background=True, timeout=0).disconnect()
        deadline = time.monotonic() + _START
        # The state is written once the page fills the screen.
        while not files.exists(f"{_FOLDER}/state.json"):
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"the form did not fill the screen in {_START:g} seconds"
                )
            time.sleep(0.5)
        time.sleep(_SETTLE)
