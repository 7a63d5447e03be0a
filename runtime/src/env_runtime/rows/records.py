"""Records of a dataset: files, folders and the Hugging Face Hub, read one at a time.

Python's own json and csv read the text formats, so every value is as the file has it:
the package `datasets` would read 007 as a number, NA as nothing and a date as a datetime,
and it names no lines. pyarrow reads Parquet and Arrow; `datasets` reads the Hub.
"""

import codecs
import contextlib
import csv
import functools
import glob
import gzip
import io
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import chain, islice, pairwise, takewhile
from pathlib import Path
from typing import Any

from ..command_line import needed
from ..errors import RolloutError, one_line
from ..evaluation.rows import parse

Place = str | Path
Source = Place | Mapping[str, Place]

# The words in names of files, folders and the Hub's splits that say which split it is
SPLIT_WORDS = {
    "train": {"train", "training"},
    "validation": {"validation", "valid", "val", "dev"},
    "test": {"test", "testing", "eval", "evaluation"},
}
HUB = re.compile(r"hf:([\w.-]+/[\w.-]+|[\w.-]+)(?::([^:]*))?(?::([^:]+))?")
LINES = 4096  # so many bytes tell how lines end
TITLE = 20  # so many lines of a CSV file may be before the names of its columns
LFS = b"version https://git-lfs"
POINTER = " is only a pointer to a file in Git LFS: `git lfs pull` gets the file"


class Record(dict[str, Any]):
    """One record of a dataset, a dict, and where it comes from.

    `place` is its file and line, for messages: `questions.jsonl, line 3`. `split` is
    train, validation or test, or "" if the source has no splits. `classes` has the names of
    numbers in a column, if the dataset tells them (ClassLabel of the Hub).
    """

    __slots__ = ("classes", "place", "split")

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        super().__init__(values)
        self.place, self.split = place, ""
        self.classes: Mapping[str, list[str]] = {}


def read(source: Source, split: str | None = None) -> Iterator[Record]:
    """The records of a dataset one at a time, or those of one split.

    `source` is a file (.jsonl, .json, .csv, .tsv, .parquet or .arrow; the text formats
    also with .gz), a folder of them, a glob, or `hf:owner/name[:config[:split]]`. In a
    folder, names with a word such as train, dev or test say which split a file is. A
    dict names the splits itself: `{"train": "a.jsonl", "test": "b/*.csv"}`.

    Only a .json file is read whole; others may be larger than memory. Values of CSV and
    TSV files are text. Raises RolloutError, with the file, the line and what to do, if
    something cannot be read, or if the source does not have the split.
    """
    parts = splits_of(source)
    if split is None:
        return chain.from_iterable(parts.values())
    if split not in parts:
        names = ", ".join(filter(None, parts)) or "none"
        raise RolloutError(f"{source} has no split {split!r}; its splits: {names}")
    return parts[split]


def splits_of(source: Source) -> dict[str, Iterator[Record]]:
    """The records of each split, by its name; "" if the source has no splits."""
    if isinstance(source, Mapping):
        if wrong := [name for name in source if name not in SPLIT_WORDS]:
            names = ", ".join(SPLIT_WORDS)
            raise RolloutError(
                f"a split is one of {names}, got {wrong[0]!r}: rename it"
            )
        parts = {
            name: chain.from_iterable(splits_of(place).values())
            for name, place in source.items()
        }
    else:
        parts = _hub(source) if str(source).startswith("hf:") else _local(Path(source))
    return {name: _of_split(name, records) for name, records in parts.items()}


def parts_named(text: str) -> dict[str, str]:
    """The part of the dataset for each of our splits. Raises RolloutError."""
    pairs = [part.partition("=")[::2] for part in text.split(",") if part.strip()]
    splits = {name.strip(): part.strip() for name, part in pairs}
    if not splits.keys() <= {"train", "validation", "test"} or "" in splits.values():
        raise RolloutError(
            f"splits are like train=train.jsonl,validation=dev.jsonl, got {text!r}: name "
            "a file of the folder, or a split of the Hub, for train, validation, test"
        )
    return splits


def part_of(source: str, part: str) -> str:
    """A file of a folder, or a split of a dataset on the Hub."""
    if not source.startswith("hf:"):
        return f"{source}/{part}"
    return f"{source}:{part}" if source.count(":") > 1 else f"{source}::{part}"


