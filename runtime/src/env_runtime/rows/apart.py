"""Why a column is in the prompt or not: a table of reasons, of which the first that holds decides.

A column is left out, is shown, or the user is asked. No reason means that it is shown.
"""

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from statistics import median
from typing import NamedTuple

from ..graders import Choice
from .columns import (
    ABOUT,
    ADDRESS,
    AGAIN,
    CONTEXTS,
    DIFFICULTIES,
    EXPLAINS,
    FEWEST,
    FILES,
    FIT,
    JUDGES,
    LABELS,
    LONG,
    OPTION,
    PAIRS,
    PASSAGE,
    PROMPTS,
    QUESTIONS,
    SHORT,
    SPARQL,
    Looked,
    are_labels,
    count_of_words,
    folded,
    is_number,
    is_texts,
    share,
    valid,
    words_in,
)
from .fields import as_text, is_empty
from .plan import Unfit
from .records import Record

# Questions about code say so, or ask about an expression, as CRUXEval does.
CODE = re.compile(
    r"(?i)\b(code|program|function|snippet|script|method|output|print|return|query)|^\S+$|^[^a-zA-Z]"
)
EQUATION = re.compile(
    r"[\s\d.,()+*/=%^xXyN-]*\d\s*[-+*/^%]\s*[(\d][\s\d.,()+*/=%^xXyN-]*"
)
CONSTANT = re.compile(r"[A-Z][A-Z\d_]+")
SUBJECTS = ("term", "entity", "sentence", "sentences")  # of questions
RARE = 0.02  # the share of records that have a column which none misses
# Words in names of columns that a person or a model wrote
WRITTEN = ("response", "completion", "output", "reply")
CARDS = ("body", "description")
CLAIMS = ("claim", "statement", "hypothesis")


class Column:
    """A column, with what the reasons look at."""

    def __init__(self, looked: Looked, name: str) -> None:
        self.looked, self.name, self.folded = looked, name, folded(name)
        self.words = words_in(name)
        self.records = [r for r in looked.records if not is_empty(r.get(name))]
        self.values = [record[name] for record in self.records]

    @cached_property
    def is_context(self) -> bool:
        """Whether its name is that of a passage. A source may be a long text, or a word."""
        return self.folded in CONTEXTS or self.looked.is_source(self.name)

    @cached_property
    def is_text(self) -> bool:
        """Whether it has texts, or lists of them."""
        return all(map(is_texts, self.values))

    @cached_property
    def texts(self) -> list[str]:
        """Its values as a prompt shows them."""
        return [as_text(value) for value in self.values]

    @cached_property
    def length(self) -> float:
        """The median of the number of words."""
        return median(map(count_of_words, self.texts))

    @property
    def is_passage(self) -> bool:
        """Whether it has texts of several words, which are not about something else."""
        is_other = bool(self.words & {*ABOUT, *EXPLAINS, *AGAIN})
        return not is_other and self.is_text and self.length >= PASSAGE

    @property
    def are_labels(self) -> bool:
        """Whether few texts are there again and again."""
        return are_labels(self.texts)

    @property
    def is_difficulty(self) -> bool:
        """Whether it has names of difficulties, such as easy and hard."""
        return {text.strip().casefold() for text in self.texts} <= {*DIFFICULTIES}

    @cached_property
    def main(self) -> list[str]:
        """The questions of the records that have a value."""
        return [as_text(record.get(self.looked.main)) for record in self.records]


LEFT_OUT, SHOWN, ASKED = "left out", "shown", "asked"


class Reason(NamedTuple):
    """Whether a column is LEFT_OUT, SHOWN, or ASKED about, why, and the test of it."""

    outcome: str
    why: str
    holds: Callable[[Column], bool]


REASONS: list[Reason] = []


def reason_of(column: Column, beside: Reason | None = None) -> Reason | None:
    """The first reason that holds for a column, beside one."""
    holds = (each for each in REASONS if each != beside and each.holds(column))
    return next(holds, None)


def because[Test: Callable[[Column], bool]](
    outcome: str, why: str = ""
) -> Callable[[Test], Test]:
    """Make a function of a column a reason, after those above it."""

    def added(holds: Test) -> Test:
        REASONS.append(Reason(outcome, why, holds))
        return holds

    return added


# ---------------------------------------------------------------------- by its name


@because(SHOWN)
def names_files_of_some(column: Column) -> bool:
    """A doubt of its own: see doubts/prompts.py."""
    return column.folded in FILES and len(column.values) < len(column.looked.records)


@because(SHOWN)
def says_something_else(column: Column) -> bool:
    """A `prompt` beside the question that has other words, such as what to do."""
    is_long = column.folded == "prompt" and column.is_text and column.length >= PASSAGE
    if not is_long or column.looked.main == column.name:
        return False
    pairs = zip(column.texts, column.main, strict=True)
    parts = [({*text.split()}, {*main.split()}) for text, main in pairs]
    return share(parts, lambda two: 2 * len(two[0] & two[1]) < len(two[1])) > 0.5


