"""A warehouse in SQLite: a connection belongs to the thread that opened it."""

import sqlite3


class Inventory:
    """Bring the stock of an item to the wanted count."""

    def __init__(self, task: dict):
        self.item = task.get("item", "bolt")
        self.wanted = task.get("wanted", 5)
        self.db = sqlite3.connect(":memory:")
        self.db.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, count INTEGER)")
        self.db.execute("INSERT INTO stock VALUES (?, ?)", (self.item, 0))

    def look_up(self, item: str) -> str:
        """Look up how many of an item are in stock.

        Args:
            item: The item's name.
        """
        row = self.db.execute(
            "SELECT count FROM stock WHERE item = ?", (item,)
        ).fetchone()
        if row is None:
            raise ValueError(f"there is no {item!r} in the warehouse")
        return f"{item}: {row[0]}"

    def receive(self, item: str, count: int = 1) -> str:
        """Put items into stock.

        Args:
            item: The item's name.
            count: How many arrive, 1 to 100.
        """
        if not 1 <= count <= 100:
            raise ValueError(f"count must be 1 to 100, got {count}")
        self.look_up(item)
        self.db.execute(
            "UPDATE stock SET count = count + ? WHERE item = ?", (count, item)
        )
        return self.look_up(item)

    def reward(self) -> float:
        [count] = self.db.execute(
            "SELECT count FROM stock WHERE item = ?", (self.item,)
        ).fetchone()
        return 1.0 if count == self.wanted else 0.0

    def close(self):
        self.db.close()

    @staticmethod
    def oracle(task: dict):
        return [("receive", {"item": task["item"], "count": task["wanted"]})]
