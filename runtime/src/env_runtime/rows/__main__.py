"""Write the class and make_rows.py of an environment over a dataset.

    uv run python -m env_runtime.rows SOURCE [--prompt TEMPLATE] [--grader GRADER]
                                      [--expected COLUMN[=PATTERN]] [--splits SPLITS]

SOURCE is a file of records (JSONL, JSON, CSV, TSV, Parquet, Arrow), a folder or a glob of
them, or hf:owner/name[:config]. What is not named is chosen by the first records, and
printed with the reason. Both files are written anew. Then run:

    uv run python make_rows.py --example --overwrite
    uv run python gates.py
"""

import os
import sys
from itertools import islice
from pathlib import Path

from ..command_line import counted, exit_status, new_parser
from ..files import write_atomically
from ..project import here
from .plan import GRADERS, RECORDS, Plan, part_of, splits_of
from .records import read
from .sources import class_source, rows_source

UNFINISHED = "  # unfinished: "  # a class that this command has to write


def main(arguments: list[str] | None = None) -> int:
    """Write the class's file and make_rows.py. Returns the exit status."""
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("source", metavar="SOURCE", help="from this folder")
    add("--prompt", default="", help="such as '{question}', or a column of messages")
    add("--expected", default="", help="such as answer, or 'answer=#### (.*)'")
    add("--grader", choices=GRADERS, help="what compares the answer")
    add("--overwrite", action="store_true", help="replace what is there")
    add("--splits", default="", help="such as train=train,validation=dev")
    options = parser.parse_args(arguments)

    def run() -> int:
        place, splits, project = options.source, splits_of(options.splits), here()
        hub = place.startswith("hf:")
        source = place if hub else os.path.normpath(os.path.expanduser(place))
        parts = {ours: part_of(source, its) for ours, its in splits.items()}
        plan = Plan([dict(each) for each in islice(read(parts or source), RECORDS)])
        plan.choose(options.prompt, options.expected, options.grader)
        if not place.startswith(("hf:", "/", "~")):
            place = Path(os.path.relpath(source, project.gym)).as_posix()
        name = source.partition(":")[2] if hub else Path(source).name
        module = project.root / project.folder / project.module.replace(".", "/")
        package = module / "__init__.py"
        of_class = package if package.exists() else module.with_suffix(".py")
        paths = [of_class, project.gym / "make_rows.py"]
        kept = [path for path in paths if not options.overwrite and _is_finished(path)]
        plan.keeps_class = of_class in kept
        sources = [
            class_source(
                plan, project.class_name, f"Questions of {name}, with a grade."
            ),
            rows_source(plan, name, place, splits),
        ]
        for path, text in zip(paths, sources, strict=True):
            if path in kept:
                print(f"{path.name} is there and stays: --overwrite replaces it")
                continue
            with write_atomically(path) as file:
                file.write(text.encode())
        print(f"{name}: looked at {counted(len(plan.records), 'question')}")
        print(*(f"  {reason}" for reason in plan.reasons), sep="\n")
        if unused := plan.left_out():
            print(f"  left out: {', '.join(unused)}")
        return 0

    return exit_status("rows", run)


def _is_finished(path: Path) -> bool:
    return path.exists() and UNFINISHED not in path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
