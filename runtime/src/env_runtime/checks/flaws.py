"""Policies that find what is wrong with a grade, played on the class itself.

None of them solves anything. Where one earns a reward, a policy in training would find it,
too. docs/grading.md has a section for each flaw. `[tool.environment]` names those that are
meant: `meant = ["echo"]`.
"""

import asyncio
import contextlib
import functools
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from ..command_line import counted
from ..episode.samples import sample_arguments
from ..episode.types import REPLY, Calls, Row
from ..errors import RolloutError
from ..evaluation.rows import prompt_text
from .attempts import (
    CANDIDATES,
    DIFFERENT,
    FEWEST_ROWS,
    FLAWS,
    HALF,
    MOST,
    Attempt,
    Flaw,
    FlawCheck,
    UndecidedError,
    check_enough,
    choices_of,
    on_many,
    parts_of,
    same_part,
    with_tries,
    without_log,
)
from .kept import Kept, changed, quoted, state_of
from .runner import doing

SECONDS = 4.0  # for all flaws together; a row that was begun is played to its end
REPEATS = 10
BLOCKED_SECONDS = 0.05


# ------------------------------------------------------------------------ the flaws


@Flaw("Compare whole values instead of `in`, and limit the length of an argument")
async def echo(check: FlawCheck, rows: Iterable[int]) -> None:
    """Every argument of text, and the last message, is the whole prompt."""
    for number in check.in_time(rows):
        row = check.rows[number]
        text = prompt_text(row)
        answer = text if check.declared.ends_with_answer else ""
        attempt, reward = await check.played(row, [*check.filled(text)], answer)
        if check.full(row, reward):
            problem = f"a policy that only repeats the prompt earns {reward}"
            raise check.wrong(echo, number, problem, attempt, answer)


@Flaw("Take the answer out of the prompt, or ask for what has to be found out")
async def leak(check: FlawCheck, rows: Iterable[int]) -> None:
    """The same part of each prompt is the answer, such as its last number."""

    async def source(row: Row) -> str:
        return prompt_text(row)

    async def submit(row: Row, text: str) -> tuple[Attempt, float]:
        return await check.played(row, [], text)

    if check.declared.ends_with_answer:
        who = "a policy that answers with a part of the prompt"
        await same_part(check, [*rows], leak, who, source, submit)


@Flaw("Compare the whole answer, so that a list of guesses is a wrong one")
async def crowd(check: FlawCheck, rows: Iterable[int]) -> None:
    """The right answer among those of other rows."""

    def text(own: str, others: list[str]) -> str:
        some = others[:10]
        half = len(some) // 2  # a last answer may count, and a first one
        return ", ".join([*some[:half], own, *some[half:]])

    who = "a policy that lists many answers, the right one among them,"
    await _instead(check, rows, crowd, who, text)


@Flaw("Compare the answer with the row's own, and not only its form")
async def form(check: FlawCheck, rows: Iterable[int]) -> None:
    """The answer of another row."""
    who = "a policy that submits another row's answer"
    await _instead(check, rows, form, who, lambda own, others: others[0])


@Flaw("Compare the whole answer, and not whether it is in the expected one", share=HALF)
async def fragment(check: FlawCheck, rows: Iterable[int]) -> None:
    """One character, such as the most frequent letter."""
    for character in "aeo1.!":
        await _instead(
            check,
            rows,
            fragment,
            f"a policy that submits {character!r} each time",
            lambda own, others, one=character: one if len(own) > 3 else "",
        )


async def _instead(
    check: FlawCheck,
    rows: Iterable[int],
    flaw: Flaw,
    who: str,
    text: Callable[[str, list[str]], str],
) -> None:
    """Raise GateError if a text earns as much as the right one on a share of the rows.

    `text` gets what a row's oracle submits, and what those of other rows do. A row for
    which it returns "" is left out.
    """
    numbers = [*rows]
    values = {
        number: value
        for number in numbers
        if (value := check.value(check.rows[number])) is not None
    }
    if not values:
        return
    check_enough(len(numbers))
    if len({*values.values()}) < DIFFERENT:
        return
    given = {
        number: one
        for number, own in values.items()
        if (one := text(own, [v for v in dict.fromkeys(values.values()) if v != own]))
    }

    if len(given) < FEWEST_ROWS:
        return

    async def play(number: int) -> Attempt | None:
        attempt, reward = await check.submitted(check.rows[number], given[number])
        return attempt if check.full(check.rows[number], reward) else None

    await on_many(check, given, flaw, who, play, given)


