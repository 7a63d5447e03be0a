"""The class of a repository with a src layout."""

from mazes import corridor


class Walk:
    """A walk to the end of a corridor."""

    def __init__(self, task: dict):
        self.places = corridor(task.get("length") or 4)
        self.place = 0

    def step(self) -> str:
        """Go one step on."""
        self.place = min(self.place + 1, self.places[-1])
        return f"place {self.place}"

    def reward(self) -> float:
        return float(self.place == self.places[-1])

    @staticmethod
    def oracle(task):
        return [("step", {})] * 3
