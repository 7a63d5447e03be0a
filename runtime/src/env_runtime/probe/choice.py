"""Which of the values that a policy has seen is right, as far as their places tell."""

import difflib
import functools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .sight import (
    PLACES,
    PROMPT,
    SEPARATOR,
    TOKENS,
    Column,
    Field,
    Record,
    View,
    number_of,
    text_of,
)
from .tree import Tree, grow

ORDINALS = [
    "",
    "second ",
    "third ",
    "fourth ",
    "fifth ",
    "sixth ",
    "seventh ",
    "eighth ",
]
COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 50)
LENGTHS = (20, 40, 80, 160, 320)  # words of a prompt
COLUMNS = 3  # so many of them are read for one value
CONSTANTS = 8
EDITS = 12
MOSTLY = 0.8
# Begins the statement on a record of which the prompt has another field
NAMED = "the prompt has its"
LISTED = "listed"  # it stands in a list, and is no constant
BESIDE = "beside"  # the source of fields that stand beside a value chosen before


@dataclass
class Candidate:
    """A value that may be right, and what is true of it."""

    value: Any
    true: set[str] = field(default_factory=set)
    ranks: set[str] = field(default_factory=set)  # its places and ranks, among `true`
    place: "Beside | None" = None

    @property
    def in_list(self) -> bool:
        """Whether it stands in one of several records, and not only in a text."""
        return bool(self.place) and not {*self.place.record.fields} & {*TOKENS}


class Beside(NamedTuple):
    """The record of a value, and those around it."""

    source: str
    record: Record
    around: list[Record]


class Example(NamedTuple):
    """Values that were right, mostly one, and what had been seen before."""

    view: View
    right: list[Any]
    beside: Beside | None = None


# ------------------------------------------------------------------ what is true


def noun(name: Field) -> str:
    """A field's name in a sentence: those of a text are quoted."""
    return name.partition(" ")[2] if name.startswith("a ") else f"`{name}`"


def _superlatives(count: int, low: str, high: str) -> Iterator[tuple[int, str]]:
    """The ranks of `count` things, from both ends: `third lowest`, `highest`."""
    for number, ordinal in enumerate(ORDINALS[:count]):
        yield number, f"{ordinal}{low}"
        yield count - 1 - number, f"{ordinal}{high}"


def _ranked(records: list[Record], name: Field) -> Iterator[tuple[Record, str]]:
    """The records with their ranks by the numbers of a field, if these differ."""
    numbers = [number_of(record.fields.get(name, "")) for record in records]
    if None in numbers or len({*numbers}) < 2:
        return
    order = sorted(range(len(records)), key=lambda n: (numbers[n], n))
    for place, rank in _superlatives(len(order), "lowest", "highest"):
        yield records[order[place]], f"{rank} {noun(name)}"


def _form(text: str) -> str:
    """The form of a text: `9.9` of `3.20`, `a-9` of `nut-12`."""
    return re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", text))


def equals(value: Any) -> str:
    """The statement on a value that is right in other rows, or that a schema lists."""
    return f"is {value!r:.60}"


def shifted(text: str) -> str:
    """A text with each whole number one higher, as the next one of a series."""
    return re.sub(r"(?<!\$)\d+", lambda match: str(int(match[0]) + 1), text)


def _within(prompt: str, text: str) -> bool:
    """Whether a prompt in lower case has a text as whole words."""
    text = text.casefold()
    start = prompt.find(text) if len(text) > 1 else -1
    while start >= 0:
        before, after = prompt[:start][-1:], prompt[start + len(text) :][:1]
        if not re.match(r"[\w.]", before) and not re.match(r"\w", after):
            return True
        start = prompt.find(text, start + 1)
    return False


Facts = dict[int, tuple[set[str], set[str]]]


def about_records(view: View, source: str, records: list[Record]) -> Facts:
    """What is true of each record of a list, by its id, and which of that are ranks."""
    key = (source, *map(id, records))
    if key not in view.memory:
        view.memory[key] = _about(view, source, records)
    return view.memory[key]


