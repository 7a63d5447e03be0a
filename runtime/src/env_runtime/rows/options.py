"""The options that all make_rows.py have in common, and the files that they write."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from .. import project
from ..command_line import new_parser, row_count
from ..errors import RolloutError
from ..evaluation.rows import shown

LONG_PROMPT = 20_000  # characters


def read_options(
    description: str | None, arguments: list[str] | None, **about: str
) -> argparse.Namespace:
    """The options of a command. `about` says what seed, train and validation are.

    Exits if they make no sense together.
    """
    parser = new_parser(description)
    add = parser.add_argument
    add("--seed", type=int, default=0, help=about["seed"])
    for name in ("train", "validation"):
        add(f"--{name}", type=row_count, metavar="N", help=about[name] + "; 0 for none")
    add("--example", action="store_true", help="write only example.jsonl, anew")
    folder = project.here().rows.parent
    add("--output", type=Path, default=folder, metavar="FOLDER", help="data")
    add("--overwrite", action="store_true", help="replace files that are there")
    options = parser.parse_args(arguments)
    if options.example and (options.train, options.validation) != (None, None):
        parser.error("--example goes without --train and --validation")
    if options.train == options.validation == 0:
        parser.error("--train 0 and --validation 0 leave nothing to write")
    return options


def refuse_to_replace(paths: Iterable[Path]) -> None:
    """Raise RolloutError if one of the files already exists."""
    for path in filter(Path.exists, paths):
        raise RolloutError(
            f"{shown(path)} already exists: add --overwrite to replace it, or name "
            "another folder with --output"
        )
