"""Answers that tell what to do: what the oracle sends stands in what a tool says."""

import asyncio
import contextlib
import re
from collections import Counter

from ..checks.attempts import FEWEST_ROWS, MOST, FlawCheck, TimeIsOverError, slot_of
from ..command_line import counted
from ..episode.names import shown_call
from ..episode.types import REPLY, Calls
from ..errors import RolloutError
from ..evaluation.rows import prompt_text
from .routines import ENDINGS

FEWEST = 3  # calls: fewer may stand in a list of all that one can do
SHORTEST = 4  # characters of a single text
OFTEN = 5  # calls


async def told(check: FlawCheck, turns: asyncio.Semaphore) -> str:
    """A note on a call that most rows answer with what the oracle sends; "" without one."""
    sent = [check.oracle(row).calls for row in check.rows]
    plans = {n: _values(calls) for n, calls in enumerate(sent)}
    plans = {n: pattern for n, pattern in plans.items() if pattern}
    what = "the oracle's calls, one after the other,"
    if len(plans) < FEWEST_ROWS:
        what, plans = "what the oracle sends", _single_values(check, sent)
    last = _last_values(check, sent)
    both = {what: plans, "what the oracle's last call sends": last}
    kinds = {what: its for what, its in both.items() if len(its) >= FEWEST_ROWS}
    if not kinds or not check.writes:
        return ""
    made = {name for calls in sent for name, _ in calls}  # it asks these itself
    asked: Calls = [c for c in check.samples() if len(made) < 2 or c[0] not in made]
    asked += [call for call in check.said("7") if call not in asked]
    if check.declared.replies:
        asked += [(REPLY, {"answer": word}) for word in ENDINGS]
    found = Counter[tuple[str, str]]()
    played = [n for n in range(len(sent)) if any(n in its for its in kinds.values())]
    played = played[:FEWEST_ROWS]

    async def play(number: int) -> None:
        row = check.rows[number]
        tries = {shown_call(*call): [call] for call in asked}
        # The first call of another row, so often that it may be too much
        other = sent[played[0] if number != played[0] else played[1]][:1]
        usual = await check.observed(row, sent[number][:-1]) if other else None
        seen = "\n".join(usual.outputs) if usual else ""
        for name, _ in other:
            tries[f"{name}(), as in another row, {OFTEN} times,"] = OFTEN * other
        for did, calls in tries.items():
            attempt = await check.observed(row, calls)
            output = "\n".join(attempt.outputs)
            for what, its in kinds.items():
                if number in its and its[number].search(output):
                    # The policy chooses from what the oracle's other calls tell.
                    found[what, did] += calls[0] in asked or not its[number].search(
                        seen
                    )

    with contextlib.suppress(TimeIsOverError, TimeoutError, RolloutError, ValueError):
        async with turns:
            await check.each(played, play, rows=True)
    for (what, did), count in found.most_common(1):
        rows = sum(number in kinds[what] for number in played)
        if rows >= min(FEWEST_ROWS, len(played)) and count >= MOST * rows:
            return (
                f"\n{did} is answered with {what} in {count} of "
                f"{counted(rows, 'row')}: a policy only has to copy that"
            )
    return ""


def _last_values(check: FlawCheck, sent: list[Calls]) -> dict[int, "_Alone"]:
    """Return patterns for the value in which each row's last call differs from most others.

    A list counts by its items, one after the other. There is none for what the prompt has.
    """
    own: dict[int, list[str]] = {}
    for number, calls in enumerate(sent):
        for value in calls[-1][1].values() if calls else ():
            items = value if isinstance(value, list) else [value]
            texts = [str(item) for item in items]
            if len(texts) >= FEWEST or (len(texts) == 1 and len(texts[0]) >= FEWEST):
                own[number] = texts
    count = Counter(map(tuple, own.values()))
    return {
        number: _Alone(texts)
        for number, texts in own.items()
        if 2 * count[tuple(texts)] < len(sent)
        and not _Alone(texts).search(prompt_text(check.rows[number]))
    }


class _Alone:
    """Finds items in a text, one after the other, or a text that is the only one of its form."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        between = r"\W{1,5}".join(map(re.escape, texts))
        self.pattern = re.compile(rf"(?i)(?<!\w){between}(?!\w)")

    def search(self, text: str) -> bool:
        if len(self.texts) > 1 or not self.pattern.search(text):
            return self.pattern.search(text) is not None
        forms = Counter(map(_form, {*re.findall(r"\w+", text)}))
        return forms[_form(self.texts[0])] <= 1


def _form(text: str) -> str:
    """A text with 9 for each digit, and a for each letter."""
    return re.sub(r"[^\W\d]", "a", re.sub(r"\d", "9", text))


def _single_values(check: FlawCheck, sent: list[Calls]) -> dict[int, re.Pattern[str]]:
    """Patterns of the one text in which each row's solution differs from most others.

    Of texts with a form, it is what the form holds. There is none for what the prompt has.
    """
    values = [[v for _, given in calls for v in given.values()] for calls in sent]
    texts = [{text for text in one if isinstance(text, str)} for one in values]
    count = Counter(text for one in texts for text in one)
    own: dict[int, str] = {}
    for number, one in enumerate(texts):
        some = [text for text in one if 2 * count[text] < len(sent)]
        if len(some) == 1:
            own[number] = some[0]
    slot = slot_of(0, own)
    found = {}
    for number, text in own.items():
        value = slot.inner(text)
        prompt = prompt_text(check.rows[number]).casefold()
        if len(value) >= SHORTEST and value.casefold() not in prompt:
            found[number] = re.compile(rf"(?i)(?<!\w){re.escape(value)}(?!\w)")
    return found


def _values(calls: Calls) -> re.Pattern[str] | None:
    """A pattern that finds the values of several calls, one after the other; None for too few."""
    texts = [str(value) for _, sent in calls for value in sent.values()]
    if len(texts) < FEWEST or len({*texts}) < 2:
        return None
    return re.compile(r"\W{1,5}".join(map(re.escape, texts)))