def _of_split(name: str, records: Iterator[Record]) -> Iterator[Record]:
    for record in records:
        record.split = name
        yield record


def split_named(name: str) -> str:
    """The split that a name such as `train-00000-of-00002` tells; "" if it tells none."""
    words = set(re.split("[^a-z]+", name.lower()))
    return next((split for split, own in SPLIT_WORDS.items() if words & own), "")


# ---------------------------------------------------------------------- files


def _local(path: Path) -> dict[str, Iterator[Record]]:
    """The splits of a file, a folder or a glob."""
    if path.is_relative_to(Path.cwd()):  # messages name what the user sees
        path = path.relative_to(Path.cwd())
    if path.is_file():
        if _suffix(path) == ".json":
            return _lists_in(path)
        return {"": _file(path)}
    matching = map(Path, glob.iglob(str(path), recursive=True))
    found = path.rglob("*") if path.is_dir() else matching
    root = Path(*takewhile(lambda part: not glob.has_magic(part), path.parts))
    parts: dict[str, list[Path]] = {}
    for file in sorted(each for each in found if _has_records(each, root)):
        split = split_named(str(file.relative_to(root)))
        parts.setdefault(split, []).append(file)
    if not parts:
        if not path.exists() and not glob.has_magic(str(path)):
            raise RolloutError(
                f"{path.absolute()} is not there: put the dataset there, or name another "
                "place, SOURCE in make_rows.py"
            )
        raise RolloutError(
            f"{path.absolute()} is neither a file nor a folder or pattern of files that "
            f"end with {', '.join(READERS)}: name one that is"
        )
    if "" in parts and len(parts) > 1:
        raise RolloutError(
            f"{parts[''][0]} does not tell its split in its name, as other files do "
            f"({', '.join(filter(None, parts))}): rename it, or name the files of each "
            'split: {"train": FILE, "test": FILE}'
        )
    return {
        name: chain.from_iterable(map(_file, files)) for name, files in parts.items()
    }


def _has_records(path: Path, root: Path) -> bool:
    hidden = any(part[0] in "._" for part in path.relative_to(root).parts)
    about = path.name.startswith("dataset_info") or path.name == "state.json"
    return path.is_file() and _suffix(path) in READERS and not hidden and not about


def _suffix(path: Path) -> str:
    name = path.name.removesuffix(".gz").removesuffix(".zst")
    return Path(name).suffix.lower()


def _file(path: Path) -> Iterator[Record]:
    """The records of a file."""
    if _suffix(path) not in READERS:
        raise RolloutError(
            f"{path}: the format is told by the end of the name, one of "
            f"{', '.join(READERS)}: convert or rename the file"
        )
    empty = True
    with _readable(path):
        for record in READERS[_suffix(path)](path):
            empty = False
            yield record
    if empty:
        raise RolloutError(f"{path} has no records: leave it out, or get it again")


@contextlib.contextmanager
def _readable(path: Path) -> Generator[None]:
    """Raise RolloutError in place of what the operating system, gzip or pyarrow raise."""
    try:
        yield
    except (OSError, EOFError, UnicodeError, zlib.error, *_arrow_errors()) as error:
        if path.stat().st_size < 1000 and path.read_bytes().startswith(LFS):
            raise RolloutError(f"{path}{POINTER}") from None
        problem = getattr(error, "strerror", None) or one_line(error)
        raise RolloutError(f"{path}: {problem}: get or make the file again") from None


def _arrow_errors() -> tuple[type[Exception], ...]:
    loaded = sys.modules.get("pyarrow")
    return (loaded.ArrowException,) if loaded else ()


def _open(path: Path) -> Any:
    if path.suffix == ".zst":
        stream = needed("pyarrow", path).input_stream(str(path), compression="zstd")
        file: Any = io.BufferedReader(stream)
    else:
        file = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
    start = file.peek(LINES)[:LINES]
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return _Decoded(file, "utf-16", "\n")
    if b"\r" in start and b"\n" not in start:  # as Macs once wrote lines
        return _Decoded(file, "utf-8", "\r")
    return file


