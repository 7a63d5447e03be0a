"""What plays: the protocol of a policy, and the policies that bound a grader."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from plumbing.records import Item, RolloutError, Row, Tools, function_call

Calls = list[tuple[str, dict[str, Any]]]


class Turn(NamedTuple):
    """What a policy does next: output items, function calls without their results."""

    items: list[Item]
    incomplete_reason: str | None = None  # "max_output_tokens", or another of the API's
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def calls(self) -> list[Item]:
        return [item for item in self.items if item["type"] == "function_call"]


class Policy(Protocol):
    name: str  # the model that the trajectory names

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        """Go on after `output`, the items of the episode so far."""
        ...


class FixedPolicy:
    """Makes the calls that `plan` gives for a row in the first turn, then none."""

    def __init__(self, name: str, plan: Callable[[Row, Tools], Calls]) -> None:
        self.name = name
        self.plan = plan

    def turn(self, row: Row, tools: Tools, output: list[Item]) -> Turn:
        if output:
            return Turn([])
        calls = self.plan(row, tools)
        return Turn([function_call(name, json.dumps(given)) for name, given in calls])


class NoOracle(RolloutError):
    """There is no oracle for the tools that the server exposes."""


def solve(row: Row, tools: Tools) -> Calls:
    """The calls that solve the row, by the class's own oracle(task).

    Raises NoOracle if the class has none, if it needs a tool that is not among `tools`,
    or if this machine lacks what an episode needs.
    """
    # Only this policy needs the class, which other clients cannot import.
    from plumbing.environment import EnvironmentClass, episodes

    try:
        calls = episodes.oracle_calls(EnvironmentClass, row)
    except episodes.NoOracle as why:
        raise NoOracle(str(why)) from None
    exposed = {tool["name"] for tool in tools}
    known = exposed | set(episodes.tools_of(EnvironmentClass))
    if unknown := sorted({tool for tool, _ in calls} - known):
        raise RolloutError(
            f"{EnvironmentClass.__name__}.oracle calls {', '.join(unknown)}, which is "
            f"not a tool; there are {', '.join(sorted(known))}"
        )
    if missing := sorted({tool for tool, _ in calls} - exposed):
        raise NoOracle(
            f"{EnvironmentClass.__name__}.oracle uses {', '.join(missing)}, which the server "
            "does not expose"
        )
    return calls


def do_nothing(row: Row, tools: Tools) -> Calls:
    """No call at all: no grader may pay for it."""
    return []


def call_everything(row: Row, tools: Tools) -> Calls:
    """Each tool twice, with nonsense that fits: no grader should pay for it."""
    return [
        (tool["name"], sample_arguments(tool, high=high))
        for high in (False, True)
        for tool in tools
    ]


PLANS = {"oracle": solve, "noop": do_nothing, "garbage": call_everything}


def fixed_policy(name: str) -> FixedPolicy:
    """The policy "oracle", "noop" or "garbage"."""
    return FixedPolicy(name, PLANS[name])


# ---------------------------------------------------------------------- samples


def sample_arguments(tool: dict[str, Any], *, high: bool = False) -> dict[str, Any]:
    """Arguments that fit a tool definition: small ones, or large ones."""
    from plumbing.environment import episodes

    return episodes.sample_arguments(tool, high=high)
