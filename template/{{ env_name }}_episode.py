"""Tools, episodes and grades out of an environment class, for every framework.

The class is the one declaration of the environment. `tools_of` reads the tools off its
methods, `Episode` plays one episode of it and grades it, `AsyncEpisode` does so on an
event loop, and the gates are what every framework's server has to pass. Nothing here
knows a server: the standard library and pydantic are enough.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import functools
import inspect
import json
import logging
import math
import os
import queue
import re
import subprocess
import sys
import textwrap
import threading
import time
import traceback
import typing
import unicodedata
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

log = logging.getLogger(__name__)

# Public methods that are not tools, though some return text.
PROTOCOL = frozenset(
    ["reward", "solved", "metrics", "close", "oracle", "missing_requirement", "notice"]
    + ["refuse_to_serve"]
)

# The calls that an episode keeps for a grader. Later ones are played, but not kept.
MAX_CALLS = 1000
MAX_CALL_CHARACTERS = 1 << 20

# The rows that all frameworks play.
ROWS = Path(__file__).resolve().parent / "nemo_gym" / "data" / "example.jsonl"

# A tool call or a grade that takes longer is no longer waited for.
TOOL_SECONDS = float(os.environ.get("TOOL_SECONDS") or 60)

# What a class raises on purpose, beside exceptions of its own.
EXPECTED = (ValueError, NotImplementedError, TimeoutError)

Row = dict[str, Any]  # of the dataset: responses_create_params, ground_truth
Task = dict[str, Any]  # ground_truth[0] of a row
Calls = list[tuple[str, dict[str, Any]]]  # (tool, arguments)


class ToolError(TypeError):
    """A method cannot be a tool: where it is, what is wrong, and what to do."""


class NotText(TypeError):
    """What a tool returned cannot be an answer."""


class NoOracle(Exception):
    """A task's solution is not known."""


# ---------------------------------------------------------------------- tools


@dataclass(frozen=True)
class Tool:
    """A method of the environment class that a policy may call."""

    name: str
    description: str  # the docstring up to its first section, on one line
    arguments: type[BaseModel]  # what a call is validated with
    method: Callable[..., Any]

    def keywords(self, arguments: BaseModel) -> dict[str, Any]:
        """The keyword arguments that validated `arguments` stand for."""
        fields = type(arguments).model_fields.items()
        return {str(field.alias): getattr(arguments, name) for name, field in fields}

    def definition(self) -> dict[str, Any]:
        """The tool as the Responses API takes it, with a JSON Schema."""
        schema = plain_schema(self.arguments.model_json_schema())
        return function_definition(self.name, self.description, schema)


def function_definition(
    name: str, description: str, schema: dict[str, Any]
) -> dict[str, Any]:
    """A tool of the Responses API, with the plain JSON Schema of its arguments."""
    return {
        "type": "function",
        "name": name,
        "description": " ".join(description.split()),
        "parameters": {
            "type": "object",
            "properties": schema.get("properties", {}),
            "required": schema.get("required", []),
        },
        "strict": False,
    }


def tools_of(domain_class: type) -> dict[str, Tool]:
    """The tools of an environment class by name, in the order of their definition.

    A tool is a public method that is annotated to return text: `str`, or a NamedTuple
    with a field `output`. Raises ToolError if such a method cannot be called with
    arguments out of JSON.
    """
    return {
        name: make_tool(function)
        for name, function in _public_methods(domain_class)
        if returns_text(function)
    }


def _public_methods(domain_class: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    seen: dict[str, None] = {}
    for base in reversed(_own_classes(domain_class)):
        seen |= dict.fromkeys(vars(base))
    for name in seen:
        member = inspect.getattr_static(domain_class, name)
        if (
            inspect.isfunction(member)
            and not name.startswith("_")
            and name not in PROTOCOL
        ):
            yield name, member


def returns_text(function: Callable[..., Any]) -> bool:
    """Whether a method is annotated to return text, or text with an image."""
    annotation = _hints(function).get("return")
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) is Literal:
        return all(isinstance(value, str) for value in typing.get_args(annotation))
    return isinstance(annotation, type) and (
        issubclass(annotation, str)
        or (issubclass(annotation, tuple) and "output" in _fields(annotation))
    )


def _fields(named_tuple: type) -> tuple[str, ...]:
    return getattr(named_tuple, "_fields", ())


def where(function: Callable[..., Any]) -> str:
    """The place of a function, as `my_env.py, line 12`."""
    code = inspect.unwrap(function).__code__
    return f"{Path(code.co_filename).name}, line {code.co_firstlineno}"


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:
        raise ToolError(
            f"{where(function)}: an annotation of {function.__qualname__} cannot be "
            f"read: {error}"
        ) from error


