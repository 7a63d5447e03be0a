"""A desktop with one form application, with no framework around it.

The policy sees screenshots and acts with a mouse and a keyboard; the task says which
record the form must have saved in the end. CONTROLS defines the application: the
layout, the backends and the oracle adapt to it.
"""

from __future__ import annotations

import base64
import copy
import logging
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from env_runtime.desktop.canvas import Desktop, missing

log = logging.getLogger(__name__)

SCREEN = (1024, 768)  # width, height in pixels; also the size of every screenshot
MAX_TEXT = 500  # the most characters in one call of type
MAX_SCROLL = 5000  # the most pixels in one call of scroll
MAX_WAIT = 5.0  # the most seconds in one call of wait
SCROLL_STEP = 40  # pixels per notch of a mouse wheel; the oracle scrolls whole notches

# A list of options opens over the form and does not scroll: it has room for nine.
CONTROLS: list[dict[str, Any]] = [
    {"name": "name", "label": "Full name", "kind": "text"},
    {"name": "email", "label": "Email", "kind": "text"},
    {
        "name": "country",
        "label": "Country",
        "kind": "choice",
        "options": [
            *("Argentina", "Canada", "Finland", "India"),
            *("Japan", "Kenya", "Norway", "Portugal"),
        ],
    },
    {"name": "subscribe", "label": "Subscribe to the newsletter", "kind": "check"},
    {"name": "company", "label": "Company", "kind": "text"},
    {"name": "phone", "label": "Phone", "kind": "text"},
    {"name": "street", "label": "Street", "kind": "text"},
    {"name": "city", "label": "City", "kind": "text"},
    {"name": "postcode", "label": "Postal code", "kind": "text"},
    {
        "name": "plan",
        "label": "Plan",
        "kind": "choice",
        "options": ["Free", "Team", "Business", "Enterprise"],
    },
    {
        "name": "contact",
        "label": "Preferred contact",
        "kind": "choice",
        "options": ["Email", "Phone", "Post"],
    },
    {"name": "terms", "label": "The customer accepted the terms", "kind": "check"},
    {"name": "note", "label": "Note", "kind": "text"},
    {"name": "save", "label": "Save", "kind": "button"},
]

_LABEL = 20  # height of the label above a text field or a drop-down
_GAP = 20  # space between two controls


def lay_out(title: str, controls: list[dict[str, Any]]) -> dict[str, Any]:
    """The form as the backends read it, with the controls stacked in one column.

    A box is [left, top, width, height] in pixels. The boxes of "window" and "view" (the
    part of the window that shows the scrolled content) are on the screen; the "box" of
    each control is relative to the top left corner of the content. "height" is the
    height of the content. A control's label is "label" pixels above its box, except for
    a check box and a button, which contain their label. "option" is the height of one
    row of an open list.
    """
    window = [192, 32, 640, 672]
    view = [192, 76, 640, 588]  # the title bar is above it, the status bar below
    sizes = {
        "text": (560, 36),
        "choice": (560, 36),
        "check": (560, 28),
        "button": (140, 40),
    }

    placed = []
    top = _GAP
    for control in controls:
        if control["kind"] in ("text", "choice"):
            top += _LABEL
        width, height = sizes[control["kind"]]
        placed.append({**control, "box": [32, top, width, height]})
        top += height + _GAP
    return {
        "title": title,
        "screen": list(SCREEN),
        "window": window,
        "view": view,
        "height": top,
        "label": _LABEL,
        "option": 30,
        "controls": placed,
    }


FORM = lay_out("Customer record", CONTROLS)

_KEYS = (
    *("Tab", "shift+Tab", "Enter", "Escape", "space", "Backspace", "Delete", "ctrl+a"),
    *("Left", "Right", "Up", "Down", "Home", "End", "PageUp", "PageDown"),
)
_ALIASES = {
    "return": "Enter",
    "esc": "Escape",
    "control+a": "ctrl+a",
    "page_up": "PageUp",
    "page_down": "PageDown",
    **{f"arrow{name}": name.capitalize() for name in ("left", "right", "up", "down")},
    **{key.lower(): key for key in _KEYS},
}


class Observation(NamedTuple):
    """A tool's answer: a line of text and a screenshot."""

    output: str
    image: str  # a PNG as a data: URL


class DesktopError(RuntimeError):
    """The desktop could not be started or has failed, which is not the policy's fault."""


def _check_point(x: int, y: int) -> None:
    width, height = SCREEN
    if not (0 <= x < width and 0 <= y < height):
        raise ValueError(
            f"({x}, {y}) is outside the screen: x must be 0 to {width - 1}, y 0 to {height - 1}"
        )


