"""Which calls to make, in which order, and with which values: learned from solutions."""

import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .choice import Beside, Choice, Example
from .sight import View, text_of

STOP = "stop"
ANSWER = ""  # the tool's name of a last message
MOST_PHASES, MOST_CALLS = 16, 60  # of a learned episode
SURE = 0.5  # the likelihood from which on a value is one of several

Arguments = dict[str, Any]


class Phase(NamedTuple):
    """Calls of one tool, one after the other, and what was seen before them."""

    tool: str
    calls: list[Arguments]
    view: View
    slot: str  # the tool's name, with a number if it had been called before


@dataclass
class Played:
    """An episode that the oracle played: its phases, and all that was seen in the end."""

    phases: list[Phase] = field(default_factory=list)
    view: View = field(default_factory=View)

    @property
    def slots(self) -> set[str]:
        return {phase.slot for phase in self.phases}


# ------------------------------------------------------------------ values in values


def opened(value: Any) -> Any:
    """An object in a JSON text, else the value."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """The values in a value by their paths. A list is one of them."""
    value = opened(value)
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, Any] = {}
    for name, part in value.items():
        found |= leaves(part, f"{path}.{name}".lstrip("."))
    return found


def rebuilt(like: Any, values: dict[str, Any], path: str = "") -> Any:
    """A value like another one, with these in it."""
    inner = opened(like)
    if not isinstance(inner, dict):
        return values.get(path, like)
    new = {
        name: rebuilt(part, values, f"{path}.{name}".lstrip("."))
        for name, part in inner.items()
    }
    return json.dumps(new, ensure_ascii=False) if isinstance(like, str) else new


# ------------------------------------------------------------------ what is learned


class Slot:
    """One value of a call: chosen among what was seen, with the text that is always around."""

    def __init__(self, examples: list[Example], choices: list[Any]) -> None:
        self.before = self.after = ""
        self.choice = Choice(examples, choices)
        texts = [right for example in examples for right in example.right]
        if self.choice.covered > SURE or not all(isinstance(one, str) for one in texts):
            return
        before = os.path.commonprefix(texts)
        after = os.path.commonprefix([one[len(before) :][::-1] for one in texts])[::-1]
        if not before + after or len({*texts}) < 2:
            return
        inner = [
            Example(
                view,
                [one[len(before) : len(one) - len(after)] for one in right],
                beside,
            )
            for view, right, beside in examples
        ]
        choice = Choice(inner)
        if choice.covered > self.choice.covered:
            self.before, self.after, self.choice = before, after, choice

    def choose(
        self, view: View, beside: Beside | None, chance: random.Random
    ) -> list[tuple[float, Any, Beside | None]]:
        """The values with how likely each is, and where it stands, the likeliest first."""
        return [
            (share, self._whole(one.value), one.place)
            for share, one in self.choice.choose(view, beside, chance)
        ]

    def place_of(self, view: View, value: Any) -> Beside | None:
        """Where a value stands."""
        for one in self.choice.candidates(view, None):
            if text_of(self._whole(one.value)) == text_of(value):
                return one.place
        return None

    def _whole(self, value: Any) -> Any:
        return (
            f"{self.before}{value}{self.after}" if self.before or self.after else value
        )


class Group:
    """Objects of one kind: the calls of a phase, or a list of values."""

    def __init__(
        self,
        examples: list[tuple[View, list[Any]]],
        choices: dict[str, list[Any]],
        path: str = "",
    ) -> None:
        self.path, self.parts = path, dict[str, Slot | Group]()
        every = [(view, [leaves(one) for one in items]) for view, items in examples]
        whole = Counter(json.dumps(items, sort_keys=True) for _, items in examples)
        self.usual: list[Any] = json.loads(whole.most_common(1)[0][0])
        self.same = whole.most_common(1)[0][1] / len(examples)
        sizes = {len(items) for _, items in examples}
        self.size = sizes.pop() if len(sizes) == 1 else None
        self.fewest = min([self.size or 0, *sizes])
        names = Counter(tuple(one) for _, items in every for one in items)
        self.names = names.most_common(1)[0][0] if names else ()
        likes = [
            one
            for _, items in examples
            for one in items
            if tuple(leaves(one)) == self.names
        ]
        self.like = likes[0] if likes else None
        every = [
            (view, [one for one in items if tuple(one) == self.names])
            for view, items in every
        ]
        self.is_constant = self.same == 1 or not self.names
        if self.is_constant:
            return
        scalars = [
            name
            for name in self.names
            if not any(
                isinstance(one[name], list) for _, items in every for one in items
            )
        ]
        slots = {
            name: Slot(
                [Example(view, [one[name] for one in items]) for view, items in every],
                choices.get(self._name(name), []),
            )
            for name in scalars
        }
        # One value finds the others: that which tells the objects apart, if there are several.
        self.key = next(iter(scalars), "")
        if self.size != 1:
            apart = {
                name: sum(
                    len({text_of(one[name]) for one in items}) == len(items)
                    for _, items in every
                )
                for name in scalars
            }
            self.key = max(
                scalars,
                key=lambda name: (apart[name], slots[name].choice.covered),
                default="",
            )
            repeats = apart.get(self.key, 0) < SURE * len(every)
            covered = slots[self.key].choice.covered if self.key else 0.0
            if repeats or covered <= self.same:
                self.is_constant = True
                return
        if self.key:
            self.parts[self.key] = slots[self.key]
        for name in self.names:
            if name == self.key:
                continue
            inner: list[Example] = []
            lists: list[tuple[View, list[Any]]] = []
            for view, items in every:
                for one in items:
                    if name in scalars:
                        beside = slots[self.key].place_of(view, one[self.key])
                        inner.append(Example(view, [one[name]], beside))
                    else:
                        lists.append(
                            (view, one[name] if isinstance(one[name], list) else [])
                        )
            if name in scalars:
                self.parts[name] = Slot(inner, choices.get(self._name(name), []))
            else:
                self.parts[name] = Group(lists, choices, self._name(name))

    def _name(self, name: str) -> str:
        return f"{self.path}.{name}".strip(".")

    def predict(self, view: View, chance: random.Random) -> list[Any]:
        """The objects that are likely right."""
        if self.is_constant:
            return self.usual
        if not self.key:
            return [self._item({}, view, None, chance)]
        key = self.parts[self.key]
        assert isinstance(key, Slot)
        found = key.choose(view, None, chance)
        count = self.size
        if count is None:
            count = max(sum(share >= SURE for share, _, _ in found), self.fewest)
        chosen = found[: min(count, MOST_CALLS)]
        # In the order in which they were seen
        chosen.sort(key=lambda one: one[2].record.place if one[2] else -1)
        return [
            self._item({self.key: value}, view, place, chance)
            for _, value, place in chosen
        ]

    def _item(
        self,
        values: dict[str, Any],
        view: View,
        place: Beside | None,
        chance: random.Random,
    ) -> Any:
        for name, part in self.parts.items():
            if name == self.key:
                continue
            if isinstance(part, Group):
                values[name] = part.predict(view, chance)
            elif found := part.choose(view, place, chance):
                values[name] = found[0][1]
        return rebuilt(self.like, values)

    def choices(self) -> list[tuple[str, Choice]]:
        """The choices among several candidates, with the names of their values."""
        found: list[tuple[str, Choice]] = []
        for name, part in self.parts.items():
            if isinstance(part, Group):
                found += part.choices()
            else:
                found.append((self._name(name), part.choice))
        return found


class Plan:
    """The whole of what is learned from the oracle's episodes."""

    def __init__(self, episodes: list[Played], choices: dict[str, list[Any]]) -> None:
        nexts: dict[tuple[int, str], list[Example]] = {}
        groups: dict[str, list[tuple[View, list[Any]]]] = {}
        self.tools: dict[str, str] = {}
        for played in episodes:
            last = ""
            for number, phase in enumerate(played.phases[:MOST_PHASES]):
                state = (number, last)
                nexts.setdefault(state, []).append(Example(phase.view, [phase.slot]))
                groups.setdefault(phase.slot, []).append((phase.view, phase.calls))
                self.tools[phase.slot], last = phase.tool, phase.slot
            state = (len(played.phases), last)
            nexts.setdefault(state, []).append(Example(played.view, [STOP]))
        self.nexts = {
            state: Choice(examples, sorted({one.right[0] for one in examples}))
            for state, examples in nexts.items()
        }
        self.groups: dict[str, Group] = {}
        for slot, examples in groups.items():
            tool = self.tools[slot]
            own = {
                name.partition(".")[2]: values
                for name, values in choices.items()
                if name.partition(".")[0] == tool
            }
            self.groups[slot] = Group(examples, own)

    def next(self, number: int, last: str, view: View, chance: random.Random) -> str:
        """The slot of the next phase, or STOP."""
        choice = self.nexts.get((number, last))
        if choice is None or number == MOST_PHASES:
            return STOP
        return choice.choose(view, None, chance)[0][1].value

    def choices(self) -> list[tuple[str, Choice]]:
        """The choices of arguments, with their names, such as `buy.part`."""
        return [
            (f"{slot}.{name}".strip("."), choice)
            for slot, group in self.groups.items()
            for name, choice in group.choices()
        ]
