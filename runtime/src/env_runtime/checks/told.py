"""Answers that tell what to do: the oracle's calls stand in what a tool says."""

import asyncio
import contextlib
import re
from collections import Counter

from ..command_line import counted
from ..episode.names import shown_call
from ..episode.types import REPLY, Calls
from ..errors import RolloutError
from .attempts import FEWEST_ROWS, MOST, FlawCheck, TimeIsOverError
from .routines import ENDINGS

FEWEST = 3  # calls: fewer may stand in a list of all that one can do


async def told(check: FlawCheck, turns: asyncio.Semaphore) -> str:
    """A note on a call that most rows answer with the oracle's calls, in order; "" without one."""
    plans = {n: _values(check.oracle(row).calls) for n, row in enumerate(check.rows)}
    plans = {n: pattern for n, pattern in plans.items() if pattern}
    if len(plans) < FEWEST_ROWS or not check.writes:
        return ""
    asked: Calls = check.samples()
    if check.declared.replies:
        asked += [(REPLY, {"answer": word}) for word in ENDINGS]
    found = Counter[int]()
    played = [*plans][:FEWEST_ROWS]

    async def play(number: int) -> None:
        for place, call in enumerate(asked):
            attempt = await check.observed(check.rows[number], [call])
            found[place] += bool(plans[number].search("\n".join(attempt.outputs)))

    with contextlib.suppress(TimeIsOverError, TimeoutError, RolloutError, ValueError):
        async with turns:
            await check.each(played, play, rows=True)
    for place, count in found.most_common(1):
        if count >= MOST * len(played):
            return (
                f"\n{shown_call(*asked[place])} is answered with the oracle's calls, one after the "
                f"other, in {count} of {counted(len(played), 'row')}: a policy only has to copy them"
            )
    return ""


def _values(calls: Calls) -> re.Pattern[str] | None:
    """A pattern that finds the values of several calls, one after the other; None for too few."""
    texts = [str(value) for _, sent in calls for value in sent.values()]
    if len(texts) < FEWEST or len({*texts}) < 2:
        return None
    return re.compile(r"\W{1,5}".join(map(re.escape, texts)))
