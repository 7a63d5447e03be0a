"""The state that episodes change: class attributes, globals, SQLite tables, files."""

import contextlib
import io
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..episode.declaration import own_classes

NO_STATE = (ModuleType, FunctionType, type, staticmethod, classmethod, property)
# The most objects, tables, rows of a table, files of a folder, and bytes of a file
OBJECTS, TABLES, ROWS, FILES, BYTES = 500, 20, 1000, 20, 1 << 20
TEMPORARY = Path(tempfile.gettempdir()).resolve()
ELSEWHERE = "elsewhere"  # a place that all episodes have


def state_of(domain_class: type) -> dict[str, str]:
    """The values of the class's attributes, and of its module's globals, as texts."""
    module = sys.modules.get(domain_class.__module__)
    values = {
        f"the global {name}": value
        for name, value in getattr(module, "__dict__", {}).items()
    }
    for owner in own_classes(domain_class):
        values |= {
            f"{owner.__name__}.{name}": value for name, value in vars(owner).items()
        }
    return _as_texts(
        {name: value for name, value in values.items() if "__" not in name}
    )


def attributes_of(environment: Any) -> dict[str, str]:
    """The values of an object's attributes, as texts."""
    return _as_texts(getattr(environment, "__dict__", {}))


def _as_texts(values: dict[str, Any]) -> dict[str, str]:
    texts = {}
    for name, value in values.items():
        if isinstance(value, NO_STATE):
            continue
        with contextlib.suppress(Exception):  # the user may have written __repr__
            texts[name] = repr(value)
    return texts


def changed(before: dict[str, str], after: dict[str, str]) -> str:
    """The names whose values differ, for a message."""
    names = [name for name, text in after.items() if before.get(name) != text]
    return ", ".join(names)


@dataclass
class Kept:
    """The tables of an object's SQLite databases, and its files in temporary folders."""

    tables: dict[str, list[str]] = field(default_factory=dict)  # their columns
    files: list[str] = field(default_factory=list)  # as the object's tools name them
    content: dict[str, Any] = field(default_factory=dict)  # of each table and file
    # The databases and folders. Those that two episodes have are shared.
    places: set[str] = field(default_factory=set)


def kept_by(environment: Any) -> Kept:
    """The SQLite tables and the files that an object's attributes lead to.

    Connections of its class and its module are among it: all episodes have them.
    """
    kept, kind = Kept(), type(environment)
    module = getattr(sys.modules.get(kind.__module__), "__dict__", {})
    shared = [*vars(kind).values(), *module.values()]
    databases = [one for one in shared if isinstance(one, sqlite3.Connection)]
    for value in [*databases, *_reachable(environment)]:
        # An authorizer may forbid to read a table, and a policy may remove a file.
        with contextlib.suppress(sqlite3.Error, OSError):
            if isinstance(value, sqlite3.Connection):
                _read_tables(value, kept)
            elif isinstance(value, io.IOBase | tempfile.TemporaryDirectory):
                _read_files(getattr(value, "name", None), kept)
            else:
                _read_files(value, kept)
    return kept


def _reachable(thing: Any) -> Iterator[Any]:
    """An object, its attributes, theirs, and so on, at most OBJECTS."""
    todo, seen = [thing], set()
    for value in todo:  # which grows
        if id(value) in seen or isinstance(value, NO_STATE):
            continue
        if len(seen) == OBJECTS:
            return
        seen.add(id(value))
        yield value
        if isinstance(value, list | tuple):
            todo += value
        else:
            parts = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            todo += parts.values()


def _read_tables(database: sqlite3.Connection, kept: Kept) -> None:
    cursor = database.cursor()
    cursor.row_factory = None
    for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
        place = file if not file or _is_temporary(file) else ELSEWHERE
        kept.places.add(place or f"memory {id(database)}")
    names = cursor.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchmany(TABLES)
    for (name,) in names:
        cursor.execute(f"SELECT * FROM {quoted(name)}")
        kept.tables[name] = [column[0] for column in cursor.description]
        kept.content[name] = cursor.fetchmany(ROWS)


def _read_files(path: Any, kept: Kept) -> None:
    """Note the files of a path into the temporary folder. Ignores any other value."""
    if not isinstance(path, str | Path) or not _is_temporary(path):
        return
    path = Path(path)
    folder = path if path.is_dir() else path.parent
    kept.places.add(str(path))
    found = path.rglob("*") if path.is_dir() else [path]
    for file in islice((one for one in found if one.is_file()), FILES):
        name = str(file.relative_to(folder))
        kept.files.append(name)
        with file.open("rb") as stream:
            kept.content[name] = stream.read(BYTES)
        if kept.content[name].startswith(b"SQLite format 3\0"):
            with contextlib.closing(sqlite3.connect(file)) as database:
                _read_tables(database, kept)


def _is_temporary(path: str | Path) -> bool:
    """Whether a path is an absolute one into the temporary folder."""
    try:
        return Path(path).is_absolute() and TEMPORARY in Path(path).resolve().parents
    except (OSError, ValueError, RuntimeError):  # it is a text, and no path
        return False


def quoted(name: str) -> str:
    """A name for SQL, in quotes if it needs them."""
    return name if name.isidentifier() else '"{}"'.format(name.replace('"', '""'))
