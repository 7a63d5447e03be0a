"""What a grade depends on: the oracle's episodes, with one thing of each changed."""

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from ..episode.types import REPLY, Row, Solution, task_of
from ..errors import GateError, RolloutError
from ..evaluation.policies import is_error
from ..project import of_class
from .attempts import Attempt, FlawCheck, choices_of
from .kept import changed
from .rewards import GRADING

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
BOXED = re.compile(r"(\\boxed\{)(.*)(\})", re.DOTALL)
OCCURRENCES, OTHERS = 3, 3  # of an argument in a row's calls, and of other values
ANOTHER = "another value"

# A tool and its argument, ("", "answer"), or a tool and what was done to its call
Place = tuple[str, str]
LEFT_OUT, ADDED = " left out", " added"


class _Table:
    """In how many rows a changed episode earned less, as much, or was refused."""

    def __init__(self) -> None:
        self.rows: defaultdict[tuple[Place, str], Counter[str]] = defaultdict(Counter)
        self.places: defaultdict[Place, Counter[str]] = defaultdict(Counter)

    def add_row(self, seen: dict[tuple[Place, str], set[str]]) -> None:
        best: dict[Place, set[str]] = defaultdict(set)
        for (place, kind), outcomes in seen.items():
            self.rows[place, kind][_of(outcomes)] += 1
            best[place] |= outcomes
        for place, outcomes in best.items():
            self.places[place][_of(outcomes)] += 1

    def lines(self) -> Iterator[str]:
        names = {place: _name(place) for place in self.places}
        width = max(map(len, names.values()), default=0)
        for place, outcomes in self.places.items():
            played = outcomes["falls"] + outcomes["same"]
            text = f"{outcomes['falls']} of {played} rows"
            if not played:
                text = f"- (refused in {outcomes['refused']} rows)"
            same = [
                kind
                for (other, kind), seen in self.rows.items()
                if other == place and kind and seen["same"] and not seen["falls"]
            ]
            if same:
                text += f"; {', '.join(same)} earns the same"
            yield f"  {names[place]:{width}}  {text}"


def _of(outcomes: set[str]) -> str:
    """A row's outcome: one change that matters is enough."""
    return next(one for one in ("falls", "same", "refused") if one in outcomes)


def _name(place: Place) -> str:
    tool, argument = place
    if argument in (LEFT_OUT, ADDED):
        return tool + argument
    return f"{tool}.{argument}" if tool else argument


async def near_misses(check: FlawCheck) -> str:
    """The table of what the grade depends on, as notes; "" if nothing can be changed.

    Raises GateError if an argument that `graded` of [tool.environment] names does not matter.
    """
    pinned = of_class(check.domain_class).table().get("graded", [])
    if not check.writes or not check.clock.allows(0):
        return (
            "\n`graded` is not checked: the class runs commands, or there was no time"
            if pinned
            else ""
        )
    table, pool = _Table(), _pool(check)
    search = check.of()
    with contextlib.suppress(TimeoutError, RolloutError, ValueError):  # a flaw says so
        await search.each_row(
            range(len(check.rows)), lambda n: _row(search, n, pool, table)
        )
    for name in pinned:
        outcomes = {_name(place): seen for place, seen in table.places.items()}.get(
            name
        )
        problem = "another value earns the same"
        if outcomes is None:
            problem = f"the oracle's calls have {', '.join(map(_name, table.places)) or 'nothing'}"
        elif outcomes["falls"]:
            continue
        elif not outcomes["same"]:
            problem = "each other value is refused, which shows nothing of the grade"
        raise GateError(
            f"pyproject.toml, [tool.environment]: `graded` names {name}, but {problem}: let "
            f"reward() look at it; see `graded` in {GRADING}"
        )
    lines = [*table.lines()]
    if not lines:
        return ""
    return (
        "\nwith one thing of the oracle's changed, the reward falls in\n"
        + "\n".join(lines)
    )


def _pool(check: FlawCheck) -> dict[Place, list[Any]]:
    """The different values of each argument, and of the answer, in all oracles' calls."""
    pool: defaultdict[Place, list[Any]] = defaultdict(list)
    for row in check.rows:
        for tool, sent in _steps(check.oracle(row)):
            for name, value in sent.items():
                if value not in pool[tool, name]:
                    pool[tool, name].append(value)
    return pool


def _steps(solution: Solution) -> list[tuple[str, dict[str, Any]]]:
    """The calls of a solution, and its answer as a call of "" """
    answer = [("", {"answer": solution.answer})] if solution.answer else []
    return [*solution.calls, *answer]


async def _play(
    check: FlawCheck, row: Row, steps: list[tuple[str, Any]]
) -> tuple[Attempt, float]:
    answer = "".join(sent["answer"] for tool, sent in steps if not tool)
    return await check.played(row, [step for step in steps if step[0]], answer)


