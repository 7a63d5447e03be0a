"""A file of many rows: most are played in this process, many times as fast as by the server."""

import asyncio
import contextlib
import heapq
import json
import threading
import time

from ..episode.declaration import declared
from ..episode.tasks import task_of
from ..episode.tools import served_tools
from ..episode.types import Row, Solution
from ..evaluation.episodes import LocalEpisode
from ..settings import Limits
from .attempts import without_log
from .rewards import CHANCE, ROWS_AT_A_TIME, Result, reward_problem
from .runner import doing

SERVED = 100  # rows that the server plays of each file
LONGEST = 10  # as many of them are the longest

Plans = dict[int, Solution]


def served_rows(rows: list[Row], first: int) -> set[int]:
    """The numbers of the rows that the server plays: all, or the `first`, the longest, and
    some from each part of the file.
    """
    numbers = range(len(rows))
    if len(rows) <= SERVED:
        return {*numbers}
    longest = heapq.nlargest(
        LONGEST, numbers, key=lambda number: len(str(rows[number]))
    )
    spread = numbers[:: len(rows) // (SERVED - LONGEST - first)]
    return {*numbers[:first], *longest, *spread}


def play_here(
    domain_class: type, rows: list[Row], policy: str, plans: Plans
) -> dict[int, Result]:
    """The results of the rows in which a policy earns here what it should.

    All others are left to the server. So are those after a miss, or after more than nonsense
    may have by chance: the gate fails there.
    """
    tools = served_tools(domain_class)
    limits, own = Limits.read(), declared(domain_class)
    # No call is cut off here. The server says what follows if one takes too long.
    most = min([limits.tool_seconds, *own.tool_seconds.values()])
    allowed = CHANCE * len(plans) if policy == "nonsense" else 0
    results: dict[int, Result] = {}
    todo, missed = iter([*plans.items()]), 0

    async def play(row: Row, plan: Solution) -> Result | None:
        task, began = task_of(row), time.monotonic()
        async with LocalEpisode(
            domain_class, task, tools, limits, pinned=True
        ) as local:
            answers, reward = await local.carry_out(plan)
            episode = local.episode
        if episode.failure or episode.grade_problem or time.monotonic() - began > most:
            return None
        if episode.models and episode.models.failure:
            return None
        if reward_problem(domain_class, row, policy, reward):
            return None
        outputs = [{"output": one.output, **one.extra} for one in answers]
        items = [{"output": json.dumps(output)} for output in outputs]
        return {
            "reward": reward,
            "reward_components": episode.components,
            "policy": policy,
            "response": {"output": items},
        }

    async def work() -> None:
        nonlocal missed
        for number, plan in todo:
            result = None
            with contextlib.suppress(Exception):  # the server's error is told
                result = await play(rows[number], plan)
            if result:
                results[number] = result
            else:
                missed += 1
            if missed > allowed:
                return
            doing(f"{policy} plays", len(results), len(plans))

    async def work_on_loop() -> None:
        await asyncio.gather(*(work() for _ in range(ROWS_AT_A_TIME)))

    with without_log():
        if own.runs_on_loop:
            asyncio.run(work_on_loop())
            return results
        threads = [
            threading.Thread(target=asyncio.run, args=[work()], daemon=True)
            for _ in range(ROWS_AT_A_TIME)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            done = -1
            while thread.is_alive() and done < len(results):
                done = len(results)
                thread.join(limits.tool_seconds)
    missed = len(plans)  # a call that hangs is the last one of its thread
    return dict(results)
