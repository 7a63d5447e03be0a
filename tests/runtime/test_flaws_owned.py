"""Grades over tables and files that tools can empty, which the gates find."""

import contextlib
import itertools
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from env_runtime.checks import state
from env_runtime.errors import GateError

NAMES = ["Ann", "Bob", "Cem", "Ann"]
ROWS = [
    {
        "responses_create_params": {"input": f"Remove all duplicates, number {n}."},
        "ground_truth": [{"n": n}],
    }
    for n in range(8)
]


def filled(file: Any = ":memory:") -> sqlite3.Connection:
    db = sqlite3.connect(file, check_same_thread=False)
    db.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)")
    values = [(name,) for name in NAMES]
    db.executemany("INSERT INTO customers (name) VALUES (?)", values)
    db.commit()
    return db


class Duplicates:
    """No duplicate may be left, but nobody counts what is."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.parts = {"database": [filled()]}

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        return self.parts["database"][0].execute(sql).fetchall()

    def query(self, sql: str) -> str:
        """Run a statement."""
        try:
            return str(self.run(sql))
        except sqlite3.Error as error:
            raise ValueError(str(error)) from None

    def names(self) -> list[str]:
        return [name for (name,) in self.run("SELECT name FROM customers")]

    def reward(self) -> float:
        try:
            names = self.names()
        except sqlite3.Error:
            return 0.0
        return float(len(names) == len({*names}))

    def close(self) -> None:
        for database in self.parts["database"]:
            database.close()

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("query", {"sql": "DELETE FROM customers WHERE id = 4"})]


class InAFile(Duplicates):
    """As Duplicates, with a database in a file that each call opens."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = f"{self.folder.name}/shop.db"
        filled(self.path).close()

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.path, autocommit=True)) as db:
            return db.execute(sql).fetchall()

    def close(self) -> None:
        self.folder.cleanup()


class ByNumber(Duplicates):
    """As Duplicates, without SQL."""

    query = None

    def show(self) -> str:
        """Show the names."""
        return ", ".join(self.names())

    def delete(self, customer: int) -> str:
        """Delete a customer."""
        self.run(f"DELETE FROM customers WHERE id = {customer}")
        return "deleted"

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("delete", {"customer": 4})]


class Raises(Duplicates):
    """All names are compared, but the table may be missing."""

    def reward(self) -> float:
        return float(self.names() == NAMES[:3])


class Whole(Raises):
    """All names are compared."""

    def reward(self) -> float:
        try:
            return super().reward()
        except sqlite3.Error:
            return 0.0


class ReadOnly(Duplicates):
    """A report is graded, and its tool cannot write."""

    said = 0

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.run("PRAGMA query_only = 1")

    def report(self, count: int) -> str:
        """Report how many different names there are."""
        self.said = count
        return "noted"

    def reward(self) -> float:
        return float(self.said == len({*self.names()}))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("report", {"count": 3})]


class Emptied(Duplicates):
    """To empty the table is the task."""

    def reward(self) -> float:
        return float(self.names() == []) if self.query("SELECT 1") else 0.0

    def names(self) -> list[str]:
        try:
            return super().names()
        except sqlite3.Error:
            return ["?"]

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("query", {"sql": "DELETE FROM customers"})]


class Files:
    """Every line of checks.txt must be in main.txt, but checks.txt is the policy's, too."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        (self.root / "main.txt").write_text("")
        (self.root / "checks.txt").write_text("one\ntwo")

    @property
    def root(self) -> Path:
        return Path(self.folder.name)

    def read(self, path: str) -> str:
        """Read a file."""
        return (self.root / Path(path).name).read_text()

    def write(self, path: str, text: str) -> str:
        """Write a file."""
        (self.root / Path(path).name).write_text(text)
        return "written"

    def checks(self) -> list[str]:
        return (self.root / "checks.txt").read_text().split()

    def reward(self) -> float:
        text = (self.root / "main.txt").read_text()
        return float(all(line in text.split() for line in self.checks()))

    def close(self) -> None:
        self.folder.cleanup()

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("write", {"path": "main.txt", "text": "one two"})]


class OwnChecks(Files):
    def checks(self) -> list[str]:
        return ["one", "two"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (InAFile, r'file earns 1\.0 \(it called query\(sql="DELETE FROM customers"\)'),
        (
            Duplicates,
            r'file earns 1\.0 \(it called query\(sql="DELETE FROM customers"\)',
        ),
        (
            ByNumber,
            r"file earns 1\.0 \(it called delete\(customer=1\), delete\(customer=2\)",
        ),
        (
            Raises,
            r'breaks the grade: Raises.* \(it called query\(sql="DROP TABLE customers"\)',
        ),
        (Files, r'file earns 1\.0 \(it called write\(path="checks\.txt", text=""\)'),
    ],
)
def test_a_flaw_is_named_with_its_cure(look, kind, says):
    with pytest.raises(GateError, match=says) as raised:
        look(kind, ROWS, ["constant"])
    message = str(raised.value)
    assert message.startswith(
        "row 1 of data/example.jsonl: a policy that changes everything in"
    )
    assert "Grade over a copy that no tool can change" in message
    assert "see `owned` in docs/grading.md of the template" in message
    assert "constant, owned meant" in look(kind, ROWS, ["constant", "owned"])


@pytest.mark.parametrize("kind", [Whole, ReadOnly, Emptied, OwnChecks])
def test_an_honest_grade_is_left_alone(look, kind):
    note = look(kind, ROWS, ["constant"])
    assert note.startswith("looked for ")
    assert ", owned, " in note


def test_what_other_episodes_have_is_not_touched(look, tmp_path):
    """It may be the user's own database, or folder."""

    class Shared(Duplicates):
        def __init__(self, task: dict[str, Any]) -> None:
            self.parts = {"database": [sqlite3.connect(tmp_path / "shop.db")]}

    class SharedFolder(Files):
        def __init__(self, task: dict[str, Any]) -> None:
            super().__init__(task)
            self.data = tmp_path

        @property
        def root(self) -> Path:
            return tmp_path

    class OneForAll(Duplicates):
        connection = filled()

        def run(self, sql: str) -> list[tuple[Any, ...]]:
            return self.connection.execute(sql).fetchall()

    filled(tmp_path / "shop.db").close()
    for kind in (Shared, SharedFolder, OneForAll):
        look(kind, ROWS[:1], ["shared"])
    assert Shared({}).names() == NAMES
    assert OneForAll({}).names() == NAMES[:3]  # as the oracle leaves it
    assert (tmp_path / "checks.txt").read_text() == "one\ntwo"
    OneForAll.connection.close()


def test_a_database_elsewhere_is_not_touched(look, tmp_path, monkeypatch):
    """Its file differs with each episode, but it is not in the temporary folder."""
    monkeypatch.setattr(state, "TEMPORARY", tmp_path / "temporary")
    numbers, left = itertools.count(), []

    class Elsewhere(Duplicates):
        def __init__(self, task: dict[str, Any]) -> None:
            self.parts = {"database": [filled(tmp_path / f"{next(numbers)}.db")]}

        def close(self) -> None:
            left.append(self.names())
            super().close()

    look(Elsewhere, ROWS[:1])
    assert left.count(NAMES) + left.count(NAMES[:3]) == len(left)
