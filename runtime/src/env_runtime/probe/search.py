"""The search for flaws in a grade, and the most that a policy without a solution earns."""

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ..checks import attempts
from ..checks.attempts import (
    DIFFERENT,
    ENOUGH_ROWS,
    FEWEST_ROWS,
    FLAWS,
    MOST,
    MOST_SECONDS,
    SECONDS,
    Flaw,
    FlawCheck,
    TimeIsOverError,
    UndecidedError,
    without_log,
)
from ..checks.rewards import GRADING, Earned
from ..checks.runner import Weak, doing
from ..command_line import counted
from ..episode.names import shown_call
from ..episode.tasks import baseline_reward
from ..episode.types import Row
from ..errors import GateError, RolloutError
from ..evaluation.rows import prompt_text, row_name
from ..project import of_class
from . import flaws, programs, state_flaws  # noqa: F401 - they fill FLAWS
from .dress import dressed
from .near_misses import near_misses
from .told import told

# From this share of the range on, what a policy without a solution earns is noted.
HIGH_FLOOR = 0.3

FAULTS = 3  # so many errors of the class are told
LATE = "there was no time"


@dataclass
class Looked:
    """The result of a search: the gate's notes, and whether it looked at less than it should."""

    text: str
    weak: bool
    earned: Earned
    figures: dict[str, Any]  # for a report


def find_flaws(
    domain_class: type,
    rows: list[Row],
    seconds: float = SECONDS,
    most_seconds: float = MOST_SECONDS,
    path: Path | None = None,
) -> Looked:
    """Look for each flaw, on ENOUGH_ROWS rows at least, and on more within `seconds`.

    `path` is the file of the rows. Raises GateError for the first flaw that is found.
    """
    check = FlawCheck(domain_class, rows, seconds, most_seconds)
    check.path = path
    own, wanted = check.declared, [*FLAWS.values()]
    if own.runs_commands or own.has_row_tools or own.models_not_set:
        # A text may be a command, and a stand-in's verdict says nothing about a text.
        answers = own.ends_with_answer and _grades_by_itself(check)
        # Answers of the oracle write nothing into a call.
        alone = {"constant"} if answers and not own.models_not_set else set()
        wanted = [one for one in wanted if not one.writes or one.name in alone]
        check.writes = False
    if own.runs_commands:  # each call takes a while
        wanted = [flaw for flaw in wanted if not flaw.slow]
    wanted = [flaw for flaw in wanted if flaw.name not in check.meant]
    left = [
        name for name in FLAWS if FLAWS[name] not in wanted and name not in check.meant
    ]
    with without_log():
        return asyncio.run(_look(check, wanted, left))


async def _look(check: FlawCheck, wanted: list[Flaw], left: list[str]) -> Looked:
    # In how many rows each flaw was looked for that had something to play
    looked: dict[str, int] = {}
    causes: dict[str, list[str]] = {}  # why the others were not looked for
    # Episodes that share something on purpose would be taken for one another.
    turns = asyncio.Semaphore(1 if "shared" in check.meant else len(wanted) + 1)

    async def look(flaw: Flaw) -> None:
        search, cause = check.of(flaw), ""
        try:
            async with turns:
                if check.clock.allows(0):
                    await flaw.play(search, range(len(check.rows)))
            search.is_late |= not search.played_rows and not check.clock.allows(0)
        except TimeIsOverError:
            search.is_late = True
        except TimeoutError:
            check.clock.stop()  # further calls would take as long
            cause = f"a call takes more than {attempts.CALL_SECONDS:g} s"
        except UndecidedError:
            cause = "too few of their rows can be played"
            if len(check.rows) < FEWEST_ROWS:
                cause = f"they need {FEWEST_ROWS} rows"
        except (RolloutError, ValueError) as error:
            cause = f"the class refuses the row: {error}"
        played = len(search.played_rows)
        if search.is_late and played < min(ENOUGH_ROWS, len(check.rows)):
            cause = LATE
        if cause:
            causes.setdefault(cause, []).append(flaw.name)
        elif played:
            looked[flaw.name] = played
        doing(f"looks for flaws: {len(looked)} of {len(wanted)} done")

    wanted.sort(key=lambda flaw: not flaw.first)
    for flaw in wanted:
        if flaw.alone:
            await look(flaw)
    tasks = [asyncio.create_task(look(flaw)) for flaw in wanted if not flaw.alone]
    table = asyncio.create_task(near_misses(check, turns))
    dresses = asyncio.create_task(dressed(check.of(), turns))
    copied = asyncio.create_task(told(check.of(), turns))
    notes = [table, dresses, copied]
    try:
        for task in [*tasks, *notes]:
            await task
    except GateError:
        check.clock.stop()
        await asyncio.gather(*tasks, *notes, return_exceptions=True)
        raise
    misses, causes["there was no time, or nothing can be played"] = table.result()
    if left and (check.declared.replies or _grades_by_itself(check)):
        causes[_why_no_texts(check)] = left
    rows = max(looked.values(), default=0)
    names = [flaw.name for flaw in FLAWS.values() if flaw.name in looked]
    count, where = counted(len(looked), "flaw"), counted(rows, "row")
    text = f"looked for {count} of grades in {where}"
    text += f": {', '.join(names)}" if names else ""
    for cause, lacking in causes.items():
        lacking.sort(key=[*FLAWS, *lacking].index)
        text += f"; not for {', '.join(lacking)}: {cause}" if lacking else ""
        if cause == LATE:
            with contextlib.suppress(TimeoutError, RolloutError, ValueError):
                slow = await check.slow_reward()
                text += f" ({slow})" if slow else ""
    if left and _why_no_texts(check) not in causes:
        is_its_own = not check.declared.has_row_tools
        why = (
            _why_no_texts(check)
            if is_its_own
            else "they are about a reward() of the class's own"
        )
        text += f"; not for {len(left)} others: {why}"
    text += f"; {', '.join(sorted(check.meant))} meant" if check.meant else ""
    note = (
        _standing(check, rows)
        + misses
        + dresses.result()
        + copied.result()
        + "".join(f"\n{one}" for one in check.notes)
        + "".join(_faults(check))
    )
    text += f"; `uv run pytest` attacks the grade further{note}"
    check.figures["flaws"] = {
        "rows": rows,
        "looked": names,
        "not": {why: lacking for why, lacking in causes.items() if lacking},
        "meant": sorted(check.meant),
    }
    return Looked(text, any(causes.values()), check.earned, check.figures)


