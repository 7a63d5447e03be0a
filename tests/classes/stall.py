"""A market stall that uses everything a class may have beyond a reward from 0 to 1."""

from typing import NamedTuple

# 1 x 1 pixel
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class View(NamedTuple):
    output: str
    image: str


class Stall:
    """Buy what is wanted, below its price, and say what was bought."""

    reward_range = (-1.0, 2.0)

    def __init__(self, task: dict):
        self.stock, self.wanted = dict(task["stock"]), task["wanted"]
        self.bought: str | None = None

    def observation(self) -> View:
        return View(f"On the stall: {', '.join(self.stock)}.", PIXEL)

    def look(self) -> View:
        """Look at the stall."""
        return self.observation()

    def prices(self) -> dict[str, float]:
        """List the prices."""
        return self.stock

    def buy(self, item: str, offer: float) -> str:
        """Offer a price.

        Args:
            item: What to buy.
            offer: At least three quarters of its price.
        """
        if item not in self.stock:
            raise ValueError(f"there are only {', '.join(self.stock)}")
        if offer < 0.75 * self.stock[item]:
            return "No."
        self.bought = item
        return "Sold."

    def pack(self, tools: dict) -> str:
        """Pack what is for sale, which says nothing."""
        return ""

    def secret(self) -> dict[str, str]:
        """The wanted item, which server.py does not serve as a tool."""
        return {"wanted": self.wanted}

    def reward(self, answer: str) -> float:
        if self.bought != self.wanted:
            return -0.5 if answer else 0.0
        return 2.0 if answer == f"I bought {self.bought}." else 1.0

    @staticmethod
    def oracle(task):
        item = task["wanted"]
        return [
            ("look", {}),
            ("prices", {}),
            ("pack", {"tools": {}}),
            ("buy", {"item": item, "offer": task["stock"][item]}),
            f"I bought {item}.",
        ]
