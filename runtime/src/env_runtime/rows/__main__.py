"""Write the class and make_rows.py of an environment over a dataset.

    uv run python -m env_runtime.rows SOURCE [--prompt TEMPLATE] [--grader GRADER]
                                      [--expected COLUMN[=PATTERN]] [--splits SPLITS]

SOURCE is a file of records (JSONL, JSON, CSV, TSV, Parquet, Arrow), a folder or a glob of
them, or hf:owner/name[:config]. What is not named is chosen by the first records, and
printed with the reason. Both files are written anew. Then run:

    uv run python make_rows.py --example --overwrite
    uv run python gates.py
"""

import contextlib
import json
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..command_line import counted, exit_status, new_parser
from ..episode.chat import responses_input
from ..episode.types import content_text, images_in
from ..errors import one_line
from ..evaluation.rows import prompt_text
from ..facts import GRADERS
from ..files import write_atomically
from ..project import here
from . import programs
from .asking import OwnGrade
from .choosing import Chooser
from .plan import Columns, Unfit, shown
from .records import Record, Source, part_of, parts_named, splits_of
from .source import class_source, rows_source

RECORDS = 1000  # so many of each split are looked at

UNFINISHED = "  # unfinished: "  # a class that this command has to write


def main(arguments: list[str] | None = None) -> int:
    """Write the class's file and make_rows.py. Returns the exit status."""
    parser = new_parser(__doc__)
    parser.prog = "env_runtime.rows"
    add = parser.add_argument
    add("source", metavar="SOURCE", help="from this folder")
    add("--prompt", default="", help="such as '{question}', or a column of messages")
    add("--expected", default="", help="such as answer, or 'answer=#### (.*)'")
    add("--grader", choices=GRADERS, help="what compares the answer")
    add("--overwrite", action="store_true", help="replace what is there")
    add("--splits", default="", help="such as train=train,validation=dev")
    add("--tests", action="store_true", help="the records are programs with tests")
    options = parser.parse_args(arguments)

    def run() -> int:
        place, splits, project = options.source, parts_named(options.splits), here()
        hub = place.startswith("hf:")
        source = place if hub else os.path.normpath(os.path.expanduser(place))
        parts = {ours: part_of(source, its) for ours, its in splits.items()}
        # A dataset on the Hub may be larger than what one wants to load here.
        records = some_records(parts or source, whole=not hub)
        every = (
            records if hub else chain.from_iterable(splits_of(parts or source).values())
        )
        if not place.startswith(("hf:", "/", "~")):
            place = Path(os.path.relpath(source, project.gym)).as_posix()
        name = source.partition(":")[2] if hub else Path(source).name
        module = project.root / project.folder / project.module.replace(".", "/")
        package = module / "__init__.py"
        of_class = package if package.exists() else module.with_suffix(".py")
        paths = [of_class, project.gym / "make_rows.py"]
        kept = [path for path in paths if not options.overwrite and _is_finished(path)]
        if options.tests:
            plan, kept = Columns(grader="tests"), [of_class]
            programs.check_programs(records)
            example = "tested_program"
            lines = [f"{name}: looked at {counted(len(records), 'program')} with tests"]
        else:
            given = {name: getattr(options, name) for name in CHOICES}
            given = {name: value for name, value in given.items() if value}
            command = f"{COMMAND} {shlex.quote(options.source)}"
            chooser = Chooser(records, command, given)
            chooser.plan.adds = of_class not in kept
            lines = _chosen(chooser, every, options, name, of_class)
            plan, example = chooser.plan.columns, "dict" if chooser.native else ""
        title = f"Questions of {name}, with a grade."
        sources = [
            class_source(plan, project.class_name, title),
            rows_source(plan, name, place, splits, example),
        ]
        for path, text in zip(paths, sources, strict=True):
            if path in kept:
                if not options.tests:
                    print(f"{path.name} is there and stays: --overwrite replaces it")
                continue
            with write_atomically(path) as file:
                file.write(text.encode())
        print(*lines, sep="\n")
        return 0

    return exit_status("rows", run)


