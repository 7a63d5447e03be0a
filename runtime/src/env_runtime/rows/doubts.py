"""Doubts: what the records leave open, the message that says so, and the commands to choose from.

Each is an entry of DOUBTS: a function of the records that were looked at, which returns a
Doubt or None. Errors in what the user named are raised where it is read.
The plan is chosen in stages, and the doubts of each are asked there, in this order:

    native      NeMo Gym's rows lack a known answer
    file        before anything is chosen
    no prompt   no column is known as the prompt
    media       a column names sounds or films
    images      a column names images
    main        the column that asks
    expected    columns have names of answers
    no expected  no column is known as the answer
    elsewhere   some records have the answer in another column
    no golds    no record has an answer
    booleans    golds are true and false
    letters     golds may be letters of options
    none        golds may say that there is none
    lists       golds may be lists
    golds       golds of any kind
    numbers, objects, places, calls, labels, texts, long     golds of that kind
    option, options     how golds name options
    form        NeMo Gym's rows ask for another form of answers
    columns     columns may belong to the prompt
    prompts     the prompts as they are
    as asked    the prompts that the user named
    parts       the records of which each holds several
    misfits     records do not fit the grader
    same        all records have one answer
    incomplete  records lack the question or the answer
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from statistics import median
from typing import Any, NamedTuple, NoReturn

from ..errors import RolloutError
from ..notation import unstyled
from .apart import (
    ASKED,
    CLAIMS,
    LEFT_OUT,
    LONG,
    TELLS,
    WRITTEN,
    Column,
    Reason,
    explains_the_answer,
    has_a_name_that_tells_nothing,
    has_long_objects,
    has_no_place_in_a_template,
    has_one_value,
    is_labeled,
    names_files_of_some,
    reason_of,
)
from .columns import (
    ABOUT,
    ADDRESS,
    ASKS,
    CLASSES,
    CONTEXTS,
    DIFFICULTY,
    EXPECTED,
    FEWEST,
    FILE,
    FIT,
    IMAGE,
    INDEXES,
    JUDGES,
    LABELS,
    MESSAGES,
    NOTHING,
    OFTEN_EMPTY,
    OPTION,
    PAIRS,
    PLAIN,
    PROGRAM,
    PROGRAMS,
    PROMPTS,
    QUESTIONS,
    RENAME,
    RULES,
    SENTENCE,
    SHORT,
    SOUND,
    SPAN,
    SPELLED,
    SURE,
    TESTS,
    TOPICS,
    WRONG,
    YES_NO,
    Looked,
    are_joined,
    are_spellings,
    count_of_words,
    folded,
    is_number,
    is_read,
    is_texts,
    nearly_all_match,
    share,
    text_of,
    title,
    titled,
    valid,
    words,
    words_in,
)
from .fields import (
    EITHER,
    LETTERS,
    as_text,
    is_empty,
    listed_in,
    names_in,
    parsed,
    parted,
)
from .naming import Naming
from .plan import ALIASES, Options, Path, Unfit, message_key, shown
from .records import Record

_ONE_OF_TWO = re.compile(r"(?i)(.+?)[ _-]?[ab012]$")
LETTER = r"[A-Ja-j]|\d"  # of an option, or its number
# The place of a name in a template, and not a group of LaTeX
PLACE = re.compile(r"(?<![\\\w^_}\]$#{])\{[A-Za-z][A-Za-z_]{2,}\}(?!\})")


# A place of a name in an answer, which is no LaTeX
FILLED = re.compile(r"\{\{\s*[A-Za-z_]{3,}\s*\}\}")
# A set or a tuple, as Python prints them
PRINTED = re.compile(r"\{'.*'\}|\{\".*\"\}|\((?:'[^']*'|\"[^\"]*\"), .*\)", re.DOTALL)


# Words in names of columns with numbers that are no answers
NUMBERS = words("id pk index idx rank loss seed fold")
TITLES = ("title", "headline")  # of texts that labels are about
ASSISTANTS = ("assistant", "gpt", "agent", "bot", "model")  # roles of a policy


# A text that asks, or breaks off where the answer is
QUESTION = re.compile(r"[?？؟]|_{2,}|\.{3}\s*$|[:=]\s*$")


class OwnGrade(RolloutError):
    """A dataset that no grader here is for: its rows need a grade of their own."""


class Doubt(NamedTuple):
    """What is not clear, or cannot be, and the ways to go on.

    `own`: the data set wants a grade of its own.
    """

    problem: str
    ways: tuple[dict[str, str], ...] = ()
    own: bool = False


class Asking(Looked):
    """Raises RolloutError for what the records leave open."""

    def ask(self, stage: str, *facts: Any) -> None:
        """Raise RolloutError for the first doubt of a stage, whose functions take `facts`."""
        for find in DOUBTS[stage]:
            if doubt := find(self, *facts):
                if doubt.own:
                    raise OwnGrade(doubt.problem)
                raise RolloutError(
                    "\n".join([doubt.problem, *self.commands(doubt.ways)])
                )

    def must_ask(self, stage: str, *facts: Any) -> NoReturn:
        """Raise RolloutError for a stage of which a doubt always holds."""
        self.ask(stage, *facts)
        raise AssertionError(f"none of the doubts at {stage!r} holds")

    def apart(self) -> dict[str, Reason]:
        """The reasons for columns, beside those that the plan has."""
        columns = [name for name in self.columns if not self.plan.became(name)]
        reasons = {name: reason_of(Column(self, name)) for name in columns}
        return {name: reason for name, reason in reasons.items() if reason}

    def parts(self, without: Collection[str] = ()) -> list[str]:
        """The columns that the question is about, in the order of the file."""
        main, apart = names_in(self.plan.prompt), self.apart()
        left_out = {n for n, reason in apart.items() if reason.outcome == LEFT_OUT}
        left_out -= {*self.compared(apart)}
        return [
            name
            for name in self.columns
            if name not in {*left_out, *without}
            and (name in main or not self.plan.became(name))
        ]

    def compared(self, apart: Mapping[str, Reason]) -> list[str]:
        """Two columns such as `response 1` and `response 2`, of which a label names one."""
        if not self.plan.expected.column or len({*map(str, self.golds())}) > 4:
            return []
        pairs: dict[str, list[str]] = {}
        for name, reason in apart.items():
            if reason.holds is explains_the_answer and (m := _ONE_OF_TWO.match(name)):
                pairs.setdefault(m[1], []).append(name)
        return next((pair for pair in pairs.values() if len(pair) == 2), [])

    def pairs(self, names: Collection[str]) -> list[list[str]]:
        """Columns such as question1 and question2, two and two."""
        starts: dict[str, list[str]] = {}
        for name in names:
            if OPTION.fullmatch(folded(name)) or not valid(name):
                continue
            if match := _ONE_OF_TWO.match(name):
                starts.setdefault(match[1], []).append(name)
        return [sorted(two) for two in starts.values() if len(two) == 2]

    def template(self) -> str:
        """A template of all that the question is surely about, for commands in messages."""
        unsure = (has_a_name_that_tells_nothing, has_long_objects)
        left_out = {n for n, reason in self.apart().items() if reason.holds in unsure}
        parts = [name for name in self.parts() if name not in left_out]
        return titled(parts or [self.main])

    def labeled(self) -> str:
        """The same for labels, which may be about a title, too."""
        template = self.template()
        names = [*names_in(template)]
        for name in self.columns:
            texts = [*map(as_text, self.values(Path(name)))]
            differ = len({*texts}) > 0.7 * len(self.records)
            if folded(name) in TITLES and name not in names and valid(name) and differ:
                names.append(name)
        return titled([name for name in self.columns if name in names])

    def asked(self, record: Mapping[str, Any]) -> str:
        """All that a record asks, with what is before the question."""
        plan = self.plan
        if not plan.is_chat:
            return plan.question(record)
        parts = [message.get(message_key(message)) for message in record[plan.prompt]]
        return "\n".join(map(as_text, parts[: -1 if plan.answered else None]))

    def prompts(self) -> tuple[dict[str, str], ...]:
        """The command with the prompt as it is; none before it is known."""
        return ({"prompt": self.plan.prompt},) if self.plan.prompt else ()

    def names_options(self, path: Path, options: Options) -> bool:
        """Whether a column has letters, numbers or texts of the options."""
        golds = [record for record in self.records if len(options.of(record)) > 1]
        lists = [v if isinstance(v, list) else [v] for v in self.values(path)]
        return nearly_all_match(LETTER, (as_text(v) for one in lists for v in one)) or (
            share(golds, lambda record: path.of(record) in options.of(record)) >= FIT
        )

    def lists_options(self) -> str:
        """The text column that lists options, the one that asks first; "" if none does."""
        names = [self.main, *(name for name in self.texts() if name != self.main)]
        for name in names:
            if share((as_text(r.get(name)) for r in self.records), listed_in) >= FIT:
                return name
        return ""

    @property
    def ask_something(self) -> bool:
        """Whether more than half of the prompts are questions, or say what to do."""
        asked = (as_text(record.get(self.main)) for record in self.records)
        return share(asked, lambda t: QUESTION.search(t) or ASKS.match(t)) > 0.5

    def said_in_the_prompt(
        self, problem: str, ways: list[dict[str, str]], as_it_is: dict[str, str]
    ) -> tuple[str, tuple[dict[str, str], ...]]:
        """A problem that words in the prompt solve, and the commands.

        `as_it_is` leaves a prompt alone, if it may say so already.
        """
        problem += ": say it in the prompt"
        if not (self.ask_something or self.plan.is_chat):
            return f"{problem}, as in this command", (*ways,)
        if ways:
            problem += ", as in the first command. The second is for prompts that do"
        else:
            problem += ". This command is for prompts that do"
        return problem, (*ways, as_it_is)

    def ways(self, more: str) -> list[dict[str, str]]:
        """The command that says more in the prompt; none for messages."""
        return [] if self.plan.is_chat else [{"prompt": f"{self.labeled()} {more}"}]


DOUBTS: dict[str, list[Callable[..., Doubt | None]]] = {}


def at[Find: Callable[..., Doubt | None]](stage: str) -> Callable[[Find], Find]:
    """Make a function a doubt of a stage."""

    def added(find: Find) -> Find:
        DOUBTS.setdefault(stage, []).append(find)
        return find

    return added


@at("native")
def rows_for_another_verifier(looked: Asking, named: str) -> Doubt | None:
    if looked.plan.key in looked.columns:
        return None
    wrong = f"{named!r} is none of these" if named else "none is an answer"
    return Doubt(
        f"the rows are NeMo Gym's, and their tasks have {', '.join(looked.columns)}: "
        f"{wrong}. The verifier that they were made for reads these fields. Name the one with "
        "the expected answer, --expected FIELD, or write a class that takes them, and copy "
        "beside it with the same dataset"
    )


@at("form")
def another_form(looked: Asking) -> Doubt | None:
    """No prompt of NeMo Gym's rows asks for a box, or each asks for another form."""
    if not looked.never_boxed:
        return None
    grader = looked.plan.grader
    return Doubt(
        f"{looked.form}, which the grader {grader} reads: ask for a box in the prompts, or write "
        "a class whose reward(answer) reads their form. This command goes on nevertheless",
        ({"grader": grader},),
    )


