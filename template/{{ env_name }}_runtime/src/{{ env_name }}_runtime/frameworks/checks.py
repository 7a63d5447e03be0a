"""The checks that a framework's gates make of the class, its episodes and its rewards."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ..episode.tasks import is_native, oracle_reward, reward_range, takes_answer
from ..episode.tools import tools_of
from ..episode.types import Calls, Row
from ..errors import GateError, NoOracleError
from ..rollouts.policies import PLANS
from ..rollouts.rows import row_name
from .episodes import bare_reward
from .playing import Player, Start, definitions_of
from .rows import read_rows

ROWS_AT_A_TIME = 20

# Plays calls on a row of example.jsonl, counted from 0, and returns their reward.
Play = Callable[[int, Calls], Awaitable[float]]


def check_class(domain_class: type, served: list[str] | None = None) -> str:
    """The import gate: the class has tools, and its rows can be played.

    `served` are the names of the tools that the framework lists, in any order.
    """
    tools = tools_of(domain_class)
    if not tools:
        name = domain_class.__name__
        raise GateError(f"{name} has no tool: a public method that returns text")
    check_tools(domain_class, tools if served is None else served)
    _check_reward_protocol(domain_class)
    if any(map(is_native, read_rows(domain_class))):
        raise GateError("rows without ground_truth are played in nemo_gym/ only")
    return f"{domain_class.__module__}.{domain_class.__name__} has {', '.join(tools)}"


def _check_reward_protocol(domain_class: type) -> None:
    """Raise GateError for a grade that these frameworks cannot give."""
    name = domain_class.__name__
    if takes_answer(domain_class):
        raise GateError(
            f"{name}.reward(answer) grades the policy's last message, which only "
            "nemo_gym/ passes on"
        )
    if reward_range(domain_class) != (0.0, 1.0):
        raise GateError(f"{name}.reward_range is graded in nemo_gym/ only")


def check_tools(domain_class: type, served: Iterable[str]) -> None:
    """Raise GateError if the framework lists other tools than the class has."""
    names, listed = sorted(tools_of(domain_class)), sorted(served)
    if names != listed:
        raise GateError(
            f"the framework lists the tools {', '.join(listed)}, but "
            f"{domain_class.__name__} has {', '.join(names)}"
        )


def check_reward(
    row: Row, where: str, policy: str, reward: Any, expected: float
) -> None:
    """Raise GateError if a policy does not earn the expected reward."""
    if not isinstance(reward, float) or abs(reward - expected) > 1e-9:
        task = json.dumps(row["ground_truth"][0], ensure_ascii=False)
        raise GateError(
            f"{where}: the policy {policy!r} earns {reward}, not {expected} "
            f"(task: {task[:300]})"
        )


def check_rewards(domain_class: type, play: Play) -> str:
    """The rollout gate over all rows, with `play` as one framework plays and pays.

    The oracle earns 1.0, or the row's `oracle_reward`; doing nothing and nonsense earn
    0.0. Each of the `tricks` earns the same as in the bare class.
    """
    rows = read_rows(domain_class)
    seen = counted(len(rows), "row")
    asyncio.run(_check_policy(domain_class, rows, play, "noop"))
    if lacking := missing_requirement(domain_class):
        return f"{seen}: noop earns 0.0 ({lacking})"
    asyncio.run(_check_policy(domain_class, rows, play, "garbage"))
    try:
        asyncio.run(_check_policy(domain_class, rows, play, "oracle"))
    except NoOracleError as error:
        return f"{seen}: noop and nonsense earn 0.0 ({error})"
    if getattr(domain_class, "deterministic", True):
        asyncio.run(_check_tricks(domain_class, rows, play))
    usual = all(oracle_reward(domain_class, row) == 1 for row in rows)
    earned = "1.0" if usual else "what each row says"
    return f"{seen}: the oracle earns {earned}, noop and nonsense 0.0"


async def _check_policy(
    domain_class: type, rows: list[Row], play: Play, policy: str
) -> None:
    """Play every row with a policy, ROWS_AT_A_TIME at once."""
    definitions = definitions_of(domain_class)
    plans = [PLANS[policy](row, definitions).calls for row in rows]
    limit = asyncio.Semaphore(ROWS_AT_A_TIME)

    async def check(index: int) -> None:
        row = rows[index]
        expected = oracle_reward(domain_class, row) if policy == "oracle" else 0.0
        async with limit:
            await _check_play(row, index, play, policy, plans[index], expected)

    await asyncio.gather(*map(check, range(len(rows))))


async def _check_play(
    row: Row, index: int, play: Play, policy: str, calls: Calls, expected: float
) -> None:
    where = row_name(index + 1)
    try:
        reward = await play(index, calls)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise GateError(f"{where}, policy {policy!r}: {problem}") from error
    check_reward(row, where, policy, reward, expected)


async def _check_tricks(domain_class: type, rows: list[Row], play: Play) -> None:
    for name, calls in tricks(domain_class, rows[0], rows[-1]).items():
        expected = await bare_reward(domain_class, rows[0], calls)
        await _check_play(rows[0], 0, play, name, calls, expected)


def tricks(domain_class: type, row: Row, other: Row) -> dict[str, Calls]:
    """Further calls that a policy may try on a row, by name.

    Raises NoOracleError if the solution of a row is not known.
    """
    definitions = definitions_of(domain_class)
    solution = PLANS["oracle"](row, definitions).calls
    nonsense = PLANS["garbage"](row, definitions).calls
    return {
        "the solution, then nonsense": solution + nonsense,
        "nonsense, then the solution": nonsense + solution,
        "the solution twice": solution + solution,
        "all but the last call": solution[:-1],
        "the last call alone": solution[-1:],
        "the solution of another row": PLANS["oracle"](other, definitions).calls,
        "calls that cannot be made": [
            ("verify", {"reward": 1.0}),
            *((name, {"": [arguments]}) for name, arguments in solution),
        ],
    }


def check_episodes(domain_class: type, start: Start) -> str:
    """The smoke gate: all tools answer, errors are readable, and episodes are apart."""
    tools = tools_of(domain_class)
    if not missing_requirement(domain_class):
        row = read_rows(domain_class)[0]
        asyncio.run(_check_two_episodes(domain_class, row, start))
    return f"{counted(len(tools), 'tool')}, two episodes at once"


async def _check_two_episodes(domain_class: type, row: Row, start: Start) -> None:
    """Solve the row in one episode, and call nonsense in the other."""
    definitions = definitions_of(domain_class)
    solution: Calls = []
    with contextlib.suppress(NoOracleError):
        solution = PLANS["oracle"](row, definitions).calls
    refused = ["no_such_tool"]
    refused += [
        definition["name"]
        for definition in definitions
        if definition["parameters"]["required"]
    ]
    async with start(0) as solver, start(0) as other:
        for name, arguments in PLANS["garbage"](row, definitions).calls:
            await _output(other, name, arguments)
        for name, arguments in solution:
            await _output(solver, name, arguments)
        for name in refused:
            output = await _output(other, name, {})
            if not output.startswith("error:"):
                raise GateError(
                    f"{name} without arguments answered {output!r:.100}, not an error"
                )
    where = f"{row_name(1)}, two episodes at once"
    if solution:
        check_reward(
            row, where, "oracle", solver.reward, oracle_reward(domain_class, row)
        )
    check_reward(row, where, "garbage", other.reward, 0.0)


async def _output(player: Player, name: str, arguments: dict[str, Any]) -> str:
    output = (await player.call(name, arguments)).output
    if not isinstance(output, str):
        raise GateError(f"{name} with {arguments} answered {output!r:.100}, not text")
    return output


def counted(number: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def missing_requirement(domain_class: type) -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    return getattr(domain_class, "missing_requirement", lambda: None)()
