"""NeMo Gym's calendar: events without conflicts, as JSON in the policy's last message."""

from typing import Any

from resources_servers.calendar import utils


class Calendar:
    """One conversation, in the row's prompt. `exp_cal_state` has the events' limits."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._expected: dict[str, Any] = task["exp_cal_state"]

    def reward(self, answer: str) -> float:
        """1.0 if every event keeps its limits. The rules are NeMo Gym's."""
        if not answer:
            return 0.0
        passed, _ = utils.grade_assistant_response(answer, self._expected)
        return float(passed)