# ---------------------------------------------------------------------- the file

_PROGRAMS = Doubt(
    "its answers are programs, and how their tests run is not known: copy with -d "
    "archetype=sandbox, without a dataset, and write the rows in its make_rows.py"
)


@at("file")
def one_column(looked: Asking) -> Doubt | None:
    if len(looked.columns) > 1 or not looked.is_text(only := looked.columns[0]):
        return None
    header = ". If that is a record, and no name, add a first line with names"
    header *= " " in only
    return Doubt(
        f"the only column is {only!r}, and a row needs a question and an answer{header}"
    )


@at("file")
def numbers_for_columns(looked: Asking) -> Doubt | None:
    """The keys of records, or of their columns, are taken for names."""
    names = [name for name in looked.columns if name != "id"]
    numbered = [name for name in names if name.isdecimal()]
    if len(numbered) <= max(5, 0.8 * len(names)):
        return None
    return Doubt(
        f"the columns {', '.join(names[:4])}, ... look like keys and not like names: they are numbers. Write "
        "one record for each key, one object a line, with the key in a column"
    )


@at("file")
def a_header_among_the_records(looked: Asking) -> Doubt | None:
    """The first record has the names of its own columns."""
    first = looked.records[0]
    named = [
        name
        for name, value in first.items()
        if isinstance(value, str) and folded(value) == folded(name)
    ]
    if len(named) < max(2, len(first) / 3):
        return None
    return Doubt(
        f"the first record says {', '.join(first[name] for name in named)}, which are the names of its columns: "
        f"remove it ({first.place})"
    )


@at("file")
def preferences(looked: Asking) -> Doubt | None:
    named = {word for name in looked.columns for word in words_in(name)}
    if {"chosen", "rejected"} <= named:
        return Doubt(
            "chosen and rejected are preferences between two answers, and neither is a gold: "
            "take a dataset with expected answers"
        )
    return None


@at("file")
def replies_that_were_rated(looked: Asking) -> Doubt | None:
    """True and false beside messages say whether the assistant's last one was liked."""
    chat = next((name for name in MESSAGES if looked.has_messages(name)), "")
    label = looked.named(("label", "preference", "desirable", "rating"))
    if not (chat and isinstance(looked.first(label), bool)):
        return None
    last = looked.first(looked.named([chat]))[-1]
    if last.get("role", last.get("from")) not in ASSISTANTS:
        return None
    return Doubt(
        f"{label} says whether the last message was liked, so it is not an expected answer: take "
        "a dataset with expected answers"
    )


@at("file")
def tests_of_programs(looked: Asking) -> Doubt | None:
    columns = {*map(folded, looked.columns)}
    if any(names <= columns for names in TESTS):
        return Doubt(
            "its answers are programs, which tests grade: copy with -d "
            "archetype=sandbox in place of archetype=answer"
        )
    return _PROGRAMS if any(names <= columns for names in PROGRAMS) else None


@at("file")
def rules(looked: Asking) -> Doubt | None:
    columns = {*map(folded, looked.columns)}
    if found := next((names for names in RULES if names <= columns), None):
        names = " and ".join(name for name in looked.columns if folded(name) in found)
        return Doubt(f"no column is the answer: {names} tell what it must do", own=True)
    return None


# ---------------------------------------------------------------------- the prompt


@at("no prompt")
def files_without_a_question(looked: Asking) -> Doubt | None:
    # An id of an image says only where the record comes from.
    for name in [name for name in looked.columns if not name.lower().endswith("id")]:
        texts = [as_text(value) for value in looked.values(Path(name))]
        for pattern, find in ((IMAGE, names_of_images), (SOUND, names_of_sounds)):
            if share(texts, pattern.search) > 0.5:
                return find(looked, name)
    return None


@at("no prompt")
def keys_for_columns(looked: Asking) -> Doubt | None:
    """The keys of objects in the file are taken for the names of columns."""
    columns = [Column(looked, name) for name in looked.columns if name != "id"]
    count = len(looked.records)
    rare = [c for c in columns if len(c.values) <= max(1, OFTEN_EMPTY * count)]
    values = [value for column in columns for value in column.values]
    fields = [{*value} if isinstance(value, Mapping) else set() for value in values]
    if count > 1 and len(rare) > max(2, len(columns) / 2):
        why = f"each is in few of {count} records"
    elif len(columns) > 1 and fields[0] and all(f == fields[0] for f in fields):
        why = f"they hold objects with the same fields, {', '.join(sorted(fields[0]))}"
    else:
        return None
    names = ", ".join(column.name for column in columns[:4])
    return Doubt(
        f"the columns {names}{', ...' if len(columns) > 4 else ''} look like keys and not like names: "
        f"{why}. Write one record for each key, one object a line, with the key in a column"
    )


@at("no prompt")
def a_header_that_is_a_record(looked: Asking) -> Doubt | None:
    """The name of a column is one of its values."""
    again = [
        name
        for name in looked.columns
        if name.strip() in (as_text(v).strip() for v in looked.values(Path(name)))
        and not Column(looked, name).are_labels
    ]
    known = {*PROMPTS, *CONTEXTS, *EXPECTED, *ABOUT}
    if not again or known & {*map(folded, looked.columns)}:
        return None
    return Doubt(
        f"the columns are called {' and '.join(map(repr, looked.columns[:2]))}, and {again[0]!r} is also a "
        "value: if that is a record, and no names, add a first line with names"
    )


@at("no prompt")
def a_prompt_that_is_no_text(looked: Asking) -> Doubt | None:
    named = looked.named(PROMPTS)
    if isinstance(value := looked.first(named), Mapping | str):
        return None
    return Doubt(f"{named} holds no text, but {value!r:.80}", own=True)


@at("no prompt")
def a_question_in_an_object(looked: Asking) -> Doubt | None:
    first = {name: looked.first(name) for name in looked.columns}
    objects = {
        name: value
        for name, value in first.items()
        if isinstance(value, Mapping) and not {*value} <= SPAN
    }
    known = {*PROMPTS} - {"q"}  # which may be one of many letters
    asks = [n for n, value in objects.items() if known & {*map(folded, value)}]
    if not asks and len(objects) == len(first):
        asks = [*objects]
    if asks:
        return Doubt(
            f"{asks[0]} is an object with {', '.join(objects[asks[0]])}: write these as columns "
            "of their own, and take that file"
        )
    return None


@at("no prompt")
def a_translation(looked: Asking) -> Doubt | None:
    """Two texts that say the same in two languages."""
    texts = [name for name in looked.columns if name not in looked.plan.lists]
    if looked.plan.lists != ("translation",) or len(texts) != 2:
        return None
    ways = (
        {"prompt": f"Translate into {into}: {{{of}}}", "expected": into}
        for of, into in (texts, texts[::-1])
    )
    return Doubt(
        f"which of {' and '.join(texts)} is to be translated is not clear", tuple(ways)
    )


# Columns that a question may be about, or that ask
SUBJECTS = words("intent name title topic concept")


@at("no prompt")
def no_column_of_prompts(looked: Asking) -> Doubt:
    texts = looked.texts()
    texts = [n for n in texts if share(looked.values(Path(n)), is_read) > 0.5] or texts
    few = [n for n in texts if Column(looked, n).are_labels]
    texts = [n for n in texts if n not in few] or texts
    around = [name for name in texts[1:] if Column(looked, name).is_passage]
    around += [n for n in looked.columns if folded(n) in CONTEXTS and n not in texts]
    subjects = [n for n in SUBJECTS if looked.is_text(n)]
    named = [looked.named([name]) for name in subjects]
    likely = [f"{{{name}}}" for name in [*named, *texts] if valid(name)]
    likely = [*map(titled, looked.pairs(texts)), *likely]
    if around and texts:
        shows = {*around, texts[0]}
        likely.insert(0, titled([n for n in looked.columns if n in shows]))
    return _which(looked, "the prompt", "prompt", "{COLUMN}", likely)


def _which(
    looked: Asking, what: str, option: str, value: str, likely: list[str]
) -> Doubt:
    known = {*PROMPTS, *CONTEXTS, *EXPECTED, *ABOUT}
    header = ". If that is a record, and no names, add a first line with names"
    is_table = re.search(r"\.[ct]sv\b", looked.records[0].place) is not None
    header *= is_table and len(looked.columns) == 2 and option == "prompt"
    header *= not known & {*map(folded, looked.columns)}
    names = dict.fromkeys(name for record in looked.records for name in record if name)
    empty = [name for name in names if name not in looked.columns]
    nothing = f"; {', '.join(empty)} {'is' if len(empty) == 1 else 'are'} empty"
    if option == "prompt" and not any(map(valid, looked.columns)):
        header = ". If that is a record, and no names, add a first line with names"
        return Doubt(
            f"no template can name {looked.columns[0]!r} and the like: {RENAME}{header * is_table}"
        )
    return Doubt(
        f"which column is {what} is not clear: there are {', '.join(looked.columns)}"
        f"{nothing * bool(empty)}. Name it with --{option} '{value}', or -d {option}='{value}'{header}",
        tuple({option: each} for each in dict.fromkeys(likely[:4])),
    )


