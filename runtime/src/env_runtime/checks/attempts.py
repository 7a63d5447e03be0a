"""Episodes that a policy without a solution plays in this process, to try a grade."""

import asyncio
import contextlib
import copy
import functools
import json
import logging
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..episode.answers import Answer
from ..episode.declaration import declared
from ..episode.samples import sample_arguments
from ..episode.tasks import baseline_reward, oracle_reward, solution_of, task_of
from ..episode.tools import served_tools
from ..episode.types import REPLY, Calls, Row, Solution
from ..errors import GateError, NoOracleError
from ..evaluation.episodes import LocalEpisode, Refusal
from ..evaluation.policies import NONSENSE
from ..evaluation.rows import row_name
from ..project import of_class
from ..settings import Limits
from .rewards import GRADING, Earned
from .state import attributes_of, changed, places_of, state_of

CALL_SECONDS = 10.0  # a longer call ends the search for a flaw
PATIENCE = 3  # so many times as long for an episode that is played again, alone
# The search ends after SECONDS if ENOUGH_ROWS rows were played, and after MOST_SECONDS.
SECONDS, MOST_SECONDS, ENOUGH_ROWS = 4.0, 60.0, 8
# Episodes that are played at the same time: more if they hardly need the processor
AT_ONCE, MOST_AT_ONCE = 8, 20
PROCESSOR = 1.0  # seconds that the episodes which are played at once may need of it
CANDIDATES = 40  # the most parts of a text that are tried

# The share of rows on which a policy must earn the full reward. Below, it may be luck: of
# four letters, one is right.
MOST, HALF = 0.8, 0.5
MESSAGES = 3  # the oracle's last messages, which are tried
DIFFERENT = 3  # fewer different answers are those of a yes or a no
FEWEST_ROWS = 4  # on fewer rows, luck cannot be told from a flaw

# The parts of a text that a policy may copy, by what they are called in messages
PARTS = {
    "quoted part": re.compile(r"[\"'`“]([^\"'`”\n]{1,200})[\"'`”]"),
    "part in brackets": re.compile(r"[(\[{]([^()\[\]{}\n]{1,200})[)\]}]"),
    "number": re.compile(r"-?\d+(?:\.\d+)?"),
    "item of a list": re.compile(
        r"(?:(?<=[:,;])|^[-*•]|^\d+[.)])\s*([^,;:\n]{1,80})", re.MULTILINE
    ),
    "word": re.compile(r"[^\W_][\w'-]*"),
    "text between spaces": re.compile(r"[^\s,;()\[\]\"'`]+"),
    "end of a sentence": re.compile(r"\b(?=(\w[^.,;:!?\n]*))"),
}


@dataclass
class Flaw:
    """A policy that solves nothing, and what helps against it.

    As a decorator of the function that plays it, it is listed in FLAWS by that name.
    """

    cure: str  # the sentence of the message that says what to do
    # The share of rows on which the policy must earn the full reward
    share: float = MOST
    writes: bool = True  # whether it writes texts of its own into arguments
    slow: bool = False  # whether its episodes have many calls
    first: bool = False  # whether it goes first, because others would be blamed for it
    alone: bool = False  # whether no other search may go on meanwhile
    blind: bool = False  # whether it knows nothing of a row's solution

    def __call__(self, play: Any) -> "Flaw":
        self.play, self.name = play, play.__name__
        FLAWS[self.name] = self
        return self

    def holds(self, solved: int, played: int) -> bool:
        return solved >= self.share * played - 1e-9


FLAWS: dict[str, Flaw] = {}


@dataclass(frozen=True)
class Slot:
    """A place of the oracle's solutions whose text differs from row to row.

    It is the answer, the last call's only text, or a message.
    """

    message: int  # which message, from the end (1); 0 for an answer, or a call
    texts: dict[int, str]  # what the oracle says there, by the rows' numbers
    before: str  # what all texts begin with, such as `<city>`
    after: str  # what all of them end with

    @property
    def is_form(self) -> bool:
        """Whether the texts have anything in common."""
        return bool(self.before or self.after)

    def inner(self, text: str) -> str:
        """The part of a text that differs from row to row."""
        return text[len(self.before) : len(text) - len(self.after)]

    def filled(self, inner: str) -> str:
        return f"{self.before}{inner}{self.after}"


