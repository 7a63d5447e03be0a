"""Tools made from the methods of an environment class."""

import contextlib
import functools
import inspect
import json
import math
import sys
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from types import SimpleNamespace
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
from ..files import source_name
from .docstrings import read_docstring
from .schema import function_definition, plain_schema

# Public methods that are not tools, though some return text.
PROTOCOL = frozenset(
    ["reward", "metrics", "close", "observation", "oracle", "notice", "reply"]
    + ["missing_requirement", "refuse_to_serve", "stand_in", "call_row_tool"]
)

# The most validation errors that an answer lists. If there are more, it gives a number.
MAX_PROBLEMS = 100


class Arguments(BaseModel):
    """The arguments of a call, as the policy wrote them."""

    @model_validator(mode="wrap")
    @classmethod
    def few_problems(cls, body: Any, validate: Any) -> Any:
        """Raise one error instead of more than MAX_PROBLEMS: each error costs time."""
        try:
            return validate(body)
        except ValidationError as error:
            if error.error_count() <= MAX_PROBLEMS:
                raise
            raise PydanticCustomError(
                "too_many_problems",
                "{count} values are not what they should be",
                {"count": error.error_count()},
            ) from None


def arguments_text(arguments: Any) -> str:
    """A call's arguments as JSON text: some endpoints send an object, or nothing.

    Raises TypeError or ValueError if JSON cannot hold them.
    """
    if arguments is None or arguments == "":
        return "{}"
    if isinstance(arguments, str):
        return arguments
    return json.dumps(arguments, ensure_ascii=False)


def posted(arguments: str) -> Any:
    """The body that an agent of NeMo Gym posts for a call's arguments, which are JSON.

    Its encoder makes null of NaN and of what is too large for a float. Raises ValueError
    if the arguments are not JSON, which no agent posts, or JSON that no encoder takes.
    """
    try:
        return from_json(to_json(json.loads(arguments), inf_nan_mode="null"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


@dataclass(frozen=True)
class Tool:
    """A method of the environment class that a policy may call."""

    name: str
    description: str  # the docstring up to its first section, on one line
    arguments: type[BaseModel]  # validates a call
    method: Callable[..., Any]

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


def tool_seconds(domain_class: type) -> dict[str, float]:
    """The limits of the class's slow tools, by name: its `tool_seconds`, else {}.

    Raises ToolError if that is not a dict of positive numbers.
    """
    declared = getattr(domain_class, "tool_seconds", {})
    if not isinstance(declared, dict):
        problem = f"got {declared!r:.80}"
    else:
        problem = next(
            (
                f"got {seconds!r:.80} for {name!r}"
                for name, seconds in declared.items()
                if isinstance(seconds, bool)
                or not isinstance(seconds, int | float)
                or not 0 < seconds < math.inf
            ),
            "",
        )
    if problem:
        raise ToolError(
            f"{domain_class.__name__}.tool_seconds must be a dict of tools and the "
            'seconds that a call may take, such as {"train": 600}; ' + problem
        )
    return {name: float(seconds) for name, seconds in declared.items()}


def longest_call(domain_class: type, usual: float) -> float:
    """The seconds that the class's slowest tool may take; `usual` is TOOL_SECONDS."""
    return max([usual, *tool_seconds(domain_class).values()])


def check_tool_seconds(domain_class: type, names: Collection[str]) -> None:
    """Raise ToolError if `tool_seconds` has a name that is not among `names`."""
    if unknown := sorted(set(tool_seconds(domain_class)) - set(names)):
        raise ToolError(
            f"{domain_class.__name__}.tool_seconds names {', '.join(unknown)}, which is "
            f"not a tool; there are {', '.join(sorted(names)) or 'none'}"
        )


def public_methods(domain_class: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The names and functions of a class's public methods outside the protocol."""
    names: dict[str, None] = {}
    for base in reversed(own_classes(domain_class)):
        names |= dict.fromkeys(vars(base))
    for name in names:
        member = inspect.getattr_static(domain_class, name)
        public = not name.startswith("_") and name not in PROTOCOL
        if public and inspect.isfunction(member):
            yield name, member


def own_classes(domain_class: type) -> list[type]:
    """The class and its bases, except those of Python's library and pydantic."""
    own = []
    for base in domain_class.__mro__:
        library = base.__module__.partition(".")[0]
        if library not in sys.stdlib_module_names and library != "pydantic":
            own.append(base)
    return own


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


def where(function: Callable[..., Any]) -> str:
    """The place of a function, as `my_env.py, line 12`."""
    code = inspect.unwrap(function).__code__
    return f"{source_name(code.co_filename)}, line {code.co_firstlineno}"


def hint_of(function: Callable[..., Any], name: str) -> Any:
    """The annotation of a parameter, or of "return"; None if it has none.

    The other annotations may be names that only a type checker knows. Raises ToolError
    if this one cannot be read.
    """
    return hints_of(function, name).get(name)


def hints_of(function: Callable[..., Any], *names: str) -> dict[str, Any]:
    """The annotations of a function, or those of `names`.

    Raises ToolError if one of them cannot be read.
    """
    try:
        annotations = {
            name: annotation
            for name, annotation in getattr(function, "__annotations__", {}).items()
            if name in names or not names
        }
        annotated = SimpleNamespace(
            __annotations__=annotations,
            __type_params__=getattr(function, "__type_params__", ()),
        )
        scope = getattr(inspect.unwrap(function), "__globals__", {})
        return typing.get_type_hints(annotated, scope, include_extras=True)
    except Exception as error:
        raise ToolError(
            f"{where(function)}: an annotation of {named(function)[1]} cannot be "
            f"read: {error}"
        ) from error


def named(function: Any) -> tuple[str, str]:
    """The name of a function, and its qualified name."""
    return function.__name__, function.__qualname__


@functools.cache
def make_tool(function: Callable[..., Any]) -> Tool:
    """The tool of a method. Raises ToolError if its signature does not allow that.

    Types and defaults come from the signature, descriptions from the docstring (Google
    style, with `Args:`) or from `Annotated[..., Field(description=...)]`.
    """
    name, full_name = named(function)
    place = f"{where(function)}: {full_name}"
    hints = hints_of(function)
    description, documented = read_docstring(inspect.getdoc(function) or "")
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or (parameters[0].name != "self" and parameters[0].name in hints):
        raise ToolError(
            f"{place} has no parameter `self`: write `def {name}(self, ...)`"
        )
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(parameters[1:]):
        _check_parameter(parameter, place, hints)
        # A field must not have the name of an attribute of pydantic's models.
        fields[f"field{number}"] = _field(
            parameter, hints[parameter.name], documented.get(parameter.name)
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
    return Tool(name, description or name, arguments, function)


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
    described = declared.description or documented
    default = (
        declared.default if parameter.default is parameter.empty else parameter.default
    )
    return Annotated[annotation, Field(description=described, alias=parameter.name)], (
        ... if default is PydanticUndefined else default
    )
