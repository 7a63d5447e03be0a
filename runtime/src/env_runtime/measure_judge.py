"""Compare the grades of a judge with labels that people gave.

uv run python -m {package}.measure_judge labelled.jsonl

Each line is a row of the dataset with two keys more: `answer`, the policy's last
message, and `label`, the reward that it deserves. The class grades the answers. This
prints how many grades equal their labels, and a table of both. It uses the judge of the
server: JUDGE_MODEL, JUDGE_BASE_URL and JUDGE_API_KEY, if its name is judge.
"""

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from . import project
from .command_line import exit_status, new_parser, positive
from .episode.episode import Episode
from .episode.session import Session
from .episode.tasks import task_of
from .episode.types import Row
from .errors import RolloutError
from .evaluation.rows import load_rows, row_name
from .models.client import Models, models_not_set
from .settings import StandInSettings

SECONDS = 600  # time limit for one grade

Pair = tuple[float, float]  # a label, and the grade of the same answer


def main(arguments: list[str] | None = None) -> int:
    """Print how well grades and labels agree. Returns the exit status."""
    return exit_status("measure_judge", lambda: _run(_parse(arguments)))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("file", type=Path, help="rows with answer and label")
    text = "answers that are graded at a time (8)"
    parser.add_argument("--concurrency", type=positive, default=8, help=text)
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace) -> int:
    rows = load_rows(options.file)
    for number, row in enumerate(rows, start=1):
        label, answer = row.get("label"), row.get("answer")
        if not isinstance(label, int | float) or not isinstance(answer, str):
            raise RolloutError(
                f"{row_name(number, options.file)} needs an `answer` (a text) and a "
                f"`label` (the reward that the answer deserves), got {answer!r:.50} "
                f"and {label!r:.50}"
            )
    domain_class = project.here().load_class()
    grades = asyncio.run(grades_of(domain_class, rows, options.concurrency))
    failed = [grade.failure for grade in grades if grade.failure]
    pairs = [
        (float(row["label"]), grade.reward)
        for row, grade in zip(rows, grades, strict=True)
        if not grade.failure
    ]
    print("\n".join(agreement(pairs)))
    if unreadable := sum(grade.unreadable for grade in grades):
        why = "what the model said is no choice, or does not fit the schema"
        print(f"unreadable: {unreadable} of {len(rows)}, because {why}")
    if refused := sum(grade.refused for grade in grades):
        why = "the model answers, but not these texts: see the warnings"
        print(f"refused: {refused} of {len(rows)}, because {why}")
    if models_not_set(domain_class) and StandInSettings.read().stand_in:
        print("no model was asked: the class's stand_in() answered (STAND_IN=1)")
    if failed:
        print(f"not graded: {len(failed)} of {len(rows)}, the first: {failed[0]}")
    return 1 if failed else 0


class Grade(NamedTuple):
    """The grade of one answer, or why there is none."""

    reward: float = 0.0
    failure: str = ""
    unreadable: bool = False  # whether what a model said could not be read
    refused: bool = False  # whether a model gave this text no answer


async def grades_of(
    domain_class: type, rows: Iterable[Row], concurrency: int = 8
) -> list[Grade]:
    """The grade of each row's `answer`."""
    models, room = Models(domain_class), asyncio.Semaphore(concurrency)

    async def grade(row: Row) -> Grade:
        # `answer` and `label` are not keys of a native row's task.
        task = task_of({k: v for k, v in row.items() if k not in ("answer", "label")})
        asked = models.of_episode()
        async with room:
            session = Session.of(domain_class, task)
            try:
                await session.start(
                    lambda: Episode(domain_class, task, models=asked), SECONDS
                )
                reward = await session.reward(row["answer"], SECONDS)
            except Exception as error:  # noqa: BLE001 - the class may raise anything
                failure = asked.failure or f"{type(error).__name__}: {error}"
                return Grade(failure=failure)
            finally:
                await session.close(SECONDS)
        assert session.episode is not None
        failure = asked.failure or session.episode.failure or ""
        counted = asked.counted
        return Grade(reward, failure, counted("unreadable"), counted("refused"))

    return await asyncio.gather(*map(grade, rows))


def agreement(pairs: list[Pair]) -> list[str]:
    """Lines that say how many grades equal their labels, and a table of both."""
    if not pairs:
        return ["no answer was graded"]
    same = sum(abs(label - grade) < 1e-6 for label, grade in pairs)
    lines = [f"accuracy: {same / len(pairs):.3f} ({same} of {len(pairs)})", ""]
    texts = [(f"{label:g}", f"{grade:.3g}") for label, grade in pairs]
    counts = Counter(texts)
    labels = sorted({label for label, _ in texts}, key=float)
    grades = sorted({grade for _, grade in texts}, key=float)
    lines.append("label \\ grade" + "".join(f"{grade:>8}" for grade in grades))
    for label in labels:
        cells = "".join(f"{counts[label, grade]:>8}" for grade in grades)
        lines.append(f"{label:>13}{cells}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
