"""Tools, episodes and grades out of an environment class, for every framework.

The class is the one declaration of the environment. `tools_of` reads the tools off its
methods, `Episode` plays one episode of it and grades it. Nothing here knows a server:
the standard library and pydantic are enough.
"""

from __future__ import annotations

import ast
import functools
import inspect
import json
import logging
import math
import re
import sys
import textwrap
import traceback
import typing
import unicodedata
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError, PydanticUndefined, to_jsonable_python

log = logging.getLogger(__name__)

# Public methods that are not tools, though some return text.
PROTOCOL = frozenset(
    ["reward", "solved", "metrics", "close", "oracle", "missing_requirement", "notice"]
    + ["refuse_to_serve"]
)

# The calls that an episode keeps for a grader. Later ones are played, but not kept.
MAX_CALLS = 1000
MAX_CALL_CHARACTERS = 1 << 20

# Of one call's arguments, that are told one by one.
MAX_PROBLEMS = 100

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


class Arguments(BaseModel):
    """What a policy may write: of a great many problems it reads only how many."""

    @model_validator(mode="wrap")
    @classmethod
    def bounded(cls, body: Any, validate: Any) -> Any:
        """Raises one error instead of more than MAX_PROBLEMS: each costs time."""
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
    return f"{_file_name(code.co_filename)}, line {code.co_firstlineno}"


def _file_name(path: str) -> str:
    """`my_env.py`, or `my_env/model.py` if that is in a package."""
    file = Path(path)
    in_package = (file.parent / "__init__.py").is_file()
    return f"{file.parent.name}/{file.name}" if in_package else file.name


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
        arguments = create_model(f"{name}_arguments", __base__=Arguments, **fields)
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
        raise ValueError(f"ground_truth.0.{validation_problem(error)}") from None


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
            return Answer(sendable(f"error: {text}"), error="expected")
        log.error("%s: the tool %r failed", self.label, name, exc_info=error)
        kind = type(error).__name__
        fault = str(error) if isinstance(error, NotText) else f"raised {kind}"
        last = traceback.extract_tb(error.__traceback__)[-1:]
        if last and not isinstance(error, NotText):
            fault += f" ({_file_name(last[0].filename)}, line {last[0].lineno})"
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

        Errors do not count, and nothing that the policy wrote first: if `text` can be put
        together from what its arguments held by then, the output may be their echo.
        """
        wanted = _normal(text)
        pieces: list[str] = []  # what the policy wrote
        strings: set[str] = set()
        for call in self.calls:
            given = list(call.arguments.values())
            pieces += map(_squeezed, _texts(given))
            strings.update(map(_squeezed, _texts(given, only=str)))
            printed = f"\n{wanted}\n" in f"\n{_normal(call.output)}\n"
            if wanted and printed and not call.failed:
                bare = _squeezed(wanted)
                return not (
                    bare in "".join(pieces)
                    or bare in "".join(reversed(pieces))
                    or _composed(bare, strings)
                )
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


def as_answer(value: Any) -> Answer:
    """What a tool returned, as an answer.

    Text stays as it is. Of a NamedTuple with `output`, that is the text, and its other
    fields go beside it. Numbers, lists and dicts become JSON text. Raises NotText for
    anything else, None included.
    """
    if isinstance(value, str):
        return Answer(sendable(value))
    if isinstance(value, tuple) and "output" in _fields(type(value)):
        rest = {
            name: one
            for name, one in zip(_fields(type(value)), value, strict=True)
            if one is not None
        }
        output = as_answer(rest.pop("output", None)).output
        return Answer(output, to_jsonable_python(rest))
    if isinstance(value, (bool, int, float, list, dict)):
        return Answer(sendable(json.dumps(value, ensure_ascii=False)))
    hint = ""
    if inspect.iscoroutine(value):
        value.close()
        hint = ": make it `async def`, or await the coroutine"
    kind = "None" if value is None else type(value).__name__
    raise NotText(f"returned {kind}, but a tool must return text{hint}")


def sendable(text: str) -> str:
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
    """The folder of the module, or package, that defines a class; None for built-in ones."""
    for name in (kind.__module__.partition(".")[0], kind.__module__):
        if file := getattr(sys.modules.get(name), "__file__", None):
            return Path(file).resolve().parent
    return None


def _texts(value: Any, only: type = object) -> list[str]:
    """Every scalar of a type inside a JSON value, as text; keys come after their values."""
    if isinstance(value, dict):
        parts = [*value.values(), *value]
        return [text for part in parts for text in _texts(part, only)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item, only)]
    wanted = value is not None and isinstance(value, only)
    return [sendable(str(value))] if wanted else []


def _composed(text: str, pieces: set[str]) -> bool:
    """Whether `text` is made of some of the pieces, in any order, and as often as needed."""
    pieces = {piece for piece in pieces if piece and piece in text}
    reached = {0}
    for start in range(len(text)):
        if start in reached:
            reached |= {start + len(p) for p in pieces if text.startswith(p, start)}
    return len(text) in reached


def _squeezed(text: str) -> str:
    """`text` without what a tool may well change: case and white space."""
    return "".join(_normal(text).casefold().split())


def _normal(text: str) -> str:
    """`text` for comparisons: one form of each character and line end, no padding."""
    lines = unicodedata.normalize("NFKC", text).replace("\u2212", "-").splitlines()
    return "\n".join(" ".join(line.split()) for line in lines).strip()