def _about(view: View, source: str, records: list[Record]) -> Facts:
    facts = {id(record): (set[str](), set[str]()) for record in records}
    prompt = view.texts.get(PROMPT, "").casefold()
    count = len(records)
    for most in COUNTS:
        if count <= most:
            for true, _ in facts.values():
                true.add(
                    f"{'one candidate' if most == 1 else f'at most {most} candidates'}"
                )
    names = [*records[0].fields] if records else []
    names = [
        name
        for name in names
        if all(name in record.fields for record in records)
        and name not in PLACES
        and SEPARATOR not in name
    ]
    if count < 2:
        names = [name for name in names if name not in TOKENS]
    for name in names:
        values = [record.fields[name] for record in records]
        for record, rank in _ranked(records, name):
            facts[id(record)][1].add(rank)
        usual, times = Counter(map(_form, values)).most_common(1)[0]
        common = set.intersection(*map(set, values)) if count > 1 else set[str]()
        named = []
        for record, value, before in zip(records, values, ["", *values], strict=False):
            true = facts[id(record)][0]
            if count > 2 and times > count / 2 and _form(value) != usual:
                true.add(f"its {noun(name)} is written unlike most")
            if not value:
                true.add(f"its {noun(name)} is empty")
            if before and value == before:
                true.add(f"its {noun(name)} is the one before's")
            if before and value == shifted(before):
                true.add(f"its {noun(name)} follows the one before's")
            for character in {*re.findall(r"[^\w\s]", value)} - common:
                true.add(f"its {noun(name)} has {character}")
            if number_of(value) is None and len(value) < 40:
                true.add(f"its {noun(name)} is {value!r}")
            if source != PROMPT and _within(prompt, value):
                true.add(f"{NAMED} {noun(name)}")
                named.append(record)
        if 1 < len(named) < count:
            for other in names:
                for record, rank in _ranked(named, other):
                    of_those = f"{rank} of those whose {noun(name)} the prompt has"
                    facts[id(record)][1].add(of_those)
    return facts


def about_view(view: View) -> set[str]:
    """What is true of all that was seen: how much that is."""
    true = set()
    words = len(view.texts.get(PROMPT, "").split())
    true |= {
        f"the prompt has at most {most} words" for most in LENGTHS if words <= most
    }
    for source, text in view.texts.items():
        if source == PROMPT:
            continue
        count = sum(not {*record.fields} & {*TOKENS} for record in view.records[source])
        true |= {
            f"{source} shows at most {most} lines" for most in COUNTS if count <= most
        }
        if text.startswith("error"):
            true.add(f"{source} answers an error")
    return true


# ------------------------------------------------------------------ small changes

Edit = Callable[[str], str]


@functools.lru_cache(maxsize=20_000)  # each fold compares the same texts
def edits_between(seen: str, right: str) -> tuple[tuple[str, Edit], ...]:
    """Small changes of a seen text that make the right one, and might make others."""
    return (*_edits_between(seen, right),)


def _edits_between(seen: str, right: str) -> Iterator[tuple[str, Edit]]:
    cases: list[tuple[str, Edit]] = [
        ("in lower case", str.lower),
        ("in upper case", str.upper),
        ("with capitals", str.title),
        ("without spaces around it", str.strip),
        ("with its numbers one higher", shifted),
    ]
    yield from ((name, edit) for name, edit in cases if edit(seen) == right != seen)
    gone = "".join(sorted({c for c in seen if c not in right and not c.isalnum()}))
    if gone and right == _without(gone, seen):
        yield f"without {gone}", functools.partial(_without, gone)
    for sign in {*re.findall(r"[^\w]", seen)}:
        first, _, rest = seen.partition(sign)
        if rest and first.strip() == right:
            yield (
                f"up to {sign!r}",
                lambda text, sign=sign: text.partition(sign)[0].strip(),
            )
        if first and rest.strip() == right:
            yield (
                f"after {sign!r}",
                lambda text, sign=sign: text.partition(sign)[2].strip(),
            )
    for sign in {c for c in right if not c.isalnum() and right.replace(c, "") == seen}:
        places = _places_of(sign, right)
        yield (
            f"with {sign} put in as in others",
            functools.partial(_with, sign, places),
        )
    codes = difflib.SequenceMatcher(None, seen, right, autojunk=False).get_opcodes()
    changes = {(seen[a:b], right[c:d]) for kind, a, b, c, d in codes if kind != "equal"}
    if len(changes) == 1 and len(seen) > 1:
        [(old, new)] = changes
        if 2 * len(old) > len(seen) or (old + new).isdigit():
            return
        if old and new and seen.replace(old, new) == right:
            yield (
                f"with {new!r} for {old!r}",
                lambda text: text.replace(old, new),
            )
        if not old and right == new + seen:
            yield f"after {new!r}", lambda text: new + text
        if not old and right == seen + new:
            yield f"before {new!r}", lambda text: text + new


def _without(signs: str, text: str) -> str:
    return "".join(c for c in text if c not in signs)


