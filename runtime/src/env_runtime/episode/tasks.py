"""Tasks: the constructor's argument, taken from a row of the dataset, and its solution."""

import functools
import inspect
import json
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ..errors import NoOracleError, RolloutError, ToolError, one_line
from .declaration import declared, hint_of
from .types import (
    PARAMETERS,
    REPLY,
    Calls,
    Row,
    Solution,
    Task,
    copied,
    is_native,
    task_of,
)


def task_place(row: Row) -> str:
    """The task's place in its row, for messages: `ground_truth.0.`, or ""."""
    return "" if is_native(row) else "ground_truth.0."


@functools.cache
def task_reader(model: Any) -> TypeAdapter[Any]:
    """Reads a task as a model. Raises PydanticUserError if JSON cannot hold one."""
    return TypeAdapter(model)


def read_task(domain_class: type, task: Task, place: str = "ground_truth.0.") -> Any:
    """`task` as the constructor takes it. Raises ValueError if its model refuses it.

    `place` is the task's place in its row, for the message.
    """
    if PARAMETERS in task:
        task = {key: task[key] for key in task if key != PARAMETERS}
    model = declared(domain_class).task_model
    if model is None:
        return task
    try:
        return task_reader(model).validate_python(task)
    except ValidationError as error:
        raise ValueError(f"{place}{validation_problem(error)}") from None


def check_task(domain_class: type, task: Task, place: str = "ground_truth.0.") -> Any:
    """The task as the constructor takes it.

    Raises ValueError if it could not be played and graded. `place` is the task's place
    in its row, for the message.
    """
    read = read_task(domain_class, task, place)
    if declared(domain_class).reward is None:
        expected = task.get("expected_output")
        if not isinstance(expected, str) or not expected.strip():
            raise ValueError(
                f"{place}expected_output must be the text of a solved episode, "
                f"because {domain_class.__name__} has no reward(); got {expected!r}"
            )
    return read