class _Decoded(contextlib.AbstractContextManager["_Decoded"]):
    """A file of another encoding, or other ends of lines, as lines in UTF-8."""

    def __init__(self, file: Any, encoding: str, end: str) -> None:
        # A line that is not UTF-8 is found later.
        errors = "surrogateescape" if encoding == "utf-8" else "strict"
        self._text = io.TextIOWrapper(file, encoding, errors, newline=end)
        self._end = end

    def __iter__(self) -> Iterator[bytes]:
        for line in self._text:
            yield line.replace(self._end, "\n").encode("utf-8", "surrogateescape")

    def __exit__(self, *_: object) -> None:
        self._text.close()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text file, numbered from 1."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            if number == 1 and line.startswith(b"PK\3\4"):
                raise RolloutError(
                    f"{path} is a workbook of Excel, or another archive: save the sheet as CSV"
                )
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                wrong = f"byte {error.start + 1} is not UTF-8: save the file in UTF-8"
                raise RolloutError(f"{path}, line {number}: {wrong}") from None
            if number == 1:
                text = text.lstrip("\ufeff")  # a second mark, of a file that was joined
            if number == 1 and line.startswith(LFS):
                raise RolloutError(f"{path}{POINTER}")
            if number == 1 and "\0" in text:
                raise RolloutError(
                    f"{path} has zeros, as UTF-16 without a byte order mark: make a file in UTF-8 "
                    f"with `iconv -f UTF-16LE -t UTF-8 {path.name} > utf-8{_suffix(path)}`"
                )
            yield number, text


def _jsonl(path: Path) -> Iterator[Record]:
    for number, line in _lines(path):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        if line.lstrip().startswith("[{"):
            yield from _objects(line, place)
        else:
            yield Record(_object(line, place), place)


def _objects(line: str, place: str) -> Iterator[Record]:
    """The records of a line that lists them."""
    try:
        items = json.loads(line)
    except (ValueError, RecursionError):
        items = []
    if not (items and all(isinstance(item, dict) for item in items)):
        _object(line, place)  # raises
    for number, item in enumerate(items, start=1):
        yield Record(_whole(item, line), f"{place}, item {number}")


def _object(line: str, place: str) -> dict[str, Any]:
    try:
        return _whole(parse(line.encode(), place), line)
    except RolloutError as error:
        cure = "mend the line or remove it"
        if line.lstrip().startswith(("//", "#")):
            cure = "JSON has no comments, so remove these lines"
        elif line.strip() in {"{", "[", "[{"}:
            cure = "a record is one line; name the file .json if it is one JSON value"
        raise RolloutError(f"{error}: {cure}") from None


# The escape of half a character in JSON, and half of the escapes of a whole one
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def _whole(value: Any, text: str) -> Any:
    """The value of a JSON text, with U+FFFD for halves of characters: no file has them."""
    if not _HALF.search(text):
        return value
    written = json.dumps(value, ensure_ascii=False)
    pairs = written.encode("utf-16", "surrogatepass")
    return json.loads(pairs.decode("utf-16", "replace"))


def _json(path: Path) -> Iterator[Record]:
    return chain.from_iterable(_lists_in(path).values())


