"""The protocol of a policy, and the policies that bound a grader."""

import json
from collections.abc import Callable
from typing import NamedTuple, Protocol

from .. import project
from ..episode.samples import sample_arguments
from ..episode.tasks import oracle_calls
from ..episode.tools import tools_of
from ..episode.types import Calls, Definitions, Row
from ..errors import NoOracleError, RolloutError
from .trajectory import Item, function_call


class Turn(NamedTuple):
    """A policy's next output items: function calls come without their results."""

    items: list[Item]
    incomplete_reason: str | None = None  # "max_output_tokens", or another of the API's
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def calls(self) -> list[Item]:
        return [item for item in self.items if item["type"] == "function_call"]


class Policy(Protocol):
    name: str  # the model that the trajectory names

    def turn(self, row: Row, definitions: Definitions, output: list[Item]) -> Turn:
        """Go on after `output`, the items of the episode so far."""
        ...


class FixedPolicy:
    """Makes the calls of `plan(row, definitions)` in the first turn, then none."""

    def __init__(self, name: str, plan: Callable[[Row, Definitions], Calls]) -> None:
        self.name = name
        self.plan = plan

    def turn(self, row: Row, definitions: Definitions, output: list[Item]) -> Turn:
        if output:
            return Turn([])
        calls = self.plan(row, definitions)
        return Turn(
            [function_call(tool, json.dumps(arguments)) for tool, arguments in calls]
        )


def solve(row: Row, definitions: Definitions) -> Calls:
    """The calls that solve the row, by the class's own oracle(task).

    Raises NoOracleError if the class has none, if it needs a tool that is not among
    `definitions`, or if this machine lacks something that an episode needs;
    RolloutError if it calls something that is not a tool; GateError if the class cannot
    be imported.
    """
    domain_class = project.load_class()
    oracle = f"{domain_class.__name__}.oracle"
    calls = oracle_calls(domain_class, row)
    called = {tool for tool, _ in calls}
    served = {tool["name"] for tool in definitions}
    tools = served | set(tools_of(domain_class))
    if unknown := sorted(called - tools):
        raise RolloutError(
            f"{oracle} calls {', '.join(unknown)}, which is not a tool; there are "
            f"{', '.join(sorted(tools))}"
        )
    if missing := sorted(called - served):
        raise NoOracleError(
            f"{oracle} uses {', '.join(missing)}, which the server does not expose"
        )
    return calls


def do_nothing(row: Row, definitions: Definitions) -> Calls:
    """No call at all: no grader may pay for it."""
    return []


def call_everything(row: Row, definitions: Definitions) -> Calls:
    """Each tool twice, with nonsense that fits: no grader should pay for it."""
    return [
        (tool["name"], sample_arguments(tool, high=high))
        for high in (False, True)
        for tool in definitions
    ]


PLANS: dict[str, Callable[[Row, Definitions], Calls]] = {
    "oracle": solve,
    "noop": do_nothing,
    "garbage": call_everything,
}


def fixed_policy(name: str) -> FixedPolicy:
    """The policy "oracle", "noop" or "garbage"."""
    return FixedPolicy(name, PLANS[name])