def _initial_values(start: Any) -> dict[str, Any]:
    """The value of every field when the form opens: from `start` if it is valid."""
    start = start if isinstance(start, dict) else {}
    values: dict[str, Any] = {}
    for control in FORM["controls"]:
        value = start.get(control["name"])
        if control["kind"] == "text":
            values[control["name"]] = value if isinstance(value, str) else ""
        elif control["kind"] == "choice":
            values[control["name"]] = value if value in control["options"] else ""
        elif control["kind"] == "check":
            values[control["name"]] = value is True
    return values


def _holds(goal: Any, actual: Any) -> bool:
    """Whether `actual` equals `goal`. A dict may have more keys than its goal."""
    if isinstance(goal, dict):
        return isinstance(actual, dict) and all(
            key in actual and _holds(value, actual[key]) for key, value in goal.items()
        )
    return type(goal) is type(actual) and goal == actual


def _scrolled(offset: int, dy: int) -> int:
    """The scroll offset that the form has after a scroll by `dy` pixels."""
    return max(0, min(offset + dy, FORM["height"] - FORM["view"][3]))


def _scroll_to(control: dict[str, Any], offset: int) -> int:
    """How far to scroll, in whole notches, until all of the control shows."""
    _, top, _, height = control["box"]
    visible = FORM["view"][3]
    if offset <= top - FORM["label"] and top + height <= offset + visible:
        return 0
    middle = top + height // 2 - visible // 2
    return round((middle - offset) / SCROLL_STEP) * SCROLL_STEP


