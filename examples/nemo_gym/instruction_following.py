"""NeMo Gym's instruction_following: rules for a text, such as how long it may be."""

import re
import string
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    ValidationError,
    validate_call,
)

Relation = Literal["at least", "less than"]

PUNCTUATION = string.punctuation + "“”‘’«»…–—"


def words(text: str) -> list[str]:
    """The words of a text, in lower case, without the punctuation around them."""
    bare = (word.strip(PUNCTUATION).lower() for word in text.split())
    return [word for word in bare if word]


def runs(text: str) -> list[str]:
    """Letters and digits with nothing between them: "up-to-date" has three runs."""
    return re.findall(r"\w+", text)


def sentences(text: str) -> list[str]:
    """The sentences of a text. A number such as "1." does not count as a sentence."""
    found = re.split(r"[.!?][\"'”’)*_]*\s+", text)
    return [part for part in found if any(map(str.isalpha, part))]


def paragraphs(text: str, divider: str) -> list[str]:
    return [part for part in text.split(divider) if part.strip()]


def fits(count: int, relation: Relation, limit: int) -> bool:
    return count >= limit if relation == "at least" else count < limit


def number_words(text: str, num_words: int, relation: Relation) -> bool:
    return fits(len(runs(text)), relation, num_words)


def number_sentences(text: str, num_sentences: int, relation: Relation) -> bool:
    return fits(len(sentences(text)), relation, num_sentences)


def number_letters(text: str, N: int, relation: Relation) -> bool:
    return fits(len(re.findall("[A-Za-z]", text)), relation, N)


def number_paragraphs(text: str, num_paragraphs: int = 2) -> bool:
    return len(paragraphs(text, "***")) == num_paragraphs


def first_word_of_paragraph(
    text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
    found = paragraphs(text, "\n\n")
    first = [words(each)[:1] for each in found[nth_paragraph - 1 : nth_paragraph]]
    return len(found) == num_paragraphs and first == [[first_word.lower()]]


def first_word_of_sentences(text: str, first_word: str) -> bool:
    return {words(each)[0] for each in sentences(text)} == {first_word.lower()}


def last_word(text: str, last_word: str) -> bool:
    return words(text)[-1:] == [last_word.lower()]


def forbidden_words(text: str, forbidden_words: list[str]) -> bool:
    found = (
        re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text, re.IGNORECASE)
        for each in forbidden_words
    )
    return not any(found)


def few_lowercase_words(text: str, N: int) -> bool:
    return sum(map(str.islower, runs(text))) <= N


def number_bullets(text: str, num_bullets: int) -> bool:
    lines = [line.lstrip() for line in text.splitlines()]
    return sum(line.startswith(("* ", "- ")) for line in lines) == num_bullets


def number_placeholders(text: str, num_placeholders: int) -> bool:
    return len(re.findall(r"\[[^\[\]\n]+\]", text)) >= num_placeholders


def title(text: str) -> bool:
    """A text in << and >>, on one line."""
    for line in text.splitlines():
        inside, end, _ = line.partition("<<")[2].rpartition(">>")
        if end and inside.strip("<> "):
            return True
    return False


RULES: dict[str, Callable[..., bool]] = {
    "count:lowercase_counting": few_lowercase_words,
    "detectable_content:number_placeholders": number_placeholders,
    "detectable_format:number_bullet_lists": number_bullets,
    "detectable_format:title": title,
    "first_word:first_word_sent": first_word_of_sentences,
    "keywords:forbidden_words": forbidden_words,
    "last_word:last_word_answer": last_word,
    "length_constraints:nth_paragraph_first_word": first_word_of_paragraph,
    "length_constraints:number_paragraphs": number_paragraphs,
    "length_constraints:number_sentences": number_sentences,
    "length_constraints:number_words": number_words,
    "letters:letter_counting": number_letters,
    "paragraphs:paragraphs": number_paragraphs,
}


def check_of(name: str, given: dict[str, Any] | None) -> Callable[[str], bool]:
    """A rule with its arguments. A null is an argument that is not given."""
    if name not in RULES:
        raise ValueError(f"RULES has no rule {name!r}: add a function for it")
    arguments = {
        key: value for key, value in (given or {}).items() if value is not None
    }
    check = partial(validate_call(RULES[name]), **arguments)
    try:
        check("")  # wrong arguments are refused before the episode, not at its end
    except ValidationError as error:
        [problem, *_] = error.errors()
        place = ".".join(map(str, problem["loc"]))
        raise ValueError(f"kwargs of {name}: {place}: {problem['msg']}") from None
    return check


def either_place(key: str) -> AliasChoices:
    """Rows have a key in `verifier_metadata`, older rows beside it."""
    return AliasChoices(AliasPath("verifier_metadata", key), key)


class Task(BaseModel):
    """The rules, and the arguments of each."""

    instruction_id_list: list[str] = Field(
        min_length=1, validation_alias=either_place("instruction_id_list")
    )
    kwargs: list[dict[str, Any] | None] = Field(validation_alias=either_place("kwargs"))
    grading_mode: Literal["binary", "fraction"] = Field(
        "binary", validation_alias=either_place("grading_mode")
    )


class InstructionFollowing:
    """One text, which the row's prompt asks for, and its rules."""

    blocking = False

    def __init__(self, task: Task) -> None:
        names, given = task.instruction_id_list, task.kwargs
        if len(names) != len(given):
            raise ValueError(f"there are {len(names)} rules, but {len(given)} kwargs")
        self._checks = [check_of(*rule) for rule in zip(names, given, strict=True)]
        self._in_part = task.grading_mode == "fraction"
        self._share = 0.0

    def reward(self, answer: str) -> float:
        """1.0 for a text that follows all rules; in the mode `fraction`, their share."""
        if not answer.strip():
            return 0.0  # or a text without words would follow what forbids words
        followed = [check(answer) for check in self._checks]
        self._share = sum(followed) / len(followed)
        return self._share if self._in_part else float(all(followed))

    def metrics(self) -> dict[str, float]:
        return {"followed": self._share}