def _lists_in(path: Path) -> dict[str, Iterator[Record]]:
    """The records of a .json file by their splits, mostly one list of them, ""."""
    with _readable(path):
        texts = (line for _, line in _lines(path) if line.strip())
        first = list(islice(texts, 2))
        if len(first) == 2 and _is_object(first[0]):
            return {"": _jsonl(path)}  # JSON lines, which many a .json file holds
        text = "".join(line for _, line in _lines(path))
    try:
        whole = _whole(_values(text), text)
    except (ValueError, RecursionError) as error:
        line = (
            f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        )
        wrong = f"not JSON: {getattr(error, 'msg', error)}: mend the file"
        raise RolloutError(f"{path}{line}: {wrong}") from None
    lists = whole if isinstance(whole, dict) else {"": whole}
    if any(isinstance(lists.get(name), str) for name in (*ASKING, "question_text")):
        lists = {"": [lists]}  # one question
    prefix = lists.get("task_prefix")  # BIG-bench's, which is before each input
    if isinstance(prefix, str) and prefix.strip():
        lists = {
            name: [{"task_prefix": prefix, **item} for item in items]
            for name, items in _of_objects(lists).items()
        }
    objects = {key: one for key, one in lists.items() if isinstance(one, dict)}
    if len(objects) > 1 and len(objects) == len(lists):
        # Each record has a key, which may be its id.
        lists = {"": [{"id": key} | one for key, one in objects.items()]}
    inner = [value for value in lists.values() if isinstance(value, dict)]
    lists = _of_objects(lists)
    if (
        not lists and len(inner) == 1
    ):  # as in {"chapters": {"one": [...], "two": [...]}}
        values = inner[0].values()
        if len(values) > 1 and all(isinstance(value, dict) for value in values):
            lists = {"": [{"id": key} | value for key, value in inner[0].items()]}
        else:
            lists = _of_objects(inner[0])
    if len(lists) > 1 and all(map(split_named, lists)):
        return {
            split_named(name): _items(path, name, its) for name, its in lists.items()
        }
    if len(lists) > 1:
        asking = {n: its for n, its in lists.items() if ASKING & {*(its or [{}])[0]}}
        lists = asking if len(asking) == 1 else lists
    kinds = {frozenset(one) for items in lists.values() for one in items[:1]}
    if len(kinds) == 1 and any(kinds):  # the same fields, as by chapter
        parts = (_items(path, name, items) for name, items in lists.items())
        return {"": chain.from_iterable(parts)}
    if len(lists) != 1:
        has = f"{len(lists)} lists ({', '.join(lists)})" if lists else "no list"
        raise RolloutError(
            f"{path} has {has} of objects, and one is needed: write the records alone, "
            "one object a line, as a .jsonl file"
        )
    [(name, items)] = lists.items()
    return {"": _items(path, name, items)}


