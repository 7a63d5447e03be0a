"""Whether NeMo Gym's server can call the class: its constructor, grade and hooks."""

import collections.abc
import inspect
import typing
from typing import Any

from pydantic import PydanticUserError

from ..episode.declaration import STATIC, declared, hint_of, is_model, where
from ..episode.tasks import task_reader
from ..episode.types import REPLY
from ..errors import GateError, ToolError, one_line
from ..models.client import model_names
from ..project import of_class

SUBCLASS = (
    "`def __init__(self, task: dict)`, or a subclass that has it, see `A class with "
    "another constructor` in docs/your-own-class.md of the template"
)


def check_protocol(domain_class: type) -> None:
    """Raise GateError or ToolError if the constructor, the grade or a hook would fail."""
    _check_constructor(domain_class)
    _check_task(domain_class)
    _check_waiting(domain_class)
    _check_static_hooks(domain_class)
    _check_text_parameter(domain_class, "reward", optional=True)
    _check_text_parameter(domain_class, REPLY)
    declared(domain_class).check()
    _check_hooks(domain_class)
    for member in vars(domain_class).values():
        if inspect.isfunction(member) and not member.__name__.startswith("_"):
            _check_awaitable(member)


def _check_constructor(domain_class: type) -> None:
    """Raise GateError unless the constructor takes the task, and the models."""
    try:
        inspect.signature(domain_class).bind(
            {}, **dict.fromkeys(of_class(domain_class).models)
        )
    except TypeError as error:
        raise GateError(
            f"{declared(domain_class).place} {_constructor_problem(domain_class, error)}"
        ) from error


def _constructor_problem(domain_class: type, error: TypeError) -> str:
    """The parameters that the constructor must have, for a message."""
    if models := ", ".join(of_class(domain_class).models):
        return (
            f"must take the task and the models of the answers: {error}. Write "
            f"`def __init__(self, task: dict, {models})`, or copy again with "
            "`--overwrite -d models=...`"
        )
    text = f"must take one argument, the task: {error}. Write {SUBCLASS}"
    if names := ", ".join(model_names(domain_class)):
        text += (
            "; if it asks models of these names, copy again with `--overwrite -d "
            f"models='[{names}]'`"
        )
    return text


def _check_task(domain_class: type) -> None:
    """Raise GateError if the constructor's task has a type that no row can become."""
    kind = declared(domain_class).task_annotation
    if kind is None:  # such as `size=3`
        [first, *_] = inspect.signature(domain_class).parameters.values()
        kind = (
            type(first.default)
            if isinstance(first.default, str | int | float)
            else None
        )
    if not isinstance(kind, type) or kind in (Any, object):
        return
    place = f"{declared(domain_class).place} takes a task of the type {kind.__name__}"
    if is_model(kind):
        try:
            task_reader(kind)
        except PydanticUserError as error:
            raise GateError(
                f"{place}, which cannot be read from JSON: {one_line(error)}"
            ) from error
    elif not issubclass(kind, collections.abc.Mapping):
        problem = f"{place}, but the task in a row is an object of JSON: write "
        if kind.__module__ == "builtins":
            raise GateError(problem + SUBCLASS)
        raise GateError(
            f"{problem}`task: dict`, or make {kind.__name__} a dataclass or a pydantic model"
        )


def _check_waiting(domain_class: type) -> None:
    """Raise GateError if the class asks models, but must not wait for answers."""
    names = model_names(domain_class)
    if (
        names
        and declared(domain_class).runs_on_loop
        and not declared(domain_class).has_async_methods
    ):
        raise GateError(
            f"{declared(domain_class).place}.blocking is False, but {names[0]}.ask() waits for "
            "an answer: remove `blocking = False`, or write async methods"
        )


def _check_static_hooks(domain_class: type) -> None:
    """Raise GateError if what is called without an object needs one, or is async."""
    for hook in STATIC:
        if inspect.iscoroutinefunction(getattr(domain_class, hook, None)):
            raise GateError(
                f"{declared(domain_class).place}.{hook} is never awaited: make it a plain `def`"
            )
        static = inspect.getattr_static(domain_class, hook, None)
        if inspect.isfunction(static):
            raise GateError(
                f"{where(static)}: {static.__qualname__} is called without an "
                "object: put @staticmethod above it"
            )


def _check_text_parameter(
    domain_class: type, name: str, *, optional: bool = False
) -> None:
    """Raise GateError unless reward() or reply() takes the text of the policy's message.

    If it is `optional`, the method may take nothing.
    """
    method = inspect.getattr_static(domain_class, name, None)
    if not inspect.isfunction(method):
        return
    place = f"{where(method)}: {method.__qualname__}"
    parameters = list(inspect.signature(method).parameters.values())[1:]
    if not parameters and optional:
        try:
            inspect.signature(method).bind(None)
        except TypeError as error:
            raise GateError(f"{place} is called without arguments: {error}") from error
        return
    if len(parameters) != 1 or not _is_text(method, parameters[0]):
        listed = ", ".join(map(str, parameters))
        without, or_with = "", f"`def {name}(self, answer: str)`"
        if optional:
            without, or_with = (
                "without arguments, or ",
                f"`def {name}(self)`, or {or_with}",
            )
        raise GateError(
            f"{place} is called {without}with the text of the policy's "
            f"last message, but takes `{listed}`: write {or_with}"
        )


def _is_text(method: Any, parameter: inspect.Parameter) -> bool:
    """Whether a method's only argument may be a text."""
    usual = (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    text = hint_of(method, parameter.name) is str or (
        parameter.name == "answer" and parameter.annotation is parameter.empty
    )
    has_text = parameter.default is parameter.empty or isinstance(
        parameter.default, str
    )
    return parameter.kind in usual and text and has_text


def _check_hooks(domain_class: type) -> None:
    """Raise GateError if a hook of the object takes arguments."""
    for hook in ("metrics", "close", "observation"):
        method = inspect.getattr_static(domain_class, hook, None)
        if inspect.isfunction(method):
            try:
                inspect.signature(method).bind(None)
            except TypeError as error:
                raise GateError(
                    f"{where(method)}: {method.__qualname__} is called without "
                    f"arguments: {error}"
                ) from error


def _check_awaitable(method: Any) -> None:
    """Raise GateError if a method is annotated to return a coroutine."""
    try:
        returned = hint_of(method, "return")
    except ToolError:
        return  # a helper: self.tool() would have raised it
    origin = typing.get_origin(returned) or returned
    if isinstance(origin, type) and hasattr(origin, "__await__"):
        raise GateError(
            f"{where(method)}: {method.__qualname__} returns a coroutine: make it "
            "`async def`, and annotate what it returns in the end"
        )
