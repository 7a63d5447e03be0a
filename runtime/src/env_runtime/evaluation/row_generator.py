"""Rows of a dataset, made from a generator of tasks."""

import json
import random
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from itertools import islice
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from ..episode.types import Row
from ..errors import RolloutError, one_line

SPLIT_NAMES = ("example", "validation", "train")
LEVELS = ("easy", "medium", "hard")
# A generator that repeats known tasks this many times in a row has nothing new.
PATIENCE = 10_000


class Example(NamedTuple):
    """One row's content. A plain tuple of the first three values will do, too."""

    prompt: str
    task: Any  # as the class's constructor takes it: a dict, a model, a dataclass
    difficulty: str  # "easy", "medium" or "hard"
    oracle_reward: float | None = None  # None: the highest reward of the class
    baseline_reward: float | None = None  # None: 0.0, or the lowest reward


Tasks = Callable[[random.Random], Iterable[Example | tuple[str, Any, str]]]


def example_rows(tasks: Tasks, count: int, seed: int = 0) -> list[Row]:
    """The first `count` different tasks of a seed as rows, which have no tools yet."""
    return cut(tasks, seed, {"example": count})["example"]


def cut(
    tasks: Tasks, seed: int, counts: dict[str, int], taken: Iterable[str] = ()
) -> dict[str, list[Row]]:
    """Rows for each split, `counts` of them, which have no tools yet.

    No task is in two splits, twice in one, or among `taken`, which holds task_key()s.
    The splits are filled in the order of `counts`: more rows for the last one leave the
    others as they are.

    Raises RolloutError if there are fewer tasks, or if one of them is not an Example.
    """
    total = sum(counts.values())
    excluded = set(taken)
    examples = tasks(random.Random(seed))
    rows = list(islice(_different(examples, set(excluded)), total))
    if len(rows) < total:
        sizes = " and ".join(f"{count} for {name}" for name, count in counts.items())
        others = f" beside the {len(excluded)} of other splits" if excluded else ""
        raise RolloutError(
            f"tasks() yields only {len(rows)} different tasks{others}, too few for "
            f"{sizes}: ask for fewer, or have it yield more"
        )
    stream = iter(rows)
    return {name: list(islice(stream, count)) for name, count in counts.items()}


def task_key(task: dict[str, Any]) -> str:
    """A text that two tasks share if they differ in nothing but their `id`."""
    return json.dumps({k: v for k, v in task.items() if k != "id"}, sort_keys=True)


def _different(examples: Iterable[Any], seen: set[str]) -> Iterator[Row]:
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
    def check(good: bool, must: str) -> None:
        if not good:
            item = textwrap.shorten(repr(example), 200, placeholder=" ...")
            raise RolloutError(f"item {number} of tasks() is {item}: {must}")

    is_tuple = isinstance(example, tuple | list) and 3 <= len(example) <= 5
    check(is_tuple, "it must be an Example, or a prompt, a task and a difficulty")
    prompt, task, difficulty, *rewards = example
    check(isinstance(prompt, str), f"the prompt must be text, got {prompt!r:.80}")
    must = 'the difficulty must be text such as "easy"'
    check(isinstance(difficulty, str), f"{must}, got {difficulty!r:.80}")
    numbers = all(isinstance(each, float | int | None) for each in rewards)
    check(numbers, f"rewards must be numbers, got {rewards}")
    if hasattr(task, "model_dump"):
        task = task.model_dump(mode="json")
    elif is_dataclass(task):
        task = to_jsonable_python(task)
    check(isinstance(task, dict), f"the task must be an object, got {task!r:.80}")
    try:
        task = json.loads(json.dumps(task))
    except (TypeError, ValueError) as error:
        check(False, f"the task must be JSON: {one_line(error)}")
    params = {"input": [{"role": "user", "content": prompt}]}
    bounds = zip(("oracle_reward", "baseline_reward"), rewards, strict=False)
    return {
        "responses_create_params": params,
        "ground_truth": [task],
        "difficulty": difficulty,
        **{name: reward for name, reward in bounds if reward is not None},
    }
