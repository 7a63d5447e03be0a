"""SQL for a policy, over SQLite: it only reads, and each query has limits.

    class Shop:
        def __init__(self, task):
            self._db = Database(task["script"])

        def query(self, sql: str) -> str:
            '''Run one SELECT statement in SQLite's dialect.'''
            return self._db.query(sql)

Every query runs in a process of its own. It cannot write, attach, or open another file, and
it ends at its limits. `Query` grades a query by what it finds.
"""

import atexit
import contextlib
import functools
import json
import re
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..graders import Table

__all__ = ["Database", "Query"]

LONGEST = 20_000  # the most characters of a query
SHOWN = 10_000  # the most characters that a policy reads
GRADED = (10_000, 1_000_000)  # the most rows and characters that a grader reads
AT_ONCE = threading.BoundedSemaphore(32)  # queries of this server; the others wait
_LOCK = threading.Lock()  # of the socket to the process that forks

type Source = str | bytes | Path | sqlite3.Connection
type Sources = Iterable[Source | Database]


class Database:
    """A database that a policy reads.

    `source` is a script, the bytes of a database, the Path of a file to which nothing
    writes, or a connection of the class's own, as it is at each query. A query may take
    `seconds` of processor time and `memory` in MiB. The policy reads at most `rows`, and
    10,000 characters.
    """

    def __init__(
        self, source: Source, *, seconds: int = 1, memory: int = 128, rows: int = 50
    ) -> None:
        self._limits, self._rows = {"seconds": seconds, "memory": memory << 20}, rows
        self._address = ":memory:"
        if isinstance(source, Path):
            self._address = f"{source.resolve().as_uri()}?mode=ro&immutable=1"
        self._source = _image_of(source) if isinstance(source, str) else source
        try:
            self.schema()
        except ValueError as error:
            raise ValueError(f"no database: {source!r:.80}: {error}") from None

    def query(self, sql: str) -> str:
        """Run a SELECT, and return its rows as a table in text. Raises ValueError if it fails."""
        columns, rows, more = self._found(sql, self._rows, SHOWN)
        lines = [
            " | ".join(row) for row in [columns, *(map(_shown, row) for row in rows)]
        ]
        return "\n".join(
            lines + ["... and more rows"] * more + ["no rows"] * (not rows)
        )

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """All rows that a SELECT finds, for a grader. Raises ValueError if it fails."""
        _, rows, more = self._found(sql, *GRADED)
        if more:
            most = "{:,} rows or {:,} characters".format(*GRADED)
            raise ValueError(f"the query failed: it finds more than {most}")
        return [tuple(row) for row in rows]

    def schema(self) -> str:
        """The statements that made the tables and views, for the policy."""
        made = "SELECT sql || ';' FROM sqlite_master WHERE type IN ('table', 'view')"
        return "\n".join(sql for (sql,) in self.rows(made))

    def _found(
        self, sql: str, rows: int, characters: int
    ) -> tuple[list[str], list, bool]:
        if len(sql) > LONGEST:
            raise ValueError(f"the query failed: it has over {LONGEST:,} characters")
        image = self._source if isinstance(self._source, bytes) else b""
        if isinstance(self._source, sqlite3.Connection):
            image = self._source.serialize()
        if image[18:20] == b"\2\2":  # in memory, no log (WAL) is beside it
            image = image[:18] + b"\1\1" + image[20:]
        request = {"sql": sql, "address": self._address, "rows": rows, **self._limits}
        line = json.dumps(request | {"characters": characters}).encode() + b"\n"
        with AT_ONCE, _forked() as client, client.makefile("rb") as stream:
            with contextlib.suppress(BrokenPipeError):
                client.sendall(line + image)
                client.shutdown(socket.SHUT_WR)
            began, text = stream.readline(), stream.read()
        if not began:
            raise ConnectionError("no process could be started for a query")
        stopped = f"it takes more than {self._limits['seconds']} s"
        answer = json.loads(text, object_hook=_blob) if text else stopped
        if isinstance(answer, str):
            denied = re.match("not authorized|authorization", answer)
            hint = "; only a SELECT can be run" if denied else ""
            raise ValueError(f"the query failed: {answer}{hint}")  # noqa: TRY004
        return answer