def _values(text: str) -> Any:
    """The JSON value of a text, or a list of the objects that stand in it one after the other.

    Raises ValueError.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg != "Extra data" or not text.lstrip().startswith("{"):
            raise
        found, end, rest = [], 0, text
        while rest := rest[end:].lstrip(" \t\r\n,"):
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except json.JSONDecodeError:
                raise error from None
            found.append(value)
        return found


# Of several lists, the one with such a key has the questions.
ASKING = {"question", "prompt", "problem"}


def _of_objects(value: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: items
        for name, items in value.items()
        if isinstance(items, list) and isinstance((items or [{}])[0], dict)
    }


def _is_object(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _items(path: Path, name: str, items: list[dict[str, Any]]) -> Iterator[Record]:
    within = f", {name}" if name else ""
    for number, item in enumerate(items, start=1):
        place = f"{path}{within}, item {number}"
        if not isinstance(item, dict):
            wrong = f"a record is an object, got {one_line(item, 80)}: remove it"
            raise RolloutError(f"{place}: {wrong}")
        yield Record(item, place)
    if not items:
        raise RolloutError(f"{path}{within} has no records: leave it out")


def _separated(path: Path, delimiter: str) -> Iterator[Record]:
    """The records of a CSV or TSV file, whose first line names the columns."""
    csv.field_size_limit(2**31 - 1)  # by default 128 KiB; it is the process's
    read, seen = 0, list[str]()  # seen: the lines of a record

    def lines() -> Iterator[str]:
        nonlocal read
        for read, line in _lines(path):  # noqa: B007 - the fields begin at its line
            seen.append(line)
            yield line

    file = lines()
    first = [line for _, line in islice(_lines(path), TITLE)]
    before = _before_names(first, delimiter)
    head = next((line for line in islice(file, before, None) if line.strip()), "")
    if match := re.fullmatch(r"sep=(.)\s*", head):  # for Excel
        delimiter, head = match[1], next((line for line in file if line.strip()), "")
    if delimiter not in head:  # a spreadsheet may write semicolons, or tabs
        delimiter = max(f"{delimiter};\t,|", key=head.count)
    is_text = delimiter == "\t" and _has_plain_quotes(path, head)
    quoting = csv.QUOTE_NONE if is_text else csv.QUOTE_MINIMAL
    every = chain([head], file)
    # Somebody wrote "name", "age", and the space before a quote is none of the text.
    spaced = re.search(rf'"\s*{re.escape(delimiter)} +"', head) is not None
    rows = csv.reader(
        every,
        delimiter=delimiter,
        quoting=quoting,
        strict=True,
        skipinitialspace=spaced,
    )
    columns, start, named = [], read, 0
    while True:
        try:
            fields = next(rows, None)
        except csv.Error as error:
            wrong = (
                f"{error}: write a quote in a quoted field twice, and close each field"
            )
            raise RolloutError(f"{path}, line {start}: {wrong}") from None
        place, start = f"{path}, line {start}", read + 1
        within = [
            line for line in seen[1:-1] if line.count(delimiter) == len(columns) - 1
        ]
        if delimiter == "\t" and columns and within:
            raise RolloutError(
                f"{place}: a quote opens there and closes in line {read}, and whole records are "
                f"between, such as {one_line(within[0], 80)!r}: give each line all fields, so "
                "that quotes are text, or close the field"
            )
        seen.clear()
        if fields is None:
            return
        if not fields:
            continue
        if not columns:
            columns = fields
            # A spreadsheet may write empty columns behind the others.
            named = len(columns)
            while named > 1 and not columns[named - 1]:
                named -= 1
            # pandas writes its index without a name, as the first column.
            _check_columns(columns[columns[0] == "" : named], place)
        elif len(fields) != len(columns):
            raise RolloutError(
                f"{place}: {len(fields)} fields for {len(columns)} columns: quote a field "
                "that holds the separator, a quote or a line break"
            )
        elif any(fields[named:]):
            raise RolloutError(
                f"{place}: {one_line(max(fields[named:], key=len), 80)!r} stands in a column without a "
                "name: the first line names all columns"
            )
        else:
            values = dict(zip(columns[:named], fields, strict=False))
            values.pop("", None)
            yield Record(values, place)


def _before_names(lines: list[str], delimiter: str) -> int:
    """How many lines stand before the one that names the columns.

    They are comments, which start with # and have other fields than it, or a title, alone in a
    line that has the separators of the others.
    """

    def fields(line: str) -> list[str]:
        return next(csv.reader([line], delimiter=delimiter), [])

    comments = [*takewhile(lambda line: line.startswith("#"), lines)]
    start = len(comments)
    if start and start < len(lines):
        names = len([*filter(None, fields(lines[start]))])
        if all(len([*filter(None, fields(each))]) == names for each in comments):
            start = 0
    for number, line in enumerate(lines[start:], start):
        values = fields(line)
        if all(values) and values:
            return number
        if len(values) == 2 or (any(values[1:]) and values):
            return start
    return start


# A field of CSV that has quotes around it: each quote inside is there twice.
_FIELD = re.compile(r'"(?:[^"]|"")*"')


def _has_plain_quotes(path: Path, head: str) -> bool:
    """Whether quotes in a file with tabs are text: each line has all fields of a record.

    Fields that all are written as CSV writes them are CSV's.
    """
    tabs, plain = head.count("\t"), False
    for _, line in _lines(path):
        fields = line.rstrip("\r\n").split("\t")
        if line.strip() and len(fields) != tabs + 1 and line != head:
            return False
        quoted = [field for field in fields if field.startswith('"')]
        if any('""' in f[1:-1] and _FIELD.fullmatch(f) for f in quoted):
            return False
        plain = plain or not all(map(_FIELD.fullmatch, quoted))
    return plain


def _check_columns(columns: list[str], place: str) -> None:
    """Raise RolloutError if the first line of a file does not name its columns."""
    wrong = ""
    if not all(columns):
        wrong = "a column without a name: the first line names all columns"
    elif named := next(filter(_is_value, columns), ""):
        wrong = (
            f"{one_line(named, 80)!r} does not look like a column's name: add a first line "
            "with names"
        )
    elif (
        numbers := [n for n in columns if re.fullmatch(r"-?\d+(\.\d+)?", n)]
    ) and not (_ascend(numbers)):
        wrong = f"{numbers[0]!r} does not look like a column's name: add a first line with names"
    elif len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        wrong = f"two columns are called {twice!r}: rename one"
    if wrong:
        raise RolloutError(f"{place}: {wrong}")


def _is_value(name: str) -> bool:
    """Whether a column's name is rather a question, a text or an address."""
    # `ordered?` is a name.
    value = r"(?:\S\s\S.*|.{20,})[?]\s*$|\S？\s*$|^[^\s@]+@[^\s@]+\.\w+$"
    # Chinese and Japanese have no spaces.
    length = (
        len(name.split()) + len(re.findall(r"[\u3040-\u30ff\u3400-\u9fff]", name)) / 3
    )
    return length > 8 or re.search(value, name) is not None