@at("media")
def names_of_sounds(looked: Asking, column: str) -> Doubt:
    is_name = isinstance(looked.first(column), str | int)
    is_name = is_name and not SOUND.search(as_text(looked.first(column)))
    goes_on = ". If the text is enough, this command goes on without them"
    return Doubt(
        f"the column {column!r} names sounds or films, such as {shown(looked.first(column))!r}, "
        f"and a row has text and images only{goes_on * is_name}",
        looked.prompts() * is_name,
    )


@at("images")
def names_of_images(looked: Asking, column: str) -> Doubt:
    plan, count = looked.plan, len(looked.values(Path(column)))
    few = 2 * count < len(looked.records) and bool(plan.prompt)
    without = f". {count} of {len(looked.records)} records have one: this command makes rows without"
    without *= few
    return Doubt(
        f"the column {column!r} names images, such as {looked.first(column)!r:.80}, and a "
        "row needs the image itself: put it into the records, as a URL or as bytes "
        f"of Parquet{without}",
        few * looked.prompts(),
    )


# ---------------------------------------------------------------------- the other columns


@at("columns")
def two_that_are_compared(looked: Asking, apart: dict[str, Reason]) -> Doubt | None:
    """Two columns that are about the answer are also compared, beside A>B."""
    options = looked.plan.options
    compared = looked.compared(apart)
    if not options or options.kind != "labels" or len(compared) != 2:
        return None
    parts = looked.parts(without=compared)
    return Doubt(
        f"whether {' and '.join(compared)} belong to the prompt is not clear",
        ({"prompt": titled([*parts, *compared])}, {"prompt": titled(parts)}),
    )


@at("columns")
def files_that_no_row_has(looked: Asking, apart: dict[str, Reason]) -> Doubt | None:
    for name in filter(lambda each: not looked.plan.became(each), looked.columns):
        column = Column(looked, name)
        is_text = column.words & {*CONTEXTS} and not column.words & {
            "id",
            "source",
            "url",
        }
        paths = share(column.values, lambda v: FILE.fullmatch(str(v).strip()))
        others = [n for n in looked.parts(without=[name]) if n != looked.main]
        if is_text and paths > 0.5 and not {*map(folded, others)} & {*CONTEXTS}:
            return Doubt(
                f"{name} names files, such as {shown(column.values[0])!r}, and a row needs "
                f"what is in them: put the text of each into {name}"
            )
    return None


@at("columns")
def a_name_that_no_template_can_have(
    looked: Asking, apart: dict[str, Reason]
) -> Doubt | None:
    for name, reason in apart.items():
        if reason.holds is not has_no_place_in_a_template:
            continue
        other = reason_of(Column(looked, name), beside=reason)
        if not other or other.outcome != LEFT_OUT:
            return Doubt(
                f"no template can name the column {name!r}, which may belong to the prompt: "
                f"{RENAME}. This command leaves it out",
                ({"prompt": titled(looked.parts())},),
            )
    return None


@at("columns")
def files_of_some_questions(looked: Asking, apart: dict[str, Reason]) -> Doubt | None:
    found = (n for n, reason in apart.items() if reason.holds is names_files_of_some)
    if not (name := next(found, "")):
        return None
    files = looked.values(Path(name))
    return Doubt(
        f"{name} names a file for {len(files)} of {len(looked.records)} questions, such as "
        f"{shown(files[0])!r}, and no row has it: leave these out of the dataset, or",
        ({"prompt": titled(looked.parts(without=[name]))},),
    )


@at("columns")
def a_column_that_may_belong(looked: Asking, apart: dict[str, Reason]) -> Doubt | None:
    asked = (name for name, reason in apart.items() if reason.outcome == ASKED)
    if not (name := next(asked, "")):
        return None
    alike = [n for n, reason in apart.items() if reason == apart[name]]
    more = f". The same goes for {', '.join(alike[1:])}" * (len(alike) > 1)
    ways = [looked.parts(), looked.parts(without=alike)]
    if apart[name].holds in TELLS:
        ways.reverse()
        more += ". The first command leaves it out"
    if folded(looked.main) in QUESTIONS and all(len(names) > 1 for names in ways):
        ways.append([looked.main])
    return Doubt(
        f"whether {name} belongs to the prompt is not clear: {apart[name].why}, such as "
        f"{shown(looked.first(name))!r}{more}",
        tuple({"prompt": titled(names)} for names in ways),
    )


# ---------------------------------------------------------------------- the prompts


@at("parts")
def parts_of_one_question(looked: Asking, column: str) -> Doubt | None:
    """A record's list was taken for its questions, and its parts have no answers of their own."""
    plan, name = looked.plan, looked.plan.expected.column
    by_record: dict[str, list[Any]] = {}
    for record in looked.records:
        by_record.setdefault(record.place, []).append(plan.said(record))
    several = [golds for golds in by_record.values() if len(golds) > 1]
    if not several or name == column:
        return None
    items = [
        item
        for r in looked.records
        for item in r.get(column) or ()
        if isinstance(item, Mapping)
    ]
    if not any(name in item for item in items):
        return Doubt(
            f"{column} has several parts in a record, and {name} is one answer to all of them, such as "
            f"{shown(several[0][0])!r}: write one text of them into the file, and name it with --prompt"
        )
    places = [
        sorted(golds) in ([*range(len(golds))], [*range(1, len(golds) + 1)])
        for golds in several
        if all(type(gold) is int for gold in golds)
    ]
    # Two that are 0 and 1 may be false and true.
    if len(places) < len(several) or not all(places) or max(map(len, several)) < 3:
        return None
    return Doubt(
        f"{name} is the place of each of the parts in {column}, which are to be put in order: write a record's "
        "parts into its prompt, and their order into another column"
    )


@at("as asked")
def columns_that_ask_nothing(looked: Asking, asked: list[str]) -> Doubt | None:
    """The user named only columns, and what they hold are no questions."""
    plan = looked.plan
    if looked.says_what_to_do or plan.is_chat or plan.images or plan.options:
        return None
    names = {*map(folded, names_in(plan.prompt))}
    if names & {*QUESTIONS, *CLAIMS} or share(asked, _asks) >= 0.5:
        return None
    return Doubt(
        f"the prompts, such as {shown(asked[0])!r}, ask nothing: say what to do with "
        f"--prompt '{plan.prompt} ...?'"
    )


def _asks(text: str) -> bool:
    return bool(ASKS.search(text) or QUESTION.search(text))


@at("prompts")
def numbers_without_words(looked: Asking, asked: list[str]) -> Doubt | None:
    if share(asked, re.compile(r"[\d\s._|,]{10,}").fullmatch) > 0.5:
        return Doubt(
            f"the prompts, such as {shown(asked[0])!r}, do not say what to do: say it with "
            f"--prompt 'Solve ...: {looked.plan.prompt}'"
        )
    return None


@at("prompts")
def places_that_nothing_fills(looked: Asking, asked: list[str]) -> Doubt | None:
    found = [PLACE.search(text) for text in asked]
    places = [match[0] for match in found if match]
    if len(places) <= 0.5 * len(asked):
        return None
    return Doubt(
        f"{len(places)} of {len(asked)} prompts, such as {shown(asked[0])!r}, have a place such as "
        f"{places[0]}, which no record fills: they are templates. Write the prompts into a file"
    )


# A column that names a thing which may be in another file
ID_OF = re.compile(r"(?:table|image|screen|figure|picture|passage|context|story)_?ids?")
# Such a thing is also an id of the record, unless several ask about it
ID_OF_TEXT = re.compile(r"(?:doc|document|article|dialogue|meeting|talk|video)_?ids?")
# A question that has this speaks of a text or a picture as if the reader had it.
TOLD_OF = re.compile(
    r"(?i)\b(?:in|to|of|from|by the end of|by) (?:the|this) (?:above |given |following )?"
    r"(story|passage|article|tale|paragraph|picture|image|photo|video|dialogue|transcript|document|"
    r"(?!periodic )\w+ table)\b"
)


@at("main")
def something_that_an_id_names(looked: Asking) -> Doubt | None:
    """The only trace of a table or a text that a question is about is its id."""
    others = [name for name in looked.columns if name != looked.main]
    if looked.plan.images or {*map(folded, others)} & {*CONTEXTS}:
        return None
    asked = [as_text(record.get(looked.main)) for record in looked.records]
    if median(map(count_of_words, asked)) > 3 * LONG:
        return None
    ids = [name for name in looked.columns if ID_OF.fullmatch(folded(name))]
    for name in looked.columns:
        values = [*map(as_text, looked.values(Path(name)))]
        if ID_OF_TEXT.fullmatch(folded(name)) and len({*values}) < 0.7 * len(values):
            ids.append(name)
    if not ids:
        return None
    return Doubt(
        f"{ids[0]} names what a question may be about, such as {shown(looked.first(ids[0]))!r}, and no column has "
        "it: put it into the records. If it is not needed, this command goes on",
        looked.prompts(),
    )


@at("prompts")
def something_that_no_column_has(looked: Asking, asked: list[str]) -> Doubt | None:
    """The questions speak of a story, and they are all that a record has."""
    plan = looked.plan
    if plan.images or median(map(count_of_words, asked)) > 3 * LONG:
        return None
    found = [match[1].casefold() for text in asked if (match := TOLD_OF.search(text))]
    # A column of passages that has none: they were left out.
    empty = any(
        folded(name) in CONTEXTS and not looked.values(Path(name))
        for name in {name for record in looked.records for name in record}
    )
    if len(found) <= (0.1 if empty else 0.5) * len(asked):
        return None
    [(what, _)] = Counter(found).most_common(1)
    return Doubt(
        f"{len(found)} of {len(asked)} prompts, such as {shown(asked[0])!r}, speak of the {what}, and no column has "
        "it: put it into the records. If it is not needed, this command goes on",
        ({"prompt": plan.prompt},),
    )


