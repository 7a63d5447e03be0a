"""The rows of a dataset out of a generator of tasks, and what make_rows.py's command does."""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from plumbing.records import (
    HERE,
    ROWS,
    GateError,
    RolloutError,
    Row,
    load_rows,
    one_line,
    with_tools,
    write_rows,
)

# What a policy reads, what the class is made of (a dict, or the pydantic model that its
# constructor takes), and how hard that is: "easy", "medium" or "hard".
Example = tuple[str, Any, str]
Tasks = Callable[[random.Random], Iterable[Example]]

LEVELS = ("easy", "medium", "hard")
SPLITS = ("example", "validation", "train")
# A generator that repeats itself this often in a row is taken to have nothing new.
PATIENCE = 10_000


def example_rows(tasks: Tasks, count: int, seed: int = 0) -> list[Row]:
    """The first `count` different tasks of a seed as rows, which have no tools yet."""
    return cut(tasks, seed, {"example": count})["example"]


def cut(
    tasks: Tasks, seed: int, counts: dict[str, int], taken: Iterable[str] = ()
) -> dict[str, list[Row]]:
    """Rows for each split, `counts` of them, which have no tools yet.

    No task is in two splits, twice in one, or among `taken`, which holds task_key()s.
    The splits are filled in the order of `counts`: to ask for more of the last one
    leaves the others as they are.

    Raises RolloutError if there are fewer tasks, or if one of them is not an Example.
    """
    wanted = sum(counts.values())
    known = set(taken)
    rows = list(islice(_different(tasks(random.Random(seed)), set(known)), wanted))
    if len(rows) < wanted:
        asked = " and ".join(f"{count} for {name}" for name, count in counts.items())
        others = f" beside the {len(known)} of other splits" if known else ""
        raise RolloutError(
            f"tasks() yields only {len(rows)} different tasks{others}, too few for "
            f"{asked}: ask for fewer, or have it yield more"
        )
    stream = iter(rows)
    return {name: list(islice(stream, count)) for name, count in counts.items()}


def task_key(task: dict[str, Any]) -> str:
    """A text that two tasks share if they differ in nothing but their `id`."""
    return json.dumps({k: v for k, v in task.items() if k != "id"}, sort_keys=True)


def _different(examples: Iterable[Example], seen: set[str]) -> Iterator[Row]:
    """Rows of the examples whose task is not in `seen`, each task once."""
    repeats = 0
    for number, example in enumerate(examples, start=1):
        row = _row(example, number)
        key = task_key(row["ground_truth"][0])
        repeats = repeats + 1 if key in seen else 0
        if repeats == PATIENCE:
            return
        if not repeats:
            seen.add(key)
            yield row


def _row(example: Any, number: int) -> Row:
    try:
        prompt, task, difficulty = example
        if hasattr(task, "model_dump"):
            task = task.model_dump(mode="json")
        good = isinstance(prompt, str) and isinstance(task, dict)
        good = good and isinstance(difficulty, str)
        task = json.loads(json.dumps(task)) if good else None
    except (TypeError, ValueError):
        good = False
    if not good:
        raise RolloutError(
            f"number {number} of what tasks() yields is {one_line(example)[:200]}: it "
            "must be a prompt, a task that JSON can hold, and a difficulty such as "
            '"easy"'
        )
    params = {"input": [{"role": "user", "content": prompt}]}
    return {
        "responses_create_params": params,
        "ground_truth": [task],
        "difficulty": difficulty,
    }


# ---------------------------------------------------------------------- the command


def make(
    tasks: Tasks, seed: int, counts: dict[str, int], folder: Path, overwrite: bool
) -> Iterator[tuple[Path, list[Row]]]:
    """Write `folder`/NAME.jsonl for each split. Yields each file and its rows.

    Leaves out the tasks of the splits that are there and are not written, and those of
    data/example.jsonl. Raises RolloutError before anything is written if a file is
    there already, if there are too few tasks, or if the class refuses one; GateError if
    the class or the server cannot be imported.
    """
    paths = {name: folder / f"{name}.jsonl" for name in SPLITS}
    for name in counts:
        if paths[name].exists() and not overwrite:
            raise RolloutError(
                f"{_shown(paths[name])} is there already: add --overwrite to replace "
                "it, or name another folder with --output"
            )
    others = {path for name, path in paths.items() if name not in counts}
    others |= set() if "example" in counts else {ROWS}
    splits = cut(tasks, seed, counts, _keys(path for path in others if path.exists()))

    # Not before: it takes seconds.
    from plumbing.gates import environment, server_tools

    tools, known = server_tools(), environment()
    for name, rows in splits.items():
        for number, row in enumerate(rows, start=1):
            try:
                known.episodes.check_row(known.EnvironmentClass, row)
            except ValueError as problem:
                raise RolloutError(f"row {number} for {name}: {problem}") from None
    for name, rows in splits.items():
        written = [with_tools(row, tools) for row in rows]
        write_rows(paths[name], written)
        yield paths[name], written


def _keys(paths: Iterable[Path]) -> Iterator[str]:
    """The keys of the tasks in .jsonl files."""
    for path in paths:
        for row in load_rows(path):
            truth = row.get("ground_truth")
            if isinstance(truth, list) and truth and isinstance(truth[0], dict):
                yield task_key(truth[0])


def _shown(path: Path) -> Path:
    path = path.resolve()
    return path.relative_to(HERE) if path.is_relative_to(HERE) else path


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"must be a number of rows, got {text!r}")
    return int(text)


def main(
    tasks: Tasks,
    examples: int,
    description: str | None,
    arguments: list[str] | None = None,
) -> int:
    """The command line of make_rows.py. Returns the exit status.

    `examples` is the number of rows of data/example.jsonl.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seed", type=int, default=0, help="0, if it is not given")
    add("--train", type=_count, metavar="N", help="rows to train on (200); 0 for none")
    text = "rows to validate on (50); 0 for none"
    add("--validation", type=_count, metavar="N", help=text)
    add("--example", action="store_true", help="write only example.jsonl, anew")
    add("--output", type=Path, default=ROWS.parent, metavar="FOLDER", help="data")
    add("--overwrite", action="store_true", help="replace files that are there")
    options = parser.parse_args(arguments)
    train, validation = options.train, options.validation
    if options.example:
        if train is not None or validation is not None:
            parser.error("--example goes without --train and --validation")
        counts = {"example": examples}
    else:
        counts = {
            "validation": 50 if validation is None else validation,
            "train": 200 if train is None else train,
        }
        counts = {name: count for name, count in counts.items() if count}
        if not counts:
            parser.error("--train 0 and --validation 0 leave nothing to write")
    try:
        made = make(tasks, options.seed, counts, options.output, options.overwrite)
        for path, rows in made:
            levels = Counter(row["difficulty"] for row in rows)
            named = dict.fromkeys([*LEVELS, *sorted(levels)])
            told = ", ".join(f"{levels[one]} {one}" for one in named if levels[one])
            print(f"{_shown(path)}: {len(rows)} rows ({told})")
    except (GateError, RolloutError, OSError) as error:
        print(f"make_rows.py: {error}", file=sys.stderr)
        return 1
    return 0