def _point(control: dict[str, Any], offset: int) -> dict[str, int]:
    """Where to click the control: near its left edge, where all kinds react."""
    left, top, _, height = control["box"]
    view_left, view_top, _, _ = FORM["view"]
    return {"x": view_left + left + 12, "y": view_top + top - offset + height // 2}


def _entry(
    control: dict[str, Any], current: Any, wanted: Any
) -> list[tuple[str, dict[str, Any]]]:
    """The calls after a click on the control that change its value to `wanted`."""
    if control["kind"] == "check":
        return []  # the click did it
    if control["kind"] == "text":
        replace = (
            ("type", {"text": wanted}) if wanted else ("key", {"keys": "Backspace"})
        )
        return [("key", {"keys": "ctrl+a"}), replace]
    # The list opens with the current option highlighted, or with the first.
    options = control["options"]
    steps = options.index(wanted) - (options.index(current) if current else 0)
    arrow = ("key", {"keys": "Down" if steps > 0 else "Up"})
    return [arrow] * abs(steps) + [("key", {"keys": "Enter"})]


class DomainClass:
    """One episode: a desktop, and the record that its form must have saved.

    `task` holds "goal", a dict that state() must match in the end ({"saved": {...}}),
    and optionally "start", the values that the form opens with. Without a goal the task
    cannot be solved.

    The desktop starts with the first call. Each tool returns an Observation with a
    screenshot taken after the action. It raises ValueError if its arguments make no
    sense or the episode is over, and DesktopError if the desktop fails: then
    `infrastructure_failure` has the reason, later calls fail, and the episode does not
    count.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self.status: str | None = None  # the status that the policy gave to terminate
        self.infrastructure_failure: str | None = None
        self._goal = task.get("goal")
        self._start = _initial_values(task.get("start"))
        self._state = {
            "values": self._start,
            "focus": None,
            "open": None,
            "scroll": 0,
            "saved": None,
        }
        self._desktop: Desktop | None = None
        self._closed = False

    def screenshot(self) -> Observation:
        """Look at the screen without doing anything.

        Every tool answers with a screenshot of 1024x768 pixels taken after the action.
        """
        return self._act("Took a screenshot.")

    def left_click(self, x: int, y: int) -> Observation:
        """Click the left mouse button at a point.

        Coordinates are screen pixels, origin top left, screen size 1024x768.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
        """
        _check_point(x, y)
        return self._act(f"Clicked at ({x}, {y}).", lambda desktop: desktop.click(x, y))

    def double_click(self, x: int, y: int) -> Observation:
        """Double-click the left mouse button at a point; in a text field this selects a word.

        Coordinates are screen pixels, origin top left, screen size 1024x768.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
        """
        _check_point(x, y)
        return self._act(
            f"Double-clicked at ({x}, {y}).",
            lambda desktop: desktop.click(x, y, count=2),
        )

    def scroll(self, x: int, y: int, dy: int) -> Observation:
        """Turn the mouse wheel while the pointer is at a point.

        Coordinates are screen pixels, origin top left, screen size 1024x768.

        Args:
            x: Pixels from the left edge, 0 to 1023.
            y: Pixels from the top edge, 0 to 767.
            dy: Pixels to scroll, -5000 to 5000: positive shows what is further down,
                negative what is further up.
        """
        _check_point(x, y)
        if abs(dy) > MAX_SCROLL:
            raise ValueError(f"dy is too large: must be {-MAX_SCROLL} to {MAX_SCROLL}")
        return self._act(
            f"Scrolled by {dy} at ({x}, {y}).", lambda desktop: desktop.scroll(x, y, dy)
        )

    def type(self, text: str) -> Observation:
        """Type text into the focused text field, at the caret or in place of the selected text.

        Click the field first.

        Args:
            text: The text, at most 500 characters on one line. Use the key tool for
                Enter and Tab.

        Note:
            If no text field has the focus, nothing happens.
        """
        if len(text) > MAX_TEXT:
            raise ValueError(
                f"text is too long: {len(text)} characters, at most {MAX_TEXT}"
            )
        if not text.isprintable():
            raise ValueError(
                "text holds control characters: use key for Enter, Tab and the like"
            )
        return self._act(
            f"Typed {len(text)} characters.", lambda desktop: desktop.type(text)
        )

    def key(self, keys: str) -> Observation:
        """Press one key or key combination.

        Args:
            keys: One of Tab, shift+Tab, Enter, Escape, space, Backspace, Delete, ctrl+a,
                Left, Right, Up, Down, Home, End, PageUp, PageDown.
        """
        key = _ALIASES.get(keys.strip().lower())
        if key is None:
            raise ValueError(
                f"unknown key {keys[:40]!r}: use one of {', '.join(_KEYS)}"
            )
        return self._act(f"Pressed {key}.", lambda desktop: desktop.key(key))

    def wait(self, seconds: float) -> Observation:
        """Wait, then look at the screen.

        Args:
            seconds: Seconds to wait, 0 to 5.

        Note:
            On the canvas, where time is virtual, nothing sleeps.
        """
        if not 0 <= seconds <= MAX_WAIT:
            raise ValueError(
                f"cannot wait {seconds} seconds: must be 0 to {MAX_WAIT:g}"
            )
        return self._act(
            f"Waited {seconds:g} seconds.", lambda desktop: desktop.wait(seconds)
        )

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

        "values" maps the name of each field to a str, a bool (check box) or the chosen
        option; "focus" and "open" name the focused control and the open drop-down, or
        are None; "scroll" is the offset of the content in pixels; "saved" is the values
        at the last Save, or None.
        """
        return copy.deepcopy(self._state)

    def reward(self) -> float:
        """1.0 if the episode ended with status success and its goal holds, else 0.0."""
        solved = (
            self.status == "success"
            and bool(self._goal)
            and _holds(self._goal, self._state)
        )
        return float(solved)

    def close(self) -> None:
        """Release the desktop; state() and reward() keep their answers."""
        self._closed = True
        desktop, self._desktop = self._desktop, None
        if desktop is not None:
            desktop.close()

    def _act(
        self, output: str, action: Callable[[Desktop], None] = lambda desktop: None
    ) -> Observation:
        if self.status is not None:
            raise ValueError(
                f"the episode is over: terminate({self.status!r}) was called"
            )
        if self._closed:
            raise ValueError("the desktop is closed")
        if self.infrastructure_failure is not None:
            raise DesktopError(self.infrastructure_failure)
        try:
            if self._desktop is None:
                self._desktop = Desktop(FORM, self._start)
            action(self._desktop)
            self._state = self._desktop.state()
            png = self._desktop.screenshot()
        except Exception as error:
            # The arguments were checked, so this is not the policy's fault.
            log.exception("the desktop failed")
            reason = str(error).partition("\n")[0] or type(error).__name__
            self.infrastructure_failure = f"the desktop failed: {reason}"
            raise DesktopError(self.infrastructure_failure) from error
        return Observation(
            output, "data:image/png;base64," + base64.b64encode(png).decode()
        )

    @staticmethod
    def missing_requirement() -> str | None:
        """Return the reason why this machine cannot run an episode, or None."""
        return missing()

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The tool calls that solve `task` on a fresh desktop: (tool, arguments) pairs."""
        current = _initial_values(task.get("start"))
        wanted = current | task.get("goal", {}).get("saved", {})
        calls: list[tuple[str, dict[str, Any]]] = []
        offset = 0
        for control in FORM["controls"]:
            name = control["name"]
            if control["kind"] != "button" and wanted[name] == current[name]:
                continue
            if dy := _scroll_to(control, offset):
                calls.append(
                    ("scroll", {"x": SCREEN[0] // 2, "y": SCREEN[1] // 2, "dy": dy})
                )
                offset = _scrolled(offset, dy)
            calls.append(("left_click", _point(control, offset)))
            if control["kind"] != "button":
                calls += _entry(control, current[name], wanted[name])
        return [*calls, ("terminate", {"status": "success"})]
