"""NeMo Gym's example_tool_call_multireward: one call, graded in three ways."""

from typing import Any


class Weather:
    """`expected_call` is the call that the policy must make, and nothing else."""

    blocking = False
    reward_range = (0.0, 3.0)

    def __init__(self, task: dict[str, Any]) -> None:
        self._expected: dict[str, Any] = task["expected_call"]
        self._calls: list[dict[str, Any]] = []
        self._parts: dict[str, float] = {}

    def get_weather(self, city: str) -> dict[str, str]:
        """Get the current weather for a city."""
        self._calls.append({"name": "get_weather", "arguments": {"city": city}})
        return {"city": city, "weather_description": f"The weather in {city} is sunny."}

    def reward(self, answer: str) -> float:
        """1.0 each for the expected call, a valid call, and one call without a text."""
        self._parts = {
            "correctness": float(self._expected in self._calls),
            "schema_valid": float(bool(self._calls)),
            "format": float(len(self._calls) == 1 and not answer),
        }
        return sum(self._parts.values())

    def components(self) -> dict[str, float]:
        return self._parts

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        call = task["expected_call"]
        return [(call["name"], call["arguments"])]