@at("prompts")
def one_question_with_several_answers(looked: Asking, asked: list[str]) -> Doubt | None:
    """A column that is left out tells the records apart that ask the same."""
    plan = looked.plan
    golds = [as_text(plan.expected.of(record)) for record in looked.records]
    if plan.options and plan.options.kind != "letters":
        options = [as_text(plan.options.of(record)) for record in looked.records]
        asked = [f"{a}\n{b}" for a, b in zip(asked, options, strict=True)]
    unclear = _conflicts(asked, golds)
    if plan.images or unclear < 0.1 * len(asked):
        return None
    for name, why in looked.unused.items():
        values = [as_text(record.get(name)) for record in looked.records]
        if why not in (
            "few values",
            "a name or a number",
            "about the record",
            "no text",
        ):
            continue
        with_it = [
            f"{text}\n{value}" for text, value in zip(asked, values, strict=True)
        ]
        if (
            len({*values}) > 0.5 * len(values)
            or _conflicts(with_it, golds) > unclear / 2
        ):
            continue
        return Doubt(
            f"{unclear} of {len(asked)} records ask what another one asks, and have another "
            f"answer. {name} tells them apart, such as {shown(values[0])!r}: whether it belongs "
            "to the prompt is not clear",
            (
                {"prompt": f"{title(name)}: {{{name}}}\n\n{plan.prompt}"},
                {"prompt": plan.prompt},
            ),
        )
    return None


def _conflicts(asked: list[str], golds: list[str]) -> int:
    """The number of records that ask the same as another, which has another answer."""
    by_text: dict[str, set[str]] = {}
    for text, gold in zip(asked, golds, strict=True):
        by_text.setdefault(text, set()).add(gold)
    return sum(len(by_text[text]) > 1 for text in asked)


@at("prompts")
def the_same_prompts(looked: Asking, asked: list[str]) -> Doubt | None:
    if looked.plan.images or len(asked) < FEWEST or len({*asked}) >= 0.5 * len(asked):
        return None
    [(most, count)] = Counter(asked).most_common(1)
    if "?" in most:
        return Doubt(
            f"{len({*asked})} different questions are in {len(asked)} records, and {shown(most)!r} is in {count}: "
            "leave the repeated ones out"
        )
    texts = [n for n in looked.texts() if n not in names_in(looked.plan.prompt)]
    texts = [n for n in texts if valid(n) and not Column(looked, n).are_labels]
    return Doubt(
        f"{count} of {len(asked)} prompts are {shown(most)!r}, so they lack a question: "
        f"there are {', '.join(looked.columns)}. Name the columns with --prompt",
        tuple(
            {"prompt": titled([name, *names_in(looked.plan.prompt)])}
            for name in texts[:2]
        ),
    )


# ---------------------------------------------------------------------- the column of the gold


@at("expected")
def a_topic(looked: Asking, found: list[str], columns: list[str]) -> Doubt | None:
    """The topic of a question stands beside what may be its answer, which some lack."""
    topic = next((name for name in found if folded(name) in TOPICS), "")
    count = len(looked.values(Path(found[0])))
    if not topic or (topic != found[0] and count >= FIT * len(looked.records)):
        return None
    others = [
        name
        for name in columns
        if words_in(name) & {*EXPECTED} - {*ABOUT}
        or (not words_in(name) & {*ABOUT} and is_texts(looked.first(name)))
    ]
    no_answers = {name for name in others if WRONG.fullmatch(folded(name))}
    no_answers |= {name for name in others if folded(name) in CONTEXTS}
    others = [name for name in others if name not in no_answers]
    if not others:
        return None
    return Doubt(
        f"the expected answer may be {others[0]}, such as {shown(looked.first(others[0]))!r}, or "
        f"{topic}, such as {shown(looked.first(topic))!r}",
        tuple(
            {"expected": name}
            for name in (*others, topic)
            if not isinstance(looked.first(name), Mapping)
        ),
    )


@at("expected")
def two_answers(looked: Asking, found: list[str], columns: list[str]) -> Doubt | None:
    """Another column could be the gold, and says another."""
    path, is_sure = looked.path(found[0]), bool(words_in(found[0]) & SURE)
    if not (is_sure or looked.are_short(looked.values(path))):
        return None
    for other in found[1:]:
        if folded(other) in EXPECTED[EXPECTED.index("solution") :]:
            return None
        if not is_sure and words_in(other) & {*ABOUT}:
            continue
        others = looked.path(other)
        pairs = [
            (a, b)
            for r in looked.records
            if not is_empty(a := path.of(r)) and not is_empty(b := others.of(r))
        ]
        golds = is_sure or looked.are_short([b for _, b in pairs])
        if pairs and golds and not _agree(looked, path, others, pairs):
            return Doubt(
                f"two columns could be the expected answer: {found[0]}, such as "
                f"{pairs[0][0]!r:.80}, and {other}, such as {pairs[0][1]!r:.80}",
                ({"expected": found[0]}, {"expected": other}),
            )
    return None


# A column of verdicts has values of both kinds, and one of these words in its name.
RIGHT = {*words("correct right true yes pass passed good accurate valid 1")}
WRONG_ONE = re.compile(
    r"(?:in|un)(?:correct|accurate|valid)|(?:wrong|false|no|fail|bad|0).*"
)
SAID_RIGHT = {*words("correct right accurate")}
SAID_WRONG = {*words("incorrect wrong inaccurate")}
GIVEN = words("answer response output completion solution")  # by somebody
MODELS = {*words("llm model prediction predicted pred baseline")}


@at("expected")
def answers_that_were_judged(
    looked: Asking, found: list[str], columns: list[str]
) -> Doubt | None:
    """Another column says which of the answers are right."""
    plan, answer = looked.plan, found[0]
    if plan.is_chat or not valid(answer) or folded(answer) not in GIVEN:
        return None
    for name in sorted(columns, key=lambda name: not words_in(name) & JUDGES):
        said = {*map(text_of, looked.values(Path(name)))}
        said = {text.removesuffix(".0") for text in said}
        is_verdict = bool(words_in(name) & JUDGES and not words_in(name) & MODELS)
        is_split = said & RIGHT and any(map(WRONG_ONE.fullmatch, said))
        # These words say so under any name.
        is_verdict |= bool(said & SAID_RIGHT and said & SAID_WRONG)
        if not is_verdict or not 1 < len(said) <= LABELS:
            continue
        if are_letters([*said]):
            continue
        if not is_split and looked.are_short(looked.values(Path(answer))):
            continue
        names = " or ".join(sorted(said))
        # The verdict may be about a statement or a quote, too.
        read = [n for n in columns if n != answer and Column(looked, n).is_passage]
        parts = [
            answer,
            *(n for n in read if valid(n) and n not in names_in(plan.prompt)),
        ]
        asked = f"{plan.prompt}\n\n" + "".join(
            f"{title(name)}: {{{name}}}\n\n" for name in parts
        )
        if not is_split:
            return Doubt(
                f"{name} says {names} of each {answer}, so that need not be the expected answer. The first command "
                "asks for what it says",
                (
                    {"prompt": f"{asked}Answer {names}.", "expected": name},
                    {"expected": answer},
                ),
            )
        return Doubt(
            f"{name} says which answers are right, {names}, so {answer} cannot be the expected answer: "
            "this command asks for what it says. Or keep only the records with right answers",
            ({"prompt": f"{asked}Is that right? Answer {names}.", "expected": name},),
        )
    return None


@at("elsewhere")
def kinds_of_questions(looked: Asking) -> Doubt | None:
    """Questions of several kinds, each of which has columns and answers of its own."""
    for name in looked.columns:
        if not words_in(name) & {"type", "kind", "format"}:
            continue
        kinds: dict[str, list[Record]] = {}
        for record in looked.records:
            kinds.setdefault(text_of(record.get(name)), []).append(record)
        shapes = {
            frozenset(key for key in each[0] if not is_empty(each[0][key]))
            for each in kinds.values()
        }
        answers = [looked.plan.said(record) for record in looked.records]
        # 2 and 2.5 are of one kind, and a hidden answer says nothing.
        types = {type(each) for each in answers if not is_empty(each)}
        said = {float if each is int else each for each in types}
        if 1 < len(kinds) <= LABELS and len(shapes) > 1 and len(said) > 1:
            return Doubt(
                f"{name} tells questions of several kinds, {', '.join(sorted(kinds))}, and their answers "
                "differ in type: keep the records of one kind"
            )
    return None


@at("elsewhere")
def answers_elsewhere(looked: Asking) -> Doubt | None:
    """Some records have their answer in another column."""
    plan, its = looked.plan, looked.plan.expected
    lacking = [r for r in looked.records if is_empty(plan.said(r))]
    if len(lacking) <= (1 - FIT) * len(looked.records):
        return None
    for name in looked.columns:
        path = looked.path(name)
        named = folded(name) in EXPECTED and folded(name) not in TOPICS
        named = named and not plan.became(name)
        has = [path.of(r) for r in lacking if not is_empty(path.of(r))]
        if named and len(has) > 0.5 * len(lacking):
            return Doubt(
                f"{len(lacking)} of {len(looked.records)} records have no answer in {its.column}, and {len(has)} of "
                f"these have one in {name}, such as {shown(has[0])!r}. Each command leaves the others out",
                ({"expected": its.column}, {"expected": name}),
            )
    return None


def _agree(
    looked: Looked, one: Path, other: Path, pairs: list[tuple[Any, Any]]
) -> bool:
    """Whether two columns say the same: the same text, or always one for the other."""
    same = [text_of(a) in text_of(b) or text_of(b) in text_of(a) for a, b in pairs]
    if sum(same) >= FIT * len(pairs):
        return True
    by_first: dict[str, set[str]] = {}
    for a, b in pairs:
        by_first.setdefault(as_text(a), set()).add(as_text(b))
    values = {as_text(b) for _, b in pairs}
    few = len(by_first) <= LABELS and len(by_first) == len(values) < len(pairs)
    if few and all(len(each) == 1 for each in by_first.values()):
        return True
    if not looked.plan.options:
        return False
    letters = zip(Naming(looked, one).found, Naming(looked, other).found, strict=True)
    both = [(a, b) for a, b in letters if a and b]
    alike = sum(a == b for a, b in both)
    return len(both) >= 0.5 * len(pairs) and alike >= FIT * len(both)


@at("no expected")
def no_text_but_a_prompt(looked: Asking, others: list[str]) -> Doubt | None:
    first = [looked.first(name) for name in others]
    if first and all(isinstance(v, Mapping | list) and not is_texts(v) for v in first):
        names = ", ".join(others)
        return Doubt(f"no column is the answer: there are {names}", own=True)
    return None


