"""Whether an episode sees what another one has done: their class has `shown()`."""

import asyncio
from typing import Any

from ..episode.tools import served_tools
from ..episode.types import Calls, Definitions, Row, task_of
from ..errors import GateError, NoOracleError
from ..evaluation.episodes import LocalEpisode
from ..evaluation.policies import solve

ROWS_APART = 3  # so many are looked at


def check_apart(domain_class: type, rows: list[Row], definitions: Definitions) -> None:
    """Raise GateError if a new episode shows what another one has done.

    Classes with `shown()` are checked, of which episodes may share a server.
    """
    for number, row in enumerate(rows[:ROWS_APART], start=1):
        try:
            solution = solve(row, definitions)
        except NoOracleError:
            continue
        if not solution:
            continue
        # A value that differs between the first two changes by itself, such as a date.
        first, again, solved, after = (
            asyncio.run(_shown(domain_class, row, calls))
            for calls in ([], [], solution, [])
        )
        for what, value in first.items():
            if value == again.get(what) != after.get(what):
                raise GateError(
                    f"row {number}: a new episode sees what another one has done: {what} "
                    f"was {value!r:.150}, and after the oracle's calls in another "
                    f"episode {after.get(what)!r:.150}. Give each task `reset`, calls that "
                    "bring the server back to its beginning, or have it keep all in "
                    "{folder}, which is the episode's own"
                )
        if solved != first:  # the server's answers do show what a call changes
            return


async def _shown(domain_class: type, row: Row, calls: Calls) -> dict[str, Any]:
    """Return what an episode shows after these calls."""
    tools = served_tools(domain_class)
    async with LocalEpisode(domain_class, task_of(row), tools) as episode:
        await episode.play(calls)
        return await episode.perform(episode.episode.environment.shown)
