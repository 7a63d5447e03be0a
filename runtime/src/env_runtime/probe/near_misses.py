"""Near misses: the oracle's solution with one thing changed, to see what the grade depends on."""

import asyncio
import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from itertools import chain
from typing import Any, NamedTuple

from ..checks import attempts
from ..checks.attempts import Attempt, FlawCheck, TimeIsOverError
from ..checks.rewards import GRADING
from ..checks.state import changed
from ..command_line import counted
from ..episode.samples import choices_of
from ..episode.types import REPLY, Calls, Row, task_of
from ..errors import GateError, RolloutError
from ..evaluation.policies import is_error
from ..evaluation.rows import prompt_text
from ..project import of_class
from .parts import parts_within

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TAGS = re.compile(r"(</?)[A-Za-z][\w-]*(?=>)")
BOXED = re.compile(r"(?<=\\boxed\{).*(?=\})", re.DOTALL)
ANOTHER, ORDER, LEFT_OUT = "another value", "another order", "nothing"
BESIDE, OF_THE_TASK = "another value before it", "another value of its task"
OTHERS = 2  # so many of them are tried
LONG = 6  # characters of texts that are told apart by their shape
SHORTEST = 2  # characters of a value that an error tells
LEAVES = 5  # values of the task that an added call may have

Steps = Calls  # a solution's calls, and its answer as a call of ""


class Change(NamedTuple):
    """An oracle's steps with one thing changed."""

    place: str  # such as "guess.word", "answer", "answer.city", "guess left out", "guess added"
    kind: str  # of the value, such as "a neighbor"; "" for a call left out or added
    steps: Steps


async def near_misses(
    check: FlawCheck, turns: asyncio.Semaphore
) -> tuple[str, list[str]]:
    """The table of what the grade depends on, as notes; "" if nothing can be changed.

    Also returns what `graded` of [tool.environment] names, but was not played. Raises
    GateError if an argument that it names does not matter.
    """
    pinned = of_class(check.domain_class).table().graded
    if not check.writes or not check.clock.allows(0):
        return "", [f"`graded` {name}" for name in pinned]
    search = _Search(check.of())
    # A flaw says so.
    with contextlib.suppress(TimeIsOverError, TimeoutError, RolloutError, ValueError):
        numbers, few = range(len(check.rows)), attempts.FEWEST_ROWS
        async with turns:
            await search.check.each(
                numbers, search.play_row, search.is_enough, rows=True, at_once=few
            )
    named = {f"{tool}.{name}".lstrip(".") for tool, name in search.values}
    late = []
    for name in pinned:
        seen = search.places.get(name)
        if seen and seen["falls"]:
            continue
        if not seen and (name in named or not search.played):
            late.append(f"`graded` {name}")
            continue
        problem = f"what the oracle does has {', '.join(search.places) or 'nothing'}"
        if seen:
            problem = "another value earns the same"
        if seen and not seen["same"]:
            problem = "every other value is refused, which shows nothing of the grade"
        raise GateError(
            f"pyproject.toml, [tool.environment]: `graded` names {name}, but {problem}: let "
            f"reward() look at it; see {GRADING}"
        )
    check.figures["near_misses"] = {
        place: {kind: seen[kind] for kind in ("falls", "same", "refused")}
        for place, seen in search.places.items()
    }
    lines = search.lines()
    title = "rows in which one change to the oracle's solution lowers the reward:"
    return "\n".join(["", title, *lines]) if lines else "", late


