"""The class, which the package imports."""

from .core.stock import Stock


class Warehouse:
    def __init__(self, task: dict):
        self.goal = task.get("goal", 3)
        self.stock = Stock(10)

    def survey(self) -> str:
        """Count what is in stock."""
        return str(self.stock.count)

    def send(self, count: int) -> str:
        """Send some of it."""
        self.stock.take(count)
        return "sent"

    def reward(self) -> float:
        return float(10 - self.stock.count == self.goal)

    @staticmethod
    def oracle(task: dict) -> list:
        return [("send", {"count": task["goal"]})]
