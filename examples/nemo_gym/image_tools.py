"""NeMo Gym's image_tools: the next call on an image, which the policy writes as text."""

import json
from typing import Any

from pydantic import BaseModel
from resources_servers.image_tools import app
from resources_servers.image_tools.base import parse_image_tool_calls

IGNORED = ("label", "labels")  # free texts


class Call(BaseModel):
    name: str
    arguments: dict[str, Any]


class Task(BaseModel):
    expected_action: Call


class ImageTools:
    """One decision about an image. Nobody executes the call."""

    def __init__(self, task: Task) -> None:
        self._expected = task.expected_action

    def reward(self, answer: str) -> float:
        """1.0 if the answer has one call, of the expected tool with similar arguments."""
        try:
            [made] = parse_image_tool_calls(answer)
            return float(self._similar(made["name"], made["arguments"]))
        except Exception:  # noqa: BLE001 - arguments can be anything, also in app.py
            return 0.0

    def _similar(self, name: str, made: dict[str, Any]) -> bool:
        expected = self._expected
        if not app.verify_tool_name_match(str(name), expected.name):
            return False
        arguments = (
            {key: value for key, value in each.items() if key not in IGNORED}
            for each in (made, expected.arguments)
        )
        family = app.tool_family(expected.name)
        made, wanted = arguments
        if not app.verify_target_match(family, made, wanted):
            return False
        return app.compute_argument_score(family, made, wanted, 1e-6)[0] >= 0.5

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        return f"<tool_call>{json.dumps(task['expected_action'])}</tool_call>"