@because(LEFT_OUT, "the question again")
def is_called_a_form_of_the_question(column: Column) -> bool:
    return bool(column.words & AGAIN)


@because(LEFT_OUT, "a name that no template can have")
def has_no_place_in_a_template(column: Column) -> bool:
    return not valid(column.name)


@because(ASKED, "it may be what the claim follows from")
def is_evidence_of_a_claim(column: Column) -> bool:
    is_evidence = bool(column.words & {"fact", "facts", "evidence"})
    return folded(column.looked.main) in CLAIMS and column.is_text and is_evidence


@because(ASKED, "it may be the passage that the question is about")
def is_evidence_without_a_passage(column: Column) -> bool:
    if not column.words & {"evidence", "evidences"} or column.length < LONG:
        return False
    return not any(folded(name) in CONTEXTS for name in column.looked.columns)


@because(ASKED, "the expected label may be about it")
def is_labeled(column: Column) -> bool:
    """The answer is a column of few labels, which may say what is right in this text."""
    plan = column.looked.plan
    # A name such as `response 1` is one of two that are compared.
    if re.search(r"(?i)[ab012]$", column.name):
        return False
    if not (column.words & {*WRITTEN} and column.is_text and column.length > 3):
        return False
    if not words_in(plan.expected.column) & JUDGES:
        return False
    golds = [as_text(gold) for gold in column.looked.golds()]
    return 1 < len({*golds}) <= min(LABELS, len(golds) / 2)


@because(LEFT_OUT, "about the answer")
def explains_the_answer(column: Column) -> bool:
    return not column.is_context and bool(column.words & {*EXPLAINS})


@because(LEFT_OUT, "about the answer")
def has_objects_that_explain(column: Column) -> bool:
    """Objects with an explanation or a solution, and nothing else."""
    if not all(isinstance(value, Mapping) for value in column.values):
        return False
    keys = {key for value in column.values for key in value}
    return all(words_in(key) & {*EXPLAINS, "solution", "source"} for key in keys)


@because(LEFT_OUT, "about the answer")
def has_objects_with_the_answer(column: Column) -> bool:
    """Objects, or lists of them, of which each says what the expected column says."""
    expected = column.looked.plan.expected.column
    lists = [v if isinstance(v, list) else [v] for v in column.values]
    return all(
        one and all(isinstance(each, Mapping) and expected in each for each in one)
        for one in lists
    )


@because(LEFT_OUT, "about the answer")
def is_called_after_the_answer(column: Column) -> bool:
    """Its name has the whole name of the expected column, as `hallucination_spans`."""
    expected = folded(column.looked.plan.expected.column)
    return column.folded.startswith(f"{expected}_") and expected not in QUESTIONS


@because(LEFT_OUT, "addresses")
def has_addresses(column: Column) -> bool:
    return share(column.texts, ADDRESS.fullmatch) > 0.5


@because(LEFT_OUT, "a query that answers the question")
def has_queries(column: Column) -> bool:
    return share(column.texts, SPARQL.match) > 0.5


@because(LEFT_OUT, "about the record")
def is_about_the_record(column: Column) -> bool:
    return not column.is_context and bool(column.words & {*ABOUT})


# ---------------------------------------------------------------------- by its values


@because(ASKED, "it is empty with some answers, and filled with others")
def is_there_with_some_answers(column: Column) -> bool:
    """Labels that one can tell by whether a column has a value."""
    lacking = [r for r in column.looked.records if is_empty(r.get(column.name))]
    if min(len(lacking), len(column.records)) < FEWEST:
        return False
    golds: list[set[str]] = []
    for records in (lacking, column.records):
        golds.append({as_text(column.looked.plan.said(record)) for record in records})
    few = 1 < len(golds[0] | golds[1]) <= LABELS
    return few and not golds[0] & golds[1]


@because(ASKED, "it has objects or lists, which the question may be about")
def has_long_objects(column: Column) -> bool:
    if column.is_context or column.is_text or column.length <= SHORT:
        return False
    return any(isinstance(value, list | Mapping) for value in column.values)


@because(LEFT_OUT, "no text")
def is_no_text(column: Column) -> bool:
    return not column.is_context and not column.is_text


@because(LEFT_OUT, "the answer again")
def is_the_answer(column: Column) -> bool:
    """The expected answer under another name."""
    said = column.looked.plan.said
    pairs = zip(column.records, column.texts, strict=True)
    same = [text.strip() == as_text(said(r)).strip() for r, text in pairs]
    return len(column.records) >= FEWEST and sum(same) >= FIT * len(same)


@because(LEFT_OUT, "the question again")
def is_in_the_question(column: Column) -> bool:
    inside = [
        (t.strip() in m and 3 * len(t) > len(m)) or (len(m) > 20 and m.strip() in t)
        for t, m in zip(column.texts, column.main, strict=True)
    ]
    return sum(inside) >= FIT * len(inside)


