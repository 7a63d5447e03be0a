"""Tools made from the methods of an environment class."""

import contextlib
import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticUndefined, from_json, to_json

from ..errors import ToolError
from ..facts import SERVER_PATHS
from ..project import of_loaded
from .declaration import (
    declared,
    hint_of,
    hints_of,
    method_of,
    public_methods,
    where,
)
from .docstrings import read_docstring
from .schema import function_definition, plain_schema
from .types import REPLY, Calls, Definitions, Row

# The most validation errors that an answer lists. If there are more, it gives a number.
MAX_PROBLEMS = 100


class Arguments(BaseModel):
    """The arguments of a call, as the policy wrote them."""

    @model_validator(mode="wrap")
    @classmethod
    def checked(cls, body: Any, validate: Any) -> Any:
        """Raise an error with few problems."""
        try:
            return validate(body)
        except ValidationError as error:
            raise few_problems(error) from None


def few_problems(error: ValidationError) -> ValidationError | PydanticCustomError:
    """The error, or another one for more than MAX_PROBLEMS: each of them costs time."""
    count = error.error_count()
    if count <= MAX_PROBLEMS:
        return error
    text = "{count} values are not what they should be"
    return PydanticCustomError("too_many_problems", text, {"count": count})


def posted(arguments: str) -> Any:
    """The body that an agent of NeMo Gym posts for a call's arguments, which are JSON.

    Its encoder makes null of NaN and of what is too large for a float. Raises ValueError
    if the arguments are not JSON, which no agent posts, or JSON that no encoder takes.
    """
    try:
        return from_json(to_json(json.loads(arguments), inf_nan_mode="null"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def call_body(names: Collection[str], name: str, arguments: str) -> Any:
    """The body to post for a call of a policy, which may name only one of these tools.

    Raises ValueError for any other name, and for arguments that nobody can post. The
    policy reads the reason.
    """
    # /verify and /close_session are paths of the server, too.
    usable = {*map(str, names)} - SERVER_PATHS
    if name not in usable:
        others = ", ".join(sorted(usable)) or "none"
        raise ValueError(f"no tool {name[:100]!r}; there are {others}")
    try:
        return posted(arguments)
    except (ValueError, TypeError) as error:
        raise ValueError(f"the arguments are not JSON: {error}") from None


STUB = "this tool is still to be written"  # as extensions/tools.jinja has it


@dataclass(frozen=True)
class Tool:
    """A method of the environment class that a policy may call."""

    name: str
    description: str  # the docstring up to its first section, on one line
    arguments: type[BaseModel]  # validates a call
    method: Callable[..., Any]

    @property
    def is_stub(self) -> bool:
        """Whether the template wrote the method, and nobody has written its body."""
        code = getattr(inspect.unwrap(self.method), "__code__", None)
        return code is not None and STUB in code.co_consts

    def keywords(self, arguments: BaseModel) -> dict[str, Any]:
        """The keyword arguments of the method, from validated `arguments`."""
        fields = type(arguments).model_fields.items()
        return {str(field.alias): getattr(arguments, name) for name, field in fields}

    def definition(self) -> dict[str, Any]:
        """The tool as the Responses API takes it, with a JSON Schema."""
        schema = plain_schema(self.arguments.model_json_schema())
        return function_definition(self.name, self.description, schema)


def tools_of(
    domain_class: type, served: Collection[str] | None = None
) -> dict[str, Tool]:
    """The tools of an environment class by name, in the order of their definition.

    A tool is a public method that is annotated to return text: `str`, or a NamedTuple or
    a dataclass with a field `output`, and that can be called with arguments from JSON. With
    `served`, the names of the tools in server.py, exactly those methods are tools, and
    they may return anything else that JSON can hold. Raises ToolError if one of them
    cannot be called with arguments from JSON.
    """
    tools = {}
    for name, function in public_methods(domain_class):
        if served is None:
            with contextlib.suppress(ToolError):  # a helper
                if returns_text(function):
                    tools[name] = make_tool(function)
        elif name in served:
            tools[name] = make_tool(function)
    return tools


def served_tools(domain_class: type) -> dict[str, Tool]:
    """The tools that nemo_gym/server.py of the class's project serves, as tools_of() has them.

    Without a project they are the methods that return text.
    """
    own = of_loaded.get(domain_class)
    return tools_of(domain_class, own.served_tools() if own else None)


def tool_of(domain_class: type, member: Any) -> Tool:
    """The tool of a method, as an expression such as `MyEnv.look` has it.

    Raises ToolError if it is something else, or if its signature does not allow that.
    """
    # A partialmethod is a new function each time, which refers to it.
    partial = getattr(member, "__partialmethod__", getattr(member, "_partialmethod", 0))
    names = [getattr(member, "__name__", ""), *dir(domain_class)]
    for name in names:
        found = inspect.getattr_static(domain_class, name, None)
        if found is not None and (found is member or found is partial):
            if partial or inspect.isfunction(found):
                return make_tool(method_of(domain_class, name))
            kind = type(found).__name__
            raise ToolError(
                f"{declared(domain_class).place}.{name} is a {kind}, but a tool is a "
                f"method: write `def {name}(self, ...) -> str` in the class"
            )
    return make_tool(member)


def returns_text(function: Callable[..., Any]) -> bool:
    """Whether a method is annotated to return text, or text with an image."""
    annotation = hint_of(function, "return")
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is Literal:
        return all(isinstance(value, str) for value in typing.get_args(annotation))
    return isinstance(annotation, type) and (
        issubclass(annotation, str) or "output" in fields_of(annotation)
    )


def fields_of(kind: type) -> tuple[str, ...]:
    """The fields of a NamedTuple or of a dataclass; () for any other class."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return getattr(kind, "_fields", ()) if issubclass(kind, tuple) else ()


def named(function: Any) -> tuple[str, str]:
    """The name of a function, and its qualified name."""
    return function.__name__, function.__qualname__


@functools.cache
def make_tool(function: Callable[..., Any]) -> Tool:
    """The tool of a method. Raises ToolError if its signature does not allow that.

    Types and defaults come from the signature, descriptions from the docstring or from
    `Annotated[..., Field(description=...)]`.
    """
    name, full_name = named(function)
    place = f"{where(function)}: {full_name}"
    hints = hints_of(function)
    documented = read_docstring(inspect.getdoc(function) or "")
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
        raise ToolError(
            f"{place} is the tool {name}, but takes `{parameters[0]}`: if a decorator "
            "made it, write `@functools.wraps(method)` above its inner function, which "
            "keeps the method's parameters, types and docstring"
        )
    if not parameters or (parameters[0].name != "self" and parameters[0].name in hints):
        raise ToolError(
            f"{place} has no parameter `self`: write `def {name}(self, ...)`"
        )
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters[1:]):
        _check_parameter(parameter, place, hints)
        # A field must not have the name of an attribute of pydantic's models.
        fields[f"field{number}"] = _field(
            parameter, hints[parameter.name], documented.parameters.get(parameter.name)
        )
    try:
        arguments = create_model(f"{name}_arguments", __base__=Arguments, **fields)
        arguments.model_json_schema()
    except Exception as error:
        raise ToolError(
            f"{place} has a parameter that JSON cannot express, "
            f"{_without_schema(parameters[1:], hints) or error}: take text, numbers, "
            "lists, or a pydantic model"
        ) from error
    return Tool(name, documented.description or name, arguments, function)


def _without_schema(parameters: list[inspect.Parameter], hints: dict[str, Any]) -> str:
    """The first parameter that has no JSON Schema, as `board: Board`; "" if all have."""
    for parameter in parameters:
        annotation = hints[parameter.name]
        try:
            TypeAdapter(annotation).json_schema()
        except Exception:  # noqa: BLE001 - pydantic raises errors of several kinds
            return f"`{parameter.name}: {inspect.formatannotation(annotation)}`"
    return ""


def _check_parameter(
    parameter: inspect.Parameter, place: str, hints: dict[str, Any]
) -> None:
    """Raise ToolError for a parameter that a policy could not fill in."""
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolError(
            f"{place} takes `{parameter}`: a policy can only fill in parameters "
            "that have a name and a type each"
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolError(
            f"{place}: the parameter {parameter.name!r} is positional-only, but "
            "tools are called with keyword arguments: remove the `/`"
        )
    if parameter.name not in hints:
        default = parameter.default
        usual = default is parameter.empty or default is None
        kind = "str" if usual else type(default).__name__
        raise ToolError(
            f"{place}: the parameter {parameter.name!r} has no type: write "
            f"`{parameter.name}: {kind}`, or whatever it takes"
        )


def _field(
    parameter: inspect.Parameter, annotation: Any, documented: str | None
) -> tuple[Any, Any]:
    """A parameter as a field of a pydantic model: its annotation and its default."""
    declared = FieldInfo.from_annotation(annotation)
    described = declared.description or documented or _text_beside(annotation)
    default = (
        declared.default if parameter.default is parameter.empty else parameter.default
    )
    return Annotated[annotation, Field(description=described, alias=parameter.name)], (
        ... if default is PydanticUndefined else default
    )


def _text_beside(annotation: Any) -> str | None:
    """The text of `Annotated[str, "text"]`, or of typing_extensions.Doc there."""
    if typing.get_origin(annotation) is Annotated:
        for item in typing.get_args(annotation)[1:]:
            text = getattr(item, "documentation", item)
            if isinstance(text, str):
                return text
    return None


def aliases_of(function: Callable[..., Any]) -> dict[str, str]:
    """The parameters with another name for pydantic, `Field(alias=...)`, and that name."""
    found = {}
    for name, annotation in hints_of(function).items():
        info = (
            FieldInfo.from_annotation(annotation) if name != "return" else FieldInfo()
        )
        alias = info.validation_alias or info.alias or info.serialization_alias
        if alias not in (None, name):
            found[name] = str(alias)
    return found


def tools_in(domain_class: type, row: Row, served: Definitions) -> Definitions:
    """The tools that a row must list: the server's and, if the class takes them, its own."""
    return [*served, *_own_tools(domain_class, row, served)]


def lists_tools(row: Row, tools: Definitions) -> bool:
    """Whether a row lists these tools.

    Releases before 0.6.1 described a parameter without a description: "The word." Such
    rows stay valid.
    """
    listed = row["responses_create_params"].get("tools") or []
    return [*map(_without_filler, listed)] == [*map(_without_filler, tools)]


def _without_filler(tool: Any) -> Any:
    try:
        properties = {
            name: {
                key: value
                for key, value in schema.items()
                if (key, value)
                != ("description", f"The {name.replace('_', ' ').strip()}.")
            }
            for name, schema in tool["parameters"]["properties"].items()
        }
    except (LookupError, TypeError, AttributeError):
        return tool
    return {**tool, "parameters": {**tool["parameters"], "properties": properties}}


def check_row_tools(domain_class: type, row: Row) -> None:
    """Raise ValueError if a call of one of the row's own tools would not reach the class."""
    for tool in _own_tools(domain_class, row, []):
        name = tool.get("name")
        if not (isinstance(name, str) and re.fullmatch(r"\w[\w.-]*", name)):
            problem = f"no tool can be called {name!r}: use letters, digits, _, . and -"
        elif name in SERVER_PATHS:
            problem = not_a_name(name)
        else:
            continue
        raise ValueError(f"responses_create_params.tools: {problem}")


def not_a_name(name: str) -> str:
    """Why no tool can have the name of a server's path, and what to do."""
    return (
        f"no tool can be called {name!r}, because its calls go to the server's path of "
        "that name: rename it"
    )


def _own_tools(domain_class: type, row: Row, served: Definitions) -> Definitions:
    if not declared(domain_class).has_row_tools:
        return []
    names = {tool["name"] for tool in served}
    listed = row["responses_create_params"].get("tools") or []
    if every_row := declared(domain_class).row_tools:
        try:
            listed = every_row()
        except ValueError as error:
            raise ToolError(f"{domain_class.__name__}.row_tools(): {error}") from error
    return [tool for tool in listed if tool.get("name") not in names]


SAY = "say"
# `say` returns this once the environment has ended the episode.
OVER = "The episode is over."
# `say` returns this if nothing is left of the text without the model's thinking.
EMPTY = "error: the text is empty"


def say(self, text: str) -> str:
    """Say something to the other side of the conversation, which hears nothing else. Returns its reply.

    Args:
        text: The message.
    """
    raise NotImplementedError("an episode calls reply() itself")


SAY_TOOL = make_tool(say)


# OpenEnv and ORS take the policy's last message as a call of this name.
ANSWER = "answer"


def answer(self, text: str) -> str:
    """Give the final answer. The episode ends with it.

    Args:
        text: The final answer.
    """
    raise NotImplementedError("an episode reads the answer itself")


ANSWER_TOOL = make_tool(answer)


def said(calls: Calls) -> Calls:
    """Calls in which the messages to a class with reply() are calls of `say`."""
    return [
        (SAY, {"text": sent["answer"]}) if tool == REPLY else (tool, sent)
        for tool, sent in calls
    ]