def _ascend(numbers: list[str]) -> bool:
    """Whether columns are called 0, 1, 2, or 1, 2, 3, or are years, for example."""
    values = [float(number) for number in numbers]
    return all(b - a == 1 for a, b in pairwise(values)) and len(values) > 1


def _parquet(path: Path) -> Iterator[Record]:
    with needed("pyarrow.parquet", path).ParquetFile(path) as file:
        classes = _classes(file.schema_arrow.metadata)
        yield from _numbered(path, file.iter_batches(batch_size=1000), classes)


def _arrow(path: Path) -> Iterator[Record]:
    pyarrow, ipc = needed("pyarrow", path), needed("pyarrow.ipc", path)
    with pyarrow.memory_map(str(path)) as file:
        try:
            whole: Any = ipc.open_stream(file)  # as `datasets` writes it
            batches: Any = whole
        except pyarrow.ArrowInvalid:
            file.seek(0)
            whole = ipc.open_file(file)
            batches = map(whole.get_batch, range(whole.num_record_batches))
        yield from _numbered(path, batches, _classes(whole.schema.metadata))


def _classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """The names of classes, as `datasets` writes them into Parquet and Arrow files."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        kinds = features.items()
        return {
            n: kind["names"] for n, kind in kinds if kind.get("_type") == "ClassLabel"
        }
    return {}


def _numbered(
    path: Path, batches: Iterable[Any], classes: Mapping[str, list[str]]
) -> Iterator[Record]:
    """The records of Arrow's batches, of which each may be large."""
    number = 0
    for batch in batches:
        for start in range(0, batch.num_rows, 1000):
            for values in batch.slice(start, 1000).to_pylist():
                number += 1
                record = Record(_plain(values), f"{path}, row {number}")
                record.classes = classes
                yield record


def _plain(value: Any) -> Any:
    """A value of Arrow as JSON has it: dates and decimals as text, NaN as nothing."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime) and value.time() == time():  # a date, in pandas
        return value.date().isoformat()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal | timedelta):
        return str(value)
    return None if isinstance(value, float) and math.isnan(value) else value


READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": functools.partial(_separated, delimiter=","),
    ".tsv": functools.partial(_separated, delimiter="\t"),
    ".parquet": _parquet,
    ".arrow": _arrow,
}


# ---------------------------------------------------------------------- the Hub


def _hub(source: Place) -> dict[str, Iterator[Record]]:
    """The splits of a dataset on the Hugging Face Hub."""
    if not (match := HUB.fullmatch(str(source))):
        wrong = "a dataset on the Hub is written as hf:owner/name[:config[:split]]"
        raise RolloutError(f"{source}: {wrong}")
    name, config, only = match.groups()
    datasets = needed("datasets", source)
    with _from_hub(source):
        found = datasets.load_dataset(name, config or None, streaming=True)
    if only and only not in found:
        raise RolloutError(f"{source}: the splits are {', '.join(found)}: name one")
    known = {each: "" if each == only else split_named(each) for each in found}
    if not only and len(found) > 1 and not all(known.values()):
        raise RolloutError(
            f"{source} has the splits {', '.join(found)}: name those to take, "
            f'{{"train": "hf:{name}:{config or ""}:{next(iter(found))}"}}'
        )
    parts: dict[str, list[Iterator[Record]]] = {}
    for each in [only] if only else found:
        records = _streamed(f"{source}, {each}", found[each])
        parts.setdefault(known[each], []).append(records)
    return {split: chain.from_iterable(streams) for split, streams in parts.items()}


def _streamed(place: str, stream: Any) -> Iterator[Record]:
    with _from_hub(place):
        features = getattr(stream, "features", None) or {}
        classes = {n: f.names for n, f in features.items() if hasattr(f, "names")}
        # Images and audio stay bytes, as they are in the same Parquet files.
        for number, values in enumerate(stream.decode(False), start=1):
            record = Record(_plain(values), f"{place}, row {number}")
            record.classes = classes
            yield record


@contextlib.contextmanager
def _from_hub(place: Any) -> Generator[None]:
    """Raise RolloutError in place of what `datasets` raises, which has no common base."""
    try:
        yield
    except Exception as error:
        problem = f"{type(error).__name__}: {one_line(error)}"
        raise RolloutError(
            f"{place}: {problem}: look whether the Hub has it and can be reached; `hf auth "
            "login` opens what is private or gated"
        ) from error
