"""NeMo Gym's terminal_multi_harness: the next step of a coding agent's harness."""

import json
from typing import Any

from pydantic import BaseModel
from resources_servers.terminal_multi_harness.common.verification_utils import (
    ActionComparator,
    ExpectedAction,
    FunctionCallAction,
    FunctionCallBatchAction,
    MessageAction,
    ToolCallComparatorConfig,
)

# The server's own grader, as its configurations set it.
GRADER = ActionComparator(
    config=ToolCallComparatorConfig(string_similarity_threshold=0.9)
)


class Task(BaseModel):
    """`declared_tools` are the row's tools, against which calls are validated."""

    harness: str = "generic"
    expected_action: ExpectedAction
    declared_tools: list[dict[str, Any]]
    threshold: float | None = None


class TerminalMultiHarness:
    """One step, whose row has the harness's tools."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._made: list[FunctionCallAction] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call, which nobody executes."""
        text = json.dumps(arguments)
        call = FunctionCallAction(type="function_call", name=name, arguments=text)
        self._made.append(call)
        return "noted"

    def reward(self, answer: str) -> float:
        """1.0 if the calls match the expected ones, or any message if one is expected."""
        made: ExpectedAction = MessageAction(type="message", content=answer)
        if len(self._made) == 1:
            [made] = self._made
        elif self._made:
            made = FunctionCallBatchAction(type="function_call_batch", calls=self._made)
        compared = GRADER.compare_action(
            expected_action=self._task.expected_action,
            actual_action=made,
            declared_tools=self._task.declared_tools,
            threshold_override=self._task.threshold,
            harness=self._task.harness,
        )
        return float(compared.matches)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        expected = task["expected_action"]
        if expected["type"] == "message":
            return expected["content"]
        calls = expected.get("calls", [expected])
        return [(call["name"], json.loads(call["arguments"])) for call in calls]
