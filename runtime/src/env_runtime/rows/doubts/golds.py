"""Doubts about golds, by their kind, and about records that do not fit."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import Any

from ...notation import unstyled
from ..apart import LONG, WRITTEN
from ..asking import NO_TESTS, NUMBERS, SCORES, Asking, Doubt, at, names_of_labels
from ..columns import (
    ADDED,
    ADDRESS,
    CLASSES,
    EXPECTED,
    FEWEST,
    FILE,
    FIT,
    INDEXES,
    LABELS,
    NOTHING,
    PAIRS,
    PLAIN,
    PROGRAM,
    SENTENCE,
    SHORT,
    SPARQL,
    SPELLED,
    YES_NO,
    Looked,
    are_joined,
    are_labels,
    are_spellings,
    count_of_words,
    folded,
    is_number,
    is_texts,
    nearly_all_match,
    share,
    titled,
    valid,
    words,
    words_in,
)
from ..fields import (
    EITHER,
    LETTERS,
    as_text,
    is_empty,
    listed_in,
    names_in,
    parsed,
    parted,
)
from ..plan import ALIASES, Unfit, shown
from .prompts import FILLED

# A set or a tuple, as Python prints them
PRINTED = re.compile(r"\{'.*'\}|\{\".*\"\}|\((?:'[^']*'|\"[^\"]*\"), .*\)", re.DOTALL)


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


@at("as texts")
def objects_as_texts(
    looked: Asking, golds: list[Any], grader: str | None
) -> Doubt | None:
    """The user named a grader of texts for golds that are objects."""
    if grader not in ("any", "all", "ordered", "text", "number"):
        return None
    parts = [p for one in golds for p in (one if isinstance(one, list) else [one])]
    found = next((part for part in parts if isinstance(part, Mapping)), None)
    if found is None or looked.native:
        return None
    column = looked.plan.expected.column
    return Doubt(
        f"{column} has objects, such as {found!r:.80}, and the grader {grader} compares texts: name the part "
        "that is the answer",
        tuple({"expected": f"{column}.{key}"} for key in [*found][:4]),
    )


POINTS = {*SCORES, "points", "weight"}
CRITERIA = {*words("criteria criterion rubric rubrics")}
# Words in names of columns with what an answer has in it, among other words
CONTAINED = {
    *words("keyword keywords contain contains include includes mention mentions"),
    *words("check checks must"),
}


@at("lists")
def words_of_an_answer(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Lists of words that an answer has to contain."""
    column = looked.plan.expected.column
    if looked.plan.options or not words_in(column) & CONTAINED:
        return None
    if not any(isinstance(gold, list) for gold in golds):
        return None
    return Doubt(
        f"{column} has words that an answer must contain, such as {shown(golds[0])!r}, and no grader here looks for these",
        own=True,
    )


