"""NeMo Gym's example_multi_step: ask for the values of words, then submit them."""

from pydantic import BaseModel, Field


class Task(BaseModel):
    """A row's keys, except its prompt."""

    expected_synonyms: list[str] = Field(default_factory=list)
    expected_synonym_values: list[int] = Field(default_factory=list)


class MultiStep:
    """The synonyms are in the row's prompt. The last list that is submitted counts."""

    blocking = False

    def __init__(self, task: Task) -> None:
        self._expected = task.expected_synonym_values
        self._submitted: list[int] = []

    def get_synonym_value(self, synonym: str) -> dict[str, int]:
        """Get the synonym value for a synonym.

        Args:
            synonym: The synonym to get the value for.
        """
        return {"synonym_value": sum(map(ord, synonym))}

    def extract_synonym_values(self, synonym_values: list[int]) -> dict[str, bool]:
        """Submit the values of all synonyms that are relevant.

        Args:
            synonym_values: The values, in the order of the synonyms.
        """
        self._submitted = synonym_values
        return {"success": True}

    def reward(self) -> float:
        """1.0 for all values in their order, else 0.0."""
        return float(self._submitted == self._expected)

    def metrics(self) -> dict[str, float]:
        common = set(self._submitted) & set(self._expected)
        return {"set_overlap": len(common) / max(len(self._expected), 1)}

    @staticmethod
    def oracle(task: Task) -> list[tuple[str, dict[str, list[int]]]]:
        values = {"synonym_values": task.expected_synonym_values}
        return [("extract_synonym_values", values)]
