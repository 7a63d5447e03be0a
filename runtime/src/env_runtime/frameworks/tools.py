"""The tools that a framework serves: those of nemo_gym/server.py, and `answer`."""

from .. import project
from ..episode import tools
from ..episode.tasks import takes_answer
from ..episode.tools import Tool, make_tool
from ..episode.types import Calls, Definitions, Solution
from ..errors import GateError, ToolError

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

    In any other class, they are the methods that return text. Raises GateError if there
    are no tools and no answer to grade; ToolError like episode.tools.tools_of.
    """
    own = project.of_loaded.get(domain_class)
    served = own.served_tools() if own else None
    found = tools.tools_of(domain_class, served)
    name = domain_class.__name__
    if lacking := sorted(set(served or ()) - set(found)):
        raise GateError(f"server.py serves {', '.join(lacking)}, which {name} lacks")
    if not found and not takes_answer(domain_class):
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
    if not takes_answer(domain_class):
        return found
    if ANSWER in found:
        raise ToolError(
            f"{domain_class.__name__} has reward(answer), so the tool {ANSWER!r} takes "
            "the final answer: rename the class's own tool"
        )
    return {**found, ANSWER: ANSWER_TOOL}


def definitions_of(domain_class: type) -> Definitions:
    """The tools of a class as the Responses API takes them, without `answer`."""
    return [tool.definition() for tool in tools_of(domain_class).values()]


def calls_of(domain_class: type, plan: Solution) -> Calls:
    """A policy's calls; its last message is a call of `answer` if the class grades it."""
    if not plan.answer or not takes_answer(domain_class):
        return plan.calls
    return [*plan.calls, (ANSWER, {"text": plan.answer})]


def split_answer(domain_class: type, calls: Calls) -> Solution:
    """The calls before the first call of `answer`, and its text: calls_of reversed."""
    for number, (name, arguments) in enumerate(calls):
        answered = name == ANSWER and isinstance(arguments.get("text"), str)
        if answered and takes_answer(domain_class):
            return Solution(calls[:number], arguments["text"])
    return Solution(calls)
