"""The learned player: made from half of the rows, it plays the other half, and back."""

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from ..episode.samples import choices_of
from ..episode.types import REPLY, Calls, Row, Solution, content_text
from ..evaluation.rows import messages_of
from .luck import CHANCE, never, unlikely
from .plan import ANSWER, MOST_CALLS, STOP, Phase, Plan, Played, leaves
from .sight import PROMPT, View, text_of
from .words import rule_of

FEWEST = 8  # rows: fewer teach nothing
MOST_WATCHED = 200  # calls of a solution: from longer ones nothing is learned
SURE = 1.96  # standard errors of an interval: 19 of 20 hold the mean


@dataclass
class Learned:
    """The rewards of the learned player, by the rows' numbers, and its rule."""

    rewards: dict[int, float]
    solved: set[int]
    range: tuple[float, float]
    rule: str = ""
    tells: list[str] = field(
        default_factory=list
    )  # that rows were drawn against a player
    plan: Plan | None = None  # from all rows
    played: dict[int, Played] = field(default_factory=dict)  # the oracle's episodes

    @property
    def chance(self) -> float:
        """The mean reward of a random choice among the candidates, as far as that is known."""
        assert self.plan
        low, high = self.range
        chances = dict.fromkeys(self.played, 1.0)
        for slot, group in self.plan.groups.items():
            rows = [n for n, one in sorted(self.played.items()) if slot in one.slots]
            if group.same < 1 and not group.choices():  # nobody is right by chance
                chances |= dict.fromkeys(rows, 0.0)
            for _, choice in group.choices():
                single = len(choice.seen) == len(rows)
                for number, (own, right) in zip(rows, choice.seen, strict=False):
                    # Who sees the right one need not think of those of other rows.
                    listed = [one for one in own if one.place]
                    seen = listed if any(own[n].place for n in right) else own
                    chances[number] *= single / max(len(seen), 1)
        return low + (high - low) * math.fsum(chances.values()) / len(chances)

    @property
    def mean(self) -> float:
        return math.fsum(self.rewards.values()) / len(self.rewards)

    @property
    def interval(self) -> tuple[float, float]:
        """The bounds of the mean, as Wilson has them, for rewards between two ends."""
        low, high = self.range
        n, share = len(self.rewards), (self.mean - low) / (high - low)
        middle = (share + SURE**2 / (2 * n)) / (1 + SURE**2 / n)
        spread = math.sqrt(share * (1 - share) / n + SURE**2 / (4 * n * n))
        spread *= SURE / (1 + SURE**2 / n)
        ends = (max(0.0, middle - spread), min(1.0, middle + spread))
        return low + ends[0] * (high - low), low + ends[1] * (high - low)


def prompt_view(row: Row) -> View:
    """What a policy sees before its first call."""
    texts = [content_text(message.get("content")) for message in messages_of(row)]
    return View().show(PROMPT, "\n".join(filter(None, texts)))


def source_of(tool: str) -> str:
    """The name of what a tool says, in sentences."""
    return "its replies" if tool == REPLY else f"`{tool}`"


def _choices(schema: dict[str, Any]) -> list[Any]:
    """The values of a parameter, or of the items of its list, if there are few."""
    if schema.get("type") == "array":
        return choices_of(schema.get("items", {}))
    kinds = schema.get("anyOf", [schema])
    found = [choices_of(kind) for kind in kinds if kind.get("type") != "null"]
    if not all(found):
        return []
    values = [value for some in found for value in some]
    return [*values, None] if len(found) < len(kinds) else values


async def watch(check: Any, row: Row) -> Played | None:
    """The oracle's episode of a row, as a policy sees it; None without a solution."""
    calls, answer = check.oracle(row)
    if not (calls or answer) or len(calls) > MOST_WATCHED:
        return None
    played = Played(view=prompt_view(row))
    if check.declared.replies:
        answer = ""
    episode = check.episode(row)

    async def steps() -> float:
        for phase in phases_of(calls, answer):
            played.phases.append(phase._replace(view=played.view))
            for sent in phase.calls if phase.tool != ANSWER else ():
                played.view = await _made(episode, phase.tool, sent, played.view)
        return await episode.reward(answer)

    return played if check.full(row, await episode.whole(steps)) else None


def phases_of(calls: Calls, answer: str) -> Iterator[Phase]:
    """The phases of a solution: `look`, `buy`, and `look (2)` where it looks again."""
    times = Counter[str]()
    steps = [*calls, (ANSWER, {"answer": answer})] if answer else calls
    for tool, some in groupby(steps, key=lambda call: call[0]):
        times[tool] += 1
        slot = tool if times[tool] == 1 else f"{tool} ({times[tool]})"
        yield Phase(tool, [sent for _, sent in some], View(), slot)


