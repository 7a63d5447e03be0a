"""The checks that a framework's gates make of the class, its episodes and its rewards."""

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from .. import project
from ..checks.rewards import (
    baseline,
    earned_by_oracle,
    estimate_note,
    honest,
    reward_problem,
)
from ..checks.runner import doing, requirement_note
from ..command_line import counted
from ..episode.declaration import declared
from ..episode.tasks import (
    task_of,
)
from ..episode.types import Calls, Row
from ..errors import GateError, NoOracleError
from ..evaluation.rows import read_rows, row_name
from .episodes import bare_reward
from .rollouts import Player, Start
from .tools import ANSWER, calls_of, definitions_of, plan_for, tools_of

ROWS_AT_A_TIME = 20

# Plays calls on a row of example.jsonl, counted from 0, and returns their reward.
Play = Callable[[int, Calls], Awaitable[float]]


def check_class(domain_class: type, served: Iterable[str] | None = None) -> str:
    """The import gate: the framework lists the tools that server.py serves.

    `served` are the names of the tools that the framework lists, in any order. The
    other gates check the rows, as in nemo_gym/: a new project's first row is still to
    be filled in. Raises GateError and ToolError.
    """
    declared(domain_class).check()
    tools = tools_of(domain_class)
    declared(domain_class).check_tool_seconds(tools)
    check_tools(domain_class, tools if served is None else served)
    has = f"has {', '.join(tools)}" if tools else "has no tools: its answer is graded"
    project.of_class(domain_class).check_imports(Path(sys.argv[0]).resolve().parent)
    passed = f"{domain_class.__module__}.{domain_class.__name__} {has}"
    return "\n".join([passed, *requirement_note(domain_class)])


def check_tools(domain_class: type, served: Iterable[str]) -> None:
    """Raise GateError if the framework lists other tools than server.py serves.

    `answer` may be among them if the class grades the policy's last message.
    """
    names, listed = set(tools_of(domain_class)), set(served)
    if declared(domain_class).ends_with_answer:
        listed -= {ANSWER} - names
    if names != listed:
        raise GateError(
            f"the framework lists the tools {', '.join(sorted(listed)) or 'none'}, but "
            f"{domain_class.__name__} has {', '.join(sorted(names)) or 'none'}"
        )


def check_reward(
    domain_class: type, row: Row, where: str, policy: str, reward: Any
) -> None:
    """Raise GateError if a policy does not earn what it should on a row."""
    number = isinstance(reward, float)
    problem = "which is not a number"
    if number and (problem := reward_problem(domain_class, row, policy, reward)):
        problem += honest(policy, reward)
    if problem is not None:
        raise _wrong_reward(row, where, policy, reward, problem)


def _wrong_reward(
    row: Row, where: str, policy: str, reward: Any, problem: str
) -> GateError:
    task = json.dumps(task_of(row), ensure_ascii=False)
    return GateError(
        f"{where}: the policy {policy!r} earns {reward}, {problem} (task: {task[:300]})"
    )


def check_rewards(domain_class: type, play: Play) -> str:
    """The rollout gate over all rows. `play` plays an episode in the framework, and returns its reward.

    The oracle earns the most, or the row's `oracle_reward`; doing nothing and nonsense
    earn 0.0, or at most the row's `baseline_reward`. Doing nothing and each of the
    `tricks` earn the same as in the bare class.
    """
    rows = read_rows(domain_class)
    seen, nothing = counted(len(rows), "row"), baseline(domain_class, rows)
    note = estimate_note(domain_class)
    if lacking := declared(domain_class).missing_requirement():
        return f"{seen}, not played ({lacking})"
    asyncio.run(_check_policy(domain_class, rows, play, "noop"))
    asyncio.run(_check_policy(domain_class, rows, play, "garbage"))
    try:
        asyncio.run(_check_policy(domain_class, rows, play, "oracle"))
    except NoOracleError as error:
        return f"{seen}: noop and nonsense earn {nothing} ({error}){note}"
    if declared(domain_class).deterministic:
        asyncio.run(_check_tricks(domain_class, rows, play))
    most = earned_by_oracle(domain_class, rows)
    return f"{seen}: the oracle earns {most}, noop and nonsense {nothing}{note}"


