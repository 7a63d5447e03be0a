"""Policies that find what is wrong with a grade, played on the class itself.

None of them solves anything. Where one earns a reward, a policy in training would find it,
too. docs/grading.md has a section for each flaw. `[tool.environment]` names those that are
meant: `meant = ["echo"]`.
"""

import asyncio
import contextlib
import functools
import logging
import sys
import time
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
)
from itertools import islice
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

from ..command_line import counted
from ..episode.declaration import own_classes
from ..episode.schema import sample_arguments
from ..episode.types import Calls, Row
from ..errors import GateError, RolloutError
from ..evaluation.rows import prompt_text
from ..models.client import models_not_set
from .attempts import CANDIDATES, PARTS, Attempt, FlawCheck, choices_of, parts_of
from .runner import doing

SECONDS = 4.0  # for all flaws together; a row that was begun is played to its end
REPEATS = 10
BLOCKED_SECONDS = 0.05

# The share of rows on which a policy must earn the full reward. Below, it may be luck: of
# four letters, one is right.
MOST, HALF = 0.8, 0.5
SURPLUS = 2  # calls beyond the oracle's, which were wrong tries
DIFFERENT = 3  # fewer different answers are those of a yes or a no
FEWEST_ROWS = 4  # on fewer rows, luck cannot be told from a flaw


# ------------------------------------------------------------------------ the flaws


async def echo(check: FlawCheck, rows: Iterable[int]) -> None:
    """Every argument of text, and the last message, is the whole prompt."""
    for number in check.in_time(rows):
        row = check.rows[number]
        text = prompt_text(row)
        async with check.episode(row) as attempt:
            await attempt.play([*check.filled(text)])
            answer = text if check.declared.ends_with_answer else ""
            reward = await attempt.reward(answer)
            if check.full(row, reward):
                problem = f"a policy that only repeats the prompt earns {reward}"
                raise check.wrong("echo", number, problem, attempt, answer)


async def candidates(check: FlawCheck, rows: Iterable[int]) -> None:
    """Each part of the prompt is an argument, one after the other in one episode."""

    def calls_at(row: Row) -> Calls:
        texts = dict.fromkeys(islice(check.texts(row).values(), CANDIDATES))
        return [call for text in texts for call in check.filled(text)]

    who = "a policy that tries the parts of the prompt one after the other"
    await _with_tries(check, rows, "candidates", who, HALF, calls_at)


async def leak(check: FlawCheck, rows: Iterable[int]) -> None:
    """The same part of each prompt is the answer, such as its last number."""
    numbers = [*rows]
    if not check.declared.ends_with_answer:
        return
    _check_enough(len(numbers))
    failures: Counter[tuple[str, int]] = Counter()
    played = 0
    allowed = int(len(numbers) * (1 - MOST))
    kept: set[tuple[str, int]] | None = None
    for number in check.in_time(numbers):
        row, played = check.rows[number], played + 1
        texts, told = check.texts(row), {}
        kept = {*texts} if kept is None else kept
        for feature in kept:
            text = texts.get(feature)
            if text is not None and text not in told:
                async with check.episode(row) as attempt:
                    told[text] = check.full(row, await attempt.reward(text))
            failures[feature] += text is None or not told[text]
        kept = {feature for feature in kept if failures[feature] <= allowed}
        if not kept:
            return
    _check_enough(played)
    kept = {
        one for one in kept or () if _is_share(played - failures[one], played, MOST)
    }
    if not kept:
        return
    kinds = [*PARTS]
    kind, place = min(
        kept, key=lambda one: (failures[one], abs(one[1]), kinds.index(one[0]))
    )
    solved = played - failures[kind, place]
    ordinal = f"{kind} {abs(place)}" + (" from the end" if place < 0 else "")
    texts = [
        check.texts(check.rows[number]).get((kind, place), "")
        for number in numbers[:played]
    ]
    if len({*texts}) < DIFFERENT:
        return  # most rows have the same answer, which their prompts may well name
    problem = (
        f"a policy that answers with a part of the prompt ({ordinal}) earns the full "
        f"reward on {solved} of {played} rows"
    )
    raise check.wrong("leak", numbers[0], problem, answer=texts[0])


