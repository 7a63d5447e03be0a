"""Make rows for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite. Each row lists the tools
that the server has now.

This file is yours: write tasks(). So far it makes one row, which needs no tool.
"""

import random
import sys
from collections.abc import Iterator

from env_runtime.graders import INSTRUCTIONS
from env_runtime.rows import Example, main

EXAMPLES = 1  # number of rows in data/example.jsonl


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as Example(prompt, task, difficulty, oracle=...), as many as there are."""
    # Say what to do with the server's tools. `oracle` are the calls that do it, as
    # (tool, arguments), with the final answer as a text at the end. In the task,
    # "files": {path: text} are there before, and "expected_state" are calls as
    # [tool, arguments, answer] that the server must answer so afterwards.
    prompt = f"Which day follows Monday?\n\n{INSTRUCTIONS}"
    task = {"expected_answer": "Tuesday"}
    yield Example(prompt, task, "easy", oracle=["\\boxed{Tuesday}"])


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
