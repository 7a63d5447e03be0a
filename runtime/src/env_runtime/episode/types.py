"""The shapes that all rooms share."""

from typing import Any, NamedTuple, Protocol

Row = dict[str, Any]  # a row of the dataset: responses_create_params, ground_truth
Task = dict[str, Any]  # ground_truth[0] of a row
Calls = list[tuple[str, dict[str, Any]]]  # (tool, arguments) for each call
Definitions = list[dict[str, Any]]  # tool definitions for the Responses API


class Solution(NamedTuple):
    """A row's solution: tool calls, then a final answer, "" if none is needed."""

    calls: Calls
    answer: str = ""


class Asked(Protocol):
    """An episode's models, which its class asks: models.client.EpisodeModels."""

    failure: str | None  # why a model could not be asked
    waiting: int  # questions without an answer yet

    @property
    def parameters(self) -> dict[str, Any]:
        """The constructor's arguments after the task."""
        ...

    def metrics(self) -> dict[str, float]:
        """Calls, tokens and seconds of each model."""
        ...

    def trace(self) -> list[dict[str, Any]]:
        """The calls so far, with their questions and answers."""
        ...
