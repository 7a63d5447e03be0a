"""Values of records, as make_rows.py and the plan behind it read them."""

import ast
import contextlib
import functools
import json
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import takewhile
from typing import Any

from ..episode.chat import image_url
from ..notation import normal

LETTERS = string.ascii_uppercase
_NOTHING: tuple[Any, ...] = (None, "", [], {})


def is_empty(value: Any) -> bool:
    """Whether a record lacks a value: null, or nothing but space."""
    return value in _NOTHING or (isinstance(value, str) and not value.strip())


# ------------------------------------------------------------------------- prompts


def filled(template: str, record: Mapping[str, Any]) -> str:
    """A template with the record's values as text.

    A paragraph whose columns are all empty is left out: not every record has a context.
    """
    paragraphs = []
    for paragraph, names in _paragraphs(template):
        texts = {name: as_text(record.get(name)) for name in names}
        if not texts or any(text.strip() for text in texts.values()):
            paragraphs.append(paragraph.format_map(texts))
    return "\n\n".join(paragraphs)


@functools.cache
def _paragraphs(template: str) -> list[tuple[str, tuple[str, ...]]]:
    """The paragraphs of a template, each with the columns that it names."""
    return [(each, names_in(each)) for each in template.split("\n\n")]


@functools.cache
def names_in(template: str) -> tuple[str, ...]:
    """The columns that a template names. Raises ValueError if it is none."""
    return tuple(name for _, name, _, _ in string.Formatter().parse(template) if name)