def _image_of(script: str) -> bytes:
    """The database that a script makes."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        try:
            database.executescript(script)
        except sqlite3.Error as error:
            why = f"{error}: {script!r:.80}. The name of a file is given as a Path"
            raise ValueError(f"the script of a database failed: {why}") from None
        return database.serialize()


def _blob(value: dict[str, str]) -> bytes:
    return bytes.fromhex(value["blob"])


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return "NULL" if value is None else str(value).replace("\n", "\\n")


def _forked() -> socket.socket:
    """A socket to a new process, which takes one request."""
    ours, theirs = socket.socketpair()
    with theirs, _LOCK:
        try:
            socket.send_fds(_control(), [b"1"], [theirs.fileno()])
        except ConnectionError:  # somebody ended the process that forks
            _control.cache_clear()
            socket.send_fds(_control(), [b"1"], [theirs.fileno()])
    return ours


@functools.cache
def _control() -> socket.socket:
    """A socket to the process that forks: one for the server, and all its threads."""
    ours, theirs = socket.socketpair()
    path = str(Path(__file__).with_name("process.py"))
    command = [sys.executable, "-I", "-S", path]
    with theirs:
        process = subprocess.Popen(
            command, stdin=theirs.fileno(), start_new_session=True
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # runs first, and ends the process
    return ours


class Query:
    """A SELECT: all of the answer, or its only code block, graded by what it finds.

    `databases` hold what the policy does not see. Give several that differ, so that a query
    that is right by chance fails in one. Rows are compared as Table does, in any order
    unless they are `ordered`.
    """

    def __init__(self, reference: str, databases: Sources, *, ordered: bool = False):
        self._reference, self._ordered = reference.strip().rstrip(";"), ordered
        self._databases = [
            one if isinstance(one, Database) else Database(one) for one in databases
        ]
        self._found = [one.rows(self._reference) for one in self._databases]
        if not any(self._found):
            raise ValueError(f"the reference finds no rows: {reference!r:.80}")

    def reward(self, answer: str) -> float:
        """1.0 if the query finds the reference's rows in each database, else 0.0."""
        blocks = re.findall(r"(?is)```(?:sql|sqlite)?[ \t]*\n(.*?)```", answer)
        sql = blocks[0] if len(blocks) == 1 else answer
        try:
            pairs = zip(self._databases, self._found, strict=True)
            return float(all(self._same(rows, one.rows(sql)) for one, rows in pairs))
        except ValueError:
            return 0.0

    def solution(self) -> str:
        """The reference."""
        return self._reference

    def weaknesses(self) -> dict[str, str]:
        """Wrong queries that would earn, by what was changed in the reference.

        DISTINCT, a condition, a LIMIT or an order that counts is left out or reversed, or the
        result is cut or written as constants. Drop such a row, or add a database in which
        the queries differ. Some find the same anywhere, as without DISTINCT over a key.
        """
        text = self._reference
        rows = [map(_literal, row) for row in max(self._found, key=bool)]
        changed = {
            "constants": "VALUES " + ", ".join(f"({', '.join(r)})" for r in rows)
        }
        if not re.search(_ONE_ROW, text):
            changed["the first row"] = f"SELECT * FROM ({text}) LIMIT 1"
        by_order = self._ordered or re.search(r"(?i)\b(LIMIT|OVER)\b", text)
        for word in re.finditer(r"\b[A-Za-z]", text):
            for pattern, new in _CHANGES + _ORDERS * bool(by_order):
                if cut := re.compile(f"(?is){pattern}").match(text, word.start()):
                    left = text[: cut.start()] + cut.expand(new) + text[cut.end() :]
                    changed[f"{cut[0].strip()} -> {cut.expand(new).strip()}"] = left
        return {change: sql for change, sql in changed.items() if self.reward(sql)}

    def _same(self, rows: list[tuple], found: list[tuple]) -> bool:
        if not rows or not found:
            return rows == found
        return Table(rows, ordered=self._ordered).reward(found) == 1.0


def _literal(value: Any) -> str:
    return (
        "'" + value.replace("'", "''") + "'"
        if isinstance(value, str)
        else _shown(value)
    )


# A clause has texts and parentheses, up to four deep, and ends where another one begins.
_PARENTHESES = r"\([^()]*\)"
for _ in range(3):
    _PARENTHESES = rf"\((?:[^()]|{_PARENTHESES})*\)"
_ENDS = "WHERE GROUP HAVING ORDER LIMIT UNION INTERSECT EXCEPT JOIN LEFT INNER CROSS ON"
_PART, _END = rf"(?:[^()']|'[^']*'|{_PARENTHESES})*?", rf"\)|$|\b(?:{_ENDS})\b"
_END = _END.replace(" ", "|")
_CHANGES = [
    (r"DISTINCT\b", ""),
    (rf"(?:WHERE|HAVING|ON|USING|LIMIT)\b{_PART}(?={_END})", ""),
    (rf"(WHERE|HAVING|ON)\b{_PART}\bAND\b", r"\1"),
    (rf"AND\b{_PART}(?={_END}|\bAND\b)", ""),
]
_ORDERS = [
    (rf"ORDER\s+BY\b{_PART}(?={_END})", ""),
    (rf"(ORDER\s+BY\b{_PART})(?={_END})", r"\1 DESC "),
    (r"DESC\b", ""),
]
_ONE_ROW = r"(?is)^SELECT\s+(count|sum|avg|min|max|total)\b(?!.*GROUP)|\bLIMIT\s+1$"
