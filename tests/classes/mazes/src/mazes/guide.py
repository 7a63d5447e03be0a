"""A conversation in a repository with a src layout; its reply() is another module's."""

from mazes.voice import Voice


class Guide(Voice):
    """A voice that says where the end of a corridor is."""

    def __init__(self, task: dict):
        self.length = task["length"]
        self.arrived = False

    def look(self) -> str:
        """Look ahead."""
        return f"{self.length} places"

    def reward(self) -> float:
        return float(self.arrived)

    @staticmethod
    def oracle(task):
        return ["hello", ("look", {}), str(task["length"])]