def as_text(value: Any) -> str:
    """A value as a prompt shows it: lists as lines, tables as rows, JSON's constants."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _object_as_text(value)
    if isinstance(value, list):
        value = [_without_hints(each) for each in value]
        if value and all(isinstance(e, Mapping) and {*e} == {*value[0]} for e in value):
            value = [[*value[0]], *([*each.values()] for each in value)]
        if any(isinstance(each, list) for each in value):
            return "\n".join(
                " | ".join(map(as_text, each)) for each in map(_row, value)
            )
        short = all(isinstance(each, int | float) for each in value)
        return (", " if short else "\n").join(map(as_text, value))
    return str(value)


# Keys of passages that tell where the answer is, such as MuSiQue's is_supporting
_HINT = re.compile(
    r"(?i)(is_)?(supp(?:ort|$)|select|gold|relevan|evidence|votes?$|entropy$)"
)


def _without_hints(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {
        key: each
        for key, each in value.items()
        if not _HINT.match(key) or _is_evidence(key, each)
    }


def _is_evidence(key: str, value: Any) -> bool:
    """Whether a key has the text of a piece of evidence, and not what it tells."""
    if key == "evidence":
        return isinstance(value, str)
    return key.startswith("evidence_text") and bool(value)


def _row(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _object_as_text(value: Mapping[str, Any]) -> str:
    value = _without_hints(value)
    for name in ("contexts", "text"):  # beside labels of them
        if name in value:
            return as_text(value[name])
    columns = [*value.values()]
    if {"header", "rows"} <= value.keys():
        return as_text([value["header"], *value["rows"]])
    lists = all(isinstance(each, list) for each in columns)
    if lists and len({*map(len, columns)}) == 1:  # such as titles and their sentences
        return "\n\n".join(
            "\n".join(" ".join(map(as_text, _row(part))) for part in parts)
            for parts in zip(*columns, strict=True)
        )
    return "\n".join(f"{name}: {as_text(each)}" for name, each in value.items())


def with_images(prompt: str, *images: Any) -> Any:
    """A prompt with images before it: each a URL, bytes, an object with `bytes`, or a list."""
    flat = [
        one for each in images for one in (each if isinstance(each, list) else [each])
    ]
    urls = [image_url(image) for image in flat if not is_empty(image)]
    if not urls:
        return prompt
    parts = [{"type": "image_url", "image_url": url} for url in urls]
    content = [*parts, {"type": "text", "text": prompt}]
    return [{"role": "user", "content": content}]


# ------------------------------------------------------------------------- options

# A letter or a number before an option: (A), A), A., a ), 1.
_OWN = re.compile(
    r"\s*[(\[]?\s*([A-Za-z]|\d{1,2})\s*[)\].:．：、]\s*(?=\S)(.*)", re.DOTALL
)
_TOKEN = re.compile(r"(?:^|(?<=[\s,;]))[(\[]?([A-Za-z])\s?[)\].:．：、](?=[\s\S])")


def options_of(value: Any) -> list[str]:
    """The texts of options, without letters of their own.

    `value` is a list of texts, or of objects with a text, an object with lists of `text`
    and `label`, an object of letters, or a text that lists them: `(A) 10 (B) 20`. Empty ones at
    the end are left out. Returns [] if one before them is empty.
    """
    return [text for _, text in _pairs(value)]


def listed_of(text: str) -> list[str]:
    """The options that a text lists, or the one that it is."""
    return options_of(text) or [text] * (not is_empty(text))


# Keys of options that say whether they are right
_FLAGS = (
    "correct",
    "is_correct",
    "isCorrect",
    "right",
    "is_right",
    "isRight",
    "istKorrekt",
)


def is_flagged(value: Any) -> bool:
    """Whether a value is a list of options that say whether they are right.

    Some lists have a flag only at the right one.
    """
    if not isinstance(value, list) or len(value) < 2:
        return False
    flags = [flag for each in value if (flag := _flag(each)) is not None]
    if not all(isinstance(each, Mapping) for each in value):
        return False
    if not any({*_FLAGS, "type"} & each.keys() for each in value):  # of another name
        one = flags.count(True) == 1 and len(flags) == len(value)
        return one and max(map(len, value)) <= 3
    return len(flags) == len(value) or flags == [True]


# The `type` of an option says whether it is right.
_KINDS = {"correct answer": True, "correct": True, "distractor": False}


def _flag(option: Any) -> bool | None:
    """Whether an option says that it is right; None if it says nothing."""
    if not isinstance(option, Mapping):
        return None
    flags = [option[key] for key in _FLAGS if isinstance(option.get(key), bool)]
    kind = option.get("type")
    flags += [_KINDS[kind.casefold()]] if str(kind).casefold() in _KINDS else []
    # The only true or false that an option has, whatever it is called: correcto
    alone = [
        value
        for key, value in option.items()
        if isinstance(value, bool) and not _HINT.match(key)
    ]
    flags += alone if len(alone) == 1 else []
    return flags[0] if flags else None


def best_of(options: Any) -> Any:
    """The right option by scores, `{"tin": 1, "ice": 0}`, or by flags; a list if several are.

    Raises TypeError or ValueError without scores or flags.
    """
    if isinstance(options, Mapping):
        most = max(options.values())
        right = [text for text, score in options.items() if score == most]
    else:
        flags = map(_flag, options)
        right = [
            text for text, flag in zip(options_of(options), flags, strict=True) if flag
        ]
    return right[0] if len(right) == 1 else right


def labels_of(value: Any) -> list[str]:
    """The letters or labels that options have of their own; [] if they have none."""
    labels = [label for label, _ in _pairs(value)]
    return labels if all(labels) else []


def letter_of(gold: Any, names: Iterable[Any]) -> str | None:
    """The letter of the place at which `names` has the gold; None if none has it.

    `range(26)` are the numbers of options that are counted from 0.
    """
    keys, key = _keys(tuple(names)), _key(gold)
    known = key in keys[: len(LETTERS)] and keys.count(key) == 1
    return LETTERS[keys.index(key)] if known else None


@functools.lru_cache
def _keys(names: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(map(_key, names))


def shuffled(options: Iterable[Any]) -> list[str]:
    """Options in an order that their texts decide, so the right one is at any place."""
    texts = [as_text(option).strip() for option in options if not is_empty(option)]
    whole = json.dumps(sorted(texts))
    return sorted(texts, key=lambda text: blake2b(f"{whole}{text}".encode()).digest())


def _key(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip(" ()[].:").casefold()


def _pairs(value: Any) -> list[tuple[str, str]]:
    """The label and the text of each option; a label is "" if it has none."""
    if isinstance(value, str):
        return _pairs_in(value)
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), list):
            texts = value["text"]
            labels = value.get("label") or value.get("labels") or [""] * len(texts)
            return _whole(zip(map(str, labels), texts, strict=False))
        return _whole(value.items())
    if not isinstance(value, list):
        return []
    if value and all(isinstance(each, list) and len(each) == 1 for each in value):
        value = [each[0] for each in value]
    if all(isinstance(each, Mapping) for each in value):
        return _whole(map(_labeled, value))
    matches = (_OWN.fullmatch(str(each)) for each in value)
    own = [match for match in takewhile(bool, matches) if match]
    if own and len(own) == len(value):
        labels = [match[1] for match in own]
        ordered = (_first(labels, LETTERS), _first(labels, "123456789"))
        if [*map(_key, labels)] in ordered:
            return _whole((match[1], match[2]) for match in own)
    return _whole(("", each) for each in value)


def _first(labels: list[str], of: str) -> list[str]:
    return [*of[: len(labels)].casefold()]


def _labeled(option: Mapping[str, Any]) -> tuple[str, Any]:
    def first(*names: str) -> Any:
        return next((option[name] for name in names if name in option), "")

    texts = (value for value in option.values() if isinstance(value, str))
    label = str(first("label", "key", "letter", "letra", "id", "aoVal"))
    text = first(*OPTION_TEXTS)
    if not {*OPTION_TEXTS} & option.keys() and {"id", "label"} <= option.keys():
        label, text = str(option["id"]), option["label"]
    if is_empty(text) and _flag(option) is not None:
        text = next(texts, "")  # its first text, whatever it is called: texto
    return label, text


# Keys of the text of an option
OPTION_TEXTS = (
    "text",
    "texto",
    "content",
    "value",
    "option",
    "answer",
    "answerText",
    "answer_text",
)


def _whole(pairs: Iterable[tuple[str, Any]]) -> list[tuple[str, str]]:
    """Pairs without empty ones at the end; [] if others are empty."""
    found = [(label, as_text(text).strip()) for label, text in pairs]
    while found and not found[-1][1]:
        found.pop()
    return found if all(text for _, text in found) else []


def _pairs_in(text: str) -> list[tuple[str, str]]:
    """The options that a text lists: JSON, Python's list, or a letter before each."""
    with contextlib.suppress(ValueError):
        return _pairs(parsed(text))
    if found := listed_in(text):
        return found
    for separator in ("\n", "|", ";"):
        if separator in text.strip():
            return _whole(("", part) for part in text.strip().split(separator))
    return []


