"""The values that a policy has seen: texts as records with named fields."""

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

MOST_RECORDS = 80  # of a column, of which a policy may choose one
MOST_CHARACTERS = 20_000  # of a text that is read
PROMPT = "the prompt"
SEPARATOR = "\x1f"
PLACES = PLACE, PLACE_FROM_0 = ("a place", "a place from 0")  # of a record in its list

Scalar = str | int | float | bool | None
Field = str
Column = tuple[str, Field]  # where it was seen, and the field's name

DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d).*)?|(\d{1,2}):(\d\d)")
ENTRY = re.compile(r"^\s*(?:[-*•]+\s+|\(?(\d+|[A-Za-z])[.)]\s+)")
HEAD = re.compile(r"([^:=]{1,40}?)(?::\s|\s*=\s*)(?=\S)")
PAIR = re.compile(r"([^\W\d][\w ./-]{0,30}?)(?::\s|\s*=)\s*(.+)", re.DOTALL)
MEASURE = re.compile(r"(\D*?)(?<![A-Za-z_])(-?\d[\d,]*(?:\.\d+)?)(?![\w.])\s*(\D*)")
PARTS = re.compile(r"\s*(?:[,;|\t]|\s[-–—]\s|\s\()\s*")
# Lists of such parts of a whole text, by their fields' names
TOKENS = {
    "a number": re.compile(r"(?<![\w.])-?\d+(?:[\d,]*\d)?(?:\.\d+)?"),
    "a quoted part": re.compile(r"[\"'`“]([^\"'`”\n]{1,80})[\"'`”]"),
    "a code": re.compile(r"\b(?=\w*\d)(?=\w*[A-Za-z])\w[\w-]*\b"),
    "a name": re.compile(r"(?<=[\w,;:] )[A-Z][\w'-]*"),
    "a word": re.compile(r"[^\W_][\w'-]*"),
}


@dataclass
class Record:
    """Values that stand together, such as those of a line or an object."""

    fields: dict[Field, str]
    place: int = 0  # among the records of its source