@at("no expected")
def answers_in_several_columns(looked: Asking, others: list[str]) -> Doubt | None:
    options = looked.plan.options
    is_several = options is not None and options.kind == "columns"
    names = [path.column for path in options.paths] if options and is_several else []
    starts = {name.rstrip("0123456789") for name in names}
    if len(starts) != 1 or not words_in(start := min(starts)) & {*EXPECTED}:
        return None
    texts = [str(text) for name in names for text in looked.values(Path(name))]
    graders = ("judge", "any") if _are_long(looked, texts) else ("any", "all")
    ways = ({"expected": f"{start}*", "grader": grader} for grader in graders)
    return Doubt(
        f"{names[0]} to {names[-1]} may be spellings of one answer, or all be wanted, and no column says which of "
        "them is right",
        tuple(ways),
    )


@at("no expected")
def no_column_of_answers(looked: Asking, others: list[str]) -> Doubt:
    rest = others or [n for n in looked.columns if not looked.plan.became(n)]
    rest = [n for n in rest if not words_in(n) & {*DIFFICULTY, *NUMBERS}]
    rest = [n for n in rest if not has_one_value(Column(looked, n))] or rest
    likely = [n for n in looked.may_answer() if n in rest] or rest
    if options := looked.plan.options:
        names = {path.column for path in options.paths}
        likely = [name for name in likely if name not in names]
        named = [
            n for n in rest if n not in names and looked.names_options(Path(n), options)
        ]
        named.sort(key=lambda n: nearly_all_match(r"\d", looked.values(Path(n))))
        likely = [*dict.fromkeys([*named, *likely])]
    return _which(looked, "the expected answer", "expected", "COLUMN", likely)


@at("no golds")
def no_answer(looked: Asking) -> Doubt:
    plan = looked.plan
    fits = f" that fits {plan.pattern!r}" if plan.pattern else ""
    return Doubt(
        f"no record has an answer in {plan.expected}{fits}: name another with --expected"
    )


# ---------------------------------------------------------------------- names of options


@at("option")
def no_way_to_name_an_option(looked: Asking, naming: Naming) -> Doubt:
    pairs = zip(looked.records, naming.countable, naming.found, strict=True)
    wrong = next((record for record, has, letter in pairs if has and not letter), None)
    cure = (
        "Make it a letter, the text of an option, or its number; if the others are wrong "
        "answers, call their columns wrong_1, wrong_2 and so on"
    )
    if folded(looked.plan.expected.column) in TOPICS and not any(naming.found):
        return Doubt(
            f"no column says which option is right: {looked.plan.expected.column} has "
            f"{shown(looked.golds()[0])!r}, which is none of them. Name the column with --expected, or get the file that has it"
        )
    several = nearly_all_match(r"[A-J](?:\s*[,;/]?\s*[A-J])*", looked.golds())
    ways = ({"grader": "all"},) if several else ()
    return _unclear(looked, wrong or looked.records[0], cure, ways)


@at("options")
def two_ways_to_name_an_option(looked: Asking, naming: Naming) -> Doubt | None:
    column = looked.plan.expected.column
    for why in naming.as_good:
        if why.startswith("the number") and not naming.best.startswith("the number"):
            golds = looked.golds()
            if not naming.best.startswith("a letter"):
                continue  # a label is sure
            if share(golds, is_number) < FIT or any(isinstance(g, str) for g in golds):
                continue  # letters, or texts of options, all of which are there
        pairs = zip(looked.records, naming.countable, strict=True)
        record = next(record for record, has_gold in pairs if has_gold)
        ways = ({"expected": f"{column} from 0"}, {"expected": f"{column} from 1"})
        return _unclear(looked, record, f"It may be {naming.best}, or {why}", ways)
    return None


def _unclear(
    looked: Asking, record: Record, cure: str, ways: tuple[dict[str, str], ...] = ()
) -> Doubt:
    plan = looked.plan
    listed = plan.options.of(record) if plan.options else []
    return Doubt(
        f"how {plan.expected} names an option is not clear, such as "
        f"{plan.expected.of(record)!r:.80} of {listed!r:.200} ({record.place}). {cure}",
        ways,
    )


# ---------------------------------------------------------------------- golds that are letters


@at("letters")
def a_letter_and_an_option(looked: Asking, said: list[str]) -> Doubt | None:
    if nearly_all_match(r"\([A-K]\)\s*\S.*", said):
        return Doubt(
            f"{looked.plan.expected.column} has a letter and an option, such as {said[0]!r:.80}: "
            "take the letter with --expected 'COLUMN=PATTERN' --grader choice"
        )
    return None


@at("letters")
def letters_that_stand_for_something(looked: Asking, said: list[str]) -> Doubt | None:
    if not stand_for_something(said):
        return None
    labels, plan = sorted({*said}), looked.plan
    named = [re.compile(rf"(?<!\w){re.escape(label)}(?!\w)") for label in labels]
    asked = [plan.prompt] if looked.asked_for else map(looked.asked, looked.records)
    if share(asked, lambda text: all(n.search(text) for n in named)) >= FIT:
        return None
    meant = ", ".join(f"{label} for ..." for label in labels)
    problem = f"{plan.expected.column} is one of {', '.join(labels)}, and nothing says what they mean"
    ways = [{**way, "grader": "text"} for way in looked.ways(f"Answer {meant}.")]
    return Doubt(*looked.said_in_the_prompt(problem, ways, {"grader": "text"}))


@at("letters")
def several_letters(looked: Asking, said: list[str]) -> Doubt | None:
    """Golds are letters of one option, or of several, such as ABD."""
    several = [text for text in said if len(text) > 1]
    ascending = share(
        said, lambda t: re.fullmatch("[A-J]+", t) and list(t) == sorted({*t})
    )
    if not several or ascending < FIT or len(several) < 0.02 * len(said):
        return None
    said_in = [[v for v in r.values() if isinstance(v, str)] for r in looked.records]
    if share(said_in, lambda texts: any(map(listed_in, texts))) <= 0.5:
        return None
    return Doubt(
        f"{looked.plan.expected.column} has the letters of several options, such as "
        f"{several[0]!r}. The first command wants all of them, and the second compares the "
        "letters as they are",
        ({"grader": "all"}, {"grader": "text"}),
    )


@at("letters")
def letters_without_options(looked: Asking, said: list[str]) -> Doubt | None:
    plan = looked.plan
    if not are_letters(said) or stand_for_something(said):
        return None
    if share(map(plan.question, looked.records), listed_in) >= FIT:
        return None
    if not plan.is_chat and looked.lists_options():
        return None
    used = {*names_in(plan.prompt), plan.expected.column}
    parts = [name for name in looked.texts() if name not in used]
    listed = " ".join(f"{a}. {{{n}}}" for a, n in zip(LETTERS, parts, strict=False))
    named = {"prompt": f"{plan.prompt} {listed}", "grader": "choice"}
    problem = f"{plan.expected.column} has letters, such as {said[0]!r}, and neither a column nor the prompt has the options"
    if len(parts) != len({text.strip("().").upper() for text in said}):
        how = "put them into a column `options`. This command compares the letters as they are"
        return Doubt(f"{problem}: {how}", ({"grader": "text"},))
    how = "The first command names their columns, and the second compares the letters as they are"
    return Doubt(f"{problem}. {how}", (named, {"grader": "text"}))


def are_letters(said: list[str]) -> bool:
    """Whether golds are letters, as of options."""
    return nearly_all_match(r"\(?[A-Za-z][).]?", said)


def stand_for_something(said: list[str]) -> bool:
    """Whether letters are not those of options, as e, n and c are not."""
    letters = sorted({text.strip("().").upper() for text in said})
    return (
        are_letters(said) and letters != [*LETTERS[: len(letters)]] and len(letters) < 4
    )


# ---------------------------------------------------------------------- golds