async def _row(
    check: FlawCheck, number: int, pool: dict[Place, list[Any]], table: _Table
) -> None:
    """Play a row's oracle with one thing changed, as often as there are things."""
    row = check.rows[number]
    steps = _steps(check.oracle(row))
    if not steps:
        return
    solved, highest = await _play(check, row, steps)
    if not check.full(row, highest):
        return
    errors = sum(map(is_error, solved.outputs))
    seen: defaultdict[tuple[Place, str], set[str]] = defaultdict(set)

    async def play(change: tuple[Place, str, list[tuple[str, Any]]]) -> None:
        place, kind, changed_steps = change
        attempt, reward = await _play(check, row, changed_steps)
        outcome = "falls" if reward < highest - 1e-9 else "same"
        if kind and sum(map(is_error, attempt.outputs)) > errors:
            outcome = "refused"
        seen[place, kind].add(outcome)

    changes = [*_changes(check, row, steps, pool)]
    changes += [one async for one in _added(check, row, steps, pool)]
    await check.each(changes, play)
    table.add_row(seen)


def _changes(
    check: FlawCheck,
    row: Row,
    steps: list[tuple[str, Any]],
    pool: dict[Place, list[Any]],
) -> Iterator[tuple[Place, str, list[tuple[str, Any]]]]:
    """The place, the kind, and the steps of each change of a value, or without a call."""
    schemas = {
        (tool["name"], name): schema
        for tool in check.definitions
        for name, schema in tool["parameters"]["properties"].items()
    }
    places: defaultdict[Place, list[int]] = defaultdict(list)
    for n, (tool, sent) in enumerate(steps):
        for name in sent:
            places[tool, name].append(n)
    for (tool, name), where in places.items():
        for n in dict.fromkeys([where[0], where[-1], *where[:OCCURRENCES]]):
            value = steps[n][1][name]
            others = [*pool[tool, name], *choices_of(schemas.get((tool, name), {}))]
            others += [one for one in _leaves(task_of(row)) if type(one) is type(value)]
            for kind, other in _other_values(value, others):
                new = (tool, {**steps[n][1], name: other})
                yield (tool, name), kind, [*steps[:n], new, *steps[n + 1 :]]
    for tool in dict.fromkeys(tool for tool, _ in steps if tool not in ("", REPLY)):
        if len(steps) > 1:
            n = max(n for n, step in enumerate(steps) if step[0] == tool)
            yield (tool, LEFT_OUT), "", [*steps[:n], *steps[n + 1 :]]


def _leaves(value: Any) -> Iterator[Any]:
    """The texts and numbers in a task."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def _other_values(value: Any, others: list[Any]) -> Iterator[tuple[str, Any]]:
    """Values in place of one, with what they are."""
    different = [
        one for n, one in enumerate(others) if one != value and one not in others[:n]
    ]
    for one in different[:OTHERS]:
        yield ANOTHER, one
    if isinstance(value, bool):
        yield ANOTHER, not value
    elif isinstance(value, int | float):
        yield "a neighbor", value + 1
        if value:
            yield (
                "half as much again",
                type(value)(value * 1.5 + (0.5 if value > 0 else -0.5)),
            )
            yield "its negative", -value
    elif isinstance(value, list):
        yield "an empty list", []
        if len(value) > 1:
            yield "a part", value[:-1]
        if value[::-1] != value:
            yield "another order", value[::-1]
    elif isinstance(value, str) and value:
        yield "an empty text", ""
        before, text, after = (
            match.groups() if (match := BOXED.search(value)) else ("", value, "")
        )
        if found := [*NUMBER.finditer(text)]:
            last, number = found[-1], float(found[-1][0])
            for kind, other in _other_values(number, []):
                new = f"{text[: last.start()]}{other:g}{text[last.end() :]}"
                yield kind, value.replace(before + text + after, before + new + after)
        elif len(text) > 3:
            yield (
                "a prefix",
                value.replace(
                    before + text + after, before + text[: len(text) // 2] + after
                ),
            )


async def _added(
    check: FlawCheck,
    row: Row,
    steps: list[tuple[str, Any]],
    pool: dict[Place, list[Any]],
):
    """The oracle's steps after a call of another tool that changes something."""
    known = {name: value for (_, name), values in pool.items() for value in values[:1]}
    for tool in check.definitions:
        names = tool["parameters"]["properties"]
        if tool["name"] in {name for name, _ in steps} or not names:
            continue
        sample = dict(
            next(call for call in check.samples() if call[0] == tool["name"])[1]
        )
        for leaf in [*dict.fromkeys(map(_text, _leaves(task_of(row))))][:5]:
            given = {
                name: known.get(
                    name,
                    leaf
                    if isinstance(sample.get(name, leaf), str)
                    else sample.get(name),
                )
                for name in names
            }
            async with check.episode(row) as idle, check.episode(row) as busy:
                await busy.play([(tool["name"], given)])
                (before, kept), (after, left) = await idle.state(), await busy.state()
            if not any(map(is_error, busy.outputs)) and (
                changed(before, after) or changed(kept, left)
            ):
                yield (tool["name"], ADDED), "", [(tool["name"], given), *steps]
                break


def _text(value: Any) -> str:
    return str(value)
