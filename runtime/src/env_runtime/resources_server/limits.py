"""Caps on a trajectory, counted before it is validated.

Validating 300,000 malformed items takes half a minute, in which nothing else runs. Lists
of numbers do not count: they are long, but cheap to validate.
"""

from types import NoneType
from typing import Any

from pydantic_core import PydanticCustomError

MAX_ITEMS = 10_000
MAX_LOGPROBS = 100_000
NUMBERS: dict[str, set[type]] = {
    "prompt_token_ids": {int},
    "generation_token_ids": {int},
    "generation_log_probs": {int, float, NoneType},  # null: 0.7 says where
    "bytes": {int},  # of a token, in logprobs
}
TOO_LONG = "trajectory_too_long"  # the type of the validation error


def reject_oversized(body: dict[str, Any]) -> None:
    """Raise PydanticCustomError of the type TOO_LONG if a trajectory is too long."""
    parts = [body.get("response"), body.get("responses_create_params")]
    items, logprobs = _count_items(parts)
    if items > MAX_ITEMS or _count_logprobs(logprobs) > MAX_LOGPROBS:
        most = f"{MAX_ITEMS} items, or {MAX_LOGPROBS} in its logprobs"
        raise PydanticCustomError(
            TOO_LONG, "the trajectory has more than {most}", {"most": most}
        )


def _count_items(rest: list[Any]) -> tuple[int, list[Any]]:
    """The number of list items in `rest`, and its logprobs, which count separately."""
    items, logprobs = 0, list[Any]()
    while rest and items <= MAX_ITEMS:
        value = rest.pop()
        if isinstance(value, dict):
            for key, child in value.items():
                if key == "logprobs":
                    logprobs.append(child)
                elif not _only_numbers(key, child):
                    rest.append(child)
        elif isinstance(value, list):
            items += len(value)
            rest += value[:MAX_ITEMS]
    return items, logprobs


def _only_numbers(key: str, value: Any) -> bool:
    kinds = NUMBERS.get(key, set())
    return isinstance(value, list) and kinds.issuperset(map(type, value))


def _count_logprobs(rest: list[Any]) -> int:
    count = 0
    while rest and count <= MAX_LOGPROBS:
        value = rest.pop()
        if isinstance(value, dict):
            rest += (v for key, v in value.items() if not _only_numbers(key, v))
        elif isinstance(value, list):
            count += len(value)
            rest += value[:MAX_LOGPROBS]
    return count