@at("lists")
def a_list(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Lists of texts are not spellings of one answer."""
    path, has_options = looked.plan.expected, bool(looked.plan.options)
    lists = [
        [str(part) for part in gold]
        for gold in golds
        if isinstance(gold, list)
        and len({*map(str, gold)}) > 1
        and is_texts([part for part in gold if not isinstance(part, int | float)])
    ]
    if not (has_options or lists or looked.plan.pattern) and are_joined(golds):
        lists = [parts for gold in golds if len(parts := parted(gold)) > 1]
    few = has_options and len(lists) <= (1 - FIT) * len(golds)  # they are left out
    if not lists or few or ALIASES in path.steps:
        return None
    if looked.plan.also and {*map(folded, looked.plan.also)} <= {*SPELLED}:
        return None
    names = [] if has_options or looked.plan.is_chat else looked.columns
    for name in names:
        pairs = [(r.get(name), looked.plan.said(r)) for r in looked.records]
        same = share(
            pairs, lambda two: are_several(*two) and len(two[0]) == len(two[1])
        )
        if name != path.column and same > 0.5:
            return Doubt(
                f"{name} and {path.column} are lists of the same length, so a record has several questions: "
                "write one record for each"
            )
    known = all(is_number(part) for one in lists for part in one)
    known = known or share(lists, are_spellings) > 0.5
    if known and not has_options:
        return None
    form = f". {looked.form}, which these graders read" * bool(looked.form)
    graders = ("all", "ordered") if has_options else ("any", "all", "ordered")
    if _are_long(looked, [part for one in lists for part in one]):
        graders = ("judge", "any")
    return Doubt(
        f"{path.column} has lists, such as {max(lists[:20], key=len)!r:.80}, and whether one of "
        f"them is enough, all are wanted, or all in this order, is not clear{form}",
        tuple({"grader": grader} for grader in graders),
    )


def are_several(*values: Any) -> bool:
    return all(isinstance(value, list) and len(value) > 1 for value in values)


def _are_long(looked: Asking, texts: list[Any]) -> bool:
    """Whether texts are sentences, or too long to compare."""
    return share(texts, SENTENCE.fullmatch) > 0.5 or not looked.are_short(texts)


@at("none")
def answers_that_there_is_none(
    looked: Asking, golds: list[Any], found: set[str]
) -> Doubt | None:
    count = sum(isinstance(gold, str) and gold in found for gold in golds)
    if count <= max(1, (1 - FIT) * len(golds)):
        return None
    column = looked.plan.expected.column
    others = "|".join(map(re.escape, sorted(found)))
    return Doubt(
        f"{count} of {len(golds)} answers of {column} are {' or '.join(map(repr, sorted(found)))}, "
        "which may be answers or say that there is none. The first command keeps them, the "
        "second leaves them out",
        ({"grader": "text"}, {"expected": f"{column}=^(?!(?:{others})$)(.+)$"}),
    )


def none_in(looked: Looked, golds: list[Any]) -> set[str]:
    """The golds that may say that there is none, and that no question speaks of."""
    texts = {gold for gold in golds if isinstance(gold, str)}
    found = {text for text in texts if text.strip(" .").casefold() in NOTHING}
    return {text for text in found if not _speaks_of(looked, text)}


def _speaks_of(looked: Looked, answer: str) -> bool:
    """Whether the questions with an answer name it."""
    text = answer.strip(" .").casefold()
    named = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
    asked = [
        looked.plan.question(record).casefold()
        for record in looked.records
        if looked.plan.expected.of(record) == answer
    ]
    return share(asked, named.search) > 0.5


@at("golds")
def an_index_without_options(looked: Asking, golds: list[Any]) -> Doubt | None:
    if folded(looked.plan.expected.column) in INDEXES:
        return Doubt(
            f"{looked.plan.expected.column} names an option, and no column has the options: there "
            f"are {', '.join(looked.columns)}. Call the column of the options `options`"
        )
    return None


@at("golds")
def programs(looked: Asking, golds: list[Any]) -> Doubt | None:
    return _PROGRAMS if share(map(str, golds), PROGRAM.search) > 0.5 else None


@at("golds")
def printed_bytes(looked: Asking, golds: list[Any]) -> Doubt | None:
    if share(map(str, golds), re.compile(r"b'.*'|b\".*\"").fullmatch) > 0.5:
        return Doubt(
            f"{looked.plan.expected.column} has bytes as Python writes them, such as {golds[0]}: "
            "write them as text, in the questions, too"
        )
    return None


@at("golds")
def printed_lists(looked: Asking, golds: list[Any]) -> Doubt | None:
    printed = [g for g in golds if isinstance(g, str) and PRINTED.fullmatch(g.strip())]
    if len(printed) <= 0.5 * len(golds):
        return None
    return Doubt(
        f"{looked.plan.expected.column} has sets or tuples as Python writes them, such as "
        f"{shown(printed[0])}: write lists"
    )


@at("golds")
def places_in_golds(looked: Asking, golds: list[Any]) -> Doubt | None:
    found = [match[0] for gold in golds if (match := FILLED.search(str(gold)))]
    if len(found) <= 0.5 * len(golds):
        return None
    return Doubt(
        f"{len(found)} of {len(golds)} answers have a place such as {found[0]}, which no record "
        "fills: write the names into the file"
    )


@at("golds")
def several_kinds(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are of several kinds, such as 7 beside [1, 2].

    What a program returns is compared as it is written, as CRUXEval does.
    """
    if looked.named(["code"]) and all(isinstance(gold, str) for gold in golds):
        return None
    by_kind: dict[str, list[Any]] = {}
    has_numbers = any(isinstance(gold, int | float) for gold in golds)
    for gold in golds:
        by_kind.setdefault(kind_of(gold, has_numbers), []).append(gold)
    if len({*map(str, golds)}) > LABELS and (printed := _printed_booleans(looked)):
        by_kind["boolean"] = printed
        by_kind["plain"] = [g for g in by_kind.get("plain", []) if g not in printed]
    one, *others = sorted(by_kind.values(), key=len, reverse=True)
    if len(one) >= FIT * len(golds):
        return None
    return Doubt(
        f"{looked.plan.expected.column} has answers of several kinds, such as {shown(one[0])!r} "
        f"and {shown(others[0][0])!r}, and one grader compares all: keep the records of one kind, "
        "or compare them as texts",
        ({"grader": "text"},),
    )


def _printed_booleans(looked: Asking) -> list[str]:
    """True and False, as Python writes them, where no question says true or false."""
    found = []
    for record in [] if looked.native else looked.records:
        with contextlib.suppress(Unfit):
            gold = looked.plan.gold(record)
            asked = looked.plan.question(record).casefold()
            if gold in ("True", "False") and "true" not in asked:
                found.append(gold)
    return found


def kind_of(value: Any, among_numbers: bool) -> str:
    """Whether a gold is an object, a list, or plain, as texts for one answer are, too."""
    if isinstance(value, str) and PRINTED.fullmatch(value.strip()):
        return "list"
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            found = parsed(value)
            if isinstance(found, Mapping) or (is_texts(found) and found):
                return "object" if isinstance(found, Mapping) else "list"
    if isinstance(value, list) and (among_numbers or not is_texts(value)):
        return "list"
    return "object" if isinstance(value, Mapping) else "plain"


@at("golds")
def names_of_rules(looked: Asking, golds: list[Any]) -> Doubt | None:
    if not all(isinstance(gold, Mapping) for gold in golds):
        return None
    if any(re.match("func|check|constraint|rule|verif", key) for key in golds[0]):
        column = looked.plan.expected.column
        return Doubt(f"{column} names a rule: {shown(golds[0])}", own=True)
    return None


# ---------------------------------------------------------------------- golds that are numbers


@at("numbers")
def hidden_labels(looked: Asking, golds: list[Any]) -> Doubt | None:
    if len(golds) < FEWEST or not {*map(str, golds)} <= {"-1", "-1.0"}:
        return None
    return Doubt(
        f"{looked.plan.expected.column} is -1 in all records, so its labels are hidden, as those of a test set: take "
        "another split"
    )


@at("numbers")
def numbers_of_the_records(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds count the records, so they are no answers."""
    column, last = looked.plan.expected.column, len(golds)
    is_count = golds in ([*range(last)], [*range(1, last + 1)])
    if last < FEWEST or not (
        is_count and words_in(column) & {*NUMBERS, "number", "nr"}
    ):
        return None
    return Doubt(
        f"{column} counts the records, from {golds[0]} to {golds[-1]}, so it is no expected answer: "
        "name another column with --expected"
    )


@at("numbers")
def classes(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Numbers may stand for something."""
    expected, values = looked.plan.expected, {str(gold) for gold in golds}
    name = folded(expected.column)
    is_class = name in CLASSES or (name not in EXPECTED and not expected.steps)
    most = len(golds) - 1 if name in CLASSES else LABELS
    is_class = is_class and len(values) <= most
    whole = all(re.fullmatch(r"-?\d{1,3}(\.0)?", value) for value in values)
    zero_one = values <= {"0", "1", "0.0", "1.0"}
    few = len(golds) >= FEWEST * len(values) > FEWEST or name in CLASSES
    if not (whole and few and (is_class or zero_one)) or looked.says_what_to_do:
        return None
    if name_of := _named_in(looked, golds):
        return Doubt(
            f"{expected.column} is a number, and {name_of} says what each stands for, such as "
            f"{shown(looked.first(name_of))!r}",
            ({"expected": name_of}, {"grader": "number"}),
        )
    meant = ", ".join(f"{value} for ..." for value in sorted(values))
    meant = "0 for no, 1 for yes" if zero_one else meant
    texts = [as_text(record.get(looked.main)) for record in looked.records]
    # A question that 1 could answer needs none.
    asks = zero_one and share(texts, YES_NO.match) < 0.5
    ways = looked.ways(f"{'Is it ...? ' * asks}Answer {meant}.")
    problem = f"{expected.column} is one of {', '.join(sorted(values))}, and nothing says what they mean"
    return Doubt(*looked.said_in_the_prompt(problem, ways, {"grader": "number"}))


def _named_in(looked: Asking, golds: list[Any]) -> str:
    """The column of texts that stand for the numbers, one for each; "" if there is none."""
    plan, count = looked.plan, len({*map(str, golds)})
    for name in looked.columns:
        if plan.became(name) or not looked.is_text(name):
            continue
        pairs = {(str(plan.said(r)), as_text(r.get(name))) for r in looked.records}
        texts = {text for _, text in pairs}
        if len(pairs) == len(texts) == count > 1 and not any(map(is_number, texts)):
            return name
    return ""


@at("numbers")
def numbers_in_the_question(looked: Asking, golds: list[Any]) -> Doubt | None:
    plan = looked.plan
    if looked.asked_for or looked.native:
        return None
    said = 0
    asked = [*map(looked.asked, looked.records)] if plan.is_chat else []
    asked = asked or [as_text(record.get(looked.main)) for record in looked.records]
    if (
        share(asked, COMPARES.search) > 0.5
        or median(map(count_of_words, asked)) > 10 * LONG
    ):
        return None
    for record, text in zip(looked.records, asked, strict=True):
        with contextlib.suppress(Unfit):
            gold = str(plan.gold(record))
            found = re.search(rf"(?<![\d.]){re.escape(gold)}(?![\d.]|[A-Za-z_])", text)
            said += len(gold) > 1 and bool(found)
    if said >= 0.9 * len(golds):
        return Doubt(
            f"{plan.expected.column} is in the question, as an input", own=True
        )
    return None


# A question with one of these has several numbers, and one of them is right.
COMPARES = re.compile(r"(?i)\bwhich\b|\bor\b[^.]*\?")
# A prompt with one of these says how many places a number has.
ROUNDS = re.compile(
    r"(?i)\bround|decimal|\bplaces?\b|digits|nearest|significant|precis"
)


@at("numbers")
def numbers_with_many_places(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds such as 30.44323, and nothing says how exact an answer has to be."""
    plan = looked.plan
    if looked.native or looked.says_what_to_do and not plan.is_chat:
        return None
    found = [re.fullmatch(r"-?\d*\.(\d{3,})", str(gold).strip()) for gold in golds]
    if share(found, bool) <= 0.2:
        return None
    asked = [looked.asked(record)[-200:] for record in looked.records]
    if share(asked, ROUNDS.search) > 0.3 or share(asked, COMPARES.search) > 0.5:
        return None
    counts = Counter(len(one[1]) for one in found if one)
    [(places, _)] = counts.most_common(1)
    such = next(gold for gold, one in zip(golds, found, strict=True) if one)
    return Doubt(
        f"{plan.expected.column} has numbers with many places, such as {such}, and nothing says how exact an answer "
        "has to be, or whether 0.25 is 25 %: say it in the prompt. --grader number compares six places",
        (
            *looked.ways(f"Answer with a number, rounded to {places} places."),
            {"grader": "number"},
        ),
    )


def _compared(looked: Asking, what: str) -> Doubt | None:
    """Two texts are compared, and no column says how."""
    if folded(looked.main) not in PAIRS or looked.says_what_to_do:
        return None
    return Doubt(
        f"{looked.plan.expected.column} is {what}, and no column asks the question: ask it with "
        f"--prompt '{looked.template()} ...?'"
    )


@at("numbers")
def a_number_of_two_texts(looked: Asking, golds: list[Any]) -> Doubt | None:
    return _compared(looked, "a number")


@at("booleans")
def a_boolean_of_two_texts(
    looked: Asking, asked: list[str], grader: str | None
) -> Doubt | None:
    return _compared(looked, "true or false")


@at("booleans")
def a_boolean_that_nothing_asks_for(
    looked: Asking, asked: list[str], grader: str | None
) -> Doubt | None:
    """A claim may be true. What is true of another text has to be said."""
    told = share(asked, lambda text: re.search(r"(?i)\b(?:true|yes)\b", text)) >= 0.5
    is_read = _asks_nothing(looked) or folded(looked.main) in TEXTS
    if grader or told or looked.says_what_to_do or not is_read:
        return None
    if folded(looked.main) in CLAIMS:
        return None
    problem = (
        f"{looked.plan.expected.column} is true or false, and nothing says of what"
    )
    ways = looked.ways("Is it ...? Answer yes or no.")
    return Doubt(*looked.said_in_the_prompt(problem, ways, {"grader": "choice"}))


# ---------------------------------------------------------------------- objects, labels, texts


@at("calls")
def answers_that_are_no_calls(
    looked: Asking, golds: list[Any], texts: list[str]
) -> Doubt | None:
    if not looked.plan.tools:
        return None
    grader = "text" if looked.are_short(texts) else "judge"
    return Doubt(
        f"{looked.plan.expected.column} does not have calls with `name` and `arguments`, but "
        f"{shown(golds[0])}: rewrite them. This command grades the last message alone, whatever "
        "was called, and no tool of a record answers",
        ({"grader": grader},),
    )


@at("objects")
def keys_that_nothing_tells(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are lists of lists, or objects whose keys no other column tells."""
    column, first, told = looked.plan.expected.column, golds[0], 0
    if looked.says_what_to_do and not looked.plan.is_chat:
        return None
    shown_columns = [looked.plan.prompt] if looked.plan.is_chat else looked.parts()
    for record in looked.records:
        others = {name: record.get(name) for name in shown_columns if name != column}
        said = json.dumps(others, ensure_ascii=False, default=str)
        told += isinstance(first, Mapping) and all(
            re.search(rf"(?<!\w){re.escape(key)}(?!\w)", said) for key in first
        )
    if told >= 0.5 * len(looked.records):
        return None
    is_object = isinstance(first, Mapping)
    template = looked.template()
    if is_object and (words_in(column) | {*map(folded, first)}) & (
        SCORES | {"label", "grade"}
    ):
        # The question includes what is scored, and the rubric.
        scored = [
            name
            for name in looked.columns
            if words_in(name) & {*WRITTEN, "rubric", "rubrics"} and valid(name)
        ]
        template = titled(list(dict.fromkeys([*names_in(template), *scored])))
    has = f"objects with {', '.join(first)}" if is_object else "lists of lists"
    if looked.plan.is_chat:
        return Doubt(
            f"{column} has {has}, and no message says so: say it in the messages. This command goes on as they are",
            ({"grader": "json"},),
        )
    return Doubt(
        f"{column} has {has}, and no question says so: say it "
        f"with --prompt '{template} Answer with ...' --grader json"
    )


@at("places")
def marks_in_places(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are lists of 0 and 1, of which each place stands for something."""
    if looked.says_what_to_do or not all(isinstance(gold, list) for gold in golds):
        return None
    lengths = {*map(len, golds)}
    are_marks = all(each in (0, 1) for gold in golds for each in gold)
    if len(lengths) != 1 or max(lengths) < 2 or not are_marks:
        return None
    return Doubt(
        f"{looked.plan.expected.column} has 0 or 1 in {max(lengths)} places, and nothing says what they mean: say it "
        f"with --prompt '{looked.template()} Answer with ...' --grader json"
    )


@at("places")
def places_of_something(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are lists of whole numbers that ascend, as those of lines do."""
    if looked.says_what_to_do or looked.plan.is_chat:
        return None
    lists = [gold if isinstance(gold, list) else [gold] for gold in golds]
    ascend = all(
        all(type(each) is int for each in one) and one == sorted({*one})
        for one in lists
    )
    asked = [as_text(record.get(looked.main)) for record in looked.records]
    told = share(
        asked,
        re.compile(
            r"(?i)\d|\b(?:list|ind(?:ices|ex)|numbers?|lines?|integers)\b"
        ).search,
    )
    if len({*map(len, lists)}) == 1 or not ascend or told >= 0.5:
        return None
    return Doubt(
        f"{looked.plan.expected.column} has lists of numbers, such as {shown(lists[0])!r}, and no question asks for "
        f"numbers: say what they are the places of with --prompt '{looked.template()} Answer with ...' --grader json"
    )


@at("texts")
@at("long")
def yes_or_no_in_a_sentence(looked: Asking, golds: list[Any]) -> Doubt | None:
    column = looked.plan.expected.column
    found = [re.match(r"(?is)\s*(yes|no)\b[,.;:]?\s*(.*)", str(gold)) for gold in golds]
    if share(found, bool) < FIT or looked.plan.pattern or looked.plan.is_chat:
        return None
    if share(found, lambda one: one and one[2]) <= 0.5:
        return None
    return Doubt(
        f"{column} says yes or no, and more, such as {shown(golds[0])!r}. The first command compares "
        "yes and no, and in the second a model compares the whole texts",
        (
            {"expected": f"{column}=(?i)^\\s*(yes|no)\\b"},
            {"expected": column, "grader": "judge"},
        ),
    )


@at("texts")
def signs_without_letters(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds such as emoji, of which others may be as right."""
    texts = [*map(str, golds)]
    if share(texts, lambda text: re.search(r"\w", text)) >= 0.5 or _named(texts):
        return None
    return Doubt(
        f"{looked.plan.expected.column} has signs without letters, such as {shown(texts[0])!r}, and others may be as "
        "right. Have a model compare them, as in the first command. The second compares the signs",
        ({"grader": "judge"}, {"grader": "text"}),
    )


@at("texts")
def one_or_the_other(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds such as `tin or zinc`, of which one may be enough."""
    texts = [gold for gold in golds if isinstance(gold, str)]
    found = [text for text in texts if EITHER.search(text)]
    if looked.plan.pattern or len(found) < max(2, 0.05 * len(golds)):
        return None
    return Doubt(
        f"{len(found)} of {len(golds)} answers say `or`, such as {shown(found[0])!r}. In the first command one of them is "
        "enough, and the second wants the whole text",
        ({"grader": "any"}, {"grader": "text"}),
    )


IMPOSSIBLE = ("is_impossible", "impossible", "unanswerable", "is_unanswerable")


@at("golds")
def answers_to_what_has_none(looked: Asking, golds: list[Any]) -> Doubt | None:
    """A column says that a question has no answer, and the gold is one text for all of these."""
    column, expected = looked.named(IMPOSSIBLE), looked.plan.expected
    if not column or looked.plan.pattern:
        return None
    found = [looked.plan.said(r) for r in looked.records if r.get(column) is True]
    texts = {as_text(each) for each in found if not is_empty(each)}
    if len(texts) != 1 or len(found) < 2:
        return None
    [text] = texts
    return Doubt(
        f"{column} says of {len(found)} of {len(looked.records)} questions that they have no answer, and theirs is "
        f"{shown(text)!r}. This command leaves them out",
        ({"expected": f"{expected.column}=^(?!{re.escape(text)}$)(.+)$"},),
    )


_ID = re.compile(r"[\w:/.-]+")


@at("golds")
def addresses(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are addresses, files or ids, which say only where an answer is."""
    texts = [str(part) for g in golds for part in (g if isinstance(g, list) else [g])]
    column = looked.plan.expected.column
    kinds = {
        "addresses": share(texts, ADDRESS.fullmatch),
        "names of files": share(texts, FILE.fullmatch),
        "ids": share(texts, _ID.fullmatch) * bool(words_in(column) & {"id", "ids"}),
    }
    what = next((kind for kind, found in kinds.items() if found > 0.5), "")
    if not what:
        return None
    return Doubt(
        f"{column} has {what}, such as {shown(texts[0])!r}, which no policy can know: write what "
        "they stand for into the file, or name another column with --expected. This command "
        f"compares the {what}",
        ({"grader": "any" if isinstance(golds[0], list) else "text"},),
    )


@at("labels")
def yes_or_no_to_nothing(looked: Asking, labels: list[str]) -> Doubt | None:
    is_yes_or_no = {"yes", "no"} <= {label.casefold() for label in labels}
    if not is_yes_or_no or looked.says_what_to_do:
        return None
    column, asked = looked.plan.expected.column, 0
    for record in looked.records:
        texts = [as_text(value) for name, value in record.items() if name != column]
        main = as_text(record.get(looked.main)).casefold()
        asked += any(
            "yes" in text.casefold() or _ends_with_a_question(text) for text in texts
        ) or bool(YES_NO.match(main))
    if asked >= 0.8 * len(looked.records):
        return None
    return Doubt(
        f"{column} is yes or no, and no column asks the question: ask it with --prompt "
        f"'{looked.template()} ... Is that so?'"
    )


# A question to which neither yes nor no is an answer
_OPEN = re.compile(
    r"(?:^|[.!?]\s+)(?:what|who|whom|whose|where|when|why|how|which)\b[^.!?]*\?\W*$"
)


def _ends_with_a_question(text: str) -> bool:
    """Whether a text asks. One in the middle of a long text is of somebody in a story."""
    if count_of_words(text) <= 2 * LONG:
        return re.search("[?？؟]", text) is not None
    is_open = _OPEN.search(text.casefold()) is not None
    return re.search(r"[?？؟]\W*$", text) is not None and not is_open


@at("labels")
def yes_or_no_to_an_open_question(looked: Asking, labels: list[str]) -> Doubt | None:
    """Nobody says yes to `what is collected from me?`: the label is of something else."""
    if looked.says_what_to_do or {*map(str.casefold, labels)} not in PLAIN:
        return None
    asked = [as_text(record.get(looked.main)).casefold() for record in looked.records]
    found = [
        text
        for text in asked
        if _OPEN.search(text) and not re.search(r"\b(?:yes|true)\b", text)
    ]
    if len(found) < max(FEWEST, 0.1 * len(asked)):
        return None
    return Doubt(
        f"{looked.plan.expected.column} is {' or '.join(labels)}, and {len(found)} of {len(asked)} questions ask for "
        f"something else, such as {shown(found[0])!r}: say what is so with --prompt '{looked.template()} ... Is that so?'"
    )


def _named(golds: list[Any]) -> str:
    """The labels that golds are, as `this, that or those`; "" if they are none."""
    labels = sorted({*map(str, golds)})
    are_few = len(labels) <= LABELS and len(labels) < len(golds)
    if len(labels) < 2 or not (are_few or FEWEST * len(labels) <= len(golds)):
        return ""
    return ", ".join(labels[:-1]) + f" or {labels[-1]}"


TEXTS = words("text sentence utterance front")
_STATEMENT = re.compile(r"(?s)[A-Z\d\W][^?？؟]*[.!\"'”’)]\s*")


def _asks_nothing(looked: Asking) -> bool:
    """Whether the prompts hardly have a question, by their column's name, too."""
    if (
        looked.says_what_to_do
        or looked.native
        or looked.plan.is_chat
        or looked.plan.images
    ):
        return False
    texts = [as_text(record.get(looked.main)) for record in looked.records]
    return folded(looked.main) not in QUESTIONS and share(texts, QUESTION.search) < 0.5


SCORES = {*words("score scores rating ratings stars")}


@at("numbers")
def scores_that_nothing_asks_for(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Numbers such as 0.25 tell how much, and no prompt says of what."""
    if not _asks_nothing(looked) or not words_in(looked.plan.expected.column) & SCORES:
        return None
    numbers = sorted(gold for gold in golds if isinstance(gold, int | float))
    low, high = (numbers or golds)[0], (numbers or golds)[-1]
    return Doubt(
        f"{looked.plan.expected.column} is a number, from {low} to {high}, and no prompt asks for it: say "
        f"what it measures with --prompt '{looked.template()} How ... is it, from {low} to {high}?'"
    )


@at("texts")
def statements(looked: Asking, golds: list[Any]) -> Doubt | None:
    """The prompts say something, and ask nothing."""
    plan, name = looked.plan, folded(looked.main)
    if looked.says_what_to_do or looked.native or plan.is_chat or plan.images:
        return None
    shown_columns = looked.parts() or [looked.main]  # looks at all records
    texts = [
        "\n".join(as_text(record.get(column)) for column in shown_columns)
        for record in looked.records
    ]
    is_text = name in TEXTS  # of which a part may have no full stop
    told = [
        not ASKS.search(text) and (is_text or bool(_STATEMENT.fullmatch(text)))
        for text in texts
    ]
    if name not in QUESTIONS and median(map(count_of_words, texts)) <= 3:
        told = [not _asks(text) for text in texts]  # a word, such as `happy`
    is_topic = folded(plan.expected.column) in TOPICS
    if is_topic and not any(map(ASKS.search, texts)):
        told = [True]
    if name in QUESTIONS or sum(told) <= 0.5 * len(told):
        return None
    return Doubt(
        f"the prompts, such as {shown(next(filter(str.strip, texts), ''))!r}, ask nothing: say what to do with "
        f"--prompt '{looked.template()} ...?'"
    )


# Words in names of columns that answer the question beside them, and that say what kind it is
ANSWER_TO = {
    *words(
        "answer answers ans ideal solution output response completion word target gold"
    )
}
KINDS = {*words("category intent type kind phase stage behavior topic")}
# Labels of two texts, which need no question
ENTAILS = re.compile(
    r"(?:not[-_ ]?)?(?:entail(?:s|ed|ment)?|contradict(?:s|ed|ion)?|neutral)"
)


@at("texts")
@at("labels")
def labels_that_nothing_asks_for(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are there again and again, and no prompt asks for one of them."""
    plan, column = looked.plan, looked.plan.expected.column
    all_golds = looked.golds()
    labels = sorted({*map(str, all_golds)})
    lower = {label.casefold() for label in labels}
    if looked.says_what_to_do or looked.native or plan.is_chat or plan.images:
        return None
    listed = FEWEST * len(labels) <= len(all_golds)  # as options behind the prompt
    known = lower in PLAIN or (listed and all(map(ENTAILS.fullmatch, lower)))
    if known or not (names := _named(all_golds)):
        return None
    asked = [as_text(record.get(looked.main)) for record in looked.records]
    asks = looked.ask_something
    texts = [*map(plan.question, looked.records)]
    if all(share(texts, lambda text, one=one: one in text) >= FIT for one in labels):
        return None
    is_question = folded(looked.main) in QUESTIONS
    said = words_in(column)
    answers = said & ANSWER_TO or {"question", "problem", "stem"} & words_in(
        looked.main
    )
    unclear = said & KINDS or _tell_nothing(labels)
    if (asks or is_question) and answers and not unclear:
        return None
    if any(reason.holds is is_labeled for reason in looked.apart().values()):
        return None  # the label may be about that column, which is asked about next
    if asks and folded(column) in TOPICS:
        return Doubt(
            f"the prompts ask something, such as {shown(asked[0])!r}, and {column} only names their topic: no column has "
            "an expected answer. This command asks for the topic",
            tuple(looked.ways(f"What is it about? Answer {names}.")),
        )
    few = ", ".join(labels[:LABELS]) + ", ..." * (len(labels) > LABELS)
    problem = f"{column} is one of {few}, and no prompt asks for these"
    grader = "choice" if len(labels) <= LABELS else "text"
    ways = looked.ways(f"Answer {names}.")
    return Doubt(*looked.said_in_the_prompt(problem, ways, {"grader": grader}))


def _tell_nothing(labels: list[str]) -> bool:
    """Whether two labels are marks, or one denies the other, as `irrelevant` does."""
    if len(labels) != 2:
        return False
    plain, other = sorted(map(str.casefold, labels), key=len)
    denies = rf"(?:i[rnml]|un|non|not|dis)[-_ ]?{re.escape(plain)}"
    marks = not any(re.search(r"[^\W_]", label) for label in labels)
    return marks or re.fullmatch(denies, other) is not None


@at("labels")
@at("texts")
def continuations(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds go on where the prompt breaks off: they begin with the space between them."""
    if share(golds, lambda gold: str(gold)[:1] == " ") < FIT or looked.says_what_to_do:
        return None
    if (
        looked.plan.is_chat
        or share(map(looked.plan.question, looked.records), _ends_with_a_question)
        >= 0.5
    ):
        return None
    return Doubt(
        f"{looked.plan.expected.column} goes on where the prompt breaks off, such as {shown(golds[0])!r}, and "
        f"nothing says so: say it with --prompt '{looked.template()} ... Which words come next?'"
    )


@at("long")
def long_answers(looked: Asking, texts: list[str]) -> Doubt:
    counts = [*map(count_of_words, texts)]
    words, long = median(counts), sum(count > SHORT for count in counts)
    turned: list[dict[str, str]] = []
    column, main = looked.plan.expected.column, looked.main
    is_alone = looked.plan.prompt == f"{{{main}}}" and not looked.plan.expected.steps
    if is_alone and valid(column):
        few = median(map(count_of_words, map(looked.plan.question, looked.records)))
        # A clue of Jeopardy is called the answer, and a card may show its other side.
        if few <= min(3, words / 3):
            turned = [{"prompt": f"{{{column}}} What is it?", "expected": main}]
    some = f", and {long} of {len(texts)} more than {SHORT}" * (
        words <= SHORT and bool(long)
    )
    return Doubt(
        f"how to compare the answers is not clear: they have {words:g} words (the "
        f"median){some}, such as {max(texts, key=len)!r:.80}. Have a model compare them with "
        "--grader judge, or name the part that counts with --expected 'COLUMN=PATTERN'. The second "
        f"command compares whole texts{', and the last asks the other way around' * bool(turned)}",
        ({"grader": "judge"}, {"grader": "text"}, *turned),
    )


@at("misfits")
def too_few_records_fit(
    looked: Asking, made: int, lost: int, such: str
) -> Doubt | None:
    if made >= FIT * (made + lost):
        return None
    grader = looked.plan.grader
    return Doubt(
        f"only {made} of {made + lost} records fit the grader {grader}; the others would be left "
        f"out, such as {such}",
        ({"grader": grader}, {"grader": "text" if grader != "text" else "judge"}),
    )


@at("same")
def the_same_answer(looked: Asking, answer: str, count: int) -> Doubt:
    column = looked.plan.expected.column
    return Doubt(
        f"all {count} answers of {column} are {answer!r}, so a policy that always says so earns as much: name another "
        "column with --expected, or take more records. This command goes on nevertheless",
        ({"expected": column},),
    )


@at("incomplete")
def most_records_are_left_out(
    looked: Asking, count: int, lacking: int, column: str
) -> Doubt:
    expected = looked.plan.expected.column
    return Doubt(
        f"{lacking} of {count} records have nothing in {column} and would be left out. This command makes rows "
        "of the others",
        ({"expected": expected},),
    )


def bare(golds: list[Any]) -> list[str]:
    """Golds as texts without LaTeX's styles, to look for letters."""
    return [unstyled(str(gold)).strip() for gold in golds]
