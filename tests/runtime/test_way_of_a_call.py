"""The way of a request through the runtime: its files are those of how-it-works.md."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import env_runtime
import pytest
import requests
from env_runtime.resources_server.connections import BoundedProtocol

from projects import ROOT

from .conftest import over_http
from .support import until

PACKAGE = Path(env_runtime.__file__).parent
PAGE = ROOT / "docs/internals/how-it-works.md"


def functions_of(action: Callable[[], Any]) -> list[tuple[str, str]]:
    """The functions of the server that run during an action, in the order of their first call.

    Each is a file of the runtime and a name. All threads count.
    """
    found: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            place = path.relative_to(PACKAGE).as_posix()
            found.setdefault((place, frame.f_code.co_name))

    threading.setprofile_all_threads(note)
    try:
        action()
    finally:
        threading.setprofile_all_threads(None)
    return list(found)


def files_on_page(title: str) -> list[str]:
    """The files of the numbered list below the line of the page that starts with `title`."""
    text = PAGE.read_text().partition(f"\n{title}")[2]
    listed = text.split("\n\n")[1]
    return re.findall(r"^\d+\. `([\w/.]+)`", listed, re.MULTILINE)


@pytest.mark.parametrize(
    ("path", "title", "most"),
    [("/guess", "One tool call", 30), ("/verify", "One verdict", 46)],
)
def test_the_way_is_short_and_on_the_page(serve, rows, verify_body, path, title, most):
    bodies = {"/guess": {"word": "crane"}, "/verify": verify_body(rows[0])}
    server = serve()
    with over_http(server, http=BoundedProtocol) as port, requests.Session() as client:

        def post(to: str, body: Any) -> None:
            url = f"http://127.0.0.1:{port}{to}"
            assert client.post(url, json=body).status_code == 200

        def act() -> None:
            post(path, bodies[path])
            until(lambda: not server._store._closing)  # the episode of a verdict

        post("/seed_session", rows[0])
        post("/guess", bodies["/guess"])
        way = functions_of(act)
    files = list(dict.fromkeys(file for file, _ in way))
    assert len(way) <= most, way
    assert len(files) <= 10, files
    assert files == files_on_page(title)
