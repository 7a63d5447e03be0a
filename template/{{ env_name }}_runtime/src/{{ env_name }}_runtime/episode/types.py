"""The shapes that all rooms share."""

from typing import Any, NamedTuple

Row = dict[str, Any]  # of the dataset: responses_create_params, ground_truth
Task = dict[str, Any]  # ground_truth[0] of a row
Calls = list[tuple[str, dict[str, Any]]]  # (tool, arguments)
Definitions = list[dict[str, Any]]  # of tools, for the Responses API


class Solution(NamedTuple):
    """What solves a row: tool calls, then a final answer, "" if none is needed."""

    calls: Calls
    answer: str = ""
