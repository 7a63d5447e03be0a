"""Doubts about the column of the expected answer, and how it names an option."""

import re
from collections.abc import Mapping
from typing import Any

from ..apart import Column
from ..asking import Asking, Doubt, at
from ..columns import (
    ABOUT,
    CONTEXTS,
    EXPECTED,
    FIT,
    JUDGES,
    LABELS,
    SURE,
    TOPICS,
    WRONG,
    Looked,
    folded,
    is_number,
    is_texts,
    nearly_all_match,
    share,
    text_of,
    title,
    valid,
    words,
    words_in,
)
from ..fields import as_text, is_empty, names_in
from ..naming import Naming
from ..plan import Path, shown
from ..records import Record
from .files import columns_to_name
from .golds import are_letters, are_long, named_in


@at("expected")
def a_topic(looked: Asking, found: list[str], columns: list[str]) -> Doubt | None:
    """The topic of a question stands beside what may be its answer, which some lack."""
    topic = next((name for name in found if folded(name) in TOPICS), "")
    count = len(looked.values(Path(found[0])))
    if not topic or (topic != found[0] and count >= FIT * len(looked.records)):
        return None
    may_answer = (
        words_in(name) & {*EXPECTED} - {*ABOUT}
        or (not words_in(name) & {*ABOUT} and is_texts(looked.first(name)))
        for name in columns
        if not (WRONG.fullmatch(folded(name)) or folded(name) in CONTEXTS)
    )
    return columns_to_name(looked) if any(may_answer) else None


@at("expected")
def two_answers(looked: Asking, found: list[str], columns: list[str]) -> Doubt | None:
    """Another column could be the gold, and says another."""
    path, is_sure = looked.path(found[0]), bool(words_in(found[0]) & SURE)
    if not (is_sure or looked.are_short(looked.values(path))):
        return None
    options = looked.plan.options
    for other in found[1:]:
        if folded(other) in EXPECTED[EXPECTED.index("solution") :]:
            return None
        if options and not looked.names_options(looked.path(other), options):
            continue  # the first one does, if any
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
        values = [record.get(name) for record in looked.records]
        if all(map(is_number, said)) and (called := named_in(looked, values)):
            names = " or ".join(sorted({*map(as_text, looked.values(Path(called)))}))
            return Doubt(
                f"{called} says {names} of each {answer}, so that need not be the expected answer. This command asks "
                "for what it says",
                ({"prompt": f"{asked}Answer {names}.", "expected": called},),
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
    graders = ("judge", "any") if are_long(looked, texts) else ("any", "all")
    ways = ({"expected": f"{start}*", "grader": grader} for grader in graders)
    return Doubt(
        f"{names[0]} to {names[-1]} may be spellings of one answer, or all be wanted, and no column says which of "
        "them is right",
        tuple(ways),
    )


at("no expected")(columns_to_name)


@at("no golds")
def no_answer(looked: Asking) -> Doubt:
    plan = looked.plan
    fits = f" that fits {plan.pattern!r}" if plan.pattern else ""
    return Doubt(
        f"no record has an answer in {plan.expected}{fits}: name another with --expected"
    )


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
