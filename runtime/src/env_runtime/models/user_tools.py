"""Tools that a class gives to a model that it asks, such as a simulated user.

They are bound methods of the episode's own object, called in the episode's thread:

    said = self.user.ask(messages, tools=[self._look_at_bill, self._pay_bill])

The leading underscore keeps a method from the policy. The model sees the name without it.
"""

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import MethodType
from typing import Any

from pydantic import ValidationError

from ..episode.answers import as_answer, sendable
from ..episode.declaration import declared
from ..episode.tasks import validation_problem
from ..episode.tools import Tool, make_tool
from ..errors import ToolError
from .answers import ToolCall

# What one ask() allows: calls, and seconds in which the model may start another one.
MAX_TOOL_CALLS = 10
MAX_SECONDS = 15.0


@dataclass(frozen=True)
class UserTool:
    """A tool of one ask(). `tool` has the name that the model sees."""

    tool: Tool
    method: MethodType

    async def output(self, arguments: str) -> str:
        """The text that a call returns. `arguments` is the model's JSON.

        An exception that the class raises on purpose becomes a text that starts with
        `error:`. Raises any other exception of the method.
        """
        try:
            read = self.tool.arguments.model_validate(json.loads(arguments or "{}"))
        except (ValueError, RecursionError) as error:
            invalid = isinstance(error, ValidationError)
            return f"error: {validation_problem(error) if invalid else 'not JSON'}"
        try:
            value = self.method(**self.tool.keywords(read))
            if inspect.isawaitable(value):
                value = await value
            return as_answer(value).output
        except Exception as error:
            if not declared(type(self.method.__self__)).is_expected(error):
                raise
            return sendable(f"error: {str(error) or type(error).__name__}")


def user_tools(methods: Iterable[Callable[..., Any]]) -> dict[str, UserTool]:
    """The tools by the names that the model sees.

    Raises ToolError for anything but a bound method whose parameters have types.
    """
    tools: dict[str, UserTool] = {}
    for method in methods:
        if not isinstance(method, MethodType):
            raise ToolError(f"tools must be methods such as self._pay; got {method!r}")
        tool = make_tool(method.__func__)
        name = tool.name.lstrip("_")
        if name in tools:
            raise ToolError(f"two tools have the name {name!r}: rename one of them")
        description = name if tool.description == tool.name else tool.description
        tool = replace(tool, name=name, description=description)
        tools[name] = UserTool(tool, method)
    return tools


async def output_of(tools: dict[str, UserTool], call: ToolCall) -> str:
    """The output of a model's call, for the model. Raises what the tool raises."""
    if call.name not in tools:
        return f"error: no tool {call.name!r}; there are {', '.join(tools)}"
    return await tools[call.name].output(call.arguments)