async def _check_policy(
    domain_class: type, rows: list[Row], play: Play, policy: str
) -> None:
    """Play every row with a policy, ROWS_AT_A_TIME at once."""
    plans = [calls_for(domain_class, row, policy) for row in rows]
    limit, played = asyncio.Semaphore(ROWS_AT_A_TIME), itertools.count(1)
    doing(f"{policy} plays {counted(len(rows), 'row')}")

    async def check(index: int) -> None:
        async with limit:
            reward = await _reward(index, play, policy, plans[index])
        doing(f"{policy} has played {next(played)} of {len(rows)} rows")
        where = row_name(index + 1)
        check_reward(domain_class, rows[index], where, policy, reward)

    await asyncio.gather(*map(check, range(len(rows))))


async def _reward(index: int, play: Play, policy: str, calls: Calls) -> Any:
    try:
        return await play(index, calls)
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        where = row_name(index + 1)
        raise GateError(f"{where}, policy {policy!r}: {problem}") from error


async def _check_tricks(domain_class: type, rows: list[Row], play: Play) -> None:
    row = rows[0]
    for name, calls in tricks(domain_class, row, rows[-1]).items():
        doing(f"row 1, {name}")
        expected = await bare_reward(domain_class, row, calls)
        reward = await _reward(0, play, name, calls)
        if not isinstance(reward, float) or abs(reward - expected) > 1e-9:
            problem = f"not {expected}, as in the bare class"
            raise _wrong_reward(row, row_name(1), name, reward, problem)


def calls_for(domain_class: type, row: Row, policy: str) -> Calls:
    """The calls of one of PLANS on a row, its answer included. Raises like PLANS."""
    return calls_of(domain_class, plan_for(domain_class, row, policy))


def tricks(domain_class: type, row: Row, other: Row) -> dict[str, Calls]:
    """Further calls that a policy may try on a row, by name.

    Raises NoOracleError if the solution of a row is not known.
    """
    solution = calls_for(domain_class, row, "oracle")
    nonsense = calls_for(domain_class, row, "garbage")
    return {
        "nothing": [],
        "the solution, then nonsense": solution + nonsense,
        "nonsense, then the solution": nonsense + solution,
        "the solution twice": solution + solution,
        "all but the last call": solution[:-1],
        "the last call alone": solution[-1:],
        "the solution of another row": calls_for(domain_class, other, "oracle"),
        "calls that cannot be made": [
            ("verify", {"reward": 1.0}),
            *((name, {"": [arguments]}) for name, arguments in solution),
        ],
    }


def check_episodes(domain_class: type, start: Start) -> str:
    """The smoke gate: tools answer, errors are readable, and episodes are separate."""
    tools = tools_of(domain_class)
    if lacking := declared(domain_class).missing_requirement():
        return f"{counted(len(tools), 'tool')}, not called ({lacking})"
    row = read_rows(domain_class)[0]
    asyncio.run(_check_two_episodes(domain_class, row, start))
    return f"{counted(len(tools), 'tool')}, two episodes at once"


async def _check_two_episodes(domain_class: type, row: Row, start: Start) -> None:
    """Solve the row in one episode, and call nonsense in the other."""
    solution: Calls = []
    with contextlib.suppress(NoOracleError):
        solution = calls_for(domain_class, row, "oracle")
    refused = ["no_such_tool"]
    refused += [
        definition["name"]
        for definition in definitions_of(domain_class)
        if definition["parameters"]["required"]
    ]
    async with start(0) as solver, start(0) as other:
        for name, arguments in calls_for(domain_class, row, "garbage"):
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
        check_reward(domain_class, row, where, "oracle", solver.reward)
    check_reward(domain_class, row, where, "garbage", other.reward)


async def _output(player: Player, name: str, arguments: dict[str, Any]) -> str:
    output = (await player.call(name, arguments)).output
    if not isinstance(output, str):
        raise GateError(f"{name} with {arguments} answered {output!r:.100}, not text")
    return output