@Flaw("Do not let an answer say what would have been right while the policy can go on")
async def reader(check: FlawCheck, rows: Iterable[int]) -> None:
    """The same part of what was said about a wrong call, or message, is sent next."""
    numbers = [*rows]
    # A tool that the oracle asks before its last call is there to tell something.
    asked = {
        name
        for number in numbers
        for name, _ in check.oracle(check.rows[number]).calls[
            : None if check.declared.ends_with_answer else -1
        ]
    }
    for name, sent in _said(check, "7"):
        if name in asked - {REPLY}:
            continue

        async def source(row: Row, wrong=(name, sent)) -> str:
            attempt, _ = await check.played(row, [wrong])
            return "".join(attempt.outputs)

        async def submit(
            row: Row, text: str, wrong=(name, sent)
        ) -> tuple[Attempt, float]:
            if check.declared.ends_with_answer:
                return await check.played(row, [wrong], text)
            corrected = [call for call in _said(check, text) if call[0] == wrong[0]]
            return await check.played(row, [wrong, *corrected])

        who = "a policy that repeats what was said to it"
        await same_part(check, numbers, reader, who, source, submit)


def _said(check: FlawCheck, text: str) -> Calls:
    """A call of each tool that takes a text, and a message, if the class replies."""
    messages = [(REPLY, {"answer": text})] if check.declared.replies else []
    return [*check.filled(text), *messages]


@Flaw("Let a wrong try end the episode, or cost something", share=HALF)
async def candidates(check: FlawCheck, rows: Iterable[int]) -> None:
    """Each part of the prompt, and of errors, is an argument, all in one episode."""

    async def calls_at(row: Row) -> Calls:
        attempt, _ = await check.played(row, [*check.filled("7")])
        sources = map(parts_of, [prompt_text(row), *attempt.outputs])
        texts = [islice(each.values(), CANDIDATES) for each in sources]
        tried = dict.fromkeys(text for each in texts for text in each)
        return [call for text in tried for call in check.filled(text)]

    who = "a policy that tries what the prompt, or an error, names one after the other"
    await with_tries(check, rows, candidates, who, calls_at)


@Flaw("Grade what was chosen, and let the first choice count")
async def choices(check: FlawCheck, rows: Iterable[int]) -> None:
    """All values of a Literal, an Enum, or a small range, one after the other."""
    calls: Calls = []
    for tool in check.definitions:
        for name, schema in tool["parameters"]["properties"].items():
            for value in choices_of(schema):
                calls.append((tool["name"], {**sample_arguments(tool), name: value}))
    who = "a policy that makes every choice there is"

    async def calls_at(row: Row) -> Calls:
        return calls

    await with_tries(check, rows, choices, who, calls_at)


@Flaw(
    "Count each thing once, and bound the sum: an episode whose reward is outside of reward_range earns the lowest",
    slow=True,
    writes=False,
)
async def again(check: FlawCheck, rows: Iterable[int]) -> None:
    """The oracle's last call twice, and each other call many times.

    A tool that the oracle does not call gets the oracle's arguments of the same names.
    """
    for number in check.in_time(rows):
        row = check.rows[number]
        calls = check.oracle(row).calls
        others = [
            call
            for call in calls
            if call != calls[-1] and call[0] in {*check.tools, REPLY}
        ]
        plans = [[*calls, calls[-1]]] if calls else []
        distinct = [call for n, call in enumerate(others) if call not in others[:n]]
        sent = {name: value for _, given in calls for name, value in given.items()}
        unused = [
            (name, {key: sent.get(key, value) for key, value in sample.items()})
            for name, sample in check.samples()
            if name not in {name for name, _ in calls}
        ]
        repeated = [REPEATS * [call] for call in [*distinct[:5], *unused[:5]]]
        for plan in check.in_time([*plans, *repeated]):
            attempt, reward = await check.played(row, plan)
            outside = attempt.episode.outside_range
            if outside is not None and not check.declared.range_is_estimated:
                problem = f"a policy that repeats a call earns {outside}, outside of reward_range"
                raise check.wrong(again, number, problem, attempt)
            # Steps of a way differ in what they show; a thing that counts twice does not.
            same = len(set(attempt.outputs)) == 1
            if plan in repeated and same and check.full(row, reward):
                alone, once = await check.played(row, plan[:1])
                if not check.full(row, once):
                    kind = "message" if plan[0][0] == REPLY else "call"
                    problem = (
                        f"one {kind}, {REPEATS} times, earns {reward}, as much as the "
                        f"oracle's {len(calls)} calls"
                    )
                    raise check.wrong(again, number, problem, alone)


