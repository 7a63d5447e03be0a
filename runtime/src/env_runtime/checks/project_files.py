"""Files of the project that repeat what the class and server.py say: rows and manifests."""

import contextlib
import math
import re
from collections.abc import Iterator
from pathlib import Path

from ..command_line import counted
from ..episode.declaration import declared
from ..episode.tasks import task_skeleton
from ..episode.tools import tools_in
from ..episode.types import Definitions
from ..errors import RolloutError
from ..evaluation.rows import (
    first_observation,
    load_rows,
    row_name,
    with_observation,
    write_rows,
)
from ..evaluation.trajectory import with_tools
from ..project import here, of_class
from ..settings import Limits
from .server import served_app


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
    if declared(domain_class).has_row_tools:
        line += " of the server, and the rows' own"
    return line


_DETERMINISM = r"(?m)^(determinism: )(unknown|stochastic)$"
_RANGE = r"(?m)^( +range: )\[ *([-+.e\d]+) *, *([-+.e\d]+) *\]$"
_SECONDS = r"(?m)^(request_timeout = |    episode_timeout_s: )([.\d]+)"


def outdated_manifests(domain_class: type) -> Iterator[tuple[Path, str, str]]:
    """Each file that contradicts the class, what is wrong, and its corrected text.

    Raises ToolError and SettingError.
    """
    # "seeded", NeMo Gym's third word, is for servers that a harness can seed anew.
    repeats = declared(domain_class).deterministic
    word = "unknown" if repeats else "stochastic"
    low, high = declared(domain_class).reward_range
    longest = declared(domain_class).longest_call(Limits.read().tool_seconds)
    gym = of_class(domain_class).gym
    paths = [*gym.glob("environments/*/manifest.yaml"), *gym.glob("../openenv/*.yaml")]
    for path in [*paths, *gym.glob("configs/*_eval.toml")]:
        text, problems = path.read_text(encoding="utf-8"), []
        found = re.search(_DETERMINISM, text)
        if found and found[2] != word:
            negated = "" if repeats else "not "
            problems.append(f"does not say that the class is {negated}deterministic")
            text = re.sub(_DETERMINISM, rf"\g<1>{word}", text)
        found = re.search(_RANGE, text)
        if found and (float(found[2]), float(found[3])) != (low, high):
            right = f"[{low}, {high}]"
            problems.append(f"does not have the class's reward_range, `range: {right}`")
            text = re.sub(_RANGE, rf"\g<1>{right}", text)
        found = re.search(_SECONDS, text)
        if found and float(found[2]) < longest:
            problems.append(f"waits {found[2]} s, but a call may take {longest:g} s")
            # Half as much again, for the way to the server and back
            text = re.sub(_SECONDS, rf"\g<1>{math.ceil(1.5 * longest)}", text)
        if problems:
            yield path, problems[0], text