async def choices(check: FlawCheck, rows: Iterable[int]) -> None:
    """All values of a Literal, an Enum, or a small range, one after the other."""
    calls: Calls = []
    for tool in check.definitions:
        for name, schema in tool["parameters"]["properties"].items():
            for value in choices_of(schema):
                calls.append((tool["name"], {**sample_arguments(tool), name: value}))
    who = "a policy that makes every choice there is"
    await _with_tries(check, rows, "choices", who, MOST, lambda row: calls)


async def reader(check: FlawCheck, rows: Iterable[int]) -> None:
    """A part of what a tool said about a wrong argument is its next argument."""

    async def play(number: int) -> Attempt | None:
        return await _told(check, check.rows[number])

    if check.tools:
        who = "a policy that repeats what a tool said to it"
        await _on_many(check, rows, "reader", who, HALF, play)


async def _told(check: FlawCheck, row: Row) -> Attempt | None:
    """An episode of a wrong call and one that it told; None if that solves no row."""
    solution = check.oracle(row).calls
    for wrong in check.filled("7"):
        attempt, _ = await check.played(row, [wrong])
        for text in dict.fromkeys(parts_of(attempt.outputs[0]).values()):
            for call in check.filled(text):
                # Another call that solves the row was hardly told.
                if call[0] == wrong[0] and call in (solution or [call]):
                    attempt, reward = await check.played(row, [wrong, call])
                    if check.full(row, reward):
                        return attempt
    return None


async def again(check: FlawCheck, rows: Iterable[int]) -> None:
    """The oracle's last call twice, and each of its other calls many times."""
    for number in check.in_time(rows):
        row = check.rows[number]
        calls = check.oracle(row).calls
        others = [
            call for call in calls if call != calls[-1] and call[0] in check.tools
        ]
        plans = [[*calls, calls[-1]]] if calls else []
        repeated = [
            REPEATS * [call] for n, call in enumerate(others) if call not in others[:n]
        ]
        for plan in check.in_time([*plans, *repeated[:5]]):
            attempt, reward = await check.played(row, plan)
            assert attempt.session.episode
            outside = attempt.session.episode.outside_range
            if outside is not None and not check.declared.range_is_estimated:
                problem = f"a policy that repeats a call earns {outside}, outside of reward_range"
                raise check.wrong("again", number, problem, attempt)
            # Steps of a way differ in what they show; a thing that counts twice does not.
            same = len(set(attempt.outputs)) == 1
            if plan in repeated and same and check.full(row, reward):
                alone, once = await check.played(row, plan[:1])
                if not check.full(row, once):
                    problem = (
                        f"one call, {REPEATS} times, earns {reward}, as much as the "
                        f"oracle's {len(calls)} calls"
                    )
                    raise check.wrong("again", number, problem, alone)


async def crowd(check: FlawCheck, rows: Iterable[int]) -> None:
    """The right answer among those of other rows."""

    def text(own: str, others: list[str]) -> str:
        some = others[:10]
        half = len(some) // 2  # a last answer may count, and a first one
        return ", ".join([*some[:half], own, *some[half:]])

    who = "a policy that lists many answers, the right one among them,"
    await _instead(check, rows, "crowd", who, MOST, text)


async def form(check: FlawCheck, rows: Iterable[int]) -> None:
    """The answer of another row."""
    who = "a policy that submits another row's answer"
    await _instead(check, rows, "form", who, MOST, lambda own, others: others[0])


async def fragment(check: FlawCheck, rows: Iterable[int]) -> None:
    """One character, such as the most frequent letter."""
    for character in "aeo1.!":
        await _instead(
            check,
            rows,
            "fragment",
            f"a policy that submits {character!r} each time",
            HALF,
            lambda own, others, one=character: one if len(own) > 3 else "",
        )


async def outside(check: FlawCheck, rows: Iterable[int]) -> None:
    """Numbers that break a computation."""
    if check.declared.range_is_estimated:
        return
    for number in check.in_time(rows):
        row = check.rows[number]
        if check.value(row) is None:
            return
        for text in ("-1", "0", "1e9", "nan", "inf", "1e999"):
            attempt, _ = await check.submitted(row, text)
            episode = attempt.session.episode
            if episode and episode.failure and not check.models.names:
                problem = f"the answer {text} masks the sample: {episode.failure}"
                raise check.wrong("outside", number, problem, attempt, text)