@Flaw(
    "Grade what the calls before it did, or leave them out of the oracle if nobody needs them",
    slow=True,
    writes=False,
)
async def early(check: FlawCheck, rows: Iterable[int]) -> None:
    """The oracle's last call alone, on rows whose calls before it change something.

    Its arguments must be parts of the prompt, the same on most rows. Others had to be found
    out by those calls.
    """
    numbers = [*rows]
    lasts = {
        number: calls[-1][1]
        for number in numbers
        if len(calls := check.oracle(check.rows[number]).calls) > 1
        and calls[-1][0] in check.tools
    }
    places: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for number, sent in lasts.items():
        texts = parts_of(prompt_text(check.rows[number]))
        for name, value in sent.items():
            places[name].update(one for one in texts if texts[one] == str(value))

    async def play(number: int) -> Attempt | None:
        if number not in lasts:
            return None
        row, calls = check.rows[number], check.oracle(check.rows[number]).calls
        texts = parts_of(prompt_text(row))
        for name, value in lasts[number].items():
            most = places[name].most_common(1)
            if not most or texts.get(most[0][0]) != str(value):
                return None
        attempt, reward = await check.played(row, calls[-1:])
        if not check.full(row, reward):
            return None
        async with check.episode(row) as idle, check.episode(row) as busy:
            await busy.play(calls[:-1])
            return attempt if await idle.state() != await busy.state() else None

    if not check.declared.ends_with_answer:
        who = "a policy that makes only the oracle's last call"
        await on_many(check, numbers, early, who, play)


@Flaw(
    "Grade over a copy that no tool can change, open the tool's connection read-only, or check that all the rest is unchanged"
)
async def owned(check: FlawCheck, rows: Iterable[int]) -> None:
    """The object's own tools change everything in one of its tables or files.

    Nothing is touched that another episode has, too, or that is not in a temporary folder.
    """
    for number in check.in_time(rows):
        row = check.rows[number]
        calls = check.oracle(row).calls
        async with check.episode(row) as idle, check.episode(row) as solver:
            before = await idle.kept()
            await solver.play(calls)
            solved = await solver.kept()
        if not calls or before.places & solved.places:
            continue
        for plan in check.in_time(_destroying(check, before)):
            async with check.episode(row) as attempt:
                await attempt.play(plan)
                left = (await attempt.kept()).content
                reward = await attempt.reward()
            if left in (before.content, solved.content):
                continue
            who = "a policy that changes everything in a table or a file"
            if check.full(row, reward):
                raise check.wrong(owned, number, f"{who} earns {reward}", attempt)
            if broken := attempt.broken:
                problem = f"{who} breaks the grade: {broken}"
                raise check.wrong(owned, number, problem, attempt)


def _destroying(check: FlawCheck, kept: Kept) -> Iterator[Calls]:
    """Calls of one tool that may change all of a table or a file: SQL, keys, names."""
    texts: list[list[str]] = []
    for table, columns in kept.tables.items():
        name = quoted(table)
        texts += [[f"DELETE FROM {name}"], [f"DROP TABLE {name}"]]
        texts.append([f"UPDATE {name} SET {quoted(one)} = NULL" for one in columns])
        texts.append([str(row[0]) for row in kept.content[table][:CANDIDATES]])
    for each in texts:
        calls = [call for text in each for call in check.filled(text)]
        for tool in dict.fromkeys(name for name, _ in calls):
            yield [call for call in calls if call[0] == tool]
    for file in kept.files:
        for tool, sent in check.filled(file):
            others = [name for name, value in sent.items() if value == file][1:]
            yield [(tool, {**sent, **dict.fromkeys(others, "")})]


