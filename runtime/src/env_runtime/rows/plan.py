"""The way from a record of a dataset to a row, as data: `Plan.apply` takes it.

The preview, the checks and the file make_rows.py come of the same plan.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import one_line
from ..graders import INSTRUCTIONS, Choice, Number, Text
from ..notation import last_box
from .examples import Example
from .fields import (
    as_text,
    filled,
    golds_of,
    labels_of,
    letter_of,
    listed_of,
    names_in,
    options_of,
    shuffled,
    with_images,
)
from .records import Record

JSON_INSTRUCTIONS = "Answer with one JSON document and nothing else."
BOXED = {"number": Number, "choice": Choice, "text": Text}


class Unfit(Exception):
    """A record makes no row. `incomplete`: it lacks the question or the answer."""

    def __init__(self, reason: str, incomplete: bool = False) -> None:
        super().__init__(reason)
        self.incomplete = incomplete


# Steps of a path beside the keys of an object
PARSED, FIRST, ALIASES = "json", "first", "aliases"
KEYS, BEST, LISTED = (
    "keys",
    "best",
    "listed",
)  # of scored options, and options in a text


class Path(NamedTuple):
    """A value of a record: a column, and the steps into it, each a kind and a key."""

    column: str
    steps: tuple[tuple[str, str], ...] = ()

    def of(self, record: Mapping[str, Any]) -> Any:
        """The value; None if the record lacks it."""
        value = record.get(self.column)
        try:
            for kind, key in self.steps:
                value = _step(value, kind, key)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None
        return value

    def source(self, column: str) -> str:
        """The value as an expression, of that of the column."""
        for kind, key in self.steps:
            column = {
                "item": f"{column}[{quoted(key)}]",
                "each": f"[each[{quoted(key)}] for each in {column}]",
                PARSED: f"json.loads({column})",
                FIRST: f"{column}[0]",
                ALIASES: f"golds_of({column})",
                KEYS: f"[*{column}]",
                BEST: f"max({column}, key={column}.get)",
                LISTED: f"listed_of({column})",
            }[kind]
        return column

    def then(self, kind: str, key: str = "") -> "Path":
        """The path with one more step."""
        return Path(self.column, (*self.steps, (kind, key)))


@dataclass
class Options:
    """Where the options of a question are.

    `kind` is column, columns, labels (the same for all records), shuffled (the gold among
    distractors) or letters (only the prompt has them).
    """

    kind: str
    paths: list[Path] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    listed: bool = False  # whether the prompt has them with their letters
    gold: Path | None = None  # if it is among them: beside distractors, or by its score

    def of(self, record: Mapping[str, Any]) -> Any:
        """The texts of a record's options, or how many there may be."""
        if self.kind == "letters":
            return 26
        if self.kind == "labels":
            return self.labels
        values = [path.of(record) for path in self.paths]
        if self.kind == "shuffled":
            flat = [v if isinstance(v, list) else [v] for v in values]
            return shuffled(each for part in flat for each in part)
        return options_of(values[0] if self.kind == "column" else values)


