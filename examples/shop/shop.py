"""Questions over a small shop in SQLite. Each right value of an answer earns its share."""

import random
import sqlite3
from collections import Counter

from env_runtime.sql import Database

TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, price REAL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, day TEXT);
CREATE TABLE items (order_id INTEGER, product_id INTEGER, count INTEGER);
"""
NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gia", "Hugo", "Ida", "Jon"]
GOODS = ["anvil", "brush", "drum", "easel", "flute", "globe", "jar", "lamp", "oven"]
CITIES = ["Oslo", "Lima", "Rome", "Kyiv"]


class Shop:
    """One question. The task's `seed` fills the shop, its `sql` finds the right values.

    `unknown` counts wanted values that are not in the shop, so that guesses do not pay.
    """

    def __init__(self, task: dict):
        self._db = sqlite3.connect(":memory:")
        self._fill(random.Random(task.get("seed", 0)))
        rows = self._db.execute(task.get("sql", "SELECT count(*) FROM orders"))
        self._right = Counter(_normal(value) for row in rows for value in row)
        self._worth = self._right.total() + task.get("unknown", 0)
        self._given: Counter[str] = Counter()
        self._read = Database(self._db, rows=20)

    def tables(self) -> str:
        """Show the tables and their columns."""
        return self._read.schema()

    def query(self, sql: str) -> str:
        """Run a query, and read the first 20 rows that it finds.

        Args:
            sql: One SELECT statement in SQLite's dialect.
        """
        return self._read.query(sql)

    def answer(self, values: list[str]) -> str:
        """Answer the question. A later answer replaces an earlier one.

        Args:
            values: What was asked for, in any order. A wrong value cancels a right one.
        """
        self._given = Counter(map(_normal, values))
        return f"Noted: {len(values)} values."

    def reward(self) -> float:
        wrong = (self._given - self._right).total()
        right = (self._given & self._right).total()
        return max(0, right - wrong) / self._worth

    def metrics(self) -> dict[str, float]:
        return {"wrong_values": (self._given - self._right).total()}

    def close(self) -> None:
        self._db.close()

    @staticmethod
    def oracle(task: dict) -> list[tuple[str, dict]]:
        values = list(Shop(task)._right.elements())
        return [("query", {"sql": task["sql"]}), ("answer", {"values": values})]

    def _fill(self, draw: random.Random) -> None:
        self._db.executescript(TABLES)
        add = self._db.execute
        for name in NAMES:
            add(
                "INSERT INTO customers VALUES (NULL, ?, ?)", (name, draw.choice(CITIES))
            )
        for name in GOODS:
            price = draw.randint(2, 99) / 4
            add("INSERT INTO products VALUES (NULL, ?, ?)", (name, price))
        for n in range(60):
            day = f"2026-0{1 + n // 12}-{1 + n % 12 * 2:02}"
            add("INSERT INTO orders VALUES (NULL, ?, ?)", (draw.randint(1, 10), day))
        for _ in range(150):
            item = draw.randint(1, 60), draw.randint(1, 9), draw.randint(1, 5)
            add("INSERT INTO items VALUES (?, ?, ?)", item)


def _normal(value: object) -> str:
    """A value for comparisons: numbers to two places, text without case."""
    try:
        return f"{float(str(value)):.2f}"
    except ValueError:
        return " ".join(str(value).casefold().split())
