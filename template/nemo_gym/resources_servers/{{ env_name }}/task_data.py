"""What a row's own fields must be, for NeMo Gym 0.7: `gym env schema` shows it."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from plumbing.environment import EnvironmentClass, episodes

Task: Any = episodes.task_type(EnvironmentClass)


class TaskData(BaseModel):
    """The first entry of ground_truth is the task that the class is made of."""

    model_config = ConfigDict(extra="allow")

    ground_truth: list[Task] = Field(min_length=1)
    oracle_reward: float = Field(
        default=1.0, ge=0, le=1, description="What the oracle must earn on this row."
    )