async def _instead(
    check: FlawCheck,
    rows: Iterable[int],
    flaw: str,
    who: str,
    share: float,
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
    _check_enough(len(numbers))
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

    await _on_many(check, given, flaw, who, share, play, given)


async def shared(check: FlawCheck, rows: Iterable[int]) -> None:
    """The oracle plays beside an episode that does nothing, and before another one."""
    for number in check.in_time(rows):
        row, other = check.rows[number], check.rows[(number + 1) % len(check.rows)]
        calls = check.oracle(row).calls or [
            (one["name"], sample_arguments(one, high=True)) for one in check.definitions
        ]
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
                raise check.wrong("shared", number, problem, solver)


async def loop(check: FlawCheck, rows: Iterable[int]) -> None:
    """A tool of an async class may not hold up the other episodes."""
    if not check.declared.runs_on_loop:
        return
    for number in check.in_time(rows):
        row = check.rows[number]
        calls = check.oracle(row).calls or [
            (one["name"], sample_arguments(one)) for one in check.definitions
        ]
        for name, arguments in calls[:20]:
            longest = []
            for _ in range(3):  # a busy machine is slow once
                async with check.episode(row) as attempt:
                    if name in attempt.tools:
                        longest.append(
                            await _blocked(
                                functools.partial(attempt.call, name, arguments)
                            )
                        )
                if not longest or longest[-1] < BLOCKED_SECONDS:
                    break
            if longest and min(longest) >= BLOCKED_SECONDS:
                milliseconds = 1000 * min(longest)
                problem = (
                    f"{name} holds up all episodes of this process for {milliseconds:.0f} ms, "
                    "because it waits on the event loop"
                )
                raise check.wrong("loop", number, problem, attempt)


FLAWS: dict[str, Callable[[FlawCheck, Iterable[int]], Coroutine[Any, Any, None]]] = {
    "shared": shared,
    "loop": loop,
    "echo": echo,
    "leak": leak,
    "crowd": crowd,
    "form": form,
    "fragment": fragment,
    "outside": outside,
    "candidates": candidates,
    "choices": choices,
    "reader": reader,
    "again": again,
}
# These write texts of their own into arguments.
WRITING = {"echo", "leak", "crowd", "form", "fragment", "outside", "candidates"}
WRITING |= {"choices", "reader"}


class UndecidedError(Exception):
    """Too few rows were played to tell luck from a flaw."""


def _check_enough(played: int) -> None:
    """Raise UndecidedError if too few rows were played."""
    if played < FEWEST_ROWS:
        raise UndecidedError


def _is_share(solved: int, played: int, share: float) -> bool:
    return solved >= share * played - 1e-9


async def _on_many(
    check: FlawCheck,
    rows: Iterable[int],
    flaw: str,
    who: str,
    share: float,
    play: Callable[[int], Awaitable[Attempt | None]],
    answers: Mapping[int, str] = MappingProxyType({}),
) -> None:
    """Raise GateError if a policy earns the full reward on a share of the rows.

    `play` returns the episode of a row if it earned that, else None. `answers` are
    what the policy answered. Raises UndecidedError.
    """
    numbers, played = [*rows], 0
    _check_enough(len(numbers))
    solved: list[tuple[int, Attempt]] = []
    for number in check.in_time(numbers):
        played += 1
        if attempt := await play(number):
            solved.append((number, attempt))
        elif not _is_share(len(numbers) - played + len(solved), len(numbers), share):
            return
    _check_enough(played)
    if _is_share(len(solved), played, share):
        number, attempt = solved[0]
        problem = f"{who} earns the full reward on {len(solved)} of {played} rows"
        raise check.wrong(flaw, number, problem, attempt, answers.get(number, ""))


async def _with_tries(
    check: FlawCheck,
    rows: Iterable[int],
    flaw: str,
    who: str,
    share: float,
    calls_at: Callable[[Row], Calls],
) -> None:
    """Raise GateError if calls, most of them wrong, solve a share of the rows."""

    async def play(number: int) -> Attempt | None:
        row = check.rows[number]
        attempt, reward = await check.played(row, calls_at(row))
        # As many calls as the oracle makes may all have been right.
        calls, right = len(attempt.calls), len(check.oracle(row).calls)
        if right > 1:  # a refused call was no try of such a task
            calls = sum(not one.startswith("error:") for one in attempt.outputs)
        earned = calls - right >= SURPLUS and check.full(row, reward)
        return attempt if earned else None

    if check.tools:
        await _on_many(check, rows, flaw, who, share, play)


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


# ---------------------------------------------------------------------- what is shared


def state_of(domain_class: type) -> dict[str, str]:
    """The values of the class's attributes, and of its module's globals, as texts."""
    module = sys.modules[domain_class.__module__]
    values = {f"the global {name}": value for name, value in vars(module).items()}
    for owner in own_classes(domain_class):
        values |= {
            f"{owner.__name__}.{name}": value for name, value in vars(owner).items()
        }
    skipped = (ModuleType, FunctionType, type, staticmethod, classmethod, property)
    texts = {}
    for name, value in values.items():
        if isinstance(value, skipped) or "__" in name:
            continue
        with contextlib.suppress(Exception):  # the user may have written __repr__
            texts[name] = repr(value)
    return texts


def changed(before: dict[str, str], after: dict[str, str]) -> str:
    """The names whose values differ, for a message."""
    names = [name for name, text in after.items() if before.get(name) != text]
    return ", ".join(names)


def what_changes(domain_class: type, row: Row) -> str:
    """The class attributes and globals that change while the policy nonsense plays."""
    check = FlawCheck(domain_class, [row])
    before = state_of(domain_class)
    calls = [
        (one["name"], sample_arguments(one, high=True)) for one in check.definitions
    ]
    with _without_log(), contextlib.suppress(Exception):  # the class may refuse the row
        asyncio.run(check.played(row, calls))
    return changed(before, state_of(domain_class))


# ------------------------------------------------------------------------- the gate


def find_flaws(domain_class: type, rows: list[Row], seconds: float = SECONDS) -> str:
    """Look for each flaw, on as many rows as the time allows. Returns the gate's note.

    Raises GateError at the first flaw.
    """
    check = FlawCheck(domain_class, rows)
    names = [name for name in FLAWS if name not in check.meant]
    own, left_out = check.declared, set[str]()
    if own.runs_commands or own.has_row_tools or models_not_set(domain_class):
        # A text may be a command, and a stand-in's verdict says nothing about a text.
        left_out |= WRITING
    if own.runs_commands:  # each takes a while
        left_out.add("again")
    names = [name for name in names if name not in left_out]
    most, looked = 0, 0
    with _without_log():
        one = asyncio.run(_seconds_of_an_episode(check))
        for name in names if one else []:
            doing(f"looks for the flaw {name!r}")
            share = seconds / len(names)
            if name in WRITING and one > share:
                continue
            # An attempt has more calls than that episode, at most CANDIDATES.
            numbers = range(min(len(rows), max(1, int(share / one / 4))))
            check.deadline = time.monotonic() + share
            try:
                asyncio.run(FLAWS[name](check, numbers))
            except TimeoutError:
                break  # so would the others be
            except (RolloutError, ValueError, UndecidedError):
                continue
            most, looked = max(most, len(numbers)), looked + 1
    meant = f", {', '.join(sorted(check.meant))} meant" if check.meant else ""
    text = f"looked for {counted(looked, 'flaw')} of grades in {counted(most, 'row')}{meant}"
    if looked < len(names):
        others = len(names) - looked
        text += f", not for {others} more: rows are few, or episodes slow or refused"
    return f"{text}; `uv run pytest` attacks the grade further"


@contextlib.contextmanager
def _without_log() -> Generator[None]:
    """The class's failures are expected here: nobody has to see them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


async def _seconds_of_an_episode(check: FlawCheck) -> float:
    """How long a short episode takes; 0.0 if there is none, or it takes too long."""
    started = time.monotonic()
    try:
        await check.played(check.rows[0], [*check.filled("7")])
    except GateError:
        raise
    except Exception:  # noqa: BLE001 - the class refuses it: the other gates say so
        return 0.0
    return max(time.monotonic() - started, 1e-4)