def slot_of(message: int, texts: dict[int, str]) -> Slot:
    before = os.path.commonprefix([*texts.values()])
    before = re.sub(r"[\w.+-]*$", "", before)  # 1 of 12 and 14 is no form
    ends = [text[len(before) :][::-1] for text in texts.values()]
    after = re.sub(r"^(?:\.?\w)*", "", os.path.commonprefix(ends)[::-1])
    return Slot(message, texts, before, after)


# Seconds of what is done
Spent = defaultdict[str, float]


class TimeIsOverError(Exception):
    """The search has to end."""


@contextlib.contextmanager
def without_log() -> Generator[None]:
    """The class's failures are expected here: nobody has to see them."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(eq=False)
class Attempt(LocalEpisode):
    """An episode of the class in this process, with the outputs of its calls."""

    calls: Calls = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    answered: str = ""  # the last message, where the grade reads it
    note: str = ""  # what a message says of this episode besides its calls
    cure: str = ""  # in place of the flaw's
    clock: "Clock | None" = None
    # Seconds of the search's calls and grades
    spent: Spent = field(default_factory=lambda: defaultdict(float))
    # Errors that the class does not raise on purpose, and the shortest call of each
    faults: dict[str, tuple[str, Any]] = field(default_factory=dict)
    # Grades that reward_range lacks, and the shortest way to each
    outside: dict[float, str] = field(default_factory=dict)

    async def start(self) -> None:
        with _timed(self.spent, "start"):
            await super().start()

    async def reward(self, answer: str = "") -> float:
        with _timed(self.spent, "reward"):
            reward = await super().reward(answer)
        graded = self.episode.outside_range
        if graded is not None:
            did = self.did if self.calls else f"it answered {answer!r:.200}"
            self.outside[graded] = min(self.outside.get(graded, did), did, key=len)
        return reward

    async def perform(
        self, job: Callable[[], Any], seconds: float | None = None
    ) -> Any:
        with _timed(self.spent, "call"):
            return await super().perform(job, seconds)

    async def call(self, name: str, arguments: Any) -> Answer:
        if self.clock and not self.clock.allows(0):
            raise TimeIsOverError
        answer = await super().call(name, arguments)
        if isinstance(answer, Refusal) and answer.problem == "timeout":
            raise TimeoutError
        self._note(name, arguments, answer)
        return answer

    async def say(self, text: str) -> Answer | None:
        self._said = text  # a reward(answer) beside reply() gets the last message
        answer = await super().say(text)
        if answer:
            self._note(REPLY, {"answer": text}, answer)
        else:
            self.calls.append((REPLY, {"answer": text}))
        return answer

    def _note(self, name: str, arguments: Any, answer: Answer) -> None:
        self.calls.append((name, arguments))
        self.outputs.append(answer.output)
        if answer.error == "unexpected":
            calls = [(name, arguments), self.faults.get(answer.fault)]
            self.faults[answer.fault] = min(filter(None, calls), key=_length)

    async def whole[T](
        self, steps: Callable[[], Coroutine[Any, Any, T]], seconds: float = CALL_SECONDS
    ) -> T:
        """Start, do the steps, and close. Raises TimeoutError after `seconds` for one."""
        return await self.play_whole(steps, seconds)

    async def play(self, calls: Calls) -> None:
        """Make calls, but for those of a row's own tools."""
        await super().play([call for call in calls if call[0] in {*self.tools, REPLY}])

    def seconds(self, name: str) -> float:
        return CALL_SECONDS

    def keeps_elsewhere(self) -> bool:
        """Whether the object has a database, or files in a temporary folder."""
        return any(True for _ in places_of(self.episode.environment))

    async def kept(self) -> Any:
        """The object's SQLite tables and files as they are now: kept.Kept."""
        from .kept import kept_by

        return await self.perform(lambda: kept_by(self.episode.environment))

    async def state(self) -> tuple[dict[str, str], dict[str, Any]]:
        """The object's attributes, and what it keeps elsewhere, to be compared."""
        environment = self.episode.environment
        texts = await self.perform(lambda: attributes_of(environment))
        elsewhere = await self.perform(self.keeps_elsewhere)
        return texts, (await self.kept()).content if elsewhere else {}

    @property
    def hung(self) -> bool:
        """Whether a call, or the grade, took too long: others may have slowed it down."""
        return self._session is not None and self._session.hung

    @property
    def grades(self) -> bool:
        """Whether the grade has begun."""
        return self._session is not None and self._session.grading

    @property
    def broken(self) -> str:
        """Why the policy's calls left no grade; "" if they left one.

        A stand-in for a model, and an estimated range, say nothing about the class.
        """
        episode = self.episode
        own = declared(episode.domain_class)
        if episode.models:
            return ""
        if episode.outside_range is not None and own.range_is_estimated:
            return ""
        return episode.failure or episode.grade_problem or ""

    @property
    def did(self) -> str:
        """The calls, for a message."""
        from .causes import made_calls

        items = [{"output": output} for output in self.outputs]
        return made_calls(self.calls, items) + self.note


