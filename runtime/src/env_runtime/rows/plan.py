"""The way from a record of a dataset to a row, as data: Columns, which make_rows.py has.

The preview and the checks of the command run the same object.
"""

import contextlib
import functools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..episode.chat import message_text
from ..errors import one_line
from ..graders import Choice
from ..notation import last_box
from .examples import Example
from .fields import (
    as_text,
    best_of,
    either,
    filled,
    filled_of,
    golds_of,
    is_empty,
    labels_of,
    letter_of,
    lettered,
    listed_of,
    names_in,
    options_of,
    parsed,
    parted,
    shuffled,
    with_images,
)
from .grading import GRADINGS, Grading
from .records import Record


class Unfit(Exception):
    """A record makes no row. `incomplete`: it lacks the question or the answer.

    `kind` is the reason without the record's values.
    """

    def __init__(self, reason: str, incomplete: bool = False, kind: str = "") -> None:
        super().__init__(reason)
        self.incomplete, self.kind = incomplete, kind or reason


# Steps of a path beside the keys of an object
PARSED, FIRST, ALIASES = "json", "first", "aliases"
# Of options with scores or flags, and of options in a text
KEYS, BEST, LISTED = "keys", "best", "listed"
# The letters of a text such as ABD, and the parts of one such as `sun; day`
LETTERS, PARTED = "letters", "parted"
ONE_EACH = "either"  # the parts of a text such as `tin or zinc`
# The part of an object that is not empty, of DROP's number, date and spans
ONE_OF = "one of"


class Path(NamedTuple):
    """A value of a record: a column, and the steps into it.

    A step is `.key` into an object, `*.key` into each object of a list, or json, first,
    aliases, keys, best, listed, letters, parted, either or `one of`.
    """

    column: str
    steps: tuple[str, ...] = ()

    def of(self, record: Mapping[str, Any]) -> Any:
        """The value; None if the record lacks it."""
        value = record.get(self.column)
        if not self.steps:
            return value
        try:
            for step in self.steps:
                value = _step(value, step)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            return None
        return value

    def then(self, step: str) -> "Path":
        """The path with one more step."""
        return Path(self.column, (*self.steps, step))

    @property
    def written(self) -> str | tuple[str, ...]:
        """The path as make_rows.py has it: a column, or a column and steps."""
        return (self.column, *self.steps) if self.steps else self.column

    def __str__(self) -> str:
        """The value as messages call it."""
        keys = [step.removeprefix("*")[1:] for step in self.steps if "." in step[:2]]
        return "record" + "".join(
            f"[{json.dumps(key)}]" for key in (self.column, *keys)
        )


def path_of(written: str | tuple[str, ...] | Path) -> Path:
    """The path that make_rows.py has."""
    if isinstance(written, Path):
        return written
    return Path(written) if isinstance(written, str) else Path(written[0], written[1:])


@dataclass(frozen=True)
class Options:
    """Where the options of a question are.

    `kind` is column, columns, labels (the same for all records), shuffled (the expected one
    among wrong ones) or letters (only the prompt has them). `listed` says whether the prompt
    has them with their letters.
    """

    kind: str
    paths: Sequence[Any] = ()
    labels: Sequence[str] = ()
    listed: bool = False
    # The expected one if it is among them: beside wrong ones, or by its score
    gold: Path | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(map(path_of, self.paths)))
        object.__setattr__(self, "labels", tuple(self.labels))

    def of(self, record: Mapping[str, Any]) -> Any:
        """The texts of a record's options, or how many there may be."""
        if self.kind == "letters":
            return 26
        if self.kind == "labels":
            return [*self.labels]
        values = [path.of(record) for path in self.paths]
        if self.kind == "shuffled":
            flat = [v if isinstance(v, list) else [v] for v in values]
            return shuffled(each for part in flat for each in part)
        return options_of(values[0] if self.kind == "column" else values)


