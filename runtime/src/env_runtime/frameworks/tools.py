"""The tools that a framework serves: those of nemo_gym/server.py, `say` and `answer`."""

from .. import project
from ..episode import tools
from ..episode.declaration import declared
from ..episode.tasks import steps_of
from ..episode.tools import SAY, SAY_TOOL, Tool, make_tool
from ..episode.types import REPLY, ROW_TOOL, Calls, Definitions, Row, Solution
from ..errors import GateError, ToolError
from ..evaluation.policies import PLANS

# What OpenEnv and ORS call the policy's last message.
ANSWER = "answer"


def answer(self, text: str) -> str:
    """Give the final answer. The episode ends with it.

    Args:
        text: The final answer.
    """
    raise NotImplementedError("an episode reads the answer itself")


ANSWER_TOOL = make_tool(answer)


def tools_of(domain_class: type) -> dict[str, Tool]:
    """The tools that nemo_gym/server.py serves, by name, in the class's order.

    In any other class, they are the methods that return text. A class with reply() has
    the tool `say`, too. Raises GateError if there are no tools and no answer to grade, or
    if rows have tools of their own; ToolError if the class has a tool `say` of its own,
    and like episode.tools.tools_of.
    """
    own = project.of_loaded.get(domain_class)
    served = own.served_tools() if own else None
    found = tools.tools_of(domain_class, served)
    name = domain_class.__name__
    if declared(domain_class).has_row_tools:
        raise GateError(
            f"{name} has {ROW_TOOL}(): here all rows have the same tools, so only NeMo "
            "Gym can play it; leave this framework out"
        )
    if lacking := sorted(set(served or ()) - set(found)):
        raise GateError(f"server.py serves {', '.join(lacking)}, which {name} lacks")
    if declared(domain_class).replies:
        return _with(domain_class, found, SAY_TOOL, "reply()")
    if not found and not declared(domain_class).ends_with_answer:
        raise GateError(
            f"server.py serves no tool, and {name} has no reward(answer): see the "
            "import gate of nemo_gym/"
        )
    return found


def tools_and_answer(domain_class: type) -> dict[str, Tool]:
    """The tools, and `answer` if the class grades the policy's last message.

    This is for frameworks that end an episode with a tool. Raises ToolError if the
    class has a tool `answer` of its own, and like tools_of.
    """
    found = tools_of(domain_class)
    if not declared(domain_class).ends_with_answer:
        return found
    return _with(domain_class, found, ANSWER_TOOL, "reward(answer)")


def _with(
    domain_class: type, found: dict[str, Tool], tool: Tool, method: str
) -> dict[str, Tool]:
    """The tools of the class and one more, for a method of it. Raises ToolError."""
    if tool.name in found:
        raise ToolError(
            f"{domain_class.__name__} has {method}, so the tool {tool.name!r} takes the "
            "policy's message: rename the class's own tool"
        )
    return {**found, tool.name: tool}


def definitions_of(domain_class: type) -> Definitions:
    """The tools of a class as the Responses API takes them, without `answer`."""
    return [tool.definition() for tool in tools_of(domain_class).values()]


def plan_for(domain_class: type, row: Row, policy: str) -> Solution:
    """The calls and the answer of one of PLANS on a row. Raises like PLANS.

    Messages that the class replies to are calls of `say`.
    """
    plan = PLANS[policy](row, definitions_of(domain_class))
    if not declared(domain_class).replies:
        return plan
    return Solution(
        [
            (SAY, {"text": sent["answer"]}) if tool == REPLY else (tool, sent)
            for tool, sent in steps_of(domain_class, plan)
        ]
    )


def calls_of(domain_class: type, plan: Solution) -> Calls:
    """A policy's calls; its last message is a call of `answer` if the class grades it."""
    if not plan.answer or not declared(domain_class).ends_with_answer:
        return plan.calls
    return [*plan.calls, (ANSWER, {"text": plan.answer})]


def split_answer(domain_class: type, calls: Calls) -> Solution:
    """The calls before the first call of `answer`, and its text: calls_of reversed."""
    for number, (name, arguments) in enumerate(calls):
        answered = name == ANSWER and isinstance(arguments.get("text"), str)
        if answered and declared(domain_class).ends_with_answer:
            return Solution(calls[:number], arguments["text"])
    return Solution(calls)