# What numpy prints of texts and of numbers, which has no commas, and of arrays in objects
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ARRAY = re.compile(
    rf"\[\s*{_QUOTED}(?:\s+{_QUOTED})+\s*\]|\[\s*[-\d.]+(?:\s+[-\d.]+)+\s*\]"
)
_ITEM = re.compile(rf"{_QUOTED}|[-\d.]+")


# A list of texts as somebody's program joined them: ['Abeokuta', 'in Nigeria's southwest']
_QUOTES = re.compile(r"\[\s*'((?:(?!'\s*\])[^\n])*)'\s*\]")
_BETWEEN = re.compile(r"'\s*,\s*'")


def parsed(text: str) -> Any:
    """The list or object that a text is: JSON, or as Python or numpy prints it.

    Raises ValueError if it is neither.
    """
    text = re.sub(
        r"\barray\((\[.*?\])(?:,\s*dtype=\w+)?\)", r"\1", text.strip(), flags=re.DOTALL
    )
    if text[:1] not in ("[", "{"):
        raise ValueError(f"expected a list or an object, got {text!r:.80}")
    text = _ARRAY.sub(lambda array: f"[{', '.join(_ITEM.findall(array[0]))}]", text)
    for parse in (json.loads, ast.literal_eval):
        # TypeError: of a set of lists
        with contextlib.suppress(ValueError, SyntaxError, TypeError, RecursionError):
            return parse(text)
    if quoted := _QUOTES.fullmatch(text):
        return _BETWEEN.split(quoted[1])
    raise ValueError(f"expected JSON, got {text!r:.80}")