@dataclass
class View:
    """All that a policy has seen, by where: the prompt, or a tool's outputs."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    made: dict[str, list[str]] = field(default_factory=dict)  # arguments by their slots
    memory: dict[Any, Any] = field(default_factory=dict)  # what was found out about it

    def show(self, source: str, text: str) -> "View":
        """The view after a further text was shown."""
        new = View(dict(self.records), dict(self.texts), dict(self.made))
        known = new.records.get(source, [])
        records = [Record(one, len(known) + n) for n, one in enumerate(read(text))]
        _number(records)
        new.records[source] = [*known, *records]
        new.texts[source] = f"{new.texts.get(source, '')}\n{text}".lstrip("\n")
        return new

    def make(self, arguments: dict[str, str]) -> "View":
        """The view after a call was made."""
        new = View(self.records, self.texts, dict(self.made))
        for name, value in arguments.items():
            new.made[name] = [*new.made.get(name, []), value]
        return new

    @functools.cached_property
    def columns(self) -> dict[Column, list[Record]]:
        """The records that have each field."""
        found: dict[Column, list[Record]] = {}
        for source, records in self.records.items():
            for record in records:
                for name in record.fields:
                    found.setdefault((source, name), []).append(record)
        return {name: records[:MOST_RECORDS] for name, records in found.items()}

    @functools.cached_property
    def cells(self) -> dict[Column, list[list[Record]]]:
        """The fields of records as records of their own: their column, value and row.

        A list for each column of a table, by where they were seen, and by their own fields.
        """
        lists: dict[str, dict[Field, list[Record]]] = {}
        for source, records in self.records.items():
            for record in records:
                if not {*record.fields} & {*TOKENS}:
                    for cell in _cells(record):
                        name = cell.fields["column"]
                        lists.setdefault(source, {}).setdefault(name, []).append(cell)
        found: dict[Column, list[list[Record]]] = {}
        for source, own in lists.items():
            for cells in own.values():
                for name in dict.fromkeys(
                    name for cell in cells for name in cell.fields
                ):
                    some = [cell for cell in cells if name in cell.fields]
                    found.setdefault((source, name), []).append(some[:MOST_RECORDS])
        return found


def _number(records: list[Record]) -> None:
    """Add to each record of a list its place among those with the same fields."""
    seen: dict[tuple[Field, ...], int] = {}
    for record in records:
        names = tuple(record.fields)
        if not {*names} & {*TOKENS}:
            seen[names] = seen.get(names, 0) + 1
            record.fields = {
                **record.fields,
                PLACE: str(seen[names]),
                PLACE_FROM_0: str(seen[names] - 1),
            }


def _cells(record: Record) -> Iterator[Record]:
    names = [name for name in record.fields if name not in PLACES]
    rows = {*names[:2], *PLACES} & {*record.fields}
    for number, name in enumerate(names):
        rest = {
            joined(row, "column"): joined(record.fields[row], name)
            for row in sorted(rows - {name})
        }
        fields = {"column": name, "value": record.fields[name], **rest}
        yield Record(fields, record.place * 100 + number)


def joined(*texts: str) -> str:
    """Two values as one, such as a row and a column."""
    return SEPARATOR.join(texts)


def text_of(value: Any) -> str:
    """A value as text, so that 3, 3.0 and "3" are the same."""
    return _text_of(value if isinstance(value, str) else json.dumps(value))


@functools.lru_cache(100_000)
def _text_of(value: str) -> str:
    number = None if DATE.fullmatch(value.strip()) else number_of(value)
    return " ".join(value.split()).casefold() if number is None else f"{number:.10g}"


@functools.lru_cache(100_000)
def number_of(value: str) -> float | None:
    """The number that a text is: a price, a date, a time of day; None for another text."""
    text = value.strip()
    if date := DATE.fullmatch(text):
        year, month, day, hour, minute, hours, minutes = (
            int(n or 0) for n in date.groups()
        )
        days = (year * 12 + month) * 31 + day
        return float(days * 1440 + (hour or hours) * 60 + (minute or minutes))
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.strip())
    try:
        return float(text) if re.fullmatch(r"-?\d*\.?\d+", text) else None
    except ValueError:
        return None


def read(text: str) -> Iterator[dict[Field, str]]:
    """The records in a text: those of JSON, of a table, or of its lines."""
    document, text = _json(text), text[:MOST_CHARACTERS]
    if isinstance(document, dict | list):
        yield from _records(document)
    else:
        yield from _lines([line for line in text.splitlines() if line.strip()])
    for name, pattern in TOKENS.items():
        found = [
            match[1] if pattern.groups else match[0] for match in pattern.finditer(text)
        ]
        if name != "a word" or len(found) <= MOST_RECORDS:
            yield from ({name: one} for one in found[:MOST_RECORDS])


def _json(text: str) -> Any:
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _records(value: Any, name: str = "") -> Iterator[dict[Field, str]]:
    """The objects of a document: an object's own values, and those of its parts."""
    if isinstance(value, list):
        for one in value:
            if isinstance(one, dict | list):
                yield from _records(one, name)
            else:
                yield {name or "item": _plain(one)}
        return
    own = {
        key: _plain(one)
        for key, one in value.items()
        if not isinstance(one, dict | list)
    }
    parts = {key: one for key, one in value.items() if isinstance(one, dict | list)}
    if own:
        yield own
    keyed = all(isinstance(one, dict) for one in parts.values()) and len(parts) > 1
    for key, one in parts.items():
        for record in _records(one, key):
            yield {"key": key, **record} if keyed else record


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _lines(lines: list[str]) -> Iterator[dict[Field, str]]:
    """The records of lines: of a table with a header, else of each line."""
    for separator in ("|", "\t", ",", ";"):
        rows = [line.strip().strip("|").split(separator) for line in lines]
        widths = [len(row) for row in rows]
        usual = max(widths, key=widths.count, default=0)
        if usual < 2 or widths.count(usual) < 3 or widths.count(usual) < len(rows) - 2:
            continue
        table = [[cell.strip() for cell in row] for row in rows if len(row) == usual]
        table = [row for row in table if any(cell.strip("-: ") for cell in row)]
        header = table[0]
        if any(re.search(r"\d", cell) for cell in header) or len({*header}) < usual:
            break
        yield from (dict(zip(header, row, strict=True)) for row in table[1:])
        return
    for line in lines:
        if isinstance(document := _json(line), dict | list):
            yield from _records(document)
            continue
        items = [one for one in line.split(";") if one.strip()]
        for item in items if len(items) > 2 else [line]:
            yield _line(item)


def _line(line: str) -> dict[Field, str]:
    """The values of a line by their names: `p1: bolt, price 3.20` has start, part 1, price."""
    found: dict[Field, str] = {}
    if entry := ENTRY.match(line):
        line = line[entry.end() :]
        if entry[1]:
            found["a line's mark"] = entry[1]
    line = line.strip()
    if (head := HEAD.match(line)) and not PAIR.search(line, head.end()):
        rest = line[head.end() :].strip()
        start, *more = (one.strip(" )") for one in PARTS.split(head[1]))
        found["a line's start"], found["a line's rest"] = start, rest
        if measure := MEASURE.fullmatch(start):
            found.setdefault(_name(measure), measure[2])
        line = ", ".join([*more, rest])
    for number, part in enumerate(filter(None, PARTS.split(line)), start=1):
        part = part.strip().rstrip(".)")
        if pair := PAIR.fullmatch(part):
            found.setdefault(pair[1].strip(), pair[2].strip())
        elif (measure := MEASURE.fullmatch(part)) and _name(measure):
            found.setdefault(_name(measure), measure[2])
        elif part and len(part) <= 80:
            found.setdefault(f"a line's part {number}", part)
    for name in ("a number", "a code"):
        for number, match in enumerate(TOKENS[name].finditer(line), start=1):
            found[f"a line's {name[2:]} {number}"] = match[0]
    words = re.findall(r"[^\W\d_][\w'-]*|-?\d[\d,]*(?:\.\d+)?", line)
    for word, after in pairwise(words):
        if word.isalpha() and number_of(after) is not None:
            found.setdefault(word, after)
    return found


def _name(measure: re.Match[str]) -> Field:
    """The name of a number beside words, such as `price` of `price $3`, `h` of `3 h`."""
    before, after = (measure[n].strip(" :=$€£#%") for n in (1, 3))
    return " ".join((before or after).split()[-2:])
