"""What a player earns that learned the shortcuts of the rows from their solutions."""

import asyncio
import contextlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..command_line import counted
from ..episode.tasks import as_solution, on_task
from ..episode.types import Row, Solution
from ..errors import FixableError, RolloutError
from ..evaluation.rows import read_rows, shown
from ..project import of_class
from .attempts import MOST_SECONDS, FlawCheck, without_log
from .runner import doing
from .splits import players_of, rewards_of

SECONDS = 10.0  # rows after the first are watched and played only in this time
FRESH, MOST_ROWS = 200, 400
MAKING_SECONDS = 60  # for make_rows.py
FRESH_SEED = 7_654_321  # of make_rows.py: not one that an author takes


@dataclass
class Shortcuts:
    """The gate's note on the learned player, its figures for --json, and its mean reward."""

    text: str
    figures: dict[str, Any] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        return self.figures.get("mean")


def learn_shortcuts(
    domain_class: type, rows: list[Row], path: Path | None = None, *, fresh: bool = True
) -> Shortcuts:
    """Learn from the oracle's episodes, and play rows that this was not learned from.

    With `fresh`, make_rows.py makes further rows. `path` is the file of `rows`.
    """
    try:
        from ..probe.player import choices_made, learn
    except ModuleNotFoundError:  # the room is not there
        return Shortcuts("")
    check = FlawCheck(domain_class, rows, SECONDS, MOST_SECONDS)
    own = check.declared
    for why, text in {
        own.runs_commands: "the class runs commands",
        own.has_row_tools: "rows have tools of their own",
        bool(own.models_not_set): "stand_in() answers in place of models",
    }.items():
        if why:
            return Shortcuts(f"\nno player was learned from the solutions: {text}")
    made, said = [], ""
    if fresh and path and len(rows) < FRESH:
        made, said = _fresh(domain_class, path)
    check = FlawCheck(domain_class, [*rows[:MOST_ROWS], *made], SECONDS, MOST_SECONDS)
    with without_log():
        try:
            learned = asyncio.run(learn(check, doing))
        except (FixableError, ValueError, TimeoutError) as error:
            problem = str(error) or "a call takes too long"
            return Shortcuts(f"\nno player was learned from the solutions: {problem}")
    if learned is None:
        return Shortcuts("\nno player was learned: too few rows have a known solution")
    low, _ = check.bounds()
    least, most = learned.interval
    count = len(learned.rewards)
    figures = {
        "mean": learned.mean,
        "interval": [least, most],
        "rows": count,
        "solved": len(learned.solved),
        "rule": learned.rule if learned.mean > low else "",
        "tells": learned.tells,
    }
    text = (
        f"\na player that learned from half of {counted(count, 'row')}{said} earns "
        f"{learned.mean:.3g} ({least:.2g} to {most:.2g}) on the other half, "
        f"{len(learned.solved)} in full"
    )
    if figures["rule"]:
        text += f". It {learned.rule}"
    for name, player in players_of(domain_class).items():
        with contextlib.suppress(RolloutError, ValueError, TimeoutError):
            guesses = {
                number: _guess(domain_class, player, check.rows[number], name)
                for number in learned.played
            }
            _, solved = rewards_of(domain_class, check.rows, name, player)
            if problem := choices_made(learned, guesses, solved):
                figures["tells"].append(f"{name} {problem}")
    for tell in figures["tells"]:
        text += f"\n{tell}: draw its rank and place first, evenly, see The learned player in docs/grading.md of the template"
    return Shortcuts(text, figures)


def _guess(domain_class: type, player: Any, row: Row, name: str) -> Solution:
    returned = on_task(domain_class, player, row, name)
    return as_solution(domain_class, returned or [], name)


def _fresh(domain_class: type, path: Path) -> tuple[list[Row], str]:
    """Rows that make_rows.py makes, which are in no file, or those of other files."""
    project = of_class(domain_class)
    command = project.gym / "make_rows.py"
    rows: list[Row] = []
    if command.is_file() and path.parent.resolve() == project.rows.parent.resolve():
        doing(f"make_rows.py makes {FRESH} rows")
        with tempfile.TemporaryDirectory() as folder:
            arguments = [f"--train={FRESH}", "--validation=0", f"--seed={FRESH_SEED}"]
            arguments.append(f"--output={folder}")
            with contextlib.suppress(OSError, subprocess.TimeoutExpired, FixableError):
                subprocess.run(
                    [sys.executable, str(command), *arguments],
                    cwd=project.gym,
                    capture_output=True,
                    timeout=MAKING_SECONDS,
                    check=False,
                )
                rows = read_rows(domain_class, Path(folder) / "train.jsonl")
    if rows:
        return rows, f" ({len(rows)} of them made anew)"
    for name in ("train", "validation"):
        other = path.with_name(f"{name}.jsonl")
        if other.is_file() and other != path:
            with contextlib.suppress(FixableError):
                rows += islice(read_rows(domain_class, other), FRESH - len(rows))
                return rows, f" ({len(rows)} of them in {shown(other)})"
    return rows, ""
