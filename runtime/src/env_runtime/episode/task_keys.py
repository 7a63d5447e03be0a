"""The keys of tasks: a first task, to be filled in, and the model of a row's own fields."""

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core import to_jsonable_python

from .declaration import declared
from .tasks import baseline_reward, read_task, task_place
from .types import Task, task_of


def task_skeleton(domain_class: type) -> Task:
    """A first task, to be filled in: every key that the class reads.

    The keys are those of the task's type. If the task is a plain dict, they are those
    in the source of the constructor and of the oracle, as in `task["size"]` and
    `task.get("start", 0)`.
    """
    model = declared(domain_class).task_model
    task: Task = {}
    if model is None:
        task = _keys_read(domain_class.__init__, 1)
        oracle = declared(domain_class).oracle
        for key, default in _keys_read(oracle, inspect.ismethod(oracle)).items():
            task.setdefault(key, default)
    elif issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            if field.is_required():
                task[field.alias or name] = None
            else:
                default = field.get_default(call_default_factory=True)
                task[field.alias or name] = to_jsonable_python(default)
    else:
        for part in filter(lambda part: part.init, fields(model)):
            default = part.default
            if part.default_factory is not MISSING:
                default = part.default_factory()
            default = None if default is MISSING else default
            task[part.name] = to_jsonable_python(default)
    if declared(domain_class).reward is None:
        task.setdefault(
            "expected_output", "The line that only a solved episode prints."
        )
    return task or {"id": 1}


def _keys_read(method: Any, position: int) -> Task:
    """The keys with their defaults that a method's source reads from a parameter."""
    try:
        source = textwrap.dedent(inspect.getsource(method))
        [function] = ast.parse(source).body
        parameter = function.args.args[position].arg  # ty: ignore[missing-attribute]
    except (OSError, TypeError, SyntaxError, ValueError, IndexError, AttributeError):
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
                try:
                    default = ast.literal_eval(rest[0]) if rest else None
                except ValueError:
                    default = None
            case _:
                continue
        if name == parameter:
            task.setdefault(key, default)
    return task


class TaskData(BaseModel):
    """A row's own fields.

    The first entry of ground_truth is the task, which the class's constructor takes. In
    a row without ground_truth, the row's own keys are the task.
    """

    model_config = ConfigDict(extra="allow")


def task_data_of(domain_class: type) -> type[BaseModel]:
    """The model of a row's fields for an environment class."""
    low, high = declared(domain_class).reward_range
    task: Any = declared(domain_class).task_model or dict[str, Any]

    def check(cls: type[BaseModel], row: Any) -> Any:
        """Raise ValueError if the row has no task, or one that the class refuses."""
        if isinstance(row, dict):
            task = task_of(row)
            if not task:
                raise ValueError(
                    "the row has no task: it needs ground_truth, or keys of its own"
                )
            read_task(domain_class, task, task_place(row))
        return row

    rewards: dict[str, Any] = {"ge": low, "le": high}
    fields: dict[str, Any] = {
        # Any: the ground_truth of a native row may be a text.
        "ground_truth": (list[task] | Any, None),
        "oracle": (
            list[Any] | str,
            Field(
                None, description="Calls and messages, for a class without an oracle."
            ),
        ),
        "oracle_reward": (
            float,
            Field(high, description="The reward of the oracle on this row.", **rewards),
        ),
        "baseline_reward": (
            float,
            Field(
                baseline_reward(domain_class, {}),
                description="The most that doing nothing and nonsense may earn.",
                **rewards,
            ),
        ),
    }
    validators: dict[str, Any] = {
        "check": model_validator(mode="before")(classmethod(check))  # type: ignore
    }
    return create_model(
        "TaskData",
        __base__=TaskData,
        __doc__=TaskData.__doc__,
        __validators__=validators,
        **fields,
    )
