"""A desktop with one form, with no framework around it.

The policy sees screenshots, and acts with a mouse and a keyboard. The task says which
record the form must have saved in the end. Change CONTROLS to make another form: the
layout, the backends and the oracle follow from it.
"""

from __future__ import annotations

import base64
import copy
import logging
from typing import Any, Literal, NamedTuple

from env_runtime.desktop import lay_out
from env_runtime.desktop.canvas import Desktop, missing

log = logging.getLogger(__name__)

COUNTRIES = ["Argentina", "Canada", "Finland", "India"]
COUNTRIES += ["Japan", "Kenya", "Norway", "Portugal"]
# Name, label, and kind of each control: a drop-down has a list of options here. The
# list opens over the form and does not scroll: it has room for nine.
CONTROLS = [
    ("name", "Full name", "text"),
    ("email", "Email", "text"),
    ("country", "Country", COUNTRIES),
    ("subscribe", "Subscribe to the newsletter", "check"),
    ("company", "Company", "text"),
    ("phone", "Phone", "text"),
    ("street", "Street", "text"),
    ("city", "City", "text"),
    ("postcode", "Postal code", "text"),
    ("plan", "Plan", ["Free", "Team", "Business", "Enterprise"]),
    ("contact", "Preferred contact", ["Email", "Phone", "Post"]),
    ("terms", "The customer accepted the terms", "check"),
    ("note", "Note", "text"),
    ("save", "Save", "button"),
]
SCREEN = (1024, 768)  # width, height in pixels; also the size of every screenshot
KEYS = ["Tab", "shift+Tab", "Enter", "Escape", "space", "Backspace", "Delete", "ctrl+a"]
KEYS += ["Left", "Right", "Up", "Down", "Home", "End", "PageUp", "PageDown"]
SPELLINGS = {"return": "enter", "esc": "escape", "control+a": "ctrl+a"}
FORM = lay_out("Customer record", SCREEN, CONTROLS)
EMPTY = {
    control["name"]: False if control["kind"] == "check" else ""
    for control in FORM["controls"]
    if control["kind"] != "button"
}


class Observation(NamedTuple):
    """A tool's answer: a line of text and a screenshot."""

    output: str
    image: str  # a PNG as a data: URL


class DesktopError(RuntimeError):
    """The desktop could not be started or has failed, which is not the policy's fault."""