def _length(call: tuple[str, Any]) -> int:
    return len(repr(call))


@contextlib.contextmanager
def _timed(spent: Spent, what: str) -> Generator[None]:
    started = time.monotonic()
    try:
        yield
    finally:
        spent[what] += time.monotonic() - started


@dataclass
class Clock:
    """When a search ends, in seconds of time.monotonic()."""

    seconds: float
    most_seconds: float

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    def allows(self, number: int) -> bool:
        """Whether the try of this number, from 0, may begin."""
        passed = time.monotonic() - self.started
        return passed < (
            self.most_seconds
            if number < ENOUGH_ROWS
            else min(self.seconds, self.most_seconds)
        )

    def stop(self) -> None:
        self.most_seconds = 0.0


def places_for(seconds: float) -> int:
    """How many episodes are played at once that need so many seconds of a processor each."""
    return max(AT_ONCE, min(MOST_AT_ONCE, int(PROCESSOR / max(seconds, 0.001))))


class _Places(asyncio.Semaphore):
    """Places for the episodes that are played at once.

    There are more once the first episodes have shown that they wait more than they work.
    """

    def __init__(self, places: int) -> None:
        super().__init__(places)
        self._places, self._left = places, places  # `_left` to be played before that
        self._alone, self._used = asyncio.Lock(), sum(os.times()[:4])

    def release(self) -> None:
        super().release()
        self._left -= 1
        if self._left == 0 and self._places == AT_ONCE:
            used = (sum(os.times()[:4]) - self._used) / self._places
            for _ in range(places_for(used) - self._places):
                self._places += 1
                super().release()

    @contextlib.asynccontextmanager
    async def all(self) -> AsyncGenerator[None]:
        """Every place, for an episode that is played alone."""
        async with self._alone:
            taken = self._places
            for _ in range(taken):
                await self.acquire()
            try:
                yield
            finally:
                for _ in range(taken):
                    self.release()


