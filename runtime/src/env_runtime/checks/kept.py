"""The flaw `owned`: an object's SQLite databases and files, and calls that destroy them."""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from ..episode.types import Calls
from .state import is_temporary, places_of

# The most tables, rows of a table, files of a folder, and bytes of a file
TABLES, ROWS, FILES, BYTES = 20, 1000, 20, 1 << 20
KEYS = 40  # of a table, which are tried
ELSEWHERE = "elsewhere"  # a place that all episodes have


@dataclass
class Kept:
    """The tables of an object's SQLite databases, and its files in temporary folders."""

    tables: dict[str, list[str]] = field(default_factory=dict)  # their columns
    files: list[str] = field(default_factory=list)  # as the object's tools name them
    content: dict[str, Any] = field(default_factory=dict)  # of each table and file
    # The databases and folders. Those that two episodes have are shared.
    places: set[str] = field(default_factory=set)


def kept_by(environment: Any) -> Kept:
    """The SQLite tables and the files that an object's attributes lead to."""
    kept = Kept()
    for place in places_of(environment):
        # An authorizer may forbid to read a table, and a policy may remove a file.
        with contextlib.suppress(sqlite3.Error, OSError):
            if isinstance(place, sqlite3.Connection):
                _read_tables(place, kept)
            else:
                _read_files(place, kept)
    return kept


def _read_tables(database: sqlite3.Connection, kept: Kept) -> None:
    cursor = database.cursor()
    cursor.row_factory = None
    for _, _, file in cursor.execute("PRAGMA database_list").fetchall():
        place = file if not file or is_temporary(file) else ELSEWHERE
        kept.places.add(place or f"memory {id(database)}")
    names = cursor.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchmany(TABLES)
    for (name,) in names:
        cursor.execute(f"SELECT * FROM {quoted(name)}")
        kept.tables[name] = [column[0] for column in cursor.description]
        kept.content[name] = cursor.fetchmany(ROWS)


def _read_files(path: Path, kept: Kept) -> None:
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


def quoted(name: str) -> str:
    """A name for SQL, in quotes if it needs them."""
    return name if name.isidentifier() else '"{}"'.format(name.replace('"', '""'))


async def destroy_in(check: Any, number: int) -> None:
    """Play the flaw `owned` in a row of a FlawCheck. Raises GateError."""
    row = check.rows[number]
    calls = check.oracle(row).calls
    async with check.episode(row) as idle, check.episode(row) as solver:
        before = await idle.kept()
        await solver.play(calls)
        solved = await solver.kept()
    if not calls or not before.content or before.places & solved.places:
        check.played_rows.discard(number)
        return

    async def destroy(plan: Calls) -> None:
        async with check.episode(row) as attempt:
            await attempt.play(plan)
            left = (await attempt.kept()).content
            reward = await attempt.reward()
        if left in (before.content, solved.content):
            return
        who = "a policy that changes everything in a table or a file"
        if check.full(row, reward):
            raise check.wrong(number, f"{who} earns {reward}", attempt)
        if broken := attempt.broken:
            problem = f"{who} breaks the grade: {broken}"
            raise check.wrong(number, problem, attempt)

    await check.each(_destroying(check, before), destroy)


def _destroying(check: Any, kept: Kept) -> Iterator[Calls]:
    """Calls of one tool that may change all of a table or a file: SQL, keys, names."""
    texts: list[list[str]] = []
    for table, columns in kept.tables.items():
        name = quoted(table)
        texts += [[f"DELETE FROM {name}"], [f"DROP TABLE {name}"]]
        texts.append([f"UPDATE {name} SET {quoted(one)} = NULL" for one in columns])
        texts.append([str(row[0]) for row in kept.content[table][:KEYS]])
    for each in texts:
        calls = [call for text in each for call in check.filled(text)]
        for tool in dict.fromkeys(name for name, _ in calls):
            yield [call for call in calls if call[0] == tool]
    for file in kept.files:
        for tool, sent in check.filled(file):
            others = [name for name, value in sent.items() if value == file][1:]
            yield [(tool, {**sent, **dict.fromkeys(others, "")})]