@Flaw(
    "Make it in __init__, `self.NAME = ...`, also where it is a default argument, a cache, or a connection of the module",
    first=True,
    writes=False,
)
async def shared(check: FlawCheck, rows: Iterable[int]) -> None:
    """The oracle plays beside an episode that does nothing, and before another one."""
    for number in check.in_time(rows):
        row, other = check.rows[number], check.rows[(number + 1) % len(check.rows)]
        calls = check.oracle(row).calls or check.samples(high=True)
        before = state_of(check.domain_class)
        async with check.episode(row) as idle:
            async with check.episode(row) as solver:
                await solver.play(calls)
                await solver.reward()
            earned = [(row, "beside", await idle.reward())]
        for task in (row, other):
            async with check.episode(task) as idle:
                earned.append((task, "after", await idle.reward()))
        for task, when, reward in earned:
            if check.too_much(task, reward):
                names = changed(before, state_of(check.domain_class))
                shares = (
                    f": they share {names}"
                    if names
                    else ", so episodes share something"
                )
                problem = f"doing nothing earns {reward} {when} an episode that was solved{shares}"
                raise check.wrong(shared, number, problem, solver)


@Flaw(
    "Await instead, or make the tool a plain `def`, which runs in a thread",
    first=True,
    writes=False,
)
async def loop(check: FlawCheck, rows: Iterable[int]) -> None:
    """A tool of an async class may not hold up the other episodes."""
    if not check.declared.runs_on_loop:
        return
    for number in check.in_time(rows):
        row = check.rows[number]
        calls = check.oracle(row).calls or check.samples()
        for name, arguments in calls[:20]:
            if name not in check.tools:
                continue
            for _ in range(3):  # a busy machine is slow once
                async with check.episode(row) as attempt:
                    work = functools.partial(attempt.call, name, arguments)
                    seconds = await _blocked(work)
                if seconds < BLOCKED_SECONDS:
                    break
            else:
                problem = (
                    f"{name} holds up all episodes of this process for "
                    f"{1000 * seconds:.0f} ms, because it waits on the event loop"
                )
                raise check.wrong(loop, number, problem, attempt)


async def _blocked(work: Callable[[], Awaitable[Any]]) -> float:
    """The longest time in seconds for which `work` kept the event loop from others."""
    longest, last = 0.0, time.monotonic()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0)
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    longest, last = 0.0, time.monotonic()
    try:
        await work()
        await asyncio.sleep(0)
    finally:
        ticking.cancel()
    return longest


# Answers and arguments that a grade may not be able to read
AWKWARD = ["", "six", "-1", "0", "1e9", "1e-320", "nan", "inf", "1e999", 400 * "9"]
AWKWARD += ["\ud800", "{", "[[1]]", "null", "\\boxed{", "1/0", "\N{SUPERSCRIPT TWO}"]


@Flaw(
    "Let reward() return what a wrong answer earns: if it raises, or leaves reward_range, the episode earns the lowest reward",
    first=True,
    writes=False,
)
async def outside(check: FlawCheck, rows: Iterable[int]) -> None:
    """Answers and arguments that break the grade: no number, a huge one, nothing."""
    for number in check.in_time(rows):
        row = check.rows[number]
        texts = AWKWARD if number == 0 else AWKWARD[:9]  # the other rows have less time
        for text in check.in_time(texts):
            for calls, answer in _awkward(check, row, text):
                attempt, _ = await check.played(row, calls, answer)
                if broken := attempt.broken:
                    kind = "argument" if calls and not answer else "answer"
                    said = f"{text!a:.40}" + ("..." if len(text) > 40 else "")
                    problem = f"the {kind} {said} breaks the grade: {broken}"
                    raise check.wrong(outside, number, problem, attempt, answer)