def listed_in(text: str) -> list[tuple[str, str]]:
    """The letters and texts of the last list of options in a text, from A or a."""
    runs = [run for run in _runs(text) if len(run) > 1]
    if not runs:
        return []
    run = runs[-1]
    ends = [match.start() for match in run[1:]]
    last = text[run[-1].end() :]
    parts = [text[m.end() : end] for m, end in zip(run, ends, strict=False)]
    if all("\n" not in part.strip() for part in parts):
        last = last.lstrip().partition("\n")[0]
    letters = [match[1] for match in run]
    texts = [part.strip().rstrip(",;").strip() for part in [*parts, last]]
    return _whole(zip(letters, texts, strict=True))


def _runs(text: str) -> Iterator[list[re.Match[str]]]:
    """Runs of letters before options, each from A or a on."""
    run: list[re.Match[str]] = []
    for match in _TOKEN.finditer(text):
        letter = match[1]
        if run and ord(letter) == ord(run[-1][1]) + 1:
            run.append(match)
        elif letter in "Aa":
            yield run
            run = [match]
    yield run


# ------------------------------------------------------------------------- golds


def lettered(gold: Any, question: str) -> Any:
    """A gold, and with it the letter or the text of the option of a question that it is."""
    listed = dict(listed_in(question))
    golds = gold if isinstance(gold, list) else [gold]
    by_text: dict[str, list[str]] = {}
    for letter, text in listed.items():
        by_text.setdefault(normal(text), []).append(letter)
    more = [listed[one] for one in golds if isinstance(one, str) and one in listed]
    for one in golds:
        both = _OWN.fullmatch(str(one))  # C) Lima
        is_line = both is not None and str(one) in question.splitlines()  # (2) Lima
        if both and (is_line or normal(listed.get(both[1], "")) == normal(both[2])):
            more += [both[1], both[2].strip()]
    found = [by_text.get(normal(str(one)), []) for one in golds]
    more += [letters[0] for letters in found if len(letters) == 1]
    return [*golds, *more] if more else gold


# These characters separate the parts of a text. A comma may also be in a name.
_PARTS = re.compile(r"\s*[;；|]\s*")


EITHER = re.compile(r"\w\s+(?:or|oder|ou|eller|или|또는)\s+(?=\w)")


def either(text: Any) -> Any:
    """The parts of a text such as `tin or zinc`."""
    if not isinstance(text, str):
        return text
    parts = re.split(r"\s+(?:or|oder|ou|eller|или|또는)\s+", text)
    return [part.strip(" ,") for part in parts if part.strip(" ,")]


def parted(text: Any) -> Any:
    """The parts of a text that lists several: `sun; day`, or `fact, claim`."""
    if not isinstance(text, str):
        return text
    parts = _PARTS.split(text) if _PARTS.search(text) else text.split(",")
    return [part.strip() for part in parts if part.strip()]


def filled_of(value: Mapping[str, Any]) -> Any:
    """The part of an object that is not empty: of DROP's number, date and spans."""
    parts = [each for name, each in value.items() if name in ONE_OF_PARTS]
    texts = [
        " ".join(map(str, filter(None, part.values())))
        if isinstance(part, Mapping)
        else part
        for part in parts
    ]
    return next((text for text in texts if not is_empty(text)), None)


# DROP's answers have these fields, of which one is not empty.
ONE_OF_PARTS = ("spans", "number", "date")


def golds_of(value: Mapping[str, Any]) -> list[Any]:
    """All spellings of a gold that has aliases, the usual one first."""
    value = {key.lower(): each for key, each in value.items()}
    spelled = [value.get("value"), *(value.get("aliases") or [])]
    return list(dict.fromkeys(each for each in spelled if not is_empty(each)))
