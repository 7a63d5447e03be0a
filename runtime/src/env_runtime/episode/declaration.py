"""The declarations of an environment class beside its tools, read in one place.

docs/your-own-class.md lists the members. All of them are optional but the constructor.
"""

import contextlib
import functools
import inspect
import math
import sys
import typing
from collections.abc import Callable, Collection, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import NotTextError, ToolError
from ..facts import METHODS, STATIC
from ..files import source_name
from ..project import of_class
from ..settings import ModelSettings
from .types import COMPONENTS, REPLY, ROW_TOOL

_COMPONENTS = dict[str, float]  # what components() must be annotated to return

# Exceptions that a class raises on purpose, beside its own.
EXPECTED = (ValueError, NotImplementedError, TimeoutError)


class Declaration:
    """The members of an environment class, with the default of each that is missing.

    A property raises ToolError if the class declares something that cannot be.
    """

    def __init__(self, domain_class: type) -> None:
        self.domain_class, self.name = domain_class, domain_class.__name__

    def _member(self, name: str, default: Any = None) -> Any:
        return getattr(self.domain_class, name, default)

    def check(self) -> None:
        """Raise ToolError if a declaration has a value that cannot be."""
        names = "reward_range", "tool_seconds", "policy_errors", "infrastructure_errors"
        for name in names:
            getattr(self, name)
        if self.has_components and self.lowest_reward != 0:
            raise ToolError(
                f"{self.place} has {COMPONENTS}(), so its reward_range must begin at 0.0: "
                f"trainers read a missing component as 0.0; got {self.reward_range}"
            )

    # ---------------------------------------------------------------- the task

    @functools.cached_property
    def task_annotation(self) -> Any:
        """The annotation of the constructor's first parameter, None if it has none."""
        parameters = list(inspect.signature(self.domain_class).parameters.values())
        if not parameters:
            return None
        return hint_of(self.domain_class.__init__, parameters[0].name)

    @property
    def task_model(self) -> Any:
        """The model or dataclass that is the constructor's task; None for a dict."""
        return self.task_annotation if is_model(self.task_annotation) else None

    @property
    def oracle(self) -> Callable[[Any], Any] | None:
        """`oracle(task)`, which returns the calls that solve a task."""
        return self._member("oracle")

    # --------------------------------------------------------------- the grade

    @property
    def reward(self) -> Callable[..., Any] | None:
        """The method that grades an episode. Without it, `expected_output` grades."""
        return self._member("reward")

    @property
    def takes_answer(self) -> bool:
        """Whether the policy's last message is graded: `reward(self, answer: str)`."""
        grade = self.reward
        return grade is not None and _takes_more(grade)

    @property
    def ends_with_answer(self) -> bool:
        """Whether the last message is graded, and no other message counts."""
        return self.takes_answer and not self.replies

    @property
    def reward_range(self) -> tuple[float, float]:
        """The lowest and the highest reward: `reward_range`, else (0.0, 1.0)."""
        declared = self._member("reward_range", (0.0, 1.0))
        try:
            low, high = map(float, declared)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ToolError(
                f"{self.name}.reward_range must be two numbers, the lower one first, "
                f"such as (-1.0, 1.0); got {declared!r:.80}"
            )
        return low, high

    @property
    def lowest_reward(self) -> float:
        """The reward of episodes that do not count, so that none avoids a loss."""
        return self.reward_range[0]

    @property
    def highest_reward(self) -> float:
        return self.reward_range[1]

    @functools.cached_property
    def has_components(self) -> bool:
        """Whether the class has `components() -> dict[str, float]`, the reward's parts.

        A tool or a helper of that name in an older class returns something else.
        """
        method = inspect.getattr_static(self.domain_class, COMPONENTS, None)
        with contextlib.suppress(ToolError):  # its annotation is a type checker's alone
            return (
                inspect.isfunction(method) and hint_of(method, "return") == _COMPONENTS
            )
        return False

    @property
    def range_is_estimated(self) -> bool:
        """Whether the class says that its `reward_range` is an estimate."""
        return bool(self._member("reward_range_estimated", False))

    @property
    def deterministic(self) -> bool:
        """Whether the same calls always have the same results."""
        return self._member("deterministic", True)

    # ------------------------------------------------------------- the episode

    @property
    def replies(self) -> bool:
        """Whether the class answers the policy's messages: `reply(self, answer: str)`."""
        return self._member(REPLY) is not None

    @property
    def has_row_tools(self) -> bool:
        """Whether the class takes calls of tools that only a row has."""
        return self._member(ROW_TOOL) is not None

    @property
    def row_tools(self) -> Callable[[], list[dict[str, Any]]] | None:
        """`row_tools()`: the tools that all rows must list; None if each has its own."""
        return self._member("row_tools")

    @property
    def has_observation(self) -> bool:
        """Whether the policy sees something before its first call."""
        return self._member("observation") is not None

    @property
    def tool_seconds(self) -> dict[str, float]:
        """The limits of the class's slow tools, by name."""
        declared = self._member("tool_seconds", {})
        problem = "" if isinstance(declared, dict) else f"got {declared!r:.80}"
        for name, seconds in {} if problem else declared.items():
            number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
            if not (number and 0 < seconds < math.inf):
                problem = problem or f"got {seconds!r:.80} for {name!r}"
        if problem:
            raise ToolError(
                f"{self.name}.tool_seconds must be a dict of tools and the seconds that a "
                'call may take, such as {"train": 600}; ' + problem
            )
        return {name: float(seconds) for name, seconds in declared.items()}

    def longest_call(self, usual: float) -> float:
        """The seconds that the slowest tool may take; `usual` is TOOL_SECONDS."""
        return max([usual, *self.tool_seconds.values()])

    def check_tool_seconds(self, names: Collection[str]) -> None:
        """Raise ToolError if `tool_seconds` has a name that is not among `names`."""
        if unknown := sorted(set(self.tool_seconds) - set(names)):
            raise ToolError(
                f"{self.name}.tool_seconds names {', '.join(unknown)}, which is not a "
                f"tool; there are {', '.join(sorted(names)) or 'none'}"
            )

    @property
    def policy_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions, beside ValueError and the class's own, that the policy may read."""
        return self._exceptions("policy_errors", ())

    @property
    def infrastructure_errors(self) -> tuple[type[Exception], ...]:
        """Exceptions that mean that the machine failed: by default ConnectionError."""
        return self._exceptions("infrastructure_errors", (ConnectionError,))

    def _exceptions(
        self, name: str, default: tuple[type[Exception], ...]
    ) -> tuple[type[Exception], ...]:
        errors = self._member(name, default)
        if not isinstance(errors, tuple | list) or not all(
            isinstance(error, type) and issubclass(error, Exception) for error in errors
        ):
            raise ToolError(
                f"{self.place}.{name} must be a tuple of exception classes, such as "
                f"({(default or (KeyError,))[0].__name__},); got {errors!r:.80}"
            )
        return tuple(errors)

    def is_infrastructure(self, error: BaseException) -> bool:
        """Whether the machine failed, so that an exception says nothing about the policy.

        A class that lists no exceptions does not mean a broken pipe: the policy may have
        ended the process at the other end.
        """
        broken = isinstance(error, BrokenPipeError)
        if broken and self._member("infrastructure_errors") is None:
            return False
        return isinstance(error, self.infrastructure_errors)

    def is_expected(self, error: BaseException) -> bool:
        """Whether the class raised this on purpose, so that the policy may read it."""
        # ValidationError is a ValueError only by inheritance, and a bug.
        if isinstance(error, ValidationError | NotTextError):
            return False
        if isinstance(error, (*EXPECTED, *self.policy_errors)):
            return True
        folder = _folder(type(error))
        return folder in map(_folder, own_classes(self.domain_class)) and bool(folder)

    @functools.cached_property
    def has_async_methods(self) -> bool:
        """Whether a method that an episode calls is `async def`."""
        tools = [function for _, function in public_methods(self.domain_class)]
        members = map(self._member, (*METHODS, COMPONENTS))
        return any(map(inspect.iscoroutinefunction, [*members, *tools]))

    @property
    def runs_on_loop(self) -> bool:
        """Whether it is called on the event loop: it is async, or `blocking = False`."""
        return not self._member("blocking", True) or self.has_async_methods

    # ------------------------------------------------------------- the machine

    def missing_requirement(self) -> str | None:
        """Why this machine cannot run an episode of the class; None if it can."""
        return self._member("missing_requirement", lambda: None)()

    def notice(self) -> str | None:
        """The text that the server prints when it starts; None for nothing."""
        return self._member("notice", lambda: None)()

    def refuse_to_serve(self) -> str | None:
        """Why no untrusted policy may play here; None if it may."""
        return self._member("refuse_to_serve", lambda: None)()

    @property
    def runs_commands(self) -> bool:
        """Whether a policy can run commands on the server's machine."""
        return bool(self._member("runs_commands", False))

    @functools.cached_property
    def models(self) -> list[str]:
        """The models that the class asks: its constructor's parameters after the task.

        A parameter with a default counts only if the answer to `models` has its name.
        """
        parameters = list(inspect.signature(self.domain_class).parameters.values())[1:]
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        return [
            parameter.name
            for parameter in parameters
            if parameter.kind not in variadic
            and (
                parameter.default is parameter.empty
                or parameter.name in of_class(self.domain_class).models
            )
        ]

    @functools.cached_property
    def parameters(self) -> dict[str, Any]:
        """The defaults of what may be the environment's parameters: keywords, no models."""
        named = inspect.getfullargspec(self.domain_class).kwonlydefaults or {}
        return {key: named[key] for key in named if key not in self.models}

    @property
    def models_not_set(self) -> list[str]:
        """The models without a <NAME>_MODEL: gates need stand-ins for them."""
        return [
            name for name in self.models if ModelSettings.read_model(name).model is None
        ]

    @property
    def models_without_answers(self) -> list[str]:
        """The models that are not set, if the class has no stand_in() for the gates."""
        return [] if self.stand_in else self.models_not_set

    @property
    def stand_in(self) -> Callable[[str, str], str] | None:
        """`stand_in(model, prompt)`: what a model says in gates and tests."""
        return self._member("stand_in")

    @property
    def place(self) -> str:
        """The class's file and line, and its name, as messages begin."""
        try:
            _, first = inspect.getsourcelines(self.domain_class)
        except OSError:  # it was made by type(), for instance
            return self.name
        file = inspect.getsourcefile(self.domain_class) or "?"
        return f"{source_name(file)}, line {first}: {self.name}"