class _Search:
    """In how many rows a changed episode earned less, as much, or was refused."""

    def __init__(self, check: FlawCheck) -> None:
        self.check, self.played = check, 0
        self.places: dict[str, Counter[str]] = defaultdict(Counter)
        self.kinds: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        # The rows in which the error about a wrong value has the right one, and that
        self.told: dict[str, dict[int, str]] = defaultdict(dict)
        # The different values of each argument, and of the answer, in all solutions
        self.values: dict[tuple[str, str], list[Any]] = defaultdict(list)
        # The different values of their parts, by their names
        self.parts: dict[tuple[str, str], dict[str, list[Any]]] = defaultdict(dict)
        for row in check.rows:
            for tool, sent in self.steps(row):
                for name, value in sent.items():
                    if value not in self.values[tool, name]:
                        self.values[tool, name].append(value)

    def is_enough(self) -> bool:
        """Whether only spare time is left for further rows."""
        return self.played >= attempts.FEWEST_ROWS and not self.check.clock.allows(
            attempts.ENOUGH_ROWS
        )

    def steps(self, row: Row) -> Steps:
        calls, answer = self.check.oracle(row)
        # With reply(), the messages are among the calls.
        if not answer or self.check.declared.replies:
            return calls
        return [*calls, ("", {"answer": answer})]

    async def play(self, row: Row, steps: Steps) -> tuple[Attempt, float]:
        answer = "".join(sent["answer"] for tool, sent in steps if not tool)
        return await self.check.played(row, [one for one in steps if one[0]], answer)

    async def play_row(self, number: int) -> None:
        """Play a row's oracle with one thing changed, as often as there are things."""
        row = self.check.rows[number]
        if not (steps := self.steps(row)):
            return
        solved, highest = await self.play(row, steps)
        if not self.check.full(row, highest):
            return
        errors = sum(map(is_error, solved.outputs))
        seen: dict[tuple[str, str], set[str]] = defaultdict(set)

        async def play(change: Change) -> None:
            attempt, reward = await self.play(row, change.steps)
            outcome = "falls" if reward < highest - 1e-9 else "same"
            if change.kind and sum(map(is_error, attempt.outputs)) > errors:
                outcome = "refused"
            seen[change.place, change.kind].add(outcome)
            new = [out for out in attempt.outputs if out not in solved.outputs]
            if told := self.told_in(row, change, steps, [*filter(is_error, new)]):
                self.told[change.place][number] = told

        changes = [*self.changes(number, steps)]
        changes += [change async for change in self.added(number, steps)]
        await self.check.each(changes, play)
        self.played += 1
        best: dict[str, set[str]] = defaultdict(set)
        for (place, kind), outcomes in seen.items():
            self.kinds[place, kind][_row_outcome(outcomes)] += 1
            # An order matters to few grades, and a field may be asked for, but not read.
            if kind != LEFT_OUT and (kind != ORDER or "falls" in outcomes):
                best[place] |= outcomes
        for place, outcomes in best.items():
            self.places[place][_row_outcome(outcomes)] += 1

    def told_in(self, row: Row, change: Change, steps: Steps, errors: list[str]) -> str:
        """The right value in the errors about a changed call, if the prompt lacks it; else ""."""
        pairs = zip(steps, change.steps, strict=False)
        right = next((own[1] for own, one in pairs if own != one), {})
        prompt = prompt_text(row)
        named = [
            text for value in right.values() if len(text := str(value)) >= SHORTEST
        ]
        found = (
            text
            for error in errors
            for text in named
            if text not in prompt and text not in str(change.steps)
            if re.search(rf"(?<!\w){re.escape(text)}(?!\w)", error)
        )
        return next(found, "")

    def changes(self, number: int, steps: Steps) -> Iterator[Change]:
        """A value of each argument replaced, in one of its calls, or a call left out."""
        task = [*_named_leaves(task_of(self.check.rows[number]))]
        schemas = {
            (tool["name"], name): schema
            for tool in self.check.definitions
            for name, schema in tool["parameters"]["properties"].items()
        }
        where: dict[tuple[str, str], list[int]] = defaultdict(list)
        for n, (tool, sent) in enumerate(steps):
            for name in sent:
                where[tool, name].append(n)
        for (tool, name), places in where.items():
            n = places[number % len(places)]  # another one in each row
            value = steps[n][1][name]
            others = [*self.values[tool, name]]
            others += choices_of(schemas.get((tool, name), {}))
            own = _of_the_field(task, value)
            own = own[number % len(own) :] + own[: number % len(own)] if own else []
            # Another row's value may be no value here, but one of the same field is.
            different = [one for one in others if one != value][: OTHERS - bool(own)]
            different += [one for one in own if one not in different]
            kinds = [*_near(value, self.inner((tool, name), value))]
            if tool and isinstance(value, str) and different:
                kinds.append((BESIDE, f"{different[0]} {value}"))
            tried = [
                (OF_THE_TASK if one in own else ANOTHER, one)
                for one in different[:OTHERS]
            ]
            if kinds:
                tried.append(kinds[number % len(kinds)])
            place = f"{tool}.{name}" if tool else name
            tried = [(place, *one) for one in tried]
            tried += self.fields(number, place, (tool, name), value)
            for where_in, kind, other in tried:
                new = (tool, {**steps[n][1], name: other})
                yield Change(where_in, kind, [*steps[:n], new, *steps[n + 1 :]])
        yield from self.more(number, steps)
        last = {tool: n for n, (tool, _) in enumerate(steps) if tool not in ("", REPLY)}
        for tool, n in last.items() if len(steps) > 1 else ():
            yield Change(f"{tool} left out", "", [*steps[:n], *steps[n + 1 :]])

    def more(self, number: int, steps: Steps) -> Iterator[Change]:
        """The last call of a tool after one with the arguments of another row."""
        made = [n for n, (tool, _) in enumerate(steps) if tool not in ("", REPLY)]
        if not made:
            return
        n, rows = made[-1], self.check.rows
        tool, sent = steps[n]
        others = (
            call
            for row in chain(rows[number + 1 :], rows[:number])
            for call in self.check.oracle(row).calls
            if call[0] == tool and call not in steps
        )
        if sent and (other := next(others, None)):
            yield Change(f"{tool} added", ANOTHER, [*steps[:n], other, *steps[n:]])

    def fields(
        self, number: int, place: str, of: tuple[str, str], value: Any
    ) -> Iterator[tuple[str, str, Any]]:
        """The value with one part of it changed: its place, the kind, and the new value."""
        for part in parts_within(value, number, lines=place == "answer"):
            known = self.parts[of].setdefault(part.name, self.parts_of(of, part.name))
            kinds = [*_near(part.value)]
            tried = [(ANOTHER, one) for one in known if one != part.value][:OTHERS]
            tried += kinds[number % len(kinds) :][:1] if kinds else []
            tried.append((LEFT_OUT, ...))
            for kind, other in tried:
                yield f"{place}.{part.name}", kind, part.replaced(other)

    def inner(self, of: tuple[str, str], value: Any) -> str:
        """The part of a text that differs in the solutions; "" if they have no form."""
        texts = [each for each in self.values[of] if isinstance(each, str)]
        if len(texts) < attempts.DIFFERENT or not isinstance(value, str):
            return ""
        slot = attempts.slot_of(0, dict(enumerate(texts)))
        return slot.inner(value) if slot.is_form else ""

    def parts_of(self, of: tuple[str, str], name: str) -> list[Any]:
        """The different values of a part in all solutions."""
        found = []
        for number, value in enumerate(self.values[of]):
            for part in parts_within(value, number, lines=not of[0]):
                if part.name == name and part.value not in found:
                    found.append(part.value)
        return found

    async def added(self, number: int, steps: Steps) -> AsyncIterator[Change]:
        """The steps after a call that changes something, of another tool in each row."""
        check, made = self.check, {name for name, _ in steps}
        others = [sample for sample in check.samples() if sample[0] not in made]
        if not others:
            return
        tool, sample = others[number % len(others)]
        row = check.rows[number]
        known = {name: values[0] for (_, name), values in self.values.items()}
        leaves = [one for one in _leaves(task_of(row)) if isinstance(one, str)]
        for leaf in [*dict.fromkeys(leaves)][:LEAVES] or [""]:
            given = {
                name: known.get(name, leaf if isinstance(value, str) else value)
                for name, value in sample.items()
            }
            async with check.episode(row) as idle, check.episode(row) as busy:
                await busy.play([(tool, given)])
                (before, kept), (after, left) = await idle.state(), await busy.state()
            differs = changed(before, after) or changed(kept, left)
            if differs and not any(map(is_error, busy.outputs)):
                yield Change(f"{tool} added", "", [(tool, given), *steps])
                return

    def lines(self) -> list[str]:
        """A line for each place."""
        lines, width = [], max(map(len, self.places), default=0)
        for place, seen in self.places.items():
            same = [
                kind
                for (other, kind), rows in self.kinds.items()
                if other == place and kind and rows["same"] and not rows["falls"]
            ]
            played = seen["falls"] + seen["same"]
            text = f"{seen['falls']} of {counted(played, 'row')}"
            if not played:
                text = f"not seen: every other value is refused ({counted(seen['refused'], 'row')})"
            if place == f"{REPLY}.answer" and played and not seen["falls"]:
                text += (
                    ": what the oracle says decides nothing, as it knows the answers"
                )
            elif same and not place.endswith(" added"):
                text += f"; never with {', '.join(same)}"
            values = {*self.told[place].values()}
            # A limit such as 10 is the same in all rows.
            if len(values) > 1 or any(len(value) > SHORTEST for value in values):
                rows = counted(len(self.told[place]), "row")
                text += f"; the error about a wrong one has the right one in {rows}"
            if place.endswith(" left out") and not seen["falls"]:
                text += ": the last such call earns nothing"
            lines.append(f"  {place:{width}}  {text}")
        return lines