async def _made(episode: Any, tool: str, sent: dict[str, Any], view: View) -> View:
    """The view after a call, or a message, was answered."""
    answer = await (
        episode.say(sent["answer"]) if tool == REPLY else episode.call(tool, sent)
    )
    given = {
        f"{tool}.{name}": text_of(value)
        for name, value in sent.items()
        if not isinstance(value, dict | list)
    }
    return view.make(given).show(source_of(tool), answer.output if answer else "")


async def play(check: Any, row: Row, plan: Plan, chance: random.Random) -> float:
    """The reward of an episode that follows a plan."""
    episode = check.episode(row)

    async def steps() -> float:
        view, last, number, answer, calls = prompt_view(row), "", 0, "", 0
        while (slot := plan.next(number, last, view, chance)) != STOP:
            tool, before = plan.tools[slot], view
            for sent in plan.groups[slot].predict(before, chance):
                calls += 1
                if tool == ANSWER:
                    answer = str(sent["answer"])
                elif calls <= MOST_CALLS:
                    view = await _made(episode, tool, sent, view)
            last, number = slot, number + 1
        return await episode.reward(answer)

    return await episode.whole(steps)


async def learn(
    check: Any, doing: Callable[[str], None] = lambda text: None
) -> Learned | None:
    """Learn from half of the rows, and play the other half, and the other way round.

    `check` has the class, the rows, and their episodes: a FlawCheck. None if too few rows
    have a solution that earns the full reward.
    """
    numbers = [*range(len(check.rows))]
    watched: dict[int, Played] = {}

    async def watch_row(number: int) -> None:
        played = await watch(check, check.rows[number])
        if played:
            watched[number] = played
            doing(f"watches the oracle in {len(watched)} of {len(numbers)} rows")

    await check.each(numbers, watch_row, rows=True)
    if len(watched) < FEWEST:
        return None
    choices = {
        f"{tool['name']}.{name}": _choices(schema)
        for tool in check.definitions
        for name, schema in tool["parameters"]["properties"].items()
    }
    order = sorted(watched)
    random.Random(0).shuffle(order)
    halves = order[::2], order[1::2]
    learned = Learned({}, set(), check.declared.reward_range, played=watched)
    check.clock = type(check.clock)(check.clock.most_seconds, check.clock.most_seconds)
    for own, others in (halves, halves[::-1]):
        doing(f"learns from {len(own)} rows")
        plan = Plan([watched[number] for number in own], choices)

        async def play_row(number: int, plan: Plan = plan) -> None:
            row = check.rows[number]
            reward = await play(check, row, plan, random.Random(number))
            learned.rewards[number] = reward
            if check.full(row, reward):
                learned.solved.add(number)
            doing(f"plays {len(learned.rewards)} of {len(order)} rows as learned")

        await check.each(sorted(others), play_row)
    if not learned.rewards:
        return None
    learned.plan = Plan([watched[number] for number in sorted(watched)], choices)
    learned.rule = rule_of(learned.plan)
    learned.tells = never(learned.plan)
    return learned


def choices_made(
    learned: Learned, guesses: dict[int, Solution], solved: set[int]
) -> str:
    """A sentence if a shallow player is right in fewer rows than chance, else "".

    `guesses` are what it plays by the rows' numbers, and `solved` the rows that it solves.
    Rows in which its calls have another order than the oracle's are left out.
    """
    assert learned.plan
    phases = {
        number: {one.slot: one.calls for one in phases_of(*solution)}
        for number, solution in guesses.items()
    }
    for slot, group in learned.plan.groups.items():
        rows = [n for n, one in sorted(learned.played.items()) if slot in one.slots]
        for name, choice in group.choices():
            hits, chances = 0, list[float]()
            for number, (candidates, places) in zip(rows, choice.seen, strict=False):
                calls = phases.get(number, {}).get(slot, [])
                own = {text_of(one.value) for one in candidates if one.in_list}
                if len(choice.seen) != len(rows) or len(places) != 1 or len(calls) != 1:
                    continue
                right = candidates[next(iter(places))]
                given = text_of(leaves(calls[0]).get(name))
                if not right.in_list or given not in own or len(own) < 2:
                    continue
                hits += number in solved or given == text_of(right.value)
                chances.append(1 / len(own))
            if unlikely(hits, chances) < CHANCE and hits < sum(chances):
                return (
                    f"is right about `{slot}.{name}` in {hits} of {len(chances)} rows, and a "
                    f"random choice would be in {sum(chances):.0f}: rows were drawn against it"
                )
    return ""
