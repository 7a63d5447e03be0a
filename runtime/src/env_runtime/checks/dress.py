"""The oracle's answer as a model may write it: what earns less only because of its dress."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator

from ..command_line import counted
from ..errors import RolloutError
from .attempts import FEWEST_ROWS, FlawCheck, TimeIsOverError

FENCE = "```"


async def dressed(check: FlawCheck, turns: asyncio.Semaphore) -> str:
    """A note on the dresses in which the oracle's answer earns less; "" without any.

    A strict grade may be meant, so this is no flaw.
    """
    if not check.declared.ends_with_answer or not check.writes:
        return ""
    less: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    shown: dict[str, str] = {}

    async def play_row(number: int) -> None:
        row = check.rows[number]
        calls, answer = check.oracle(row)
        if not answer or not check.full(
            row, (await check.played(row, calls, answer))[1]
        ):
            return
        for name, text in _dresses(answer):
            _, reward = await check.played(row, calls, text)
            tried[name] += 1
            if not check.full(row, reward):
                less[name] += 1
                shown.setdefault(name, text)

    with contextlib.suppress(TimeIsOverError, TimeoutError, RolloutError, ValueError):
        async with turns:
            numbers = range(min(FEWEST_ROWS, len(check.rows)))
            await check.each(numbers, play_row, rows=True)
    check.figures["false_fails"] = {
        name: {"rows": tried[name], "less": less[name]} for name in tried
    }
    if not less:
        return ""
    said = [
        f"{name} ({less[name]} of {counted(tried[name], 'row')}, such as {shown[name]!r:.80})"
        for name in tried
        if less[name]
    ]
    return (
        f"\nthe oracle's answer earns less with {'; '.join(said)}: models write such answers. "
        "Read them, or say in the prompt how to answer"
    )


def _dresses(answer: str) -> Iterator[tuple[str, str]]:
    """An answer in other dress, and what the dress is called."""
    yield "a newline behind it", f"{answer}\n"
    yield "spaces around it", f"  {answer}  "
    yield (
        "a sentence around it",
        f"Here is my answer:\n\n{answer}\n\nI hope this helps.",
    )
    yield "a code block around it", f"{FENCE}\n{answer}\n{FENCE}"
    with contextlib.suppress(ValueError):
        fields = json.loads(answer)
        if isinstance(fields, dict) and len(fields) > 1:
            yield (
                "its fields in another order",
                json.dumps(dict(reversed(fields.items()))),
            )
