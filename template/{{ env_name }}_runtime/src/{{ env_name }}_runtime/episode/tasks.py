"""Tasks: the constructor's argument, out of a row of the dataset."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from ..errors import NoOracleError
from .tools import hints_of
from .types import Calls, Row, Task


def grader(domain_class: type) -> Callable[..., Any] | None:
    """The method that grades an episode, if the class has one.

    `solved() -> bool` stands for `reward()` in environments of release 0.2.
    """
    return getattr(domain_class, "reward", None) or getattr(
        domain_class, "solved", None
    )


def task_type(domain_class: type) -> Any:
    """The pydantic model that the constructor's first parameter names, else `dict`."""
    parameters = list(inspect.signature(domain_class).parameters.values())
    if not parameters:
        return dict[str, Any]
    constructor = inspect.unwrap(domain_class.__init__)
    annotation = hints_of(constructor).get(parameters[0].name)
    return annotation if _is_model(annotation) else dict[str, Any]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def read_task(domain_class: type, task: Task) -> Any:
    """`task` as the constructor takes it. Raises ValueError if its model refuses it."""
    model = task_type(domain_class)
    if not _is_model(model):
        return task
    try:
        return model.model_validate(task)
    except ValidationError as error:
        raise ValueError(f"ground_truth.0.{validation_problem(error)}") from None


def task_skeleton(domain_class: type) -> Task:
    """A first task, to be filled in: every key that the class reads.

    The keys are those of the task's model. If the task is a plain dict, they are those
    in the constructor's source, as in `task["size"]` and `task.get("start", 0)`.
    """
    model = task_type(domain_class)
    task: Task = {}
    if _is_model(model):
        for name, field in model.model_fields.items():
            if field.is_required():
                task[field.alias or name] = None
            else:
                default = field.get_default(call_default_factory=True)
                task[field.alias or name] = to_jsonable_python(default)
    else:
        task = _keys_read(domain_class)
    if grader(domain_class) is None:
        task.setdefault(
            "expected_output", "The line that only a solved episode prints."
        )
    return task or {"id": 1}


def _keys_read(domain_class: type) -> Task:
    """The keys of the task that the constructor's source names, with their defaults."""
    try:
        source = textwrap.dedent(inspect.getsource(domain_class.__init__))
        [function] = ast.parse(source).body
        parameter = function.args.args[1].arg  # type: ignore[attr-defined]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return {}
    task: Task = {}
    for node in ast.walk(function):
        match node:
            case ast.Subscript(
                value=ast.Name(id=name), slice=ast.Constant(value=str(key))
            ):
                default = None
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="get"),
                args=[ast.Constant(value=str(key)), *rest],
            ):
                literal = len(rest) == 1 and isinstance(rest[0], ast.Constant)
                default = rest[0].value if literal else None
            case _:
                continue
        if name == parameter:
            task.setdefault(key, default)
    return task


def check_row(domain_class: type, row: Row) -> None:
    """Raise ValueError if the row could not be played and graded."""
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
    """Raise ValueError if the task could not be played and graded."""
    read_task(domain_class, task)
    if grader(domain_class) is None:
        expected = task.get("expected_output")
        if not isinstance(expected, str) or not expected.strip():
            raise ValueError(
                "ground_truth.0.expected_output must be the text of a solved episode, "
                f"because {domain_class.__name__} has no reward(); got {expected!r}"
            )


def validation_problem(error: ValidationError) -> str:
    """pydantic's first complaint, as `field.0: the problem`."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def oracle_calls(domain_class: type, row: Row) -> Calls:
    """The calls that solve a row, by the class's own `oracle(task)`.

    Raises NoOracleError if there is none, or if this machine lacks something that an
    episode needs.
    """
    if lacking := getattr(domain_class, "missing_requirement", lambda: None)():
        raise NoOracleError(lacking)
    solve = getattr(domain_class, "oracle", None)
    if solve is None:
        raise NoOracleError(f"{domain_class.__name__} has no oracle(task)")
    task = read_task(domain_class, row["ground_truth"][0])
    return [(tool, dict(arguments)) for tool, arguments in solve(task)]


def oracle_reward(row: Row) -> float:
    """The reward that the oracle must earn on the row: its `oracle_reward`, else 1.0."""
    return float(row.get("oracle_reward", 1.0))