def _awkward(check: FlawCheck, row: Row, text: str) -> Iterator[tuple[Calls, str]]:
    """Episodes in which a text is the answer, or each argument of text or a number."""
    calls, _ = check.oracle(row)
    if check.declared.takes_answer:
        yield [], text
        if calls:
            yield calls, text
    if check.writes:
        for call in check.filled(text):
            yield [call], ""
            if len(calls) > 1:
                yield [*calls[:-1], call], ""
    if check.declared.replies:
        yield [(REPLY, {"answer": text})], ""


# ------------------------------------------------------------------------- the gate


def find_flaws(domain_class: type, rows: list[Row], seconds: float = SECONDS) -> str:
    """Look for each flaw, on as many rows as the time allows. Returns the gate's note.

    Raises GateError at the first flaw.
    """
    check = FlawCheck(domain_class, rows)
    own, flaws = check.declared, [*FLAWS.values()]
    if own.runs_commands or own.has_row_tools or own.models_not_set:
        # A text may be a command, and a stand-in's verdict says nothing about a text.
        flaws = [flaw for flaw in flaws if not flaw.writes]
        check.writes = False
    if own.runs_commands:  # each call takes a while
        flaws = [flaw for flaw in flaws if not flaw.slow]
    flaws.sort(key=lambda flaw: not flaw.first)
    names = [flaw.name for flaw in flaws if flaw.name not in check.meant]
    most, looked = 0, list[str]()
    with without_log():
        one = asyncio.run(_seconds_of_an_episode(check))
        played = names[: int(seconds / one)] if one else []
        for name in played:
            doing(f"looks for the flaw {name!r}")
            share = seconds / len(played)
            # An attempt has more calls than that episode, at most CANDIDATES.
            numbers = range(min(len(rows), max(1, int(share / one / 4))))
            check.deadline = time.monotonic() + share
            try:
                asyncio.run(FLAWS[name].play(check, numbers))
            except TimeoutError:
                break  # so would the others be
            except (RolloutError, ValueError, UndecidedError):
                continue
            most = max(most, len(numbers))
            looked.append(name)
    meant = f", {', '.join(sorted(check.meant))} meant" if check.meant else ""
    text = f"looked for {counted(len(looked), 'flaw')} of grades in {counted(most, 'row')}{meant}"
    if others := [name for name in names if name not in looked]:
        why = "rows are few, or episodes slow or refused"
        text += f", not for {', '.join(others)}: {why}"
    note = _standing(check, most)
    return f"{text}; `uv run pytest` attacks the grade further{note}"


def _standing(check: FlawCheck, rows: int) -> str:
    """A note if what the oracle submits can be read in most prompts, else ""."""
    described = json.dumps([tool["description"] for tool in check.definitions])
    found: dict[str, int] = {}
    solved = 0
    for number, row in enumerate(check.rows[:rows]):
        value = check.value(row)
        if value is None or check.declared.has_row_tools:
            return ""
        text = f"{prompt_text(row)} {described}"
        if len(value) > 2 and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", text):
            found.setdefault(value, number)
            solved += 1
    if len(found) < DIFFERENT or solved < MOST * rows:
        return ""
    value, number = next(iter(found.items()))
    return (
        f"\nwhat the oracle submits stands in the prompt of {solved} of {rows} rows, or in a "
        f"tool's description, such as {value!r:.60} of row {number + 1}: take it out, unless the "
        "policy has to choose or copy it"
    )


async def _seconds_of_an_episode(check: FlawCheck) -> float:
    """How long a short episode takes; 0.0 if there is none, or it takes too long."""
    started = time.monotonic()
    try:
        await check.played(check.rows[0], [*check.filled("7")])
    except Exception:  # noqa: BLE001 - the class refuses it: the other gates say so
        return 0.0
    return max(time.monotonic() - started, 1e-4)


def what_changes(domain_class: type, row: Row) -> str:
    """The class attributes and globals that change while the policy nonsense plays."""
    check = FlawCheck(domain_class, [row])
    before = state_of(domain_class)
    with without_log(), contextlib.suppress(Exception):  # the class may refuse the row
        asyncio.run(check.played(row, check.samples(high=True)))
    return changed(before, state_of(domain_class))
