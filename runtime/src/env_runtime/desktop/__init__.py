"""The desktop of one episode, with one window that shows a form.

Each backend is a module here, and has the same two names:

    from env_runtime.desktop.canvas import Desktop

Desktop      makes a desktop: click, scroll, type, key, wait, state, screenshot, close
missing()    what this machine lacks to run an episode, or None
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any


def page(form: Mapping[str, Any], values: Mapping[str, Any], notch: int) -> str:
    """The HTML of a form that opens with `values`.

    `notch` is how far one wheel event scrolls, in pixels. With 0, the event itself says
    how far.
    """
    data = json.dumps({"form": form, "values": values, "notch": notch})
    text = resources.files(__name__).joinpath("page.html").read_text("utf-8")
    # An escaped "<" keeps text from ending the script element.
    return text.replace("__DATA__", data.replace("<", r"\u003c"))