def _tokens(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+|\d+|.", text, re.DOTALL)


def _places_of(sign: str, text: str) -> tuple[int, ...]:
    """Before which parts of a text a sign stands, counted from the end."""
    places, seen = [], 0
    for part in reversed(_tokens(text)):
        if part == sign:
            places.append(seen)
        else:
            seen += 1
    return tuple(places)


def _with(sign: str, places: tuple[int, ...], text: str) -> str:
    parts = _tokens(text)
    for place in sorted(places):
        if place > len(parts):
            return text
    for place in sorted(places, reverse=True):
        parts.insert(len(parts) - place, sign)
    return "".join(parts)


# ------------------------------------------------------------------ the choice


class Choice:
    """Learns which candidate is right. `choices` are all values, if a schema lists them.

    With `cells`, candidates are the fields of records, by their columns.
    """

    def __init__(
        self,
        examples: list[Example],
        choices: Iterable[Any] = (),
        *,
        cells: bool = False,
    ) -> None:
        self.choices, self.cells = [*choices], cells
        self.examples = examples
        rights = [right for example in examples for right in example.right]
        self.kind = Counter(map(type, rights)).most_common(1)[0][0]
        usual = Counter(json.dumps(right, sort_keys=True) for right in rights)
        self.constants = [json.loads(text) for text, _ in usual.most_common(CONSTANTS)]
        self.columns, self.edits = self._columns(), list[tuple[Column, str, Edit]]()
        if not self.choices:
            self.edits = self._edits(self.columns)
        if any(example.beside for example in examples):
            self._stay_beside()
        self.tree = Tree(0, 0)
        # The candidates of each example, and the places of the right ones among them
        self.seen: list[tuple[list[Candidate], set[int]]] = []
        self._grow()

    @property
    def covered(self) -> float:
        """The share of the examples whose right values are all candidates."""
        found = sum(
            len(places) == len({*map(text_of, example.right)})
            for example, (_, places) in zip(self.examples, self.seen, strict=True)
        )
        return found / max(len(self.seen), 1)

    @property
    def listed(self) -> float:
        """The share of the examples whose right value was seen, and is not only a constant."""
        found = sum(any(own[n].place for n in places) for own, places in self.seen)
        return found / max(len(self.seen), 1)

    def _lists(self, example: Example) -> dict[Column, list[list[Record]]]:
        """The lists of a view, and the fields beside a value chosen before."""
        if self.cells:
            return example.view.cells
        lists = {column: [records] for column, records in example.view.columns.items()}
        if example.beside is None:
            return lists
        record = example.beside.record
        return lists | {(BESIDE, name): [[record]] for name in record.fields}

    def _columns(self) -> list[Column]:
        """The columns in which the right value stands, those of most examples first."""
        if self.choices:
            return []
        holds: dict[Column, set[tuple[int, str]]] = {}
        sizes: Counter[Column] = Counter()
        left: set[tuple[int, str]] = set()
        for number, example in enumerate(self.examples):
            rights = {*map(text_of, example.right)}
            left |= {(number, right) for right in rights}
            for column, lists in self._lists(example).items():
                texts = {
                    text_of(one.fields[column[1]]) for some in lists for one in some
                }
                for right in rights & texts:
                    holds.setdefault(column, set()).add((number, right))
                    sizes[column] += len(texts)
        chosen: list[Column] = []
        count = len(left)
        while holds and len(chosen) < COLUMNS:
            best = max(
                sorted(holds),
                key=lambda one: (
                    len(holds[one] & left),
                    one[1] not in TOKENS,
                    -sizes[one] / len(holds[one]),
                ),
            )
            new = holds.pop(best) & left
            if len(new) < max(2, count / 10):
                break
            chosen.append(best)
            left -= new
        return chosen

    def _stay_beside(self) -> None:
        """Look only beside the value that was chosen before, if that mostly has the right one."""
        own = [column for column in self.columns if column[0] == BESIDE]
        edits = self._edits(own)
        reached = 0
        for example in self.examples:
            record = example.beside.record if example.beside else Record({})
            seen = {text_of(record.fields.get(name, "")) for _, name in own}
            for (_, name), _, edit in edits:
                seen.add(text_of(edit(record.fields.get(name, ""))))
            reached += {*map(text_of, example.right)} <= seen
        if reached >= MOSTLY * len(self.examples):
            self.columns, self.edits = own, edits

    def _edits(self, known_columns: list[Column]) -> list[tuple[Column, str, Edit]]:
        """Changes that make the right value of what was seen, in two examples or more.

        Those that stand in `known_columns` need none.
        """
        known: dict[tuple[Column, str], Edit] = {}
        times: Counter[tuple[Column, str]] = Counter()
        for example in self.examples:
            columns, found = self._lists(example), set()
            seen = {
                text_of(record.fields[name])
                for source, name in known_columns
                for records in columns.get((source, name), [])
                for record in records
            }
            for right in map(_as_text, example.right):
                if text_of(right) in seen or len(right) > 200:
                    continue
                for column, lists in columns.items():
                    if column[1] in TOKENS or (example.beside and column[0] != BESIDE):
                        continue
                    for record in (one for some in lists for one in some):
                        text = record.fields[column[1]]
                        for name, edit in edits_between(text, right):
                            known.setdefault((column, name), edit)
                            found.add((column, name))
            times.update(found)
        usual = sorted(times, key=lambda one: (-times[one], one))
        return [
            (column, name, known[column, name])
            for column, name in usual[:EDITS]
            if times[column, name] > 1
        ]

    def candidates(self, view: View, beside: Beside | None) -> list[Candidate]:
        """The values that may be right, each once, with all that is true of it."""
        example = Example(view, [], beside)
        shared, found = about_view(view), dict[str, Candidate]()
        prompt = view.texts.get(PROMPT, "").casefold()

        def add(
            value: Any, true: set[str], ranks: set[str], place: Beside | None = None
        ) -> None:
            one = found.setdefault(text_of(value), Candidate(value))
            one.true |= true | ranks
            one.ranks |= ranks
            one.place = one.place or place
            if place:
                one.true.add(LISTED)

        lists = self._lists(example)
        edits = {column for column, _, _ in self.edits}
        for column in dict.fromkeys([*self.columns, *sorted(edits)]):
            source, name = column
            for records in lists.get(column, []):
                facts = about_records(view, source, records)
                if source == BESIDE and beside:
                    facts = about_records(view, beside.source, beside.around)
                places: dict[int, set[str]] = {}
                if source != BESIDE:
                    for number, rank in _superlatives(len(records), "first", "last"):
                        text = f"{rank} {noun(name)} in {source}"
                        places.setdefault(id(records[number]), set()).add(text)
                for record in records:
                    true, ranks = facts.get(id(record), (set(), set()))
                    ranks = ranks | places.get(id(record), set())
                    text = record.fields[name]
                    place = Beside(source, record, records)
                    if source == BESIDE:
                        place = beside
                    if column in self.columns:
                        what = f"the {noun(name)} beside it" if source == BESIDE else ""
                        what = what or (f"{noun(name)} as it is" if self.edits else "")
                        add(text, true | ({what} if what else set()), ranks, place)
                    for other, edit_name, edit in self.edits:
                        if other == column and (new := edit(text)) != text:
                            what = f"{noun(name)} {edit_name}"
                            add(new, true | {what}, ranks, place)
        for value in self.choices or self.constants:
            add(value, {equals(value)}, set())
        texts = sorted(found)
        for number, rank in _superlatives(len(texts), "first", "last"):
            found[texts[number]].true.add(f"{rank} by alphabet")
        by_length = sorted(found, key=lambda text: (len(text), text))
        lengths = Counter(map(len, texts))
        for number, rank in _superlatives(len(texts), "shortest", "longest"):
            if lengths[len(by_length[number])] == 1:  # else it is one of several
                found[by_length[number]].true.add(rank)
        everything = "\n".join(view.texts.values()).casefold()
        for text, one in found.items():
            one.true |= shared
            if _within(prompt, text):
                one.true.add("the prompt has it")
            if len(text) > 1 and everything.count(text) > 1:
                one.true.add("seen more than once")
            for slot, made in view.made.items():
                if text in made:
                    one.true.add(f"it was given as `{slot}`")
        return [one for one in found.values() if self._converted(one)]

    def _converted(self, one: Candidate) -> bool:
        """Whether a candidate's value can be of the usual type. It is, then."""
        value = one.value
        if type(value) is self.kind:
            return True
        try:
            if self.kind in (int, float):
                number = number_of(str(value))
                if number is None or (self.kind is int and number != int(number)):
                    return False
                one.value = self.kind(number)
                return True
            if self.kind is str and not isinstance(value, bool):
                one.value = _as_text(value)
                return True
            return False
        except (ValueError, OverflowError):
            return False

    def _grow(self) -> None:
        things: list[tuple[frozenset[str], bool]] = []
        for view, right, beside in self.examples:
            own, rights = self.candidates(view, beside), {*map(text_of, right)}
            places = {n for n, one in enumerate(own) if text_of(one.value) in rights}
            self.seen.append((own, places))
            if places:
                things += [
                    (frozenset(one.true), n in places) for n, one in enumerate(own)
                ]
        self.tree = grow(things)

    def choose(
        self, view: View, beside: Beside | None, chance: random.Random
    ) -> list[tuple[float, Candidate]]:
        """The candidates, the likeliest first. Of like ones, any may be the first."""
        own = self.candidates(view, beside)
        chance.shuffle(own)
        scored = [(self.tree.leaf(frozenset(one.true)).share, one) for one in own]
        return sorted(scored, key=lambda one: -one[0])


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