@dataclass(frozen=True)
class Columns:
    """Which columns of a record are prompt, options, answer and images, and what compares.

    make_rows.py hands it to from_dataset(), as it would a function: it is called with a
    record, and returns its row, or None to leave it out.
    """

    prompt: str = ""  # a template over columns, or the name of a column of messages
    # The column of the answer, or a tuple of a column and steps into it: see Path
    expected: Any = ""
    grader: str = ""
    options: Options | None = None
    # How an answer names an option: by these names, from 0 or from 1, () by their own labels
    names: tuple[str, ...] | range | None = None
    pattern: str = ""  # finds the answer in the expected column
    boxed: bool = False  # whether the answer is in the last box there
    whole: bool = False  # whether all of what the pattern found it in earns, too
    classes: tuple[str, ...] = ()  # the names of answers that are numbers, from 0
    words: tuple[str, str] | None = None  # what true and false are called
    lettered: bool = (
        False  # whether the option of a question may be named by its letter, too
    )
    nothing: tuple[str, ...] = ()  # answers that say that there is none
    needed: tuple[str, ...] = ()  # columns that may not be empty
    images: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()  # columns that hold the questions, one in the other
    tools: Any = None  # the column of the tools' definitions
    system: str = ""  # the column of the system's message, beside the messages
    answered: bool = False  # whether the last message is the answer
    has_id: bool = False  # whether the task has the record's id
    key: str = "expected_answer"  # in the task
    adds: bool = True  # whether the prompt says how to answer: not for one's own class
    also: tuple[str, ...] = ()  # columns with more answers, as answer_1 beside answer_0
    difficulty: str = ""  # the column of the difficulty

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", path_of(self.expected))
        if self.tools is not None:
            object.__setattr__(self, "tools", path_of(self.tools))

    @functools.cached_property
    def grading(self) -> Grading:
        """How the prompt requests the answer, and how the answer is compared."""
        return GRADINGS.get(self.grader, GRADINGS["own"])

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is a column of messages."""
        return "{" not in self.prompt

    def __call__(self, record: Mapping[str, Any]) -> Example | None:
        """The row of a record, or of one question of it; None leaves it out."""
        with contextlib.suppress(Unfit):
            return self.apply(record)
        return None

    def left_out(self, record: Mapping[str, Any]) -> str:
        """Why a record makes no row, without its values; "" if it makes one."""
        for question in self.questions([Record(record, "")]):
            try:
                self.apply(question)
            except Unfit as unfit:
                return unfit.kind
        return f"without {self.lists[-1]}" if self.lists else ""

    def each(self, record: Mapping[str, Any]) -> Iterator[Example]:
        """The rows of a record that holds several questions."""
        rows = map(self, self.questions([Record(record, "")]))
        return (row for row in rows if row)

    def apply(self, record: Mapping[str, Any]) -> Example:
        """The row of a record. Raises Unfit if it makes none."""
        if self.grader == "own":
            level = self.level(record)
            return Example(filled(self.prompt, record), dict(record), level)
        if lacks := [name for name in self.needed if record.get(name) in (None, "")]:
            raise Unfit(f"without {lacks[0]}", incomplete=True)
        gold, options = self.gold(record), None
        if self.options:
            options = self.options.of(record)
            gold = self.letter(record, gold)
        taken = [gold] if options is None else [gold, options]
        if self.grading.boxed and not self.grading.takes(*taken):
            among = f" of {options!r:.200}" if options else ""
            refuses = f"the grader {self.grader} does not take"
            kind = f"{refuses} the answer"
            raise Unfit(f"{refuses} {gold!r:.80}{among}", kind=kind)
        if self.whole:
            parts = [self.said(record), gold]
            flat = [each if isinstance(each, list) else [each] for each in parts]
            gold = [*dict.fromkeys(one for some in flat for one in some)]
        if self.lettered:
            gold = lettered(gold, self.question(record))
        prompt: Any = self._asked(record, options)
        task = {"id": record.get("id")} if self.has_id else {}
        if self.grader == "judge":
            task["question"] = prompt
            if isinstance(gold, list):  # one of them is enough
                gold = "\nor: ".join(map(as_text, gold))
        if options is not None:
            task["options"] = options
        task[self.key] = gold
        try:
            prompt = with_images(prompt, *map(record.get, self.images))
        except ValueError as error:
            raise Unfit(one_line(error)) from None
        tools = self.tools.of(record) if self.grader == "calls" and self.tools else ()
        return Example(prompt, task, self.level(record), tools=tools)

    def level(self, record: Mapping[str, Any]) -> str | None:
        """The difficulty of a record, a word in lower case; None if it has none."""
        if not self.difficulty:
            return None
        value = record.get(self.difficulty)
        text = value.strip() if isinstance(value, str) else ""
        return (text.lower() if text.isalpha() else text) or None

    def said(self, record: Mapping[str, Any]) -> Any:
        """What a record has in the place of the answer."""
        if self.answered and self.expected.column == self.prompt:
            last = (record.get(self.prompt) or [{}])[-1]
            said = last.get(message_key(last))
            said = message_text(said) if isinstance(said, list) and said else said
            said = said or calls_of(last)
            return _as_object(said) if PARSED in self.expected.steps else said
        if self.also:
            values = [self.expected.of(record), *map(record.get, self.also)]
            lists = [each if isinstance(each, list) else [each] for each in values]
            return [each for some in lists for each in some if not is_empty(each)]
        return self.expected.of(record)

    def gold(self, record: Mapping[str, Any]) -> Any:
        """The answer of a record. Raises Unfit if it has none."""
        gold = self.said(record)
        if self.classes:
            gold = dict(enumerate(self.classes)).get(gold)
        if gold in (None, "", [], *self.nothing):
            raise Unfit(f"without {self.expected.column}", incomplete=True)
        if self.boxed:
            gold = last_box(gold)
        elif self.pattern and isinstance(gold, list):
            found = [self._found(each) for each in gold]
            gold = [each for each in found if each]
        elif self.pattern:
            gold = self._found(gold)
        if gold in (None, "", []):
            raise Unfit(f"{self.expected.column} does not have the answer")
        if self.words:
            gold = self.words[0] if gold else self.words[1]
        return gold

    def _found(self, gold: Any) -> str | None:
        found = re.search(self.pattern, str(gold))
        return found[1].strip() if found else None

    def letter(self, record: Mapping[str, Any], gold: Any) -> Any:
        """The answer, or the letter of the option that it names."""
        if isinstance(gold, dict):  # an option as its list has it
            gold = next(iter(options_of([gold])), gold)
        if self.names is None or not self.options:
            return gold
        if not self.names:
            return letter_of(gold, labels_of(self.options.paths[0].of(record)))
        return letter_of(gold, self.names)

    def question(self, record: Mapping[str, Any]) -> str:
        """What a record asks, as text, without instructions."""
        if not self.is_chat:
            return filled(self.prompt, record)
        messages = record[self.prompt]
        last = messages[-2 if self.answered else -1]
        return as_text(last.get(message_key(last)))

    def _asked(self, record: Mapping[str, Any], options: Any) -> Any:
        """The prompt, without its images."""
        ends = []
        if self.options and not self.options.listed:
            ends.append(Choice.listed(options))
        if self.adds and self.grading.asks:
            ends.append(self.grading.asks)
        if not self.is_chat:
            return "\n\n".join([filled(self.prompt, record), *ends])
        messages = record[self.prompt]
        *messages, last = messages[:-1] if self.answered else messages
        if self.system:
            messages.insert(0, {"role": "system", "content": record.get(self.system)})
        if ends:
            text, key = "\n\n".join(ends), message_key(last)
            said = last[key]
            if isinstance(said, list):
                said = [*said, {"type": "text", "text": f"\n\n{text}"}]
            else:
                said = f"{said}\n\n{text}"
            last = {**last, key: said}
        return [*messages, last]

    def questions(self, records: Iterable[Record]) -> Iterator[Record]:
        """The records of the questions that records hold."""
        for column in self.lists:
            records = items_of(records, column)
        return iter(records)

    def became(self, column: str) -> str:
        """The use of a column, "" if it has none."""
        if column in (self.expected.column, *self.also) and not self.answered:
            return "expected"
        if column in (*names_in(self.prompt), self.prompt, self.system):
            return "prompt"
        if self.options and column in [path.column for path in self.options.paths]:
            return "options"
        if column in self.images:
            return "image"
        if column in self.lists or (self.tools and column == self.tools.column):
            return "questions" if column in self.lists else "tools"
        if column == self.difficulty:
            return "difficulty"
        return "id" if column == "id" and self.has_id else ""


class Draft:
    """A plan that is not finished: setting a field replaces its Columns."""

    def __init__(self, **given: Any) -> None:
        self.__dict__["columns"] = Columns(**given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.columns, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__["columns"] = replace(self.columns, **{name: value})


def message_key(message: Mapping[str, Any]) -> str:
    """The key of a message's content; ShareGPT calls it `value`."""
    return "value" if "value" in message else "content"