@at("lists")
def names_of_tools(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Lists of names such as look_up, which no prompt has."""
    plan = looked.plan
    lists = [gold for gold in golds if isinstance(gold, list) and is_texts(gold)]
    names = sorted({name for one in lists for name in one})
    if looked.says_what_to_do or looked.native or plan.options or plan.is_chat:
        return None
    if len(lists) < FIT * len(golds) or len(names) > 5 * LABELS:
        return None
    if words_in(plan.expected.column) & {"id", "ids"}:
        return None
    if share(names, re.compile(r"[a-z\d]+(?:_[a-z\d]+)+").fullmatch) <= 0.5:
        return None
    asked = [*map(plan.question, looked.records)]
    if share(asked, lambda text: any(name in text for name in names)) > 0.5:
        return None
    ways = looked.ways(f"Which of these are needed: {', '.join(names)}?")
    return Doubt(
        f"{plan.expected.column} has lists of names, such as {', '.join(lists[0])}, and no prompt has these: say it in "
        "the prompt, as in this command",
        tuple({**way, "grader": "all"} for way in ways),
    )


@at("lists")
def addresses_in_lists(looked: Asking, golds: list[Any]) -> Doubt | None:
    return addresses(looked, golds) if isinstance(golds[0], list) else None


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
    names = [] if looked.plan.is_chat else looked.columns
    for name in names:
        pairs = [(r.get(name), looked.plan.said(r)) for r in looked.records]
        same = share(
            pairs, lambda two: are_several(*two) and len(two[0]) == len(two[1])
        )
        if same > 0.5 and looked.plan.became(name) not in ("expected", "options"):
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
    if are_long(looked, [part for one in lists for part in one]):
        graders = ("judge", "any")
    elif median(count_of_words(part) for one in lists for part in one) > LONG / 2:
        graders = ("judge", *graders)
    return Doubt(
        f"{path.column} has lists, such as {max(lists[:20], key=len)!r:.80}, and whether one of "
        f"them is enough, all are wanted, or all in this order, is not clear{form}",
        tuple({"grader": grader} for grader in graders),
    )


def are_several(*values: Any) -> bool:
    return all(isinstance(value, list) and len(value) > 1 for value in values)


def are_long(looked: Asking, texts: list[Any]) -> bool:
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
    texts = [*map(str, golds)]
    found = share(texts, lambda text: PROGRAM.search(text) or SPARQL.match(text))
    return NO_TESTS if found > 0.5 else None


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
def calls_as_a_model_writes_them(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Texts with the tags of a chat template, in place of calls."""
    found = re.compile(r"<(?:tool_call|function_call|function=)")
    if looked.plan.tools or share(map(str, golds), found.search) <= 0.5:
        return None
    return Doubt(
        f"{looked.plan.expected.column} has calls as one model writes them, such as {shown(golds[0])!r}",
        own=True,
    )


@at("golds")
def answers_that_are_often_there(looked: Asking, golds: list[Any]) -> Doubt | None:
    """One text again and again, among texts that are there once, as `open answer`."""
    texts = [gold for gold in golds if isinstance(gold, str)]
    counts = Counter(texts)
    [(most, count)] = counts.most_common(1) or [("", 0)]
    others = len(texts) - count
    if others < 2 * FEWEST or count < max(FEWEST, 0.1 * len(golds)):
        return None
    differ = len(counts) - 1 >= 0.7 * others
    are_words = share(counts, re.compile(r"[^\d\\]{3,}").fullmatch) > 0.5
    if not (differ and are_words) or looked.plan.pattern not in ("", ADDED):
        return None
    may_answer = is_number(most) or any(most.casefold() in pair for pair in PLAIN)
    if may_answer or len(most) < 3 or "\n" in most or _speaks_of(looked, most):
        return None
    column = looked.plan.expected.column
    return Doubt(
        f"{count} of {len(golds)} answers of {column} are {shown(most)!r}, and most others are there once, so it may "
        "say that there is none. The first command leaves these out, and the second keeps them",
        (
            {"expected": f"{column}=(?s)^(?!{re.escape(most)}$)(.+)$"},
            {"grader": "text" if looked.are_short(texts) else "judge"},
        ),
    )


@at("golds")
def what_judges_an_answer(looked: Asking, golds: list[Any]) -> Doubt | None:
    """A column of criteria, so the expected answer is one of many."""
    named = (n for n in looked.columns if words_in(n) & CRITERIA)
    if not (name := next(named, "")) or looked.plan.became(name):
        return None
    texts = [gold for gold in golds if isinstance(gold, str)]
    if len(texts) < len(golds) or are_labels(texts) or looked.plan.pattern:
        return None
    return Doubt(
        f"{name} says how an answer is judged, such as {shown(looked.first(name))!r}, so others than "
        f"{shown(texts[0])!r} may be right. In the first command a model compares them, and the second wants the text",
        ({"grader": "judge"}, {"grader": "text"}),
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
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with contextlib.suppress(ValueError):
            found = parsed(value)
            if isinstance(found, Mapping) or (is_texts(found) and found):
                return "object" if isinstance(found, Mapping) else "list"
    if isinstance(value, str) and PRINTED.fullmatch(value.strip()):
        return "list"
    if isinstance(value, list) and (among_numbers or not is_texts(value)):
        return "list"
    return "object" if isinstance(value, Mapping) else "plain"


# Keys of objects that say what is checked in an answer
CHECKS = re.compile("func|check|constraint|rule|verif|eval_|must_|.*_contains$")


@at("golds")
def options_with_a_score_each(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Lists of objects such as {"text": "Often", "score": 3}, of which none is right."""
    lists = [gold for gold in golds if isinstance(gold, list) and len(gold) > 1]
    items = [item for one in lists for item in one if isinstance(item, Mapping)]
    keys = {key for key in (items[0] if items else ()) if words_in(key) & POINTS}
    numbers = all(
        isinstance(item.get(key), int | float) for item in items for key in keys
    )
    texts = any(isinstance(value, str) for item in items[:1] for value in item.values())
    if not (keys and numbers and texts) or len(lists) < FIT * len(golds):
        return None
    column = looked.plan.expected.column
    return Doubt(
        f"{column} has the options of each question with their {min(keys)}, such as {shown(lists[0])!r}, and does not say "
        "which is right: name a column that does with --expected, or add one to the file"
    )


@at("golds")
def names_of_rules(looked: Asking, golds: list[Any]) -> Doubt | None:
    if not all(isinstance(gold, Mapping) for gold in golds):
        return None
    if any(map(CHECKS.match, golds[0])):
        column = looked.plan.expected.column
        return Doubt(f"{column} names a rule: {shown(golds[0])}", own=True)
    return None


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
        f"{column} counts the records, from {golds[0]} to {golds[-1]}, so it cannot be the expected answer: "
        "name another column with --expected"
    )


@at("numbers")
def classes(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Numbers may stand for something."""
    expected, values = looked.plan.expected, {str(gold).strip() for gold in golds}
    name = folded(expected.column)
    is_class = name in CLASSES or (name not in EXPECTED and not expected.steps)
    most = len(golds) - 1 if name in CLASSES else LABELS
    is_class = is_class and len(values) <= most
    whole = all(re.fullmatch(r"-?\d{1,3}(\.0)?", value) for value in values)
    zero_one = values <= {"0", "1", "0.0", "1.0"}
    # A classifier writes these, and nothing else says what 0, 1 and 2 mean.
    is_written = name in ("completion", "output", "target")
    is_class = is_class or (is_written and values in ({*"012"}, {*"0123"}))
    few = len(golds) >= FEWEST * len(values) > FEWEST or name in CLASSES
    if not (whole and few and (is_class or zero_one)) or _names_a_value(looked, values):
        return None
    if name_of := named_in(looked, golds):
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


def _names_a_value(looked: Asking, values: set[str]) -> bool:
    """Whether the user's own prompt says one of the numbers, or yes."""
    if looked.plan.is_chat or not looked.says_what_to_do:
        return looked.says_what_to_do
    named = "|".join(re.escape(value.removesuffix(".0")) for value in values)
    return (
        re.search(rf"(?i)(?<![\w.])(?:{named}|yes|true)\b", looked.plan.prompt)
        is not None
    )


def named_in(looked: Asking, values: list[Any]) -> str:
    """The column of texts that stand for the values, one for each; "" if there is none."""
    plan, count = looked.plan, len({*map(str, values)})
    for name in looked.columns:
        if plan.became(name) or not looked.is_text(name):
            continue
        texts_there = [as_text(record.get(name)) for record in looked.records]
        pairs = {*zip(map(str, values), texts_there, strict=True)}
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
    if looked.native:
        return None
    if folded(looked.main) in PAIRS:
        return None  # how alike two texts are, which is asked about next
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
def several_measures(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Objects such as {"accuracy": 0.85, "fit": 0.53}, which no answer meets exactly."""
    objects = [gold.values() for gold in golds if isinstance(gold, Mapping)]
    counts = [sum(isinstance(v, float) and v % 1 > 0 for v in one) for one in objects]
    if share(counts, lambda count: count > 1) <= 0.5:
        return None
    return Doubt(
        f"{looked.plan.expected.column} has objects with several measures, such as {shown(golds[0])}, which no answer "
        "meets exactly",
        own=True,
    )


@at("objects")
def keys_that_nothing_tells(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds are lists of lists, or objects whose keys no other column tells."""
    column, first, told = looked.plan.expected.column, golds[0], 0
    if looked.says_what_to_do and not looked.plan.is_chat:
        return None
    is_chat = looked.plan.is_chat
    shown_columns = [name for name in looked.parts() if name != column and not is_chat]
    for record in looked.records:
        others = {name: record.get(name) for name in shown_columns}
        said = json.dumps(others, ensure_ascii=False, default=str)
        said = looked.asked(record) if is_chat else said
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
    said = f"with --prompt '{template} Answer with ...' --grader json"
    parts = first.items() if is_object else ()
    scalars = [key for key, value in parts if isinstance(value, str | int | float)]
    or_part = ""
    if scalars:
        or_part = f". If one part is the answer, name it, such as --expected {column}.{scalars[0]}"
    return Doubt(f"{column} has {has}, and no question says so: say it {said}{or_part}")


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
    if len({one[1].casefold() for one in found if one}) < 2:
        return None  # as a radiologist writes `No acute disease.`
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
    if share(texts, lambda text: re.search(r"\w", text)) >= 0.5 or names_of_labels(
        texts
    ):
        return None
    return Doubt(
        f"{looked.plan.expected.column} has signs without letters, such as {shown(texts[0])!r}, and others may be as "
        "right. Have a model compare them, as in the first command. The second compares the signs",
        ({"grader": "judge"}, {"grader": "text"}),
    )


# Money, a percentage, or a number such as 4.2 before its unit
AMOUNT = re.compile(r"[$€£¥₹]\s?\d|\d\s?[%％٪€£¥₹]|\d[.,]\d+\s+[^\W\d_]{2}")


@at("texts")
def amounts_among_words(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Golds such as `down by 4.1%`, of which only the whole text would earn."""
    texts = [*map(str, golds)]
    among = [t for t in texts if AMOUNT.search(t) and re.search(r"[^\W\d_]{2}", t)]
    if len(among) <= 0.5 * len(texts) or looked.plan.pattern or looked.plan.options:
        return None
    return Doubt(
        f"{len(among)} of {len(texts)} answers have an amount among words, such as {shown(among[0])!r}. In the first "
        "command a model compares them, and the second wants the whole text. Or name the part that counts with "
        "--expected 'COLUMN=PATTERN'",
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
    if looked.plan.options:
        return None
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
        f"median){some}, such as {shown(max(texts, key=len))!r}. Have a model compare them with "
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
        f"all {count} answers of {column} are {shown(answer)!r}, so a policy that always says so earns as much: name another "
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