@functools.cache
def _takes_more(method: Callable[..., Any]) -> bool:
    """Whether a method has a parameter beside `self`."""
    return len(inspect.signature(method).parameters) > 1


@functools.cache
def declared(domain_class: type) -> Declaration:
    """The Declaration of an environment class."""
    return Declaration(domain_class)


def is_model(annotation: Any) -> bool:
    """Whether an annotation is a pydantic model or a dataclass."""
    return isinstance(annotation, type) and (
        issubclass(annotation, BaseModel) or is_dataclass(annotation)
    )


def public_methods(domain_class: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The names and functions of a class's public methods that could be tools."""
    names: dict[str, None] = {}
    for base in reversed(own_classes(domain_class)):
        names |= dict.fromkeys(vars(base))
    for name in names:
        member = inspect.getattr_static(domain_class, name)
        public = not name.startswith("_") and name not in STATIC + METHODS
        if name == COMPONENTS and declared(domain_class).has_components:
            public = False
        if isinstance(member, functools.partialmethod):
            member = member.func
        if public and inspect.isfunction(member):
            yield name, method_of(domain_class, name)


@functools.cache
def method_of(domain_class: type, name: str) -> Callable[..., Any]:
    """A method as the class has it: with its name there, and with the types of its bases.

    That is the function, or one like it: of a `partialmethod`, of a function of another
    name, which a decorator made, or of a base such as `Base[int]`, whose T is int.
    """
    member = inspect.getattr_static(domain_class, name)
    partial = isinstance(member, functools.partialmethod)
    function = member.func if partial else member
    types, hints = _types_of_bases(domain_class, name), {}
    if types:
        with contextlib.suppress(ToolError):  # a helper, or make_tool() raises it, too
            hints = hints_of(function)
    bound = {key: _with_types(hint, types) for key, hint in hints.items()}
    if not partial and function.__name__ == name and bound == hints:
        return function

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self, name)(*arguments, **keywords)

    method.__name__ = name
    method.__annotations__ |= bound
    if inspect.iscoroutinefunction(function):
        inspect.markcoroutinefunction(method)
    if partial:
        signature = inspect.signature(getattr(domain_class, name))
        free = [
            parameter
            for key, parameter in signature.parameters.items()
            if key not in member.keywords
        ]
        setattr(method, "__signature__", signature.replace(parameters=free))  # noqa: B010
    return method