def calls_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls of an assistant's message, as Chat Completions have them."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list) or not all(isinstance(c, Mapping) for c in calls):
        return []
    functions = [call.get("function") or call for call in calls]
    return [
        {"name": each.get("name"), "arguments": _as_object(each.get("arguments"))}
        for each in functions
        if isinstance(each, Mapping)
    ]


def _as_object(arguments: Any) -> Any:
    """The arguments of a call, or an answer, that may be JSON as text."""
    with contextlib.suppress(ValueError):
        return parsed(arguments) if isinstance(arguments, str) else arguments
    return arguments


def items_of(records: Iterable[Record], column: str) -> Iterator[Record]:
    """A record for each object of a column, or of its lists, with the other columns, too."""
    for record in records:
        items = record.get(column) or []
        for item in [items] if isinstance(items, Mapping) else items:
            yield Record({**record, **item}, record.place)


def _step(value: Any, step: str) -> Any:
    if step[:1] == ".":
        return value[step[1:]]
    if step[:2] == "*.":
        return [each[step[2:]] for each in value]
    steps = {
        PARSED: parsed,
        FIRST: lambda items: items[0],
        KEYS: list,
        BEST: best_of,
        LISTED: listed_of,
        LETTERS: lambda text: re.findall(r"\w", text),
        PARTED: parted,
        ONE_EACH: either,
        ONE_OF: filled_of,
        ALIASES: golds_of,
    }
    return steps[step](value)


def shown(value: Any) -> str:
    """A value for a message, on one line."""
    return one_line(as_text(value), 80)
