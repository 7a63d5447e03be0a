"""Every error that crosses a module's border. A message says what to do, in one line."""

from typing import Any


class ToolError(TypeError):
    """A method cannot be a tool: where it is, what is wrong, and what to do."""


class NotTextError(TypeError):
    """A tool returned a value that cannot be an answer."""


class TaskRefusedError(ValueError):
    """The class refused a task. The message is for the author of the task."""


class SettingError(ValueError):
    """An environment variable has an invalid value."""


class ShardsError(Exception):
    """The shards of a server cannot be started: why, and what to do."""


class GateError(Exception):
    """A gate failed."""


class ProjectError(Exception):
    """There is no environment here, or its settings are incomplete."""


class RolloutError(Exception):
    """A rollout failed: the server, the model, or a file."""


class OutsideRangeError(RolloutError):
    """The class's `reward` is outside its reward_range, so the episode has none."""

    def __init__(self, message: str, reward: float) -> None:
        super().__init__(message)
        self.reward = reward


class NoOracleError(RolloutError):
    """A row's solution is not known, or cannot be played here."""


class ModelError(Exception):
    """A model beside the policy could not be asked: it is down, too slow, or not set.

    A policy may read the message. `said` is what the endpoint said, which may repeat
    the question: it is for the log and for the rollout.
    """

    def __init__(self, message: str, said: str = "", status: int | None = None) -> None:
        super().__init__(message)
        self.said, self.status = said, status


class NoAnswerError(ValueError):
    """A model beside the policy gives no answer to this text, or none to be read.

    A policy may read the message, but not `said`: see ModelError.
    """

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class DeployError(Exception):
    """The environment cannot be deployed."""


def one_line(text: Any) -> str:
    """At most 500 characters of `text`, on one line."""
    return " ".join(str(text).split())[:500]