def _faults(check: FlawCheck) -> Iterator[str]:
    """Notes on what the class does not raise or grade on purpose."""
    for fault, call in islice(check.faults.items(), FAULTS):
        yield (
            f"\n{shown_call(*call)} {fault}: mend it, or raise ValueError with a message for the "
            "policy"
        )
    if check.declared.range_is_estimated:
        return
    for graded, did in islice(check.outside.items(), 1):
        yield (
            f"\nreward() gave {graded:g}, which is outside of reward_range and counts as the lowest "
            f"({did}): bound it"
        )


def _grades_by_itself(check: FlawCheck) -> bool:
    """Whether a class with tools of the rows has a grade of its own."""
    grade = getattr(check.domain_class, "reward", None)
    package = __name__.partition(".")[0]
    return check.declared.has_row_tools and not (
        getattr(grade, "__module__", package).startswith(f"{package}.")
    )


def _why_no_texts(check: FlawCheck) -> str:
    """Why no text is put into the class's messages."""
    if check.declared.models_not_set:
        keys = " and ".join(f"{n.upper()}_MODEL" for n in check.declared.models_not_set)
        return f"stand_in() answers in place of {keys}"
    if check.declared.runs_commands:
        return "a text may be a command"
    return "each row has tools of its own"


def floor_note(
    domain_class: type, path: Path | None, rows: list[Row], earned: Earned
) -> str:
    """Return a note on the most that policies without a solution earned.

    It is Weak if no row has anything to learn. Raises GateError if the mean is above `floor`
    of [tool.environment].
    """
    check = FlawCheck(domain_class, rows)
    means = {
        who: sum(rewards.values()) / len(rewards)
        for who, rewards in earned.items()
        if len(rewards) >= min(FEWEST_ROWS, len(rows))
    }
    if not means:
        return ""
    best = max(means, key=lambda who: means[who])
    low, high = check.bounds()
    said = f"without a solution, none of {len(means)} policies earns more than nothing"
    if means[best] > baseline_reward(domain_class, {}) + 1e-9:
        said = (
            f"without a solution, a policy earns at most {means[best]:.3g} on average "
            f"({best}, {counted(len(earned[best]), 'row')})"
        )
        # A constant call is right in the row that it was taken from.
        others = (
            (reward, -n, who)
            for who, rewards in earned.items()
            for n, reward in rewards.items()
            if not who.startswith("always ")
        )
        top, number, lucky = max(others, default=(low, 0, ""))
        if top > means[best]:
            said += (
                f", and {top:.3g} on one row ({lucky}, {row_name(1 - number, path)})"
            )
    pinned = of_class(domain_class).table().floor
    if pinned is not None:
        if means[best] > pinned + 1e-9:
            raise GateError(
                f"{said}, but `floor` below [tool.environment] in pyproject.toml is {pinned}: "
                f"make the grade stricter, or raise it; see The floor in {GRADING}"
            )
        said += f"; floor = {pinned}"
    idle = [n for n, row in enumerate(rows) if not check.teaches(row)]
    if len(idle) == len(rows):
        return Weak(f"\n{said}. {_nothing_to_learn(idle, rows, path)}")
    if pinned is None and means[best] - low >= HIGH_FLOOR * (high - low):
        said += (
            ": training would find that. Make the grade stricter, or leave easy rows out. If it "
            f"is meant, `floor = {means[best]:.2g}` pins it: see The floor in {GRADING}"
        )
    return f"\n{said}" + (f"\n{_nothing_to_learn(idle, rows, path)}" if idle else "")


def _nothing_to_learn(idle: list[int], rows: list[Row], path: Path | None) -> str:
    return (
        f"Nothing can be learned in {len(idle)} of {counted(len(rows), 'row')}, such as "
        f"{row_name(idle[0] + 1, path)}: its baseline_reward is what its oracle earns. Lower "
        "it, or leave such a row out"
    )


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
