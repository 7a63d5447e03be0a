"""Rows as clients may see them: splits, tasks without answers, and prompts."""

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..episode.declaration import declared
from ..episode.types import Row
from ..evaluation.observations import first_observation, with_observation
from ..evaluation.rows import read_rows
from ..project import of_class
from .episodes import AsyncEpisode

# The file of each split, in nemo_gym/data/.
SPLIT_FILES = {
    "train": "train.jsonl",
    "validation": "validation.jsonl",
    "test": "example.jsonl",
}


@functools.cache
def split_rows(domain_class: type, split: str) -> list[Row]:
    """The rows of a split. A split without a file has the rows of `test`.

    Raises ValueError for an unknown split, and RolloutError like read_rows.
    """
    if split not in SPLIT_FILES:
        raise ValueError(f"no split {split!r}; there are {', '.join(SPLIT_FILES)}")
    path = of_class(domain_class).rows.with_name(SPLIT_FILES[split])
    return read_rows(domain_class, path if path.is_file() else None)


def split_row(domain_class: type, split: str, index: int) -> Row:
    """A row of a split, counted from 0.

    Raises ValueError if `index` is not a number, IndexError if the split has no such row,
    else like split_rows.
    """
    if type(index) is not int:
        raise ValueError(f"index must be the number of a row, got {index!r:.80}")
    rows = split_rows(domain_class, split)
    if not 0 <= index < len(rows):
        raise IndexError(f"{split} has the rows 0 to {len(rows) - 1}, got {index}")
    return rows[index]


def public_task(split: str, index: int) -> dict[str, Any]:
    """A row as clients may see it: its place, but not its answer."""
    return {"id": f"{split}/{index}", "split": split, "index": index}


def public_tasks(domain_class: type, split: str) -> list[dict[str, Any]]:
    """Every row of a split as clients may see it. Raises like split_rows."""
    count = len(split_rows(domain_class, split))
    return [public_task(split, index) for index in range(count)]


def prompt_of(row: Row) -> list[dict[str, str]]:
    """The messages that open an episode, each with `role` and text as `content`."""
    params = row["responses_create_params"]
    messages = params.get("input") or []
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if params.get("instructions"):
        system = {"role": "system", "content": params["instructions"]}
        messages = [system, *messages]
    return [
        {"role": message["role"], "content": _text(message["content"])}
        for message in messages
        if "role" in message  # not a call of an earlier turn
    ]


def images_of(row: Row) -> list[str]:
    """The images in the messages that open an episode: URLs, mostly data: URLs."""
    messages = row["responses_create_params"].get("input") or []
    parts = [
        part
        for message in messages
        if isinstance(message, dict) and isinstance(message.get("content"), list)
        for part in message["content"]
    ]
    return [part["image_url"] for part in parts if part.get("image_url")]


async def opened(row: Row, episode: AsyncEpisode) -> Row:
    """The row of an episode that has started: its prompt ends with observation().

    Raises TimeoutError, and what the class's observation() raises.
    """
    return with_observation(row, await episode.observation())


def with_first_observation(domain_class: type, row: Row) -> Row:
    """The row with the first observation of an episode that this starts and closes.

    The episode is in a thread, because an event loop may run here. Raises RolloutError
    if the episode or the observation fails.
    """
    if not declared(domain_class).has_observation:
        return row
    with ThreadPoolExecutor(1) as thread:
        shown = thread.submit(first_observation, domain_class, row).result()
    return with_observation(row, shown)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)
