"""Doubts about a file, its prompt, and the images and sounds that it names."""

import re
from collections.abc import Mapping
from typing import Any

from ..apart import Column
from ..asking import ASSISTANTS, NO_TESTS, Asking, Doubt, at
from ..columns import (
    ABOUT,
    CONTEXTS,
    EXPECTED,
    IMAGE,
    MESSAGES,
    OFTEN_EMPTY,
    PROGRAMS,
    PROMPTS,
    RENAME,
    RULES,
    SOUND,
    SPAN,
    TESTS,
    folded,
    is_texts,
    valid,
    words_in,
)
from ..fields import as_text
from ..plan import Path, shown

# For a table whose first line may be a record
HEADER = ". If the first line is a record, add one with names before it"


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


@at("file")
def one_column(looked: Asking) -> Doubt | None:
    if len(looked.columns) > 1 or not looked.is_text(only := looked.columns[0]):
        return None
    header = HEADER * (" " in only)
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
    return NO_TESTS if any(names <= columns for names in PROGRAMS) else None


@at("file")
def rules(looked: Asking) -> Doubt | None:
    columns = {*map(folded, looked.columns)}
    if found := next((names for names in RULES if names <= columns), None):
        names = " and ".join(name for name in looked.columns if folded(name) in found)
        return Doubt(f"no column is the answer: {names} tell what it must do", own=True)
    return None


@at("no prompt")
def files_without_a_question(looked: Asking) -> Doubt | None:
    # An id of an image says only where the record comes from.
    for name in [name for name in looked.columns if not name.lower().endswith("id")]:
        texts = [*map(as_text, filter(is_texts, looked.values(Path(name))))]
        for pattern, find in ((IMAGE, names_of_images), (SOUND, names_of_sounds)):
            named = sum(pattern.search(text) is not None for text in texts)
            if named > 0.5 * len(looked.records):
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
        if any(
            not isinstance(value, list | Mapping)
            and as_text(value).strip() == name.strip()
            for value in looked.values(Path(name))
        )
        and not Column(looked, name).are_labels
    ]
    known = {*PROMPTS, *CONTEXTS, *EXPECTED, *ABOUT}
    if not again or known & {*map(folded, looked.columns)}:
        return None
    return Doubt(
        f"the columns are called {' and '.join(map(repr, looked.columns[:2]))}, and {again[0]!r} is also a "
        "value: if the first line is a record, add one with names before it"
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


@at("no prompt")
def columns_to_name(looked: Asking, *_: Any) -> Doubt:
    """No name tells the prompt, or the expected answer: the reader sees the columns, and chooses."""
    header = HEADER
    header *= re.search(r"\.[ct]sv\b", looked.records[0].place) is not None
    way, what = {"expected": "COLUMN"}, "which column is the expected answer"
    if not looked.plan.prompt:
        if not any(map(valid, looked.columns)):
            return Doubt(
                f"no template can name {looked.columns[0]!r} and the like: {RENAME}{header}"
            )
        way = {"prompt": "{COLUMN}", **way}
        what = "which columns are the prompt and the expected answer"
        if looked.called_answer or looked.given.get("expected"):
            way, what = {"prompt": "{COLUMN}"}, "which column is the prompt"
    problem = (
        f"{what} is not clear. Name {'both' if len(way) == 2 else 'it'} in this command"
    )
    if "prompt" in way:
        problem += ". A prompt can have several columns, each as {COLUMN}, and words that say what to do"
    if "expected" in way:
        problem += ". If no column has the answers, use a file that has them"
    known = {*PROMPTS, *CONTEXTS, *EXPECTED, *ABOUT} & {*map(folded, looked.columns)}
    header *= len(looked.columns) == 2 and not known
    return Doubt(problem + header, (way,))


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