def validation_problem(error: ValidationError) -> str:
    """The first problem that pydantic found, as `field.0: the problem`."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]


def solution_of(
    domain_class: type, row: Row, values: Mapping[str, Any] | None = None
) -> Solution:
    """The calls and the answer that solve a row, by the class's own `oracle(task)`.

    A class without one takes the row's `oracle`, which has what `oracle(task)` returns.
    `oracle(task)` gets the task as the constructor does, or as a dict if its annotation
    says so. It returns calls as `(tool, arguments)`. A text after the calls, or without
    calls, is the final answer. If the class has reply(), texts can stand anywhere: each
    is a message that reply() answers. `values` of parameters are by default those of the
    process. Raises NoOracleError without an oracle, if it
    returns None and the row has no `oracle` either, or if this machine lacks something
    that an episode needs; RolloutError if the oracle raises, or returns anything else.
    """
    if lacking := declared(domain_class).missing_requirement():
        raise NoOracleError(lacking)
    returned = _played_by(domain_class, row, values)
    if returned is None:
        name = domain_class.__name__
        if declared(domain_class).oracle is None:
            raise NoOracleError(f"{name} has no oracle(task)")
        raise NoOracleError(f"{name}.oracle(task) returned None: no known solution")
    return as_solution(domain_class, returned, oracle_name(domain_class))


def as_solution(domain_class: type, returned: Any, name: str) -> Solution:
    """The calls and the answer that an oracle, or a player, of this name returned.

    Raises RolloutError if it is anything else.
    """
    try:
        steps = [returned] if isinstance(returned, str) else list(returned)
        answer = steps[-1] if steps and isinstance(steps[-1], str) else ""
        if declared(domain_class).replies:
            steps = [
                (REPLY, {"answer": step}) if isinstance(step, str) else step
                for step in steps
            ]
        elif answer:
            steps.pop()
        calls = [(tool, dict(arguments)) for tool, arguments in steps]
        well_formed = all(isinstance(tool, str) for tool, _ in calls)
    except (TypeError, ValueError):
        well_formed = False
    if not well_formed:
        texts = "may end with the final answer as text"
        if declared(domain_class).replies:
            texts = "messages as text"
        raise RolloutError(
            f"{name} must return the calls, (tool, "
            f"arguments) each, and {texts}; got {returned!r:.200}"
        )
    return Solution(calls, answer)


def has_oracle(domain_class: type, row: Row) -> bool:
    """Whether the solution of a row is known: by the class, or by the row.

    An oracle that raises counts as one: whoever plays its row reports the error.
    """
    try:
        return _played_by(domain_class, row) is not None
    except RolloutError:
        return True


def solved_rows(domain_class: type, rows: Iterable[Row]) -> list[int]:
    """The numbers, from 0, of the rows that the oracle plays: their solution is known.

    If no solution is known, these are all rows: playing one raises NoOracleError.
    """
    known = [has_oracle(domain_class, row) for row in rows]
    return [n for n, one in enumerate(known) if one] or [*range(len(known))]


def unsolved_note(rows: int, solved: int) -> str:
    """How many of the rows have no known solution, as text; "" if all have one."""
    lacking = rows - solved
    verb = "has" if lacking == 1 else "have"
    return f"{lacking} of the rows {verb} no known solution" if lacking else ""


def oracle_name(domain_class: type) -> str:
    """The name, in messages, of what has the solutions."""
    if declared(domain_class).oracle is not None:
        return f"{domain_class.__name__}.oracle(task)"
    return "the row's `oracle`"


def _played_by(
    domain_class: type, row: Row, values: Mapping[str, Any] | None = None
) -> Any:
    """Return what the class's oracle(task) returns, or else the row's `oracle`.

    None if neither knows a solution.
    """
    solve = declared(domain_class).oracle
    if solve is None:
        return row.get("oracle")
    returned = on_task(
        domain_class, solve, row, f"{domain_class.__name__}.oracle(task)", values
    )
    return row.get("oracle") if returned is None else returned


def on_task(
    domain_class: type,
    function: Callable[..., Any],
    row: Row,
    name: str,
    values: Mapping[str, Any] | None = None,
) -> Any:
    """Return what a function says to the task of a row, which it gets as the class does.

    It gets a dict if its annotation says so, and the parameters that it names, with
    `values` in place of those of the process. Raises
    RolloutError if it raises.
    """
    task, named = copied(task_of(row)), dict[str, Any]()  # it may be changed
    if declared(domain_class).parameters:
        from .parameters import named_by

        named = named_by(domain_class, function, task, values)
    task.pop(PARAMETERS, None)
    if not _takes_dict(function):
        task = read_task(domain_class, task, task_place(row))
    try:
        return function(task, **named)
    except Exception as error:
        raise RolloutError(
            f"{name} raised {type(error).__name__}: "
            f"{one_line(error)}; its task was {one_line(task, 200)}"
        ) from error


_SORTED = json.JSONEncoder(sort_keys=True)


def task_key(task: Task) -> str:
    """A text that two tasks share if they differ in nothing but their `id`."""
    return _SORTED.encode({k: v for k, v in task.items() if k != "id"})


def steps_of(domain_class: type, plan: Solution) -> Calls:
    """A plan's calls and, for a class with reply(), its messages.

    An answer without messages before it, as of the policy that talks nonsense, is sent
    three times: the class answers it.
    """
    talks = any(tool == REPLY for tool, _ in plan.calls)
    if talks or not plan.answer or not declared(domain_class).replies:
        return plan.calls
    return [*plan.calls, *3 * [(REPLY, {"answer": plan.answer})]]


@functools.cache
def _takes_dict(oracle: Callable[..., Any]) -> bool:
    """Whether an oracle says that it takes the task as a dict, not as a model."""
    first = next(iter(inspect.signature(oracle).parameters), "")
    try:
        annotation = hint_of(oracle, first)
    except ToolError:
        return False
    kind = typing.get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, Mapping)


def oracle_reward(domain_class: type, row: Row) -> float:
    """The reward that the oracle must earn: `oracle_reward`, else the highest one."""
    return float(row.get("oracle_reward", declared(domain_class).highest_reward))


def baseline_reward(domain_class: type, row: Row) -> float:
    """The most that doing nothing and nonsense may earn: `baseline_reward`, else 0.0.

    If no reward is above 0.0, or all are, it is the lowest reward instead of 0.0.
    """
    low, high = declared(domain_class).reward_range
    return float(row.get("baseline_reward", 0.0 if low <= 0.0 < high else low))
