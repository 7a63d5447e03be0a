"""Every error that crosses a module's border. A message says what to do, in one line."""

import errno
import re
import traceback
from typing import Any


class FixableError(Exception):
    """Names what a user can change. Commands show it on one line."""


class ToolError(FixableError, TypeError):
    """A method cannot be a tool: where it is, what is wrong, and what to do."""


class NotTextError(TypeError):
    """A tool returned a value that cannot be an answer."""


class TaskRefusedError(ValueError):
    """The class refused a task. The message is for the author of the task."""


class NoThreadError(Exception):
    """One more episode cannot have a thread; the message says why."""


class BusyThreadError(TimeoutError):
    """Calls of other episodes kept the thread of an episode for too long."""


class SettingError(FixableError, ValueError):
    """An environment variable has an invalid value."""


class ShardsError(FixableError):
    """The shards of a server cannot be started: why, and what to do."""


class GateError(FixableError):
    """A gate failed."""


class ProjectError(FixableError):
    """There is no environment here, or its settings are incomplete."""


class RolloutError(FixableError):
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


class DeployError(FixableError):
    """The environment cannot be deployed."""


def one_line(text: Any, limit: int = 500) -> str:
    """`text` on one line; of more than `limit` characters, the first ones and "..."."""
    line = " ".join(str(text).split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


_SERVICE = re.compile(r"Connect|Timeout|Network|Transport|Unavailable|gaierror")


def service_hint(fault: str) -> str:
    """Advice for a message on a service of the class that does not answer.

    `fault` has the type of an exception. "" if that is of another kind.
    """
    if not _SERVICE.search(fault):
        return ""
    return (
        ". If it needs a service that is down, write missing_requirement(), which says so "
        "before an episode. If the service breaks in one, list the exception in "
        "infrastructure_errors, or set self.infrastructure_failure: that masks the sample"
    )


_NO_LOOP = re.compile("no (current|running) event loop")


def loop_hint(error: BaseException) -> str:
    """Advice for code that looks for an event loop where none runs; "" for other errors."""
    if not (isinstance(error, RuntimeError) and _NO_LOOP.search(str(error))):
        return ""
    return (
        " (no event loop runs in the thread of an episode: write `async def` tools, use "
        "asyncio.run(...), or make a loop with asyncio.new_event_loop(), and close it in "
        "close())"
    )


def shortage(error: BaseException | None) -> str:
    """Why the server was short of what every process has to share, "" if it was not.

    A policy cannot cause that by an argument, so what asks for too much memory does not
    count.
    """
    for _ in range(10):  # a cause may be its own cause
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return f"no more files can be opened: {error.strerror}"
        if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
            return f"no more threads can be started: {error}"
        if isinstance(error, BlockingIOError) and _STARTERS & _modules(error):
            return f"no more processes can be started: {error.strerror}"
        error = error and (error.__cause__ or error.__context__)
    return ""


# Modules in which a BlockingIOError is about a new process, not about a file
_STARTERS = {"subprocess", "multiprocessing.popen_fork", "multiprocessing.util"}


def _modules(error: BaseException) -> set[str]:
    """The modules that an error went through."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return {frame.f_globals.get("__name__", "") for frame in frames}