def _types_of_bases(domain_class: type, name: str) -> dict[Any, Any]:
    """The types in place of the type variables of the base that has the method."""

    def types_in(kind: type, known: dict[Any, Any]) -> dict[Any, Any]:
        if name in vars(kind):
            return known
        for base in vars(kind).get("__orig_bases__", kind.__bases__):
            origin = typing.get_origin(base) or base
            if name in dir(origin) and isinstance(origin, type):
                given = [_with_types(each, known) for each in typing.get_args(base)]
                own = getattr(origin, "__parameters__", ())
                return types_in(origin, dict(zip(own, given, strict=False)))
        return {}

    return types_in(domain_class, {})


def _with_types(annotation: Any, types: dict[Any, Any]) -> Any:
    """An annotation with types in place of type variables."""
    if isinstance(annotation, typing.TypeVar):
        return types.get(annotation, annotation)
    own = getattr(annotation, "__parameters__", ())
    if not any(each in types for each in own):
        return annotation
    return annotation[tuple(types.get(each, each) for each in own)]


def own_classes(domain_class: type) -> list[type]:
    """The class and its bases, except those of Python's library and pydantic."""
    own = []
    for base in domain_class.__mro__:
        library = base.__module__.partition(".")[0]
        if library not in sys.stdlib_module_names and library != "pydantic":
            own.append(base)
    return own


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
        name = getattr(function, "__qualname__", repr(function))
        raise ToolError(
            f"{where(function)}: an annotation of {name} cannot be read: {error}"
        ) from error


@functools.cache
def _folder(kind: type) -> Path | None:
    """The folder of the module, or package, of a class; None for built-in classes."""
    for name in (kind.__module__.partition(".")[0], kind.__module__):
        if file := getattr(sys.modules.get(name), "__file__", None):
            return Path(file).resolve().parent
    return None