def _chosen(
    chooser: Chooser,
    every: Iterable[Record],
    options: Namespace,
    name: str,
    of_class: Path,
) -> list[str]:
    """Choose the plan for every record. Returns the lines that show it."""
    rows = chooser.records
    try:
        chooser.choose(**{name: getattr(options, name) for name in CHOICES})
    except OwnGrade as error:
        chooser.without_gold()
        line = (
            f"{name} wants a grade of its own: {error}. Write reward(answer) and oracle(task) in "
            f"{of_class.name}, and the prompt in make_rows.py. The gates fail until then"
        )
        return [line]
    if not chooser.native:
        chooser.count_fits(every, asked=bool(options.grader or options.expected))
    return [*told(chooser, name, rows)]


CHOICES = ("prompt", "expected", "grader")
COMMAND = "uv run python -m env_runtime.rows"


def some_records(source: Source, whole: bool) -> list[Record]:
    """Records of each split; test comes last, because it may lack answers.

    They are the first of a split and, if it is read to its end as `whole` says, as many of
    the others, at equal distances: a file may be sorted by its answers.
    """
    parts = splits_of(source)
    names = sorted(parts, key=lambda name: (name == "test", name != "train"))
    if not whole:
        return [record for name in names for record in islice(parts[name], RECORDS)]
    return [record for name in names for record in _spread(parts[name])]


def _spread(records: Iterator[Record]) -> list[Record]:
    half = RECORDS // 2
    first, others = [*islice(records, half)], list[Record]()
    step = 1
    for number, record in enumerate(records):
        if number % step == 0:
            others.append(record)
        if len(others) == 2 * RECORDS:
            others, step = others[::2], 2 * step
    count = min(half, len(others))
    return first + [others[n * len(others) // count] for n in range(count)]


def told(chooser: Chooser, name: str, rows: list[Record]) -> Iterator[str]:
    """Lines that show a plan: what became of each column, and a row as the policy sees it."""
    plan, records = chooser.plan.columns, chooser.records
    yield f"{name}: looked at {counted(len(records), 'question')}"
    yield from (f"  {reason}" for reason in chooser.reasons)
    unused = chooser.unused
    if left := [name for name in chooser.columns if name in unused]:
        yield f"  left out: {', '.join(left)}"
    for why in dict.fromkeys(filter(None, unused.values())):
        yield f"    {why}: {', '.join(n for n in left if unused[n] == why)}"
    if chooser.native:
        yield from _native(plan, rows[0], records[0])
        return
    for record in records:
        with contextlib.suppress(Unfit):
            row = plan.apply(record)
            yield f"The first row ({record.place}):"
            yield from (f"  | {line}" for line in _as_seen(row.prompt).splitlines())
            yield f"What earns 1.0: {solution_text(plan, row.task)}"
            return


def _native(plan: Columns, row: Record, task: Record) -> Iterator[str]:
    """Lines that show a row of NeMo Gym's."""
    yield f"The first row ({row.place}):"
    yield from (f"  | {line}" for line in prompt_text(row)[:2000].splitlines())
    yield f"expected: {plan.key}, such as {shown(task.get(plan.key))!r}"
    with contextlib.suppress(ValueError, TypeError, KeyError):
        yield f"What earns 1.0: {solution_text(plan, task)}"


def _as_seen(prompt: Any) -> str:
    items = responses_input(prompt)
    texts = [content_text(item.get("content")) for item in items]
    count = len(images_in(items))
    return "\n".join([*texts, *["[image]"] * count])[:2000]


def solution_text(plan: Columns, task: dict[str, Any]) -> str:
    """An answer that earns the highest reward, for people."""
    gold = task[plan.key]
    if not plan.grading.boxed:
        return one_line(json.dumps(gold, ensure_ascii=False), 200)
    taken = [gold, task["options"]] if "options" in task else [gold]
    text = plan.grading.of(*taken).solution()
    if plan.grading.all:
        return text
    if isinstance(options := task.get("options"), list):
        text += f", which is {options[ord(text[7]) - ord('A')]!r:.80}"
    if isinstance(gold, list) and len(gold) > 1:
        text += f", or another of {len(gold)}"
    return text


def _is_finished(path: Path) -> bool:
    return path.exists() and UNFINISHED not in path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