def _row_outcome(outcomes: set[str]) -> str:
    """A row's outcome: one change that matters is enough."""
    return next(one for one in ("falls", "same", "refused") if one in outcomes)


def _leaves(value: Any) -> Iterator[Any]:
    """The texts, numbers and truth values in a task."""
    for _, leaf in _named_leaves(value):
        yield leaf


def _named_leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """The same, with the key of each, or that of the list which it is in."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _named_leaves(part, key)
    elif isinstance(value, list):
        for part in value:
            yield from _named_leaves(part, field)
    else:
        yield field, value


def _of_the_field(task: list[tuple[str, Any]], value: Any) -> list[Any]:
    """The other values in a task of the field that has this one, or of any if none has."""
    fields = {field for field, one in task if one == value}
    others = [one for one in task if type(one[1]) is type(value) and one[1] != value]
    same = [one for field, one in others if field in fields or not fields]
    # A wrong value may stand under another key, such as a number that was misread.
    return same or [one for _, one in others if _shape(one) == _shape(value)]


def _shape(value: Any) -> str:
    """A text of several characters with 9 for its digits and a for its letters, else ""."""
    text = value if isinstance(value, str) and len(value) >= LONG else ""
    return re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text))


def _near(value: Any, inner: str = "") -> Iterator[tuple[str, Any]]:
    """Values near one, with what they are. `inner` is the part of a text that matters."""
    if isinstance(value, bool):
        yield ANOTHER, not value
    elif isinstance(value, int | float):
        yield "a neighbor", value + 1
        if value:
            whole = isinstance(value, int)
            yield "half as much again", round(value * 1.5) if whole else value * 1.5
            if abs(value) >= 20:  # a tolerance is mostly finer
                yield "a tenth more", round(value * 1.1) if whole else value * 1.1
            yield "its negative", -value
    elif isinstance(value, list) and value:
        yield "an empty list", []
        yield "a part", value[: len(value) // 2]
        if value[::-1] != value:
            yield ORDER, value[::-1]
    elif isinstance(value, str) and value:
        yield "an empty text", ""
        inner = match[0] if (match := BOXED.search(value)) else inner or value
        numbers = [*NUMBER.finditer(inner)]
        if not numbers and len(inner) > 3:
            yield "a prefix", value.replace(inner, inner[: len(inner) // 2])
            yield "its denial", value.replace(inner, f"not {inner}")
        if TAGS.search(value):
            yield "another tag", TAGS.sub(r"\1note", value)
        if len(numbers) > 1:
            first = numbers[0]
            new = (
                f"{inner[: first.start()]}{float(first[0]) + 1:g}{inner[first.end() :]}"
            )
            yield "another first number", value.replace(inner, new)
        for last in numbers[-1:]:
            for kind, other in _near(float(last[0])):
                new = f"{inner[: last.start()]}{other:g}{inner[last.end() :]}"
                yield kind, value.replace(inner, new)