class FlawCheck:
    """The class, its rows, and the search for one flaw."""

    def __init__(
        self,
        domain_class: type,
        rows: list[Row],
        seconds: float = SECONDS,
        most_seconds: float = MOST_SECONDS,
    ) -> None:
        self.domain_class, self.declared = domain_class, declared(domain_class)
        self.rows, self._numbers = rows, {id(row): n for n, row in enumerate(rows)}
        self.limits = Limits.read(tool_seconds=CALL_SECONDS)
        self.tools = served_tools(domain_class)
        self.definitions = [tool.definition() for tool in self.tools.values()]
        table = of_class(domain_class).table()
        self.meant = set(table.meant)
        if unknown := sorted(self.meant - {*FLAWS}):
            raise GateError(
                f"pyproject.toml, [tool.environment]: `meant` names {', '.join(unknown)}, "
                f"but the flaws are {', '.join(FLAWS)}"
            )
        low, high = self.declared.reward_range
        if table.floor is not None and not low <= table.floor <= high:
            raise GateError(
                "pyproject.toml, [tool.environment]: `floor` must be a reward, from "
                f"{low} to {high}, got {table.floor}"
            )
        self.path: Path | None = None  # the file of the rows
        self._oracles: dict[int, Solution] = {}
        self.writes = True  # whether texts may be put into arguments
        self.clock = Clock(seconds, most_seconds)
        self.at_once = 1 if "shared" in self.meant else AT_ONCE
        self._free = _Places(self.at_once)
        self.flaw: Flaw | None = None
        self.played_rows: set[int] = set()  # in which this search had an episode
        self.is_late = False  # whether the clock left out a try
        self.earned: Earned = defaultdict(dict)
        self.spent: Spent = defaultdict(float)
        self.slowest = [0.0]  # seconds of an episode that ended, of all searches
        self.faults: dict[str, tuple[str, Any]] = {}
        self.outside: dict[float, str] = {}
        self.notes: list[str] = []
        self.figures: dict[str, Any] = {}  # of all searches, for a report

    def of(self, flaw: Flaw | None = None) -> "FlawCheck":
        """The search for one flaw. Solutions, rewards and the clock are those of all."""
        own = copy.copy(self)
        own.flaw, own.played_rows = flaw, set()
        return own

    def episode(self, row: Row) -> Attempt:
        """An episode of a row, which is closed at the end of the with block."""
        self.played_rows.add(self._numbers[id(row)])
        attempt = Attempt(self.domain_class, task_of(row), self.tools, self.limits)
        attempt.clock, attempt.spent = self.clock, self.spent
        attempt.faults, attempt.outside = self.faults, self.outside
        return attempt

    async def slow_reward(self) -> str:
        """A note if reward() takes most of the time of the episodes, with its duration; else "".

        Other episodes slow one down, so it is measured once more, without them.
        """
        if self.spent["reward"] < sum(self.spent.values()) / 2:
            return ""
        calls, answer = self.oracle(self.rows[0])
        async with self.episode(self.rows[0]) as attempt:
            attempt.clock, attempt.spent = None, defaultdict(float)
            await attempt.play(calls)
            await attempt.reward(answer)
        return f"reward() takes {1000 * attempt.spent['reward']:.0f} ms, which is most of it"

    async def each[T, R](
        self,
        tries: Iterable[T],
        play: Callable[[T], Awaitable[R]],
        stop: Callable[[], bool] = lambda: False,
        *,
        rows: bool = False,
        at_once: int = MOST_AT_ONCE,
    ) -> list[R]:
        """Play tries, `at_once` at a time, until `stop`. Returns their results in order.

        The first is played whatever the time. Of `rows`, those after ENOUGH_ROWS are
        played only if there is time to spare. Raises what the first of them raises.
        """
        results: dict[int, R] = {}
        errors: dict[int, Exception] = {}
        todo = enumerate(tries)

        async def work() -> None:
            for number, one in todo:
                if number and not self.clock.allows(number if rows else 0):
                    self.is_late |= not self.clock.allows(0)
                    return
                try:
                    results[number] = await play(one)
                except TimeIsOverError:
                    self.is_late = True
                    return
                except Exception as error:  # noqa: BLE001 - it is raised below
                    errors[number] = error
                if errors or stop():
                    return

        await asyncio.gather(*(work() for _ in range(min(at_once, self.at_once))))
        if errors:
            raise errors[min(errors)]
        return [results[number] for number in sorted(results)]

    async def played(
        self, row: Row, calls: Calls, answer: str = "", who: str | None = ""
    ) -> tuple[Attempt, float]:
        """An episode in which these calls were made, and its reward.

        `who` is the name of the policy that made them, if it knows no solution, and None
        if a blind policy made calls of the oracle.
        """
        async with self._free:
            attempt, reward = await self._play(row, calls, answer)
        if attempt.hung:
            async with self._free.all():
                attempt, reward = await self._play(row, calls, answer, PATIENCE)
        if who == "" and self.flaw and self.flaw.blind:
            who = self.flaw.name
        if who:
            rewards = self.earned[who]
            number = self._numbers[id(row)]
            rewards[number] = max(reward, rewards.get(number, reward))
        return attempt, reward

    async def _play(
        self, row: Row, calls: Calls, answer: str, patience: int = 1
    ) -> tuple[Attempt, float]:
        attempt, seconds = self.episode(row), patience * CALL_SECONDS
        if patience > 1:  # a busy machine makes all of them slow
            seconds = max(seconds, 2 * patience * self.slowest[0])
        started = time.monotonic()
        attempt.limits = attempt.limits.model_copy(update={"tool_seconds": seconds})
        attempt.answered = answer

        async def steps() -> float:
            await attempt.play(calls)
            return await attempt.reward(answer)

        try:
            reward = await attempt.whole(steps, seconds)
            self.slowest[0] = max(self.slowest[0], time.monotonic() - started)
            return attempt, reward
        except TimeoutError:
            if not attempt.grades:
                raise
            late = f"the grade took more than {seconds:g} s"
            attempt.episode.grade_problem = late
            return attempt, self.declared.lowest_reward

    async def observed(self, row: Row, calls: Calls) -> Attempt:
        """An episode in which these calls were made, for what they are answered."""
        attempt = self.episode(row)
        async with self._free:
            await attempt.whole(functools.partial(attempt.play, calls))
        return attempt

    def bounds(self) -> tuple[float, float]:
        """The mean, over the rows, of the baseline's reward and of the oracle's."""
        kind, count = self.domain_class, len(self.rows)
        low = sum(baseline_reward(kind, row) for row in self.rows)
        return low / count, sum(oracle_reward(kind, row) for row in self.rows) / count

    def full(self, row: Row, reward: float) -> bool:
        """Whether a reward is that of a solved row, and more than nonsense may earn."""
        solved = oracle_reward(self.domain_class, row)
        return reward >= solved - 1e-9 and self.too_much(row, reward)

    def teaches(self, row: Row) -> bool:
        """Whether a row's solution earns more than nonsense may."""
        return self.full(row, oracle_reward(self.domain_class, row))

    def too_much(self, row: Row, reward: float) -> bool:
        return reward > baseline_reward(self.domain_class, row) + 1e-9

    def oracle(self, row: Row) -> Solution:
        """The solution of the row's oracle, computed once; empty without an oracle."""
        if id(row) not in self._oracles:
            self._oracles[id(row)] = Solution([])
            with contextlib.suppress(NoOracleError):
                self._oracles[id(row)] = solution_of(self.domain_class, row)
        return self._oracles[id(row)]

    def value(self, row: Row) -> str | None:
        """The text that the oracle submits: its answer, or its last call's only text."""
        calls, answer = self.oracle(row)
        if self.declared.ends_with_answer:
            return answer or None
        texts = [
            value
            for _, sent in calls[-1:]
            for value in sent.values()
            if isinstance(value, str)
        ]
        return texts[0] if len(texts) == 1 and calls[-1][0] != REPLY else None

    def slots(self, rows: Iterable[int]) -> list[Slot]:
        """The places of the oracle's solutions whose texts differ, of these rows.

        These are the answer, or the last call's only text, and the last messages.
        """
        numbers = [*rows]
        found: dict[int, dict[int, str]] = defaultdict(dict)
        for number in numbers:
            row = self.rows[number]
            if (value := self.value(row)) is not None:
                found[0][number] = value
            for place, step in enumerate(self._messages(row)[:MESSAGES], start=1):
                found[place][number] = self.oracle(row).calls[step][1]["answer"]
        return [
            slot_of(place, texts)
            for place, texts in sorted(found.items())
            if len({*texts.values()}) >= DIFFERENT
        ]

    def says(self, row: Row) -> bool:
        """Whether the oracle submits a text, or says something, in a row."""
        return self.value(row) is not None or bool(self._messages(row))

    def _messages(self, row: Row) -> list[int]:
        """The places of the oracle's messages among its calls, the last one first."""
        calls = self.oracle(row).calls
        return [n for n, (name, _) in enumerate(calls) if name == REPLY][::-1]

    async def submitted(
        self,
        row: Row,
        text: str | None,
        who: str | None = "",
        slot: Slot | None = None,
    ) -> tuple[Attempt, float]:
        """The oracle's episode with `text` in place of what it submits.

        With a slot of a message, it is in place of that message, and None leaves it out.
        """
        calls, answer = [*self.oracle(row).calls], text or ""
        if slot and slot.message:
            step = self._messages(row)[slot.message - 1]
            new = [] if text is None else [(REPLY, {"answer": text})]
            who = who if len(calls) == 1 else None
            calls, answer = [*calls[:step], *new, *calls[step + 1 :]], ""
        elif not self.declared.ends_with_answer:
            *before, (name, sent) = calls
            who = None if before else who
            changed = {
                key: answer if isinstance(value, str) else value
                for key, value in sent.items()
            }
            calls, answer = [*before, (name, changed)], ""
        return await self.played(row, calls, answer, who)

    def around(self, rows: Iterable[int]) -> tuple[Calls, Calls]:
        """The messages with which each of these rows' solutions begins, and ends."""
        plans = [self.oracle(self.rows[number]).calls for number in rows]
        shortest = min(plans, key=len, default=[])
        opening: Calls = []
        closing: Calls = []
        for place, step in enumerate(shortest[:-1]):
            if step[0] != REPLY or any(plan[place] != step for plan in plans):
                break
            opening.append(step)
        for step in shortest[: len(opening) : -1]:
            place = len(shortest) - len(closing) - 1
            back = place - len(shortest)
            if step[0] != REPLY or any(plan[back] != step for plan in plans):
                break
            closing.insert(0, step)
        return opening, closing

    async def reads(self, row: Row, slot: Slot) -> bool:
        """Whether the reward depends on what is said in the slot.

        A message may only be there to be polite, or to end the episode: then it earns as
        much without what differs from row to row, as nonsense, or if it is left out.
        """
        if not slot.message:
            return True
        bare = [slot.filled("")] if slot.is_form else []
        for text in [*bare, NONSENSE, None]:
            _, reward = await self.submitted(row, text, "", slot)
            if self.full(row, reward):
                return False
        return True

    def samples(self, *, high: bool = False) -> Calls:
        """A valid but senseless call of each tool."""
        return [
            (tool["name"], sample_arguments(tool, high=high))
            for tool in self.definitions
        ]

    def filled(self, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """A call of each tool that takes `text`, with it in every such parameter."""
        for tool in self.definitions:
            arguments, filled = sample_arguments(tool), False
            for name, schema in tool["parameters"]["properties"].items():
                value = value_for(schema, text)
                if value is not None:
                    arguments[name], filled = value, True
            if filled:
                yield tool["name"], arguments

    def said(self, text: str) -> Calls:
        """A call of each tool that takes a text, and a message, if the class replies."""
        messages = [(REPLY, {"answer": text})] if self.declared.replies else []
        return [*self.filled(text), *messages]

    def number(self, row: Row) -> int:
        """The number of one of the rows, from 0."""
        return self._numbers[id(row)]

    def wrong(
        self,
        row: int,
        problem: str,
        attempt: Attempt | None = None,
        answer: str = "",
    ) -> GateError:
        """The error that names a flaw, with the calls that earned, and the cure."""
        did = attempt.did if attempt and attempt.calls else ""
        if answer:
            did += f"{'; ' if did else ''}it answered {answer!r:.200}"
        assert self.flaw
        cure = (attempt and attempt.cure) or self.flaw.cure
        flaw, task = self.flaw, json.dumps(task_of(self.rows[row]), ensure_ascii=False)
        did += f"{'; ' if did else ''}task: {task[:200]}"
        return GateError(
            f"{row_name(row + 1, self.path)}: {problem} ({did}). {cure}: see `{flaw.name}` in "
            f"{GRADING}. If it is meant, write "
            f'`meant = ["{flaw.name}"]` below [tool.environment] in pyproject.toml, or a '
            "`baseline_reward` into the row"
        )


def parts_of(text: str) -> dict[tuple[str, int], str]:
    """The parts of a text that a policy may copy, by their kind and place.

    Places are counted from the start (1), and from the end (-1).
    """
    found: dict[tuple[str, int], str] = {}
    for kind, pattern in PARTS.items():
        parts = [
            match[1] if pattern.groups else match[0] for match in pattern.finditer(text)
        ]
        parts = [part.strip() for part in parts if part.strip()]
        for place, part in enumerate(parts[: CANDIDATES // 4]):
            found[kind, place + 1] = part
        for place, part in enumerate(reversed(parts[-CANDIDATES // 4 :])):
            found[kind, -place - 1] = part
    return found


def value_for(schema: dict[str, Any], text: str) -> Any:
    """`text` as a value of a parameter; None if the parameter takes no such text."""
    if schema.keys() & {"enum", "const", "pattern", "format"}:
        return None
    kind = schema.get("type")
    if kind == "string":
        return text
    if kind == "array" and schema.get("items", {}).get("type") == "string":
        return [text]
    if kind in ("integer", "number"):
        with contextlib.suppress(ValueError):
            return int(text) if kind == "integer" else float(text)
    return None


# ------------------------------------------------------------------ many rows


class UndecidedError(Exception):
    """Too few rows were played to tell luck from a flaw."""


def check_enough(played: int) -> None:
    """Raise UndecidedError if too few rows were played."""
    if played < FEWEST_ROWS:
        raise UndecidedError


async def on_many(
    check: FlawCheck,
    rows: Iterable[int],
    who: str,
    play: Callable[[int], Awaitable[Attempt | None]],
    answers: Mapping[int, str] | None = None,
) -> None:
    """Raise GateError if a policy earns the full reward on the flaw's share of rows.

    `play` returns the episode of a row if it earned that, else None. `answers` are
    what the policy answered. Raises UndecidedError.
    """
    numbers, failed = [*rows], 0
    assert check.flaw
    holds = check.flaw.holds
    check_enough(len(numbers))

    async def play_row(number: int) -> Attempt | None:
        nonlocal failed
        attempt = await play(number)
        failed += attempt is None
        return attempt

    def is_honest() -> bool:
        return not holds(len(numbers) - failed, len(numbers))

    # So many rows decide if all of them fail.
    decisive = int(len(numbers) * (1 - check.flaw.share)) + 1
    attempts = await check.each(
        numbers, play_row, is_honest, rows=True, at_once=decisive
    )
    if is_honest():
        return
    check_enough(len(attempts))
    solved = {n: one for n, one in zip(numbers, attempts, strict=False) if one}
    if solved and holds(len(solved), len(attempts)):
        number, attempt = next(iter(solved.items()))
        problem = (
            f"{who} earns the full reward on {len(solved)} of {len(attempts)} rows"
        )
        answer = answers[number] if answers else ""
        raise check.wrong(number, problem, attempt, answer)


async def same_part(
    check: FlawCheck,
    numbers: list[int],
    who: str,
    source: Callable[[Row], Awaitable[str]],
    submit: Callable[[Row, str], Awaitable[tuple[Attempt, float]]],
) -> None:
    """Raise GateError if the same part of each row's text earns the full reward on most.

    `source` returns a row's text, and `submit` plays an episode with a part of it.
    Raises UndecidedError.
    """
    check_enough(len(numbers))
    assert check.flaw
    failures: Counter[tuple[str, int]] = Counter()
    parts: list[dict[tuple[str, int], str]] = []
    allowed = int(len(numbers) * (1 - check.flaw.share))
    kept: set[tuple[str, int]] | None = None
    for number in numbers:
        if parts and not check.clock.allows(len(parts)):
            check.is_late |= not check.clock.allows(0)
            break
        row = check.rows[number]
        own = parts_of(await source(row))
        kept = {*own} if kept is None else kept
        tried = [*dict.fromkeys(own[one] for one in sorted(kept) if one in own)]

        async def earns(text: str, row: Row = row) -> bool:
            return check.full(row, (await submit(row, text))[1])

        told = dict(zip(tried, await check.each(tried, earns), strict=False))
        if len(told) < len(tried):
            break
        parts.append(own)
        for feature in kept:
            failures[feature] += not told.get(own.get(feature, ""))
        kept = {feature for feature in kept if failures[feature] <= allowed}
        if not kept:
            return
    played, kinds = len(parts), [*PARTS]
    check_enough(played)
    kept = {
        one for one in kept or () if check.flaw.holds(played - failures[one], played)
    }
    if not kept:
        return
    best = min(kept, key=lambda one: (failures[one], abs(one[1]), kinds.index(one[0])))
    if len({each.get(best) for each in parts}) < DIFFERENT:
        return  # most rows have the same answer, which their prompts may well name
    ordinal = f"{best[0]} {abs(best[1])}" + (" from the end" if best[1] < 0 else "")
    solved = f"on {played - failures[best]} of {played} rows"
    for number, texts in zip(numbers, parts, strict=False):
        text = texts.get(best, "")
        attempt, reward = await submit(check.rows[number], text)
        if check.full(check.rows[number], reward):
            problem = f"{who} ({ordinal}) earns the full reward {solved}"
            raise check.wrong(number, problem, attempt, attempt.answered)


def what_changes(domain_class: type, row: Row) -> str:
    """The class attributes and globals that change while the policy nonsense plays."""
    check = FlawCheck(domain_class, [row])
    before = state_of(domain_class)
    with without_log(), contextlib.suppress(Exception):  # the class may refuse the row
        asyncio.run(check.played(row, check.samples(high=True)))
    return changed(before, state_of(domain_class))