@dataclass
class Plan:
    """Which columns are prompt, options, gold and images, and which grader compares."""

    prompt: str = ""  # a template over columns, or the name of a column of messages
    native: bool = False  # whether the records are NeMo Gym's rows
    lists: list[str] = field(default_factory=list)  # columns that hold the questions
    needed: list[str] = field(default_factory=list)  # columns that may not be empty
    missing: set[str] = field(default_factory=set)  # columns that some records lack
    images: list[str] = field(default_factory=list)
    gold: Path = field(default_factory=lambda: Path(""))
    classes: list[str] = field(default_factory=list)  # the names of golds, from 0
    pattern: str = ""  # finds the answer in the gold
    boxed: bool = False  # whether the answer is in the gold's last box
    nothing: list[str] = field(
        default_factory=list
    )  # golds that say that there is none
    words: tuple[str, str] | None = None  # what true and false are called
    options: Options | None = None
    names: list[str] | range | None = (
        None  # how golds name options; [] their own labels
    )
    grader: str = ""
    tools: Path | None = None
    key: str = "expected_answer"  # in the task
    system: str = ""  # the column of the system's message, beside the messages
    answered: bool = False  # whether the last message is the answer
    chat_key: str = "content"  # of a message, "value" as ShareGPT has it
    chat_in_parts: bool = False  # whether the content is a list
    has_id: bool = False
    splatted: set[str] = field(default_factory=set)  # columns of several distractors
    keeps_class: bool = False  # whether the class is the user's already

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is a column of messages."""
        return not self.native and "{" not in self.prompt

    @property
    def adds(self) -> bool:
        """Whether the prompt ends with instructions: not for a class of the user's."""
        return self.grader in (*BOXED, "json") and not self.keeps_class

    def apply(self, record: Mapping[str, Any]) -> Example:
        """The row of a record. Raises Unfit if it makes none."""
        if lacks := [name for name in self.needed if record.get(name) in (None, "")]:
            raise Unfit(f"without {lacks[0]}", incomplete=True)
        gold, options = self.expected(record), None
        if self.options:
            options = self.options.of(record)
            gold = self.letter(record, gold)
        taken = [gold] if options is None else [gold, options]
        if self.grader in BOXED and not BOXED[self.grader].takes(*taken):
            among = f" of {options!r:.200}" if options else ""
            raise Unfit(f"the grader {self.grader} does not take {gold!r:.80}{among}")
        prompt: Any = self._asked(record, options)
        task = {"id": record.get("id")} if self.has_id else {}
        if self.grader == "judge":
            task["question"] = prompt
        if options is not None:
            task["options"] = options
        task[self.key] = gold
        try:
            prompt = with_images(prompt, *map(record.get, self.images))
        except ValueError as error:
            raise Unfit(one_line(error)) from None
        tools = self.tools.of(record) if self.grader == "calls" and self.tools else ()
        return Example(prompt, task, tools=tools)

    def expected(self, record: Mapping[str, Any]) -> Any:
        """The gold of a record. Raises Unfit if it has none."""
        if self.answered and self.gold.column == self.prompt:
            messages = record.get(self.prompt) or [{}]
            gold = messages[-1].get(self.chat_key)
        else:
            gold = self.gold.of(record)
        if self.classes:
            gold = dict(enumerate(self.classes)).get(gold)
        if gold in (None, "", [], *self.nothing):
            raise Unfit(f"without {self.gold.column}", incomplete=True)
        if self.boxed:
            gold = last_box(gold)
        elif self.pattern:
            found = re.search(self.pattern, str(gold))
            gold = found[1].strip() if found else None
        if gold in (None, ""):
            raise Unfit(f"{self.gold.column} does not have the answer")
        if self.words:
            gold = self.words[0] if gold else self.words[1]
        return gold

    def letter(self, record: Mapping[str, Any], gold: Any) -> Any:
        """The gold, or the letter of the option that it names."""
        if self.names is None or not self.options:
            return gold
        if self.names == []:
            return letter_of(gold, labels_of(self.options.paths[0].of(record)))
        return letter_of(gold, self.names)

    def _asked(self, record: Mapping[str, Any], options: Any) -> Any:
        """The prompt, without its images."""
        ends = []
        if self.options and not self.options.listed:
            ends.append(Choice.listed(options))
        if self.adds:
            ends.append(JSON_INSTRUCTIONS if self.grader == "json" else INSTRUCTIONS)
        if not self.is_chat:
            return "\n\n".join([filled(self.prompt, record), *ends])
        messages = record[self.prompt]
        *messages, last = messages[:-1] if self.answered else messages
        if self.system:
            messages.insert(0, {"role": "system", "content": record.get(self.system)})
        if ends:
            text, key = "\n\n".join(ends), self.chat_key
            if self.chat_in_parts:
                said = [*last[key], {"type": "text", "text": text}]
            else:
                said = f"{last[key]}\n\n{text}"
            last = {**last, key: said}
        return [*messages, last]

    def questions(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records of the questions that records hold."""
        for column in self.lists:
            records = items_of(records, column)
        return iter(records)

    def became(self, column: str) -> str:
        """The use of a column, "" if it has none."""
        if column == self.gold.column and not self.answered:
            return "expected"
        if column in (*names_in(self.prompt), self.prompt, self.system):
            return "prompt"
        if self.options and column in [path.column for path in self.options.paths]:
            return "options"
        if column in self.images:
            return "image"
        if column in self.lists or (self.tools and column == self.tools.column):
            return "questions" if column in self.lists else "tools"
        return "id" if column == "id" and self.has_id else ""


def items_of(records: Iterable[Record], column: str) -> Iterator[Record]:
    """A record for each object in the lists of a column, with the other columns, too."""
    for record in records:
        for item in record.get(column) or []:
            yield Record({**record, **item}, record.place)


def _step(value: Any, kind: str, key: str) -> Any:
    if kind == "item":
        return value[key]
    if kind == "each":
        return [each[key] for each in value]
    if kind == PARSED:
        return json.loads(value)
    if kind == BEST:
        return max(value, key=value.get)
    steps = {KEYS: list, LISTED: listed_of, ALIASES: golds_of}
    return value[0] if kind == FIRST else steps[kind](value)


def quoted(text: Any) -> str:
    """A text, or a list or dict of texts, as source.

    What is not printable is escaped as Python does it: JSON's escapes are half a character
    there.
    """
    source = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in source)


def shown(value: Any) -> str:
    """A value for a message, on one line."""
    return one_line(as_text(value), 80)