@functools.cache
def make_tool(function: Callable[..., Any]) -> Tool:
    """The tool that a method is. Raises ToolError if its signature does not do.

    Types and defaults come from the signature, descriptions from the docstring (Google
    style, with `Args:`) or from `Annotated[..., Field(description=...)]`.
    """
    name = function.__name__
    here = f"{where(function)}: {function.__qualname__}"
    hints = _hints(function)
    description, documented = read_docstring(inspect.getdoc(function) or "")
    taken = list(inspect.signature(function).parameters.values())
    if not taken or (taken[0].name != "self" and taken[0].name in hints):
        raise ToolError(
            f"{here} has no parameter `self`: write `def {name}(self, ...)`"
        )
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(taken[1:]):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ToolError(
                f"{here} takes `{parameter}`: a policy can only fill in parameters "
                "that have a name and a type each"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolError(
                f"{here}: the parameter {parameter.name!r} is positional-only, but "
                "tools are called with keyword arguments: remove the `/`"
            )
        if parameter.name not in hints:
            default = parameter.default
            usual = default is parameter.empty or default is None
            kind = "str" if usual else type(default).__name__
            raise ToolError(
                f"{here}: the parameter {parameter.name!r} has no type: write "
                f"`{parameter.name}: {kind}`, or whatever it takes"
            )
        # A field may not be called like an attribute of pydantic's models.
        fields[f"field{number}"] = _field(
            parameter, hints[parameter.name], documented.get(parameter.name)
        )
    try:
        arguments = create_model(f"{name}_arguments", **fields)
        arguments.model_json_schema()
    except Exception as error:
        raise ToolError(
            f"{here} takes what cannot come out of JSON: {error}"
        ) from error
    return Tool(name, description or name, arguments, function)


def _field(
    parameter: inspect.Parameter, annotation: Any, documented: str | None
) -> tuple[Any, Any]:
    declared = FieldInfo.from_annotation(annotation)
    described = declared.description or documented or _humanize(parameter.name)
    default = (
        declared.default if parameter.default is parameter.empty else parameter.default
    )
    return Annotated[annotation, Field(description=described, alias=parameter.name)], (
        ... if default is PydanticUndefined else default
    )


def _humanize(name: str) -> str:
    return f"The {name.replace('_', ' ').strip()}."


SECTIONS = re.compile(
    r"^(args|arguments|parameters|params|returns?|raises|yields?|examples?|notes?):\s*$",
    re.IGNORECASE,
)


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The description, and that of each parameter, out of a Google-style docstring.

    The description ends at the first section; all white space is folded.
    """
    sections: dict[str, list[str]] = {"": []}
    current = sections[""]
    for line in inspect.cleandoc(text).splitlines():
        if found := SECTIONS.match(line):
            current = sections.setdefault(found[1].lower(), [])
        else:
            current.append(line)
    parameters: dict[str, str] = {}
    for title in ("args", "arguments", "parameters", "params"):
        name = ""
        lines = sections.get(title, [])
        indent = min((_indent(line) for line in lines if line.strip()), default=0)
        for line in lines:
            found = re.match(r"\s*\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)", line)
            if found and _indent(line) == indent:
                name = found[1]
                parameters[name] = found[2]
            elif name:
                parameters[name] += f" {line.strip()}"
    folded = {name: " ".join(value.split()) for name, value in parameters.items()}
    return " ".join(" ".join(sections[""]).split()), folded


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def plain_schema(schema: Any, definitions: dict[str, Any] | None = None) -> Any:
    """A JSON Schema with references put in place.

    Titles go, and so do defaults of null, which FastAPI leaves out too. A type that
    contains itself is open ({}) from there on.
    """
    if isinstance(schema, list):
        return [plain_schema(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if definitions is None:
        definitions = schema.get("$defs", {})
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        inner = {key: one for key, one in definitions.items() if key != name}
        rest = {key: one for key, one in schema.items() if key != "$ref"}
        return plain_schema({**definitions.get(name, {}), **rest}, inner)
    plain = {}
    for key, value in schema.items():
        if key == "properties":  # a parameter may itself be called title
            plain[key] = {
                name: plain_schema(item, definitions) for name, item in value.items()
            }
        elif key not in ("title", "$defs") and (key, value) != ("default", None):
            plain[key] = plain_schema(value, definitions)
    return plain


# ---------------------------------------------------------------------- tasks


def task_type(domain_class: type) -> Any:
    """What the class is made of: the annotation of its `task`, else `dict`."""
    taken = list(inspect.signature(domain_class).parameters.values())
    if not taken:
        return dict[str, Any]
    constructor = inspect.unwrap(domain_class.__init__)
    annotation = _hints(constructor).get(taken[0].name)
    typed = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return annotation if typed else dict[str, Any]


def read_task(domain_class: type, task: Task) -> Any:
    """`task` as the class takes it. Raises ValueError for one that its model refuses."""
    model = task_type(domain_class)
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return task
    try:
        return model.model_validate(task)
    except ValidationError as error:
        raise ValueError(validation_problem(error)) from None


def task_skeleton(domain_class: type) -> Task:
    """A first task, to be filled in: every key that the class is seen to read.

    Those of the task's model; of a plain dict, those that the constructor's source
    names, as in `task["size"]` and `task.get("start", 0)`.
    """
    model = task_type(domain_class)
    task: Task = {}
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, field_info in model.model_fields.items():
            if field_info.is_required():
                task[field_info.alias or name] = None
            else:
                default = field_info.get_default(call_default_factory=True)
                task[field_info.alias or name] = to_jsonable_python(default)
    else:
        task = _keys_read(domain_class)
    if grader(domain_class) is None:
        task.setdefault(
            "expected_output", "The line that only a solved episode prints."
        )
    return task or {"id": 1}


def _keys_read(domain_class: type) -> Task:
    try:
        source = textwrap.dedent(inspect.getsource(domain_class.__init__))
        [function] = ast.parse(source).body
        name = function.args.args[1].arg  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return {}
    task: Task = {}
    for node in ast.walk(function):
        match node:
            case ast.Subscript(
                value=ast.Name(id=read), slice=ast.Constant(value=str(key))
            ):
                default = None
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=read), attr="get"),
                args=[ast.Constant(value=str(key)), *rest],
            ):
                literal = len(rest) == 1 and isinstance(rest[0], ast.Constant)
                default = rest[0].value if literal else None
            case _:
                continue
        if read == name:
            task.setdefault(key, default)
    return task


def check_row(domain_class: type, row: Row) -> None:
    """Raises ValueError if the row could not be played and graded."""
    if not isinstance(row.get("responses_create_params"), dict):
        raise ValueError("responses_create_params must be an object")  # noqa: TRY004
    truth = row.get("ground_truth")
    if not isinstance(truth, list) or not truth or not isinstance(truth[0], dict):
        raise ValueError("ground_truth must be a list that starts with an object")
    if not truth[0]:
        raise ValueError(
            "ground_truth.0 is empty, and an episode without a task earns nothing: write "
            '{"id": 1} if the class needs no task'
        )
    check_task(domain_class, truth[0])


def check_task(domain_class: type, task: Task) -> None:
    """Raises ValueError if the task could not be played and graded."""
    read_task(domain_class, task)
    if grader(domain_class) is None:
        expected = task.get("expected_output")
        if not isinstance(expected, str) or not expected.strip():
            raise ValueError(
                "ground_truth.0.expected_output must be the text of a solved episode, "
                f"because {domain_class.__name__} has no reward(); got {expected!r}"
            )


def read_rows(domain_class: type, path: Path = ROWS) -> list[Row]:
    """The rows of a .jsonl file. Raises ValueError at one that cannot be played."""
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise ValueError(f"the rows cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = json.loads(line)
                check_row(domain_class, row)
            except (ValueError, AttributeError) as problem:
                where = f"{path.name}, line {number}"
                raise ValueError(f"{where}: {problem}") from None
            rows.append(row)
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


# The file of each split, beside ROWS.
SPLITS = {
    "train": "train.jsonl",
    "validation": "validation.jsonl",
    "test": "example.jsonl",
}


@functools.cache
def split_rows(domain_class: type, split: str) -> list[Row]:
    """The rows of a split: those of `test`, if it has no file of its own.

    Raises ValueError for a split that there is not.
    """
    if split not in SPLITS:
        raise ValueError(f"no split {split!r}; there are {', '.join(SPLITS)}")
    path = ROWS.with_name(SPLITS[split])
    return read_rows(domain_class, path if path.is_file() else ROWS)


def split_row(domain_class: type, split: str, number: int) -> Row:
    """One row of a split. Raises ValueError or IndexError if there is none."""
    rows = split_rows(domain_class, split)
    if not 0 <= number < len(rows):
        raise IndexError(f"{split} has the rows 0 to {len(rows) - 1}, got {number}")
    return rows[number]


def public_task(split: str, number: int) -> dict[str, Any]:
    """A row as clients may see it: where it is, and no answer."""
    return {"id": f"{split}/{number}", "split": split, "index": number}


def prompt_of(row: Row) -> list[dict[str, str]]:
    """What the policy is told first: messages with `role` and the text of `content`."""
    params = row["responses_create_params"]
    given = params.get("input") or []
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if params.get("instructions"):
        messages = [{"role": "system", "content": params["instructions"]}, *messages]
    return [{"role": one["role"], "content": _text(one["content"])} for one in messages]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def oracle_reward(row: Row) -> float:
    """What the oracle must earn on the row: its `oracle_reward`, else 1.0."""
    return float(row.get("oracle_reward", 1.0))


def validation_problem(error: ValidationError) -> str:
    """pydantic's first complaint, as `field.0: what is wrong with it`."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def oracle_calls(domain_class: type, row: Row) -> Calls:
    """The calls that solve a row, by the class's own `oracle(task)`.

    Raises NoOracle if there is none, or if this machine lacks what an episode needs.
    """
    if lacking := getattr(domain_class, "missing_requirement", lambda: None)():
        raise NoOracle(lacking)
    solve = getattr(domain_class, "oracle", None)
    if solve is None:
        raise NoOracle(f"{domain_class.__name__} has no oracle(task)")
    task = read_task(domain_class, row["ground_truth"][0])
    return [(tool, dict(arguments)) for tool, arguments in solve(task)]


# ---------------------------------------------------------------------- policies

POLICIES = ("oracle", "noop", "garbage")


def policy_calls(domain_class: type, policy: str, row: Row) -> Calls:
    """The calls of a policy that needs no model, on one row.

    "oracle" is the class's own solution, and raises NoOracle if there is none. "noop"
    makes no call. "garbage" calls each tool twice, with nonsense that fits.
    """
    if policy == "oracle":
        return oracle_calls(domain_class, row)
    if policy == "noop":
        return []
    if policy == "garbage":
        definitions = [tool.definition() for tool in tools_of(domain_class).values()]
        return [
            (one["name"], sample_arguments(one, high=high))
            for high in (False, True)
            for one in definitions
        ]
    raise ValueError(f"no policy {policy!r}; there are {', '.join(POLICIES)}")


def sample_arguments(tool: dict[str, Any], *, high: bool = False) -> dict[str, Any]:
    """Arguments that fit a tool definition: small ones, or large ones."""
    return _sample(tool["parameters"], high)


def _sample(schema: dict[str, Any], high: bool) -> Any:
    """A value that fits a JSON Schema, its bounds and lengths included."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][-1 if high else 0]
    if "default" in schema and not high:
        return schema["default"]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return _sample(schema[choice][0], high)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _number(schema, high)
    if kind == "string":
        text = "nonsense" if high else "x"
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    if kind == "array":
        item = schema.get("prefixItems") or [schema.get("items", {})]
        count = schema.get("minItems", 0) or int(high)
        return [_sample(item[min(n, len(item) - 1)], high) for n in range(count)]
    if kind == "object" or "properties" in schema:
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        return {
            name: _sample(one, high)
            for name, one in properties.items()
            if high or name in required
        }
    return {"boolean": high, "null": None}.get(kind, "x")


def _number(schema: dict[str, Any], high: bool) -> int | float:
    """A number within the schema's bounds, near the upper or the lower one."""
    step = schema.get("multipleOf", 1)
    low, top = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    if "exclusiveMaximum" in schema:
        top = schema["exclusiveMaximum"] - step
    if low is not None and top is not None and low > top:  # an open interval below 1
        return (
            schema.get("exclusiveMinimum", low) + schema.get("exclusiveMaximum", top)
        ) / 2
    value = (top if high else low) if (top if high else low) is not None else None
    if value is None:
        usual = 7 if high else 1
        value = max(usual, low) if low is not None else usual
        value = min(value, top) if top is not None else value
    if step != 1:
        value = value // step * step if high else -(-value // step) * step
    return int(value) if schema["type"] == "integer" else float(value)


# ---------------------------------------------------------------------- episodes


@dataclass(frozen=True)
class Answer:
    """What a tool call answers."""

    output: str  # what the policy reads
    # Further fields of the method's NamedTuple: an image.
    extra: dict[str, Any] = field(default_factory=dict)
    error: Literal["", "expected", "unexpected"] = ""
    fault: str = ""  # what a gate says of an unexpected error, and no policy reads


@dataclass
class Call:
    """One finished tool call."""

    tool: str
    arguments: dict[str, Any]  # as JSON has them
    output: str
    failed: bool


def grader(domain_class: type) -> Callable[..., Any] | None:
    """The method that grades an episode, if the class has one.

    `solved() -> bool` is what environments of release 0.2 have in its place.
    """
    return getattr(domain_class, "reward", None) or getattr(
        domain_class, "solved", None
    )


def runs_on_loop(domain_class: type) -> bool:
    """Whether the class is called on the event loop: it is async, or never blocks."""
    names = (
        "reward",
        "close",
        "metrics",
        *(name for name, _ in _public_methods(domain_class)),
    )
    return not getattr(domain_class, "blocking", True) or any(
        inspect.iscoroutinefunction(getattr(domain_class, name, None)) for name in names
    )


def run(steps: Coroutine[Any, Any, Any]) -> Any:
    """The result of an Episode's method over a class that has no async methods.

    Such a coroutine never waits, so it needs no event loop. Raises RuntimeError if it
    does wait.
    """
    try:
        steps.send(None)
    except StopIteration as done:
        return done.value
    steps.close()
    raise RuntimeError("an async method needs an event loop: await the call")


@dataclass
class Episode:
    """One episode: an object of the environment class, and the calls so far.

    Raises ValueError for a task that the class refuses. Call it from one thread, one
    call at a time; over a class without async methods, `run` plays without a loop.
    """

    domain_class: type
    task: Task = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    failure: str | None = None  # why the grade says nothing about the policy
    keeps_calls: bool = True  # which only a grade by `expected_output` reads
    label: str = "an episode"  # names it in the log: its row

    def __post_init__(self) -> None:
        self._kept = 0
        self.environment = self.domain_class(read_task(self.domain_class, self.task))

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> Answer:
        """Call a tool with arguments that its model has validated. Never raises."""
        method = functools.partial(getattr(self.environment, tool.name), **arguments)
        answer = await self.answer(tool.name, method)
        self.keep(tool.name, arguments, answer)
        return answer

    async def answer(self, name: str, method: Callable[[], Any]) -> Answer:
        """What a method answers. An exception becomes an output that starts `error:`."""
        try:
            value = method()
            if inspect.isawaitable(value):
                value = await value
            return as_answer(value)
        # A tool may call sys.exit(), or a program's main function that does.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the policy is told
            return self.problem(name, error)

    def problem(self, name: str, error: BaseException) -> Answer:
        """What the policy reads of an exception. Logs one that is a bug."""
        if self.is_expected(error):
            text = str(error) or type(error).__name__
            return Answer(_sendable(f"error: {text}"), error="expected")
        log.error("%s: the tool %r failed", self.label, name, exc_info=error)
        kind = type(error).__name__
        fault = str(error) if isinstance(error, NotText) else f"raised {kind}"
        last = traceback.extract_tb(error.__traceback__)[-1:]
        if last and not isinstance(error, NotText):
            fault += f" ({Path(last[0].filename).name}, line {last[0].lineno})"
        return Answer(f"error: {kind}", error="unexpected", fault=fault)

    def is_expected(self, error: BaseException) -> bool:
        """Whether the class raised this on purpose, so that the policy may read it."""
        # The one is a ValueError by inheritance only, the other stands beside the class.
        if isinstance(error, (ValidationError, NotText)):
            return False
        return isinstance(error, EXPECTED) or _folder(type(error)) in {
            _folder(one) for one in _own_classes(self.domain_class)
        }

    def keep(self, tool: str, arguments: dict[str, Any], answer: Answer) -> None:
        """Remember a call for the grader, within MAX_CALLS and MAX_CALL_CHARACTERS."""
        if not self.keeps_calls:
            return
        arguments = to_jsonable_python(arguments, fallback=repr)
        self._kept += len(answer.output) + sum(map(len, _texts(arguments)))
        if len(self.calls) < MAX_CALLS and self._kept <= MAX_CALL_CHARACTERS:
            call = Call(tool, arguments, answer.output, answer.error != "")
            self.calls.append(call)

    async def reward(self) -> float:
        """The grade, from 0 to 1: the class's own reward(), else by `expected_output`.

        A grader that raises, or returns anything but a number from 0 to 1, leaves 0.0
        and the reason in `failure`. So does an `infrastructure_failure` of the class.
        """
        grade = grader(self.domain_class)
        if grade is None:
            return float(self.printed(self.task.get("expected_output") or ""))
        reward = await self._graded(grade.__name__)
        failed = getattr(self.environment, "infrastructure_failure", None)
        self.failure = failed or self.failure
        return reward

    async def _graded(self, hook: str) -> float:
        name = f"{self.domain_class.__name__}.{hook}()"
        try:
            value = getattr(self.environment, hook)()
            if inspect.isawaitable(value):
                value = await value
        except (Exception, SystemExit) as error:
            log.error("%s: %s failed", self.label, name, exc_info=error)
            self.failure = f"{name} raised {type(error).__name__}"
            return 0.0
        if isinstance(value, (bool, int, float)) and 0 <= value <= 1:
            return float(value)
        self.failure = f"{name} must return a number from 0 to 1, got {value!r:.80}"
        log.error("%s: %s", self.label, self.failure)
        return 0.0

    async def metrics(self) -> dict[str, float]:
        """The class's own metrics() beside the reward; {} if it has none or raises."""
        try:
            values = getattr(self.environment, "metrics", dict)()
            if inspect.isawaitable(values):
                values = await values
            numbers = {str(name): float(value) for name, value in values.items()}
            return {name: one for name, one in numbers.items() if math.isfinite(one)}
        except (Exception, SystemExit):
            name = self.domain_class.__name__
            log.exception("%s: %s.metrics() failed", self.label, name)
            return {}

    def printed(self, text: str) -> bool:
        """Whether the environment itself printed `text` to the policy, as whole lines.

        Errors do not count, and nothing that the policy wrote first: once its arguments
        held `text`, in one piece or in several, an output may be their echo.
        """
        wanted = _normal(text)
        if not wanted:
            return False
        forward = backward = ""  # what the policy wrote, first to last and the reverse
        for call in self.calls:
            given = _texts(list(call.arguments.values()))
            pieces = [_squeezed(piece) for piece in given]
            forward += "".join(pieces)
            backward = "".join(reversed(pieces)) + backward
            if _squeezed(wanted) in forward or _squeezed(wanted) in backward:
                return False
            if not call.failed and f"\n{wanted}\n" in f"\n{_normal(call.output)}\n":
                return True
        return False

    async def close(self) -> None:
        """Close the object, if its class has close(). Logs what that raises."""
        try:
            closed = getattr(self.environment, "close", lambda: None)()
            if inspect.isawaitable(closed):
                await closed
        except (Exception, SystemExit):
            name = self.domain_class.__name__
            log.exception("%s: %s.close() failed", self.label, name)


class AsyncEpisode:
    """An episode for a server on an event loop. None of its methods blocks the loop.

    Calls run one at a time. The object of a class that may block has a thread of its
    own, from its constructor to close().
    """

    def __init__(
        self, domain_class: type, task: Task, label: str = "an episode"
    ) -> None:
        self.tools = tools_of(domain_class)
        self.over = False  # set it to refuse all further calls
        self.failure: str | None = None  # why the grade says nothing about the policy
        self._make = functools.partial(Episode, domain_class, task, label=label)
        self._episode: Episode | None = None
        self._reward = 0.0
        self._lock = asyncio.Lock()
        self._thread = None if runs_on_loop(domain_class) else _Thread()

    async def start(self) -> None:
        """Make the object. Raises ValueError for a task that the class refuses."""

        async def make() -> None:
            self._episode = self._make()

        await self._perform(make)

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool with arguments out of JSON. Never raises."""
        if self.over:
            return _refusal("the episode is over")
        tool = self.tools.get(name)
        if tool is None:
            return _refusal(f"no tool {name!r}; there are {', '.join(self.tools)}")
        try:
            given = tool.keywords(tool.arguments.model_validate(arguments))
        except ValidationError as error:
            return _refusal(validation_problem(error))
        try:
            return await self._perform(lambda: self._open.call(tool, given))
        except TimeoutError:
            return _refusal(f"{name} took more than {TOOL_SECONDS:g} seconds")

    async def reward(self) -> float:
        """The grade so far, from 0 to 1; after close(), the last one.

        An episode whose last call hangs earns 0.0.
        """
        started = False

        async def grade() -> float:
            nonlocal started
            started = True
            return await self._open.reward()

        if self._episode is None:
            return self._reward
        try:
            self._reward = await self._perform(grade)
            self.failure = self._open.failure
        except TimeoutError:
            self._reward = 0.0
            if started:
                self.failure = f"the grade took more than {TOOL_SECONDS:g} seconds"
        return self._reward

    async def metrics(self) -> dict[str, float]:
        """The class's own metrics(); {} if it has none."""
        return await self._perform(self._open.metrics) if self._episode else {}

    async def close(self) -> None:
        """Close the object, once.

        Raises TimeoutError if a call hangs; the object is closed after that call.
        """
        self.over = True
        episode, self._episode = self._episode, None
        thread, self._thread = self._thread, None
        async with asyncio.timeout(TOOL_SECONDS), self._lock:
            if thread is None:
                await (episode.close() if episode else asyncio.sleep(0))
                return
            closing = thread.run(lambda: run(episode.close()) if episode else None)
            thread.stop()
            await asyncio.shield(asyncio.wrap_future(closing))

    @property
    def _open(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("the episode is not started, or closed")
        return self._episode

    async def _perform(self, steps: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        async with asyncio.timeout(TOOL_SECONDS), self._lock:
            if self._thread is None:
                return await steps()
            return await asyncio.wrap_future(self._thread.run(lambda: run(steps())))


class _Thread:
    """Runs jobs one after the other. A daemon: one that hangs holds up no exit."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        threading.Thread(target=self._work, name="episode", daemon=True).start()

    def run(self, job: Callable[[], Any]) -> Future:
        future: Future = Future()
        self._jobs.put((future, job))
        return future

    def stop(self) -> None:
        self._jobs.put(None)

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if not future.set_running_or_notify_cancel():
                continue  # nobody waited until its turn came
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 - whoever waits has it
                future.set_exception(error)


def _refusal(reason: str) -> Answer:
    return Answer(_sendable(f"error: {reason}"), error="expected")


def as_answer(value: Any) -> Answer:
    """What a tool returned, as an answer.

    Text stays as it is. Of a NamedTuple with `output`, that is the text, and its other
    fields go beside it. Numbers, lists and dicts become JSON text. Raises NotText for
    anything else, None included.
    """
    if isinstance(value, str):
        return Answer(_sendable(value))
    if isinstance(value, tuple) and "output" in _fields(type(value)):
        rest = {
            name: one
            for name, one in zip(_fields(type(value)), value, strict=True)
            if one is not None
        }
        output = as_answer(rest.pop("output", None)).output
        return Answer(output, to_jsonable_python(rest))
    if isinstance(value, (bool, int, float, list, dict)):
        return Answer(_sendable(json.dumps(value, ensure_ascii=False)))
    hint = ""
    if inspect.iscoroutine(value):
        value.close()
        hint = ": make it `async def`, or await the coroutine"
    kind = "None" if value is None else type(value).__name__
    raise NotText(f"returned {kind}, but a tool must return text{hint}")


def _sendable(text: str) -> str:
    """`text` without lone surrogates, which no JSON answer can carry."""
    return text.encode("utf-8", "replace").decode()


def _own_classes(domain_class: type) -> list[type]:
    """The class and its bases, but for those of Python's library and pydantic's."""
    ours = []
    for base in domain_class.__mro__:
        library = base.__module__.partition(".")[0]
        if library not in sys.stdlib_module_names and library != "pydantic":
            ours.append(base)
    return ours


@functools.cache
def _folder(kind: type) -> Path | None:
    """The folder of the module that defines a class; None for built-in ones."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return Path(file).resolve().parent if file else None


def _texts(value: Any) -> list[str]:
    """Every scalar inside a JSON value, as text; a mapping's keys come after its values."""
    if isinstance(value, dict):
        parts = [*value.values(), *value]
        return [text for part in parts for text in _texts(part)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [] if value is None else [str(value)]


def _squeezed(text: str) -> str:
    """`text` without what a tool may well change: case and white space."""
    return "".join(_normal(text).casefold().split())


def _normal(text: str) -> str:
    """`text` for comparisons: one form of each character and line end, no padding."""
    lines = unicodedata.normalize("NFKC", text).replace("\u2212", "-").splitlines()
    return "\n".join(" ".join(line.split()) for line in lines).strip()


# ---------------------------------------------------------------------- rollouts


class Player(Protocol):
    """An episode as a framework's client plays it."""

    @property
    def reward(self) -> float:
        """What the calls so far were paid."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> Answer: ...


# Starts an episode of the row with this number, from 0.
Start = Callable[[int], AbstractAsyncContextManager[Player]]


async def played(start: Start, number: int, calls: Calls) -> float:
    """What these calls are paid in an episode of their own."""
    async with start(number) as player:
        for name, arguments in calls:
            await player.call(name, arguments)
    return player.reward


async def converse(
    player: Player, domain_class: type, row: Row, max_turns: int
) -> None:
    """Let a model play an episode: MODEL, over Chat Completions at OPENAI_BASE_URL.

    Ends when the model calls no tool, or after `max_turns` of its answers. Images come
    in a user message after the tools' answers. Raises OSError if the model fails.
    """
    definitions = [tool.definition() for tool in tools_of(domain_class).values()]
    keys = ("name", "description", "parameters")
    functions = [{key: one[key] for key in keys} for one in definitions]
    tools = [{"type": "function", "function": one} for one in functions]
    messages: list[dict[str, Any]] = [*prompt_of(row)]
    for _ in range(max_turns):
        message = await asyncio.to_thread(_complete, messages, tools)
        messages.append(message)
        images = []
        for call in message.get("tool_calls") or []:
            function = call["function"]
            try:
                arguments = json.loads(function["arguments"] or "{}")
            except ValueError as error:
                answer = _refusal(f"the arguments are not JSON: {error}")
            else:
                answer = await player.call(function["name"], arguments)
            told = {"role": "tool", "tool_call_id": call["id"]}
            messages.append({**told, "content": answer.output})
            if image := answer.extra.get("image"):
                images.append({"type": "image_url", "image_url": {"url": image}})
        if images:
            messages.append({"role": "user", "content": images})
        if not message.get("tool_calls"):
            return


def _complete(messages: list[Any], tools: list[Any]) -> dict[str, Any]:
    import urllib.request  # which no server needs

    url = os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    body = {"model": os.environ["MODEL"], "messages": messages, "tools": tools}
    request = urllib.request.Request(
        f"{url.rstrip('/')}/chat/completions",
        json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=600) as answer:
        return json.load(answer)["choices"][0]["message"]


def run_rollouts(
    domain_class: type, connect: Callable[[str], Start], max_turns: int, url: str
) -> int:
    """The command of a framework's rollout.py. Returns its exit status.

    `connect` makes episodes on the server at a URL; `url` is where one is by default.
    """
    import argparse

    parser = argparse.ArgumentParser(description="Play the rows on a running server.")
    add = parser.add_argument
    add("--policy", choices=["llm", *POLICIES], default="llm")
    add("--limit", type=int, metavar="N", help="play only the first N rows")
    add("--url", default=os.environ.get("ENV_URL") or url, help=f"{url} by default")
    options = parser.parse_args()
    wanted = ("MODEL", "OPENAI_API_KEY") if options.policy == "llm" else ()
    if missing := [name for name in wanted if not os.environ.get(name)]:
        parser.error(f"--policy llm needs the environment variable {missing[0]}")
    turns = int(os.environ.get("MAX_TURNS") or max_turns)
    rows = read_rows(domain_class)[: options.limit]
    start = connect(options.url)

    async def play(number: int, row: Row) -> float:
        if options.policy != "llm":
            calls = policy_calls(domain_class, options.policy, row)
            return await played(start, number, calls)
        async with start(number) as player:
            await converse(player, domain_class, row, turns)
        return player.reward

    async def play_all() -> list[float]:
        rewards = []
        for number, row in enumerate(rows):
            try:
                rewards.append(await play(number, row))
            except NoOracle:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the client raises
                kind = type(error).__name__
                print(f"row {number + 1}: failed: {kind}: {error}", file=sys.stderr)
            else:
                print(f"row {number + 1}: reward {rewards[-1]}", flush=True)
        return rewards

    try:
        rewards = asyncio.run(play_all())
    except NoOracle as why:
        parser.error(str(why))
    print(f"mean reward: {sum(rewards) / len(rewards) if rewards else 0.0}")
    return 0 if len(rewards) == len(rows) else 1


# ---------------------------------------------------------------------- gates

ROWS_AT_A_TIME = 20


class GateError(Exception):
    """What is wrong, and what to do, in one line."""


def run_gates(gates: dict[str, Callable[[], str]], description: str | None) -> int:
    """The command of a framework's gates.py. Returns its exit status.

    Runs the gates that the command line names, all by default, in order up to the first
    that fails. A gate returns what it saw, and raises GateError.
    """
    import argparse

    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("gates", nargs="*", metavar="gate", help=", ".join(gates))
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    options = parser.parse_args()
    if unknown := set(options.gates) - set(gates):
        parser.error(f"no gate {min(unknown)!r}; there are {', '.join(gates)}")
    results = []
    for name in [one for one in gates if one in (options.gates or gates)]:
        started = time.monotonic()
        try:
            passed, detail = True, gates[name]()
        except (GateError, ToolError, ValueError) as error:
            passed, detail = False, str(error)
        seconds = round(time.monotonic() - started, 2)
        results.append(
            {"gate": name, "passed": passed, "seconds": seconds, "detail": detail}
        )
        if not options.json:
            verdict = "PASS" if passed else "FAIL"
            print(f"{verdict} {name:8} {seconds:6.2f} s  {detail}", flush=True)
        if not passed:
            break
    if options.json:
        print(json.dumps(results, indent=2))
    return 0 if all(result["passed"] for result in results) else 1


def check_class(domain_class: type, rows: Path = ROWS) -> str:
    """The import gate: the class has tools, and its rows can be played."""
    tools = tools_of(domain_class)
    if not tools:
        name = domain_class.__name__
        raise GateError(f"{name} has no tool: a public method that returns text")
    read_rows(domain_class, rows)
    return f"{domain_class.__module__}.{domain_class.__name__} has {', '.join(tools)}"


# Plays a row of the dataset, by its number from 0, and returns what it was paid.
Play = Callable[[int, Calls], Awaitable[float]]


def check_rewards(domain_class: type, play: Play) -> str:
    """The rollout gate over all rows, with `play` as one framework plays and pays.

    The oracle earns 1.0, or the row's `oracle_reward`; noop and nonsense earn 0.0. What
    else a policy may try earns the same as without a framework.
    """
    rows = read_rows(domain_class)

    async def check(number: int, policy: str, calls: Calls, expected: float) -> None:
        where = f"row {number + 1} of {ROWS.name}"
        try:
            reward = await play(number, calls)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise GateError(f"{where}, policy {policy!r}: {problem}") from error
        if not isinstance(reward, float) or abs(reward - expected) > 1e-9:
            task = json.dumps(rows[number]["ground_truth"][0], ensure_ascii=False)
            raise GateError(
                f"{where}: the policy {policy!r} earns {reward}, not {expected} "
                f"(task: {task[:300]})"
            )

    async def check_all(policy: str) -> None:
        wanted = oracle_reward if policy == "oracle" else lambda row: 0.0
        plans = [policy_calls(domain_class, policy, row) for row in rows]
        limit = asyncio.Semaphore(ROWS_AT_A_TIME)

        async def check_one(number: int) -> None:
            async with limit:
                await check(number, policy, plans[number], wanted(rows[number]))

        await asyncio.gather(*map(check_one, range(len(rows))))

    async def check_tricks() -> None:
        for name, calls in tricks(domain_class, rows[0], rows[-1]).items():
            await check(0, name, calls, await bare_reward(domain_class, rows[0], calls))

    seen = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
    asyncio.run(check_all("noop"))
    if lacking := getattr(domain_class, "missing_requirement", lambda: None)():
        return f"{seen}: noop earns 0.0 ({lacking})"
    asyncio.run(check_all("garbage"))
    try:
        asyncio.run(check_all("oracle"))
    except NoOracle as why:
        return f"{seen}: noop and nonsense earn 0.0 ({why})"
    if getattr(domain_class, "deterministic", True):
        asyncio.run(check_tricks())
    usual = all(oracle_reward(row) == 1 for row in rows)
    earned = "1.0" if usual else "what each row says"
    return f"{seen}: the oracle earns {earned}, noop and nonsense 0.0"


def tricks(domain_class: type, row: Row, other: Row) -> dict[str, Calls]:
    """What a policy may try on a row, beside solving it, by name."""
    solution = policy_calls(domain_class, "oracle", row)
    nonsense = policy_calls(domain_class, "garbage", row)
    return {
        "the solution, then nonsense": solution + nonsense,
        "nonsense, then the solution": nonsense + solution,
        "the solution twice": solution + solution,
        "all but the last call": solution[:-1],
        "the last call alone": solution[-1:],
        "the solution of another row": policy_calls(domain_class, "oracle", other),
        "calls that cannot be made": [
            ("verify", {"reward": 1.0}),
            *((name, {"": [given]}) for name, given in solution),
        ],
    }


async def bare_reward(domain_class: type, row: Row, calls: Calls) -> float:
    """What these calls earn on a row, with no framework around the class."""
    episode = AsyncEpisode(domain_class, row["ground_truth"][0])
    await episode.start()
    try:
        for name, arguments in calls:
            await episode.call(name, arguments)
        return await episode.reward()
    finally:
        await episode.close()


def check_episodes(domain_class: type, start: Start) -> str:
    """The smoke gate: all tools answer, errors are readable, and episodes are apart."""
    tools = tools_of(domain_class)
    row = read_rows(domain_class)[0]
    solution: Calls = []
    try:
        solution = policy_calls(domain_class, "oracle", row)
    except NoOracle:
        pass
    nonsense = policy_calls(domain_class, "garbage", row)

    async def tell(player: Player, name: str, arguments: dict[str, Any]) -> str:
        output = (await player.call(name, arguments)).output
        if not isinstance(output, str):
            raise GateError(f"{name} with {arguments} answered {output!r}, not text")
        return output

    async def check() -> None:
        async with start(0) as one, start(0) as other:
            for name, arguments in nonsense:
                await tell(other, name, arguments)
            for name, arguments in solution:
                await tell(one, name, arguments)
            for name in ("no_such_tool", *tools):
                wrong = {key: {"wrong": []} for key in _parameters(tools.get(name))}
                told = await tell(other, name, wrong)
                if not told.startswith("error:") and (wrong or name not in tools):
                    raise GateError(f"{name} with {wrong} answered {told!r:.200}")
        if solution and abs(one.reward - oracle_reward(row)) > 1e-9:
            raise GateError(f"the oracle earns {one.reward}, not {oracle_reward(row)}")
        if other.reward != 0:
            raise GateError(f"nonsense earns {other.reward} beside the oracle")

    if not getattr(domain_class, "missing_requirement", lambda: None)():
        asyncio.run(check())
    return f"{len(tools)} tool{'' if len(tools) == 1 else 's'}, two episodes at once"


def _parameters(tool: Tool | None) -> list[str]:
    return list(tool.definition()["parameters"]["properties"]) if tool else []


def serving_problem(domain_class: type, host: str) -> str | None:
    """Why untrusted policies must not play on this machine, or through this host."""
    if os.environ.get("TRUSTED_POLICY") == "1":
        return None
    if reason := getattr(domain_class, "refuse_to_serve", lambda: None)():
        return reason
    local = host in ("127.0.0.1", "localhost", "::1")
    told = ["1"] if os.environ.get("SPACE_ID") else ["1", "container"]
    allowed = local or os.environ.get("ALLOW_ANYBODY") in told
    if getattr(domain_class, "runs_commands", False) and not allowed:
        return (
            f"on HOST={host} anybody who reaches this port could run commands: "
            "set ALLOW_ANYBODY=1 if that is meant"
        )
    return None


@contextlib.contextmanager
def running_server(command: list[str], folder: Path) -> Generator[str, None, None]:
    """The URL of a server that prints `running on URL`, on a port of the system's.

    Raises GateError if the server ends, or is silent for two minutes.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "TRUSTED_POLICY": "1", "HOST": "127.0.0.1", "PORT": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    watchdog = threading.Timer(120, process.kill)
    watchdog.start()
    printed: list[str] = []
    url = None
    for line in process.stdout:
        printed.append(line)
        if found := re.search(r"running on (http://\S+)", line):
            url = found[1]
            break
    watchdog.cancel()
    # Read on, so that the server never waits for a full pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        if url is None:
            raise GateError("the server did not start:\n" + "".join(printed[-20:]))
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
