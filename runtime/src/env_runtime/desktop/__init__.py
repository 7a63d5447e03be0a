"""The desktop of one episode, with one window that shows a form.

Each backend is a module here, and has the same two names:

    from env_runtime.desktop.canvas import Desktop

Desktop      makes a desktop: click, scroll, type, key, wait, state, screenshot, close
missing()    what this machine lacks to run an episode, or None

`Desktop(form, values)` takes what lay_out() returns, and for the name of each field the
value that it opens with. Points are pixels from the top left corner of the screen. The
caller has checked points, keys and text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

HEIGHTS = {"text": 36, "choice": 36, "check": 28, "button": 40}
LABEL, GAP = 20, 20  # height of the label above a field, and of the space below it


def lay_out(
    title: str, screen: tuple[int, int], controls: Sequence[tuple[str, str, Any]]
) -> dict[str, Any]:
    """The form as the backends read it, with the controls in one column.

    A control is (name, label, kind): "text", "check", "button", or a list of options.

    A box is [left, top, width, height] in pixels. "window", and "view", the part of it
    that scrolls, are on the screen. The box of a control is within the content, which is
    "height" high. "option" is the height of one row of an open list.
    """
    placed, top = [], GAP
    for name, label, kind in controls:
        control = {"name": name, "label": label, "kind": kind}
        if isinstance(kind, list):
            control |= {"kind": "choice", "options": kind}
        top += LABEL if control["kind"] in ("text", "choice") else 0
        width, height = 140 if kind == "button" else 560, HEIGHTS[control["kind"]]
        placed.append(control | {"box": [32, top, width, height]})
        top += height + GAP
    place = {"window": [192, 32, 640, 672], "view": [192, 76, 640, 588], "height": top}
    sizes = {"screen": list(screen), "label": LABEL, "option": 30}
    return {"title": title, "controls": placed, **place, **sizes}


def page(form: Mapping[str, Any], values: Mapping[str, Any], notch: int) -> str:
    """The HTML of a form that opens with `values`.

    `notch` is how far one wheel event scrolls, in pixels. With 0, the event itself says
    how far.
    """
    data = json.dumps({"form": form, "values": values, "notch": notch})
    text = resources.files(__name__).joinpath("page.html").read_text("utf-8")
    # An escaped "<" keeps text from ending the script element.
    return text.replace("__DATA__", data.replace("<", r"\u003c"))
