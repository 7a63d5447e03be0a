"""Which calls to make, in which order, and with which values: learned from solutions."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, NamedTuple

from .choice import Beside, Choice, Example
from .sight import SEPARATOR, TOKENS, View, joined, text_of

STOP = "stop"
ANSWER = ""  # the tool's name of a last message
MOST_PHASES, MOST_CALLS = 16, 60  # of a learned episode
FEW = 5  # examples that are looked at first
APART = 0.9  # of the examples have each value once
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

    def __init__(
        self,
        examples: list[Example],
        choices: Iterable[Any] = (),
        *,
        cells: bool = False,
    ) -> None:
        self.before = self.after = ""
        self.choice = Choice(examples, choices, cells=cells)
        texts = [right for example in examples for right in example.right]
        if (
            cells
            or self.choice.listed > SURE
            or not all(isinstance(one, str) for one in texts)
        ):
            return
        # Up to the end of a word: `p1` and `p2` are whole
        before = re.sub(r"\w+$", "", os.path.commonprefix(texts))
        after = os.path.commonprefix([one[len(before) :][::-1] for one in texts])[::-1]
        after = re.sub(r"^\w+", "", after)
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
        if choice.listed > self.choice.listed:
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
        key = ("places", id(self.choice))
        if key not in view.memory:
            view.memory[key] = {
                text_of(self._whole(one.value)): one.place
                for one in self.choice.candidates(view, None)
            }
        return view.memory[key].get(text_of(value))

    def _whole(self, value: Any) -> Any:
        return (
            f"{self.before}{value}{self.after}" if self.before or self.after else value
        )


def _joined(names: tuple[str, ...], item: Arguments) -> Any:
    """The value of an object by which it is found: two of them are one text."""
    values = [item[name] for name in names]
    return values[0] if len(values) == 1 else joined(*map(str, values))


class Group:
    """Objects of one kind: the calls of a phase, or a list of values."""

    def __init__(
        self,
        examples: list[tuple[View, list[Any]]],
        choices: dict[str, list[Any]],
        path: str = "",
    ) -> None:
        self.path, self.parts = path, dict[str, Slot | Group]()
        self.key: Slot | None = None
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
        # What finds the other values: a value that tells the objects apart, or two
        self.keys: tuple[str, ...] = (*scalars[:1],)
        self.kinds = {
            name: type(one[name])
            for _, items in every
            for one in items
            for name in scalars
        }
        key = slots.get(scalars[0]) if scalars else None
        if self.size != 1:
            self.keys, key = self._keys(every, scalars, slots)
            if key is None or key.choice.covered <= self.same:
                self.is_constant = True
                return
        self.key = key
        for name in self.names:
            if name in self.keys:
                continue
            inner: list[Example] = []
            lists: list[tuple[View, list[Any]]] = []
            for view, items in every:
                for one in items:
                    if name in scalars and key:
                        beside = key.place_of(view, self._joined(one))
                        inner.append(Example(view, [one[name]], beside))
                    else:
                        own = one[name] if isinstance(one[name], list) else []
                        lists.append((view, own))
            if name in scalars:
                self.parts[name] = Slot(inner, choices.get(self._name(name), []))
            else:
                self.parts[name] = Group(lists, choices, self._name(name))

    def _keys(
        self,
        every: list[tuple[View, list[Arguments]]],
        scalars: list[str],
        slots: dict[str, Slot],
    ) -> tuple[tuple[str, ...], Slot | None]:
        """The names of the values that tell several objects apart, and where they stand."""

        def apart(names: tuple[str, ...]) -> bool:
            kept = [
                len({tuple(text_of(one[name]) for name in names) for one in items})
                == len(items)
                for _, items in every
            ]
            return sum(kept) >= APART * len(kept)

        single = [name for name in scalars if apart((name,))]
        for name in single:
            choice = slots[name].choice
            in_list = any(field not in TOKENS for _, field in choice.columns)
            if choice.covered > SURE and in_list and not choice.edits:
                return (name,), slots[name]
        for names in [
            *permutations(scalars[:3], 2),
            *((name,) for name in scalars[:3]),
        ]:
            if not apart(names):
                continue
            examples = [
                Example(view, [_joined(names, one) for one in items])
                for view, items in every
            ]
            columns = {
                text_of(record.fields[name])
                for view, _, _ in examples[:FEW]
                for (_, name), lists in view.cells.items()
                for records in lists
                for record in records
            }
            wanted = [text_of(one) for _, rights, _ in examples[:FEW] for one in rights]
            if sum(one in columns for one in wanted) <= SURE * len(wanted):
                continue
            slot = Slot(examples, cells=True)
            if slot.choice.covered > SURE:
                return names, slot
        best = max(single, key=lambda name: slots[name].choice.covered, default="")
        return ((best,), slots[best]) if best else ((), None)

    def _joined(self, item: Arguments) -> str:
        return _joined(self.keys, item)

    def _name(self, name: str) -> str:
        return f"{self.path}.{name}".strip(".")

    def predict(self, view: View, chance: random.Random) -> list[Any]:
        """The objects that are likely right."""
        if self.is_constant:
            return self.usual
        if not self.key:
            return [self._item({}, view, None, chance)]
        found = self.key.choose(view, None, chance)
        count = self.size
        if count is None:
            count = max(sum(share >= SURE for share, _, _ in found), self.fewest)
        chosen = found[: min(count, MOST_CALLS)]
        # In the order in which they were seen
        chosen.sort(key=lambda one: one[2].record.place if one[2] else -1)
        items = []
        for _, value, place in chosen:
            own = {self.keys[0]: value}
            if len(self.keys) > 1:
                pair = zip(self.keys, str(value).split(SEPARATOR), strict=True)
                own = {name: self.kinds[name](text) for name, text in pair}
            items.append(self._item(own, view, place, chance))
        return items

    def _item(
        self,
        values: dict[str, Any],
        view: View,
        place: Beside | None,
        chance: random.Random,
    ) -> Any:
        for name, part in self.parts.items():
            if isinstance(part, Group):
                values[name] = part.predict(view, chance)
            elif found := part.choose(view, place, chance):
                values[name] = found[0][1]
        return rebuilt(self.like, values)

    def choices(self) -> list[tuple[str, Choice]]:
        """The choices among several candidates, with the names of their values."""
        found: list[tuple[str, Choice]] = []
        if not self.is_constant and self.key:
            found.append((self._name(" and ".join(self.keys)), self.key.choice))
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
