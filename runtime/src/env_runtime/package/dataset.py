"""The dataset of a package: rows with their agent, in one or two splits."""

from collections.abc import Sequence
from pathlib import Path

from ..command_line import counted
from ..episode.tasks import is_native
from ..episode.types import Row
from ..errors import DeployError
from ..evaluation.rows import hold_out, load_rows, row_name, write_rows
from ..project import Project
from .environment import agent_of
from .rules import AGENTS

Split = tuple[list[Row], list[Row]]


def write_dataset(
    folder: Path,
    projects: Sequence[Project],
    rows: Path | None,
    validation: Path | float | None,
) -> str:
    """Write training.jsonl, and validation.jsonl if there are rows for it.

    `rows` and a `validation` file are of the first project; each other one gives the rows
    that its make_rows.py made, else its examples. A number is the share of each project's
    rows that is held out. Returns a line for the user. Raises DeployError, and RolloutError
    if a file cannot be read.
    """
    train: list[Row] = []
    held: list[Row] = []
    for number, project in enumerate(projects):
        first = number == 0
        file = validation if first and isinstance(validation, Path) else None
        share = validation if isinstance(validation, float) else None
        found = _split(project, rows if first else None, file, share)
        train += found[0]
        held += found[1]
    write_rows(folder / "training.jsonl", train)
    if held:
        write_rows(folder / "validation.jsonl", held)
    return f"{counted(len(train), 'row')} to train on, {len(held)} to validate on"


def _split(
    project: Project, rows: Path | None, validation: Path | None, share: float | None
) -> Split:
    made = project.gym / "data" / "train.jsonl"
    use_made = rows is None and made.is_file()
    path = rows or (made if use_made else project.rows)
    train = _rows_of(project, path)
    beside = made.with_name("validation.jsonl")
    if validation is None and share is None and use_made and beside.is_file():
        validation = beside
    if validation:
        return train, _rows_of(project, validation)
    if share is None:
        return train, []
    kept, held = hold_out(train, share)
    if not kept:
        raise DeployError(
            f"{path} has {counted(len(train), 'row')}, too few for two splits"
        )
    return kept, held


def _rows_of(project: Project, path: Path) -> list[Row]:
    """The rows of a file, with their agent. Raises DeployError if one lacks its tools."""
    agent = {"type": AGENTS, "name": agent_of(project)}
    served = {*project.served_tools()}
    found = []
    for number, row in enumerate(load_rows(path), start=1):
        params = row.get("responses_create_params")
        tools = params.get("tools") or [] if isinstance(params, dict) else []
        lacking = served - {tool.get("name") for tool in tools}
        if lacking and not (is_native(row) and tools):
            raise DeployError(
                f"{row_name(number, path)} lacks the tools {', '.join(sorted(lacking))} of "
                f"server.py, and the agent offers what the row names: run `uv run python "
                f"gates.py --write-tools --rows {path}` in {project.gym}"
            )
        found.append({**row, "agent_ref": agent})
    return found
