"""A shop's help desk: a customer who wants something, a database, a written policy."""

import random
import sqlite3
from typing import Literal

TABLE = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, email TEXT, postal_code TEXT, product TEXT,
                     status TEXT, delivered_days_ago INTEGER, address TEXT)
"""
NAMES = ["ada", "ben", "cleo", "dan", "eve", "finn"]
GOODS = ["anvil", "brush", "drum", "easel", "flute", "globe", "lamp", "oven"]
STREETS = ["Mill Lane", "Quay Road", "Elm Street"]
STATES = ["processing", "shipped", "delivered"]
TONE = """\
A customer wrote to a help desk. The text has what the agent said, one message a line. Was
the agent polite and clear, and did it tell the customer what was done or why it was not?"""
Outcome = Literal["done", "too late", "not allowed", "not the customer's", "passed on"]
STATE, POLITE = 0.8, 0.2  # the shares of the reward
MOST_MESSAGES, MOST_CHARACTERS = 10, 600  # limits on messages to the customer


class Helpdesk:
    """One customer. The task's `seed` fills the database.

    The customer knows `email` and `postal_code`, and wants `goal`. `actions` are the
    calls that change the database as the shop's policy requires. `outcome` closes it.
    """

    deterministic = False  # with real models: a customer never says the same twice

    def __init__(self, task: dict, user, judge):
        self.user, self.judge, self._task = user, judge, task
        self._db = _filled(task.get("seed", 0))
        self._said: list[str] = []
        self._outcome = ""
        about = (
            f"You are a customer of a shop and write to its help desk. You want this: "
            f"{task.get('goal', 'nothing')} If you are asked: your email address is "
            f"{task.get('email', 'ada@example.com')}, your postal code is "
            f"{task.get('postal_code', '1000')}. Tell nothing that nobody asked for. "
            "Write one or two sentences. Do not play the agent."
        )
        self._talk = [{"role": "system", "content": about}]

    def talk(self, text: str) -> str:
        """Write to the customer, and read the answer.

        Args:
            text: At most 600 characters.
        """
        if self._outcome:
            raise ValueError("the case is closed")
        if len(self._said) == MOST_MESSAGES or len(text) > MOST_CHARACTERS:
            raise ValueError(
                f"at most {MOST_MESSAGES} messages of {MOST_CHARACTERS} characters"
            )
        self._said.append(" ".join(text.split()))
        self._talk.append({"role": "user", "content": text})
        reply = self.user.ask(self._talk)
        self._talk.append({"role": "assistant", "content": reply})
        return reply

    def find_orders(self, email: str, postal_code: str) -> str:
        """Find a customer's orders. Both must fit.

        Args:
            email: The customer's email address.
            postal_code: The customer's postal code.
        """
        rows = self._db.execute(
            "SELECT id, product, status, delivered_days_ago, address FROM orders "
            "WHERE email = ? AND postal_code = ?",
            (email.strip().lower(), postal_code.strip()),
        )
        lines = [
            f"order {number}: {product}, {status}"
            + (f" {days} days ago" if status == "delivered" else "")
            + f", to {address}"
            for number, product, status, days, address in rows
        ]
        return "\n".join(lines) or "No orders."

    def cancel_order(self, order: int) -> str:
        """Cancel an order.

        Args:
            order: Its number.
        """
        return self._change("cancel_order", order)

    def refund_order(self, order: int) -> str:
        """Pay the price of an order back.

        Args:
            order: Its number.
        """
        return self._change("refund_order", order)

    def change_address(self, order: int, address: str) -> str:
        """Send an order to another address.

        Args:
            order: Its number.
            address: Street and number.
        """
        return self._change("change_address", address.strip(), order)

    def close_case(self, outcome: Outcome) -> str:
        """Close the case. Nothing can be changed after it.

        Args:
            outcome: What became of the customer's wish.
        """
        self._outcome = self._outcome or outcome
        return f"Closed: {self._outcome}."

    def reward(self) -> float:
        """0.0 unless the database and the outcome are right. Politeness adds POLITE."""
        right = _filled(self._task.get("seed", 0))
        for tool, arguments in self._task.get("actions", []):
            right.execute(ACTIONS[tool], arguments)
        if self._outcome != self._task.get("outcome") or not self._said:
            return 0.0
        if _content(self._db) != _content(right):
            return 0.0
        heard = "\n".join(self._said)
        kind = self.judge.ask(TONE, choices=["GOOD", "BAD"], data=heard) == "GOOD"
        return STATE + POLITE * kind

    def metrics(self) -> dict[str, float]:
        return {"messages": len(self._said), "closed": self._outcome != ""}

    def close(self) -> None:
        self._db.close()

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer in gates: the customer tells everything, the judge likes thanks."""
        if model == "user":
            return prompt.partition("If you are asked: ")[2].partition(". Tell")[0]
        return "GOOD" if "thank you" in prompt.lower() else "BAD"

    @staticmethod
    def oracle(task: dict) -> list[tuple[str, dict]]:
        asked = "Good day! May I have your email address and your postal code?"
        who = {"email": task["email"], "postal_code": task["postal_code"]}
        told = f"Your wish is settled: {task['outcome']}. Thank you for writing to us."
        return [
            ("talk", {"text": asked}),
            ("find_orders", who),
            *((tool, _named(tool, values)) for tool, values in task["actions"]),
            ("talk", {"text": told}),
            ("close_case", {"outcome": task["outcome"]}),
        ]

    def _change(self, tool: str, *values: object) -> str:
        if self._outcome:
            raise ValueError("the case is closed")
        if not self._db.execute(ACTIONS[tool], values).rowcount:
            raise ValueError("no order has this number")
        return "Done."


# Each tool's statement, which takes the tool's arguments in this order
ACTIONS = {
    "cancel_order": "UPDATE orders SET status = 'canceled' WHERE id = ?",
    "refund_order": "UPDATE orders SET status = 'refunded' WHERE id = ?",
    "change_address": "UPDATE orders SET address = ? WHERE id = ?",
}


def _named(tool: str, values: list) -> dict:
    names = ["address", "order"] if tool == "change_address" else ["order"]
    return dict(zip(names, values, strict=True))


def _filled(seed: int) -> sqlite3.Connection:
    """The shop's database, which is always the same for a seed."""
    draw = random.Random(seed)
    db = sqlite3.connect(":memory:")
    db.execute(TABLE)
    for number in range(1, 25):
        name, place = draw.choice(NAMES), draw.choice(STREETS)
        values = (
            *(number, f"{name}@example.com", str(1000 + NAMES.index(name))),
            *(draw.choice(GOODS), draw.choice(STATES), draw.randint(1, 60)),
            f"{place} {draw.randint(1, 90)}",
        )
        db.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    return db


def _content(db: sqlite3.Connection) -> list[tuple]:
    return db.execute("SELECT * FROM orders ORDER BY id").fetchall()
