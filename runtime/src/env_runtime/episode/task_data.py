"""The schema of a row's own fields, in both formats of rows.

`gym env schema` of NeMo Gym 0.7 reads it.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from .tasks import (
    baseline_reward,
    is_native,
    read_task,
    reward_range,
    task_of,
    task_type,
)


class TaskData(BaseModel):
    """A row's own fields.

    The first entry of ground_truth is the task, which the class's constructor takes. In
    a row without ground_truth, the row's own keys are the task.
    """

    model_config = ConfigDict(extra="allow")


def task_data_of(domain_class: type) -> type[BaseModel]:
    """The model of a row's fields for an environment class."""
    low, high = reward_range(domain_class)
    task: Any = task_type(domain_class)

    def check(cls: type[BaseModel], row: Any) -> Any:
        """Raise ValueError if the row has no task, or one that the class refuses."""
        if isinstance(row, dict):
            task = task_of(row)
            if not task:
                raise ValueError(
                    "the row has no task: it needs ground_truth, or keys of its own"
                )
            place = "" if is_native(row) else "ground_truth.0."
            read_task(domain_class, task, place)
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
