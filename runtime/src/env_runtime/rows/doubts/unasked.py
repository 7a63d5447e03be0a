"""Doubts about golds that no prompt asks for."""

import re
from statistics import median
from typing import Any

from ..apart import CLAIMS, LONG, is_labeled
from ..asking import (
    QUESTION,
    SCORES,
    Asking,
    Doubt,
    asks_something,
    at,
    names_of_labels,
)
from ..columns import (
    ASKS,
    FEWEST,
    FIT,
    LABELS,
    PAIRS,
    PLAIN,
    QUESTIONS,
    TOPICS,
    YES_NO,
    count_of_words,
    folded,
    share,
    words,
    words_in,
)
from ..fields import as_text
from ..plan import shown


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


@at("numbers")
def scores_that_nothing_asks_for(looked: Asking, golds: list[Any]) -> Doubt | None:
    """Numbers such as 0.25 tell how much, and no prompt says of what."""
    if not _asks_nothing(looked) or not words_in(looked.plan.expected.column) & SCORES:
        return None
    plain = (gold for gold in golds if re.fullmatch(r"-?\d+(\.\d+)?", str(gold)))
    numbers = sorted(plain, key=lambda gold: float(gold)) or golds
    low, high = numbers[0], numbers[-1]
    return Doubt(
        f"{looked.plan.expected.column} is a number, from {low} to {high}, and no prompt asks for it: say "
        f"what it measures with --prompt '{looked.template()} How ... is it, from {low} to {high}?'"
    )


@at("sentences")
def sentences_that_nothing_asks_for(looked: Asking, golds: list[Any]) -> Doubt | None:
    asked = [as_text(record.get(looked.main)) for record in looked.records]
    is_card = median(map(count_of_words, asked)) <= 3  # which may be turned
    return None if is_card else statements(looked, golds)


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
        not (ASKS.search(text) or re.search(r"[?？؟]\W*$", text))
        and (is_text or bool(_STATEMENT.fullmatch(text)))
        for text in texts
    ]
    if name not in QUESTIONS and median(map(count_of_words, texts)) <= 3:
        told = [not asks_something(text) for text in texts]  # a word, such as `happy`
    said = [as_text(plan.expected.of(record)) for record in looked.records]
    if share(zip(texts, said, strict=True), _is_corrected) > 0.5:
        told = [not asks_something(text) for text in texts]
    is_topic = folded(plan.expected.column) in TOPICS
    if is_topic and not any(map(ASKS.search, texts)):
        told = [True]
    if name in QUESTIONS or sum(told) <= 0.5 * len(told):
        return None
    return Doubt(
        f"the prompts, such as {shown(next(filter(str.strip, texts), ''))!r}, ask nothing: say what to do with "
        f"--prompt '{looked.template()} ...?'"
    )


def _is_corrected(two: tuple[str, str]) -> bool:
    """Whether an answer is as long as the text, and has most of its words."""
    if not 0.5 * len(two[1]) <= len(two[0]) <= 2 * len(two[1]):
        return False  # without reading a long passage
    text, gold = (re.findall(r"\w+", each.casefold()) for each in two)
    alike = 0.7 * len(gold) <= len(text) <= 1.4 * len(gold)
    return len(gold) > 2 and alike and 2 * len({*text} & {*gold}) >= len(gold)


# Words in names of columns that answer the question beside them, and that say what kind it is
ANSWER_TO = {
    *words(
        "answer answers ans ideal solution output response completion word target gold"
    )
}
KINDS = {
    *words("category intent type kind phase stage behavior topic"),
    *words("tool tools scope domain difficulty route routing queue department skill"),
}
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
    if looked.native or plan.is_chat or plan.images:
        return None
    # No policy can guess the wording of many labels. A prompt lists few as options.
    said = len(labels) <= LABELS or any(label in plan.prompt for label in labels)
    if looked.says_what_to_do and said:
        return None
    listed = FEWEST * len(labels) <= len(all_golds)  # as options behind the prompt
    known = lower in PLAIN or (listed and all(map(ENTAILS.fullmatch, lower)))
    if known or not (names := names_of_labels(all_golds)):
        return None
    asked = [as_text(record.get(looked.main)) for record in looked.records]
    asks = looked.prompts_ask
    texts = [*map(plan.question, looked.records)]
    if all(share(texts, lambda text, one=one: one in text) >= FIT for one in labels):
        return None
    is_question = folded(looked.main) in QUESTIONS
    said = words_in(column)
    answers = said & ANSWER_TO or {"question", "problem", "stem"} & words_in(
        looked.main
    )
    unclear = said & KINDS or _tell_nothing(labels)
    # Beside a question alone, a label may be of the question.
    of_question = {"label", "labels"} & said and looked.parts() == [looked.main]
    unclear = unclear or of_question
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
    if all(re.fullmatch("[A-Z]{2,4}", label) for label in labels):  # codes
        names = ", ".join(f"{label} for ..." for label in labels)
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