class DomainClass:
    """One episode: a desktop, and the record that its form must have saved.

    `task` has the "goal", what state() must have in the end ({"saved": {...}}), and
    perhaps "start", the values that the form opens with. The desktop starts with the
    first call. A tool raises ValueError if its arguments make no sense or the episode is
    over, and DesktopError if the desktop fails: then `infrastructure_failure` says why,
    and the episode does not count.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self.status: str | None = None  # the status that the policy gave to terminate
        self.infrastructure_failure: str | None = None
        self._goal = task.get("goal")
        self._start = EMPTY | (task.get("start") or {})
        self._state: dict[str, Any] = {"values": self._start, "scroll": 0}
        self._state |= dict.fromkeys(["focus", "open", "saved"])
        self._desktop: Desktop | None = None
        self._closed = False

    def screenshot(self) -> Observation:
        """Look at the screen without doing anything.

        Every tool answers with a screenshot of 1024x768 pixels taken after the action.
        """
        return self._act("Took a screenshot.")

    def left_click(self, x: int, y: int) -> Observation:
        """Click the left mouse button at a point.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
        """
        _check_point(x, y)
        return self._act(f"Clicked at ({x}, {y}).", "click", x, y)

    def double_click(self, x: int, y: int) -> Observation:
        """Double-click the left mouse button at a point; in a text field this selects a word.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
        """
        _check_point(x, y)
        return self._act(f"Double-clicked at ({x}, {y}).", "click", x, y, 2)

    def scroll(self, x: int, y: int, dy: int) -> Observation:
        """Turn the mouse wheel while the pointer is at a point.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
            dy: Pixels to scroll, -5000 to 5000: positive shows what is further down,
                negative what is further up.
        """
        _check_point(x, y)
        if abs(dy) > 5000:
            raise ValueError("dy is too large: must be -5000 to 5000")
        return self._act(f"Scrolled by {dy} at ({x}, {y}).", "scroll", x, y, dy)

    def type(self, text: str) -> Observation:
        """Type text into the focused text field, at the caret or in place of the selected text.

        Click the field first.

        Args:
            text: The text, at most 500 characters on one line. Use the key tool for
                Enter and Tab.
        """
        if len(text) > 500:
            raise ValueError(f"text is too long: {len(text)} characters, at most 500")
        if not text.isprintable():
            raise ValueError(
                "text holds control characters: use key for Enter, Tab and the like"
            )
        return self._act(f"Typed {len(text)} characters.", "type", text)

    def key(self, keys: str) -> Observation:
        """Press one key or key combination.

        Args:
            keys: One of Tab, shift+Tab, Enter, Escape, space, Backspace, Delete, ctrl+a,
                Left, Right, Up, Down, Home, End, PageUp, PageDown.
        """
        name = keys.strip().lower().replace("page_", "page").removeprefix("arrow")
        name = SPELLINGS.get(name, name)
        for key in KEYS:
            if key.lower() == name:
                return self._act(f"Pressed {key}.", "key", key)
        raise ValueError(f"unknown key {keys[:40]!r}: use one of {', '.join(KEYS)}")

    def wait(self, seconds: float) -> Observation:
        """Wait, then look at the screen.

        Args:
            seconds: Seconds to wait, 0 to 5.
        """
        if not 0 <= seconds <= 5:
            raise ValueError(f"cannot wait {seconds} seconds: must be 0 to 5")
        return self._act(f"Waited {seconds:g} seconds.", "wait", seconds)

    def terminate(self, status: Literal["success", "failure"]) -> Observation:
        """End the episode.

        Call it once, when the task is done or cannot be done; no tool works after it.

        Args:
            status: "success" if the task is done, "failure" if it cannot be done.
        """
        if status not in ("success", "failure"):
            raise ValueError(f'status must be "success" or "failure", not {status!r}')
        observation = self._act(f"Terminated with status {status}.")
        self.status = status
        return observation

    def state(self) -> dict[str, Any]:
        """A copy of the form's state after the last action.

        "values" has the text, the bool or the option of each field. "focus" and "open"
        name the focused control and the open drop-down, or are None. "scroll" is how far
        the content is scrolled, in pixels. "saved" is the values at the last Save, or None.
        """
        return copy.deepcopy(self._state)

    def reward(self) -> float:
        """1.0 if the episode ended with status success and its goal holds, else 0.0."""
        ended = self.status == "success" and bool(self._goal)
        return float(ended and _holds(self._goal, self._state))

    def close(self) -> None:
        """Release the desktop; state() and reward() keep their answers."""
        self._closed = True
        desktop, self._desktop = self._desktop, None
        if desktop is not None:
            desktop.close()

    def _act(self, output: str, method: str = "", *arguments: Any) -> Observation:
        """Call a method of the desktop, and look at the screen."""
        if self.status is not None:
            raise ValueError(
                f"the episode is over: terminate({self.status!r}) was called"
            )
        if self._closed:
            raise ValueError("the desktop is closed")
        if self.infrastructure_failure is not None:
            raise DesktopError(self.infrastructure_failure)
        try:
            self._desktop = self._desktop or Desktop(FORM, self._start)
            if method:
                getattr(self._desktop, method)(*arguments)
            self._state = self._desktop.state()
            picture = base64.b64encode(self._desktop.screenshot()).decode()
        except Exception as error:
            # The arguments were checked, so this is not the policy's fault.
            log.exception("the desktop failed")
            reason = str(error).partition("\n")[0] or type(error).__name__
            self.infrastructure_failure = f"the desktop failed: {reason}"
            raise DesktopError(self.infrastructure_failure) from error
        return Observation(output, f"data:image/png;base64,{picture}")

    @staticmethod
    def missing_requirement() -> str | None:
        """Return the reason why this machine cannot run an episode, or None."""
        return missing()

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The calls that solve `task`: Tab goes through the form, other keys change it."""
        start = EMPTY | (task.get("start") or {})
        wanted = start | task.get("goal", {}).get("saved", {})
        calls: list[tuple[str, dict[str, Any]]] = []
        for control in FORM["controls"]:
            keys, name = ["Tab"], control["name"]
            if control["kind"] == "button":
                keys += ["Enter"]
            elif wanted[name] == start[name]:
                pass
            elif control["kind"] == "check":
                keys += ["space"]
            elif control["kind"] == "choice":
                # The list opens at the option of now, or at the first.
                options = control["options"]
                steps = options.index(wanted[name])
                steps -= options.index(start[name]) if start[name] else 0
                arrows = ["Down" if steps > 0 else "Up"] * abs(steps)
                keys += ["space", *arrows, "Enter"]
            elif not wanted[name]:
                keys += ["Backspace"]  # Tab has selected the text
            calls += [("key", {"keys": key}) for key in keys]
            if control["kind"] == "text" and wanted[name] not in ("", start[name]):
                calls += [("type", {"text": wanted[name]})]
        return [*calls, ("terminate", {"status": "success"})]


def _check_point(x: int, y: int) -> None:
    if not (0 <= x < SCREEN[0] and 0 <= y < SCREEN[1]):
        raise ValueError(
            f"({x}, {y}) is outside the screen: x must be 0 to {SCREEN[0] - 1}, "
            f"y 0 to {SCREEN[1] - 1}"
        )


def _holds(goal: Any, actual: Any) -> bool:
    """Whether `actual` equals `goal`. A dict may have more keys than its goal."""
    if not isinstance(goal, dict):
        return type(goal) is type(actual) and goal == actual
    return isinstance(actual, dict) and all(
        key in actual and _holds(value, actual[key]) for key, value in goal.items()
    )
