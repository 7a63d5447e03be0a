"""Rows that can be played on this server: its tools, and tasks that the class takes."""

import contextlib
from pathlib import Path

from ..command_line import counted
from ..episode.declaration import declared
from ..episode.tasks import task_skeleton
from ..episode.tools import tools_in
from ..episode.types import Definitions
from ..errors import RolloutError
from ..evaluation.observations import first_observation, with_observation
from ..evaluation.rows import load_rows, row_name, write_rows
from ..evaluation.trajectory import with_tools
from ..project import here
from .app import served_app
from .manifests import outdated_manifests


def server_tools() -> Definitions:
    """The definitions of the tools that server.py serves.

    Raises GateError if the class or the server cannot be imported.
    """
    here().load_class()  # for its own error, which names the class's file
    app = served_app()
    # Called directly, so that this module need not import NeMo Gym.
    [tools] = (
        route.endpoint
        for route in app.routes
        if getattr(route, "path", None) == "/tools"
    )
    return tools()["tools"]


def write_tools(path: Path) -> str:
    """Give every row of a .jsonl file the server's tool definitions.

    A row keeps the tools that only it has, if the class has call_row_tool(). A row of a
    new project, whose task is empty, also gets a skeleton of a task and, if the class
    takes the skeleton, the class's observation() of it. NeMo Gym's manifests are
    corrected, too. Returns one line for the user. Raises RolloutError if the file cannot
    be read, or a line is not a row.
    """
    definitions, domain_class = server_tools(), here().load_class()
    rows = load_rows(path)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row.get("responses_create_params"), dict):
            problem = "responses_create_params must be an object"
            raise RolloutError(f"{row_name(number, path)}: {problem}")
    rows = [with_tools(row, tools_in(domain_class, row, definitions)) for row in rows]
    for number, row in enumerate(rows):
        if row.get("ground_truth") == [{}]:
            row["ground_truth"] = [task_skeleton(domain_class)]
            with contextlib.suppress(RolloutError):  # the class may refuse the skeleton
                observation = first_observation(domain_class, row)
                rows[number] = with_observation(row, observation)
    write_rows(path, rows)
    for manifest, _, corrected in outdated_manifests(domain_class):
        manifest.write_text(corrected, encoding="utf-8")
    line = f"{counted(len(rows), 'row')} of {path} with {counted(len(definitions), 'tool')}"
    return line + (
        ", and with their own" if declared(domain_class).has_row_tools else ""
    )
