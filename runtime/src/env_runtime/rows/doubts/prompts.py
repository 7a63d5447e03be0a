"""Doubts about the columns of the prompt, and about the prompts."""

import re
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from ..apart import (
    ASKED,
    CLAIMS,
    LEFT_OUT,
    LONG,
    TELLS,
    Column,
    Reason,
    has_a_name_that_tells_nothing,
    has_long_objects,
    has_no_place_in_a_template,
    holds_the_answer,
    names_files_of_some,
    reason_of,
)
from ..asking import Asking, Doubt, asks_something, at
from ..columns import (
    CONTEXTS,
    FEWEST,
    FILE,
    QUESTIONS,
    RENAME,
    count_of_words,
    folded,
    share,
    title,
    titled,
)
from ..fields import as_text, names_in
from ..plan import Path, shown

# Reasons for which nobody knows what a column is. A question is whole without it.
UNKNOWN = {has_a_name_that_tells_nothing, has_long_objects}
# Where a template has a name. Groups of LaTeX look like it.
FILLED = re.compile(r"\{\{\s*[A-Za-z_]{3,}\s*\}\}")
PLACE = re.compile(r"(?<![\\\w^_}\]$#{])\{[A-Za-z][A-Za-z_]{2,}\}(?!\})")


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
    texts = Column(looked, name).texts
    is_shared = apart[name].holds is holds_the_answer and 2 * len({*texts}) < len(texts)
    tells = apart[name].holds in TELLS and not is_shared  # as a passage is
    if tells or (apart[name].holds in UNKNOWN and looked.prompts_ask):
        ways.reverse()
        more += ". The first command leaves it out"
    if folded(looked.main) in QUESTIONS and all(len(names) > 1 for names in ways):
        ways.append([looked.main])
    return Doubt(
        f"whether {name} belongs to the prompt is not clear: {apart[name].why}, such as "
        f"{shown(looked.first(name))!r}{more}",
        tuple({"prompt": titled(names)} for names in ways),
    )


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


# Columns whose names say what was done to a text, which no text asks for by itself
TASKS = ("summary", "highlights", "translation", "title", "headline")


@at("as asked")
def columns_that_ask_nothing(looked: Asking, asked: list[str]) -> Doubt | None:
    """The user named only columns, and what they hold are no questions."""
    plan = looked.plan
    if looked.says_what_to_do or plan.is_chat or plan.images or plan.options:
        return None
    names = {*map(folded, names_in(plan.prompt))}
    is_task = folded(plan.expected.column) in TASKS
    asks = names & {*QUESTIONS, *CLAIMS} or share(asked, asks_something) >= 0.5
    if asks and not (is_task and not names & {*QUESTIONS}):
        return None
    return Doubt(
        f"the prompts, such as {shown(asked[0])!r}, ask nothing: say what to do with "
        f"--prompt '{plan.prompt} ...?'"
    )


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
    found = [PLACE.search(text) or FILLED.search(text) for text in asked]
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
FIGURE = re.compile(r"(?i)\b((?:figure|fig\.|table) \d+)\b")


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


DOCUMENT = re.compile(r"(?!https?:).+\.(?:txt|md|pdf|html?|docx?)")


@at("prompts")
def documents_that_no_row_has(looked: Asking, asked: list[str]) -> Doubt | None:
    """A column names the document that a question was written from."""
    if looked.plan.images or median(map(count_of_words, asked)) > 3 * LONG:
        return None
    for name in looked.columns:
        values = [*map(as_text, looked.values(Path(name)))]
        is_shared = len({*values}) < 0.7 * len(values)
        named = share(values, DOCUMENT.fullmatch) > 0.5
        if named and is_shared and not looked.plan.became(name):
            return Doubt(
                f"{name} names what a question may be about, such as {shown(values[0])!r}, and no column has it: put it "
                "into the records. If it is not needed, this command goes on",
                looked.prompts(),
            )
    return None


@at("prompts")
@at("chats")
def something_that_no_column_has(looked: Asking, asked: list[str]) -> Doubt | None:
    """The questions speak of a story, and they are all that a record has."""
    plan = looked.plan
    if plan.images or median(map(count_of_words, asked)) > 3 * LONG:
        return None
    found = [TOLD_OF.search(text) or FIGURE.search(text) for text in asked]
    found = [match[1].casefold() for match in found if match]
    # A column of passages that has none: they were left out.
    empty = any(
        folded(name) in CONTEXTS and not looked.values(Path(name))
        for name in {name for record in looked.records for name in record}
    )
    if len(found) <= (0.1 if empty else 0.5) * len(asked):
        return None
    [(what, _)] = Counter(found).most_common(1)
    the = "" if FIGURE.fullmatch(what) else "the "
    return Doubt(
        f"{len(found)} of {len(asked)} prompts, such as {shown(asked[0])!r}, speak of {the}{what}, and no column has "
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
    return Doubt(
        f"{count} of {len(asked)} prompts are {shown(most)!r}, so they lack a question: "
        "name the columns with --prompt"
    )


@at("prompts")
@at("as asked")
def one_prompt_with_many_answers(looked: Asking, asked: list[str]) -> Doubt | None:
    """The prompt is the same for records that differ."""
    plan = looked.plan
    golds = [as_text(plan.expected.of(record)) for record in looked.records]
    unclear = _conflicts(asked, golds)
    of_their_own = plan.options is not None and plan.options.kind != "labels"
    if (
        len(asked) < 2 * FEWEST
        or plan.images
        or of_their_own
        or plan.is_chat
        or unclear < 0.5 * len(asked)
    ):
        return None
    return Doubt(
        f"{unclear} of {len(asked)} records have the prompt of another one, such as {shown(asked[0])!r}, and another "
        "answer: name the column that tells them apart in --prompt, or add one to the file"
    )
