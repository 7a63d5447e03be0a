"""NeMo Gym's example_session_state_mgmt: a counter with two tools that return objects."""

from pydantic import BaseModel


class Task(BaseModel):
    """A row's keys, except its prompt."""

    initial_count: int = 0
    expected_count: int = 0


class Count(BaseModel):
    """A tool's result."""

    count: int


class Counter:
    """A counter that the policy must bring to `expected_count`."""

    blocking = False

    def __init__(self, task: Task) -> None:
        self._count, self._expected = task.initial_count, task.expected_count

    def increment_counter(self, count: int) -> dict[str, bool]:
        """Add to the counter.

        Args:
            count: What is added.
        """
        self._count += count
        return {"success": True}

    def get_counter_value(self) -> Count:
        """Read the counter."""
        return Count(count=self._count)

    def state(self) -> dict[str, int]:
        """For tests: no tool, because no server has a line for it."""
        return {"count": self._count}

    def reward(self) -> float:
        """1.0 if the counter is where it must be, else 0.0."""
        return float(self._count == self._expected)

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, int]]]:
        """One step of the right size."""
        count = task.expected_count - task.initial_count
        return [("increment_counter", {"count": count})]
