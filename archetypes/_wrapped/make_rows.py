"""Make rows for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite. If the class has an
observation(), each prompt ends with it.

This file is yours: write tasks(). So far it makes one row.
"""

import random
import sys
from collections.abc import Iterator

from env_runtime.rows import Example, main, task_skeleton

from my_env import MyEnv as EnvironmentClass

EXAMPLES = 1  # number of rows in data/example.jsonl

PROMPT = "DESCRIPTION"


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), as many as there are."""
    # The task has every key that the class's constructor reads, with its default or
    # None. Write a loop here that yields a task for each set of values. Let nothing but
    # `rng` decide them: `task["seed"] = rng.randrange(10**6)`.
    task = task_skeleton(EnvironmentClass)
    yield Example(PROMPT, task, "easy")  # or "medium", "hard"


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