@because(ASKED, "it may be the solution, as a program")
def is_code_that_nobody_asks_about(column: Column) -> bool:
    return column.folded == "code" and share(column.main, CODE.search) <= 0.5


@because(ASKED, "it holds the answer, as a passage or as an explanation")
def is_a_card_that_holds_the_answer(column: Column) -> bool:
    """A text about the answer, such as the other side of a card, or beside a passage."""
    beside = "context" in map(folded, column.looked.columns)
    return column.folded in CARDS and (beside or holds_the_answer(column))


@because(ASKED, "it holds the answer, as a passage or as an explanation")
def is_the_question_as_a_statement(column: Column) -> bool:
    """A hypothesis beside a question, which says what the answer is."""
    asks = folded(column.looked.main) in QUESTIONS
    return column.folded == "hypothesis" and asks and holds_the_answer(column)


@because(SHOWN)
def is_called_a_context(column: Column) -> bool:
    return column.is_context


@because(LEFT_OUT, "in few records")
def is_hardly_there(column: Column) -> bool:
    return len(column.values) <= RARE * len(column.looked.records)


@because(LEFT_OUT, "few values")
def has_few_short_values(column: Column) -> bool:
    return has_few_values(column) and column.length < PASSAGE


@because(ASKED, "it is the same in all records")
def has_one_value(column: Column) -> bool:
    return has_few_values(column) and len({*column.texts}) == 1


def has_few_values(column: Column) -> bool:
    return len({*column.texts}) < max(2, len(column.texts) / 3)


@because(LEFT_OUT, "no text")
def has_numbers(column: Column) -> bool:
    return all(" " not in t.strip() and is_number(t) for t in column.texts)


@because(LEFT_OUT, "a name or a number")
def has_names(column: Column) -> bool:
    return all(re.fullmatch(r"\S*[\d_/:.-]\S*", text) for text in column.texts)


@because(ASKED, "it may be the solution, as an equation")
def has_equations(column: Column) -> bool:
    found = [len(t) < 200 and bool(EQUATION.fullmatch(t)) for t in column.texts]
    return sum(found) > 0.8 * len(found)


@because(ASKED, "each of its values has one answer")
def decides_the_answer(column: Column) -> bool:
    """Short values that are there again have the same answer again."""
    if column.length > SHORT:
        return False
    answers: dict[str, list[str]] = {}
    for record, text in zip(column.records, column.texts, strict=True):
        with contextlib.suppress(Unfit):
            answers.setdefault(text, []).append(
                as_text(column.looked.plan.gold(record))
            )
    again = sum(len(golds) - 1 for golds in answers.values())
    several = len({gold for golds in answers.values() for gold in golds}) > 1
    one = all(len({*golds}) == 1 for golds in answers.values())
    return several and one and again >= max(3, sum(map(len, answers.values())) / 4)


@because(ASKED, "it has names, as of constants")
def has_constants(column: Column) -> bool:
    return share(column.texts, CONSTANT.fullmatch) > 0.5


@because(ASKED, "it holds the answer, as a passage or as an explanation")
def holds_the_answer(column: Column) -> bool:
    found = count = 0
    for record in column.records:
        with contextlib.suppress(Unfit):
            if golds := _said(column.looked, record):
                count += 1
                text = as_text(record.get(column.name)).casefold()
                named = "|".join(map(re.escape, golds))
                found += bool(re.search(rf"(?<!\w)(?:{named})(?!\w)", text))
    return count > 0 and found >= 0.3 * count


@because(ASKED, "its name does not say what it is")
def has_a_name_that_tells_nothing(column: Column) -> bool:
    is_known = bool(column.words & {*PAIRS, *CONTEXTS, *SUBJECTS})
    options = column.looked.plan.options
    has_its_own = options is not None and options.kind == "column"
    is_known = is_known or (not has_its_own and bool(OPTION.fullmatch(column.folded)))
    is_long = column.length >= LONG and len(column.folded) > 1
    return not (is_known or column.folded in PROMPTS or is_long)


def _said(looked: Looked, record: Record) -> list[str]:
    """The answers to a record as text, without letters of options."""
    plan = looked.plan
    gold = plan.gold(record)
    options = plan.options.of(record) if plan.options else None
    if isinstance(options, list) and plan.options.kind != "labels":
        letter = plan.letter(record, gold)
        if Choice.takes(letter, options):
            gold = options[Choice(letter, options).index]
    golds = gold if isinstance(gold, list) else [gold]
    return [text for each in golds if (text := as_text(each).strip().casefold())]


# Reasons for which a column may tell the answer
TELLS = {
    is_there_with_some_answers,
    is_code_that_nobody_asks_about,
    is_a_card_that_holds_the_answer,
    is_the_question_as_a_statement,
    has_equations,
    decides_the_answer,
    holds_the_answer,
}
