"""One episode: an object of the environment class, its calls, and its grade."""

import asyncio
import functools
import inspect
import logging
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_jsonable_python

from ..errors import ModelError, NoAnswerError, NotTextError, one_line, shortage
from ..files import fault_of
from ..settings import Limits
from .answers import Answer, as_answer, printed, scalars, sendable, without_thinking
from .declaration import declared, where
from .names import shown_call
from .tasks import read_task
from .tools import Tool
from .types import COMPONENTS, REPLY, ROW_TOOL, ModelUsage, Task, copied

log = logging.getLogger(__name__)

# The calls that an episode keeps for a grader. Later calls are played, but not kept.
MAX_CALLS = 1000
MAX_CALL_CHARACTERS = 1 << 20


@dataclass
class Call:
    """One finished tool call."""

    tool: str
    arguments: dict[str, Any]  # as in JSON
    output: str
    failed: bool


@dataclass
class Episode:
    """One episode: an object of the environment class, and the calls so far.

    Raises ValueError for a task that the class refuses. Call it from one thread, one
    call at a time. Without async methods in the class, `run_without_loop` runs its
    coroutines.
    """

    domain_class: type
    task: Task = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    failure: str | None = None  # why the grade says nothing about the policy: a mask
    grade_problem: str | None = None  # why it has the lowest reward in place of a grade
    outside_range: float | None = None  # the class's grade, if reward_range lacks it
    components: dict[str, float] = field(default_factory=dict)  # the grade's parts
    over: bool = False  # whether the environment ended the episode
    keeps_calls: bool = True
    received: int = 0  # calls and messages of the policy, kept or not
    label: str = "an episode"  # names it in the log, see episode_name
    models: ModelUsage | None = None  # the models that the class asks beside the policy
    parameters: dict[str, Any] | None = None  # None: those of this process
    limits: Limits | None = None  # None: those of this process, if a message comes

    def __post_init__(self) -> None:
        self._kept_characters = 0
        own = declared(self.domain_class)
        self._has_reward, self._takes_answer = own.reward is not None, own.takes_answer
        self._reward_range, self.has_components = own.reward_range, own.has_components
        # A copy: /verify compares the task, which a constructor may change.
        task = read_task(self.domain_class, copied(self.task))
        models = self.models.parameters if self.models else {}
        self.played_with: dict[str, Any] = {}  # the environment's parameters, as JSON
        if own.parameters:
            from .parameters import bound, shown

            bind = bound(self.domain_class, self.task, self.parameters)
            models, self.played_with = models | bind, shown(self.domain_class, bind)
        self.environment = self.domain_class(task, **models)

    async def call(self, tool: Tool, arguments: dict[str, Any]) -> Answer:
        """Call a tool with arguments that its model has validated. Never raises."""
        method = functools.partial(getattr(self.environment, tool.name), **arguments)
        return await self._answer(tool.name, arguments, method)

    async def call_row_tool(self, name: str, arguments: dict[str, Any]) -> Answer:
        """Have the class answer a call of a tool that only the row has. Never raises.

        The class must have call_row_tool().
        """
        method = functools.partial(self.environment.call_row_tool, name, arguments)
        return await self._answer(name, arguments, method)

    async def reply(self, answer: str) -> Answer | None:
        """The class's reply to a message of the policy; None if nobody says more.

        The class gets the message without the model's thinking. Nobody says more if the
        class ended the episode, or if nothing is left of the message: the policy ended
        it then, and `over` is False. Like a tool's answer, the reply reports an
        exception, and is kept for the grader. The class must have reply().
        """
        said = sendable(without_thinking(answer))
        if self.over or not said:
            return None
        if problem := self._too_long(said):
            refused = Answer(f"error: {problem}", error="expected")
            self.keep(REPLY, {"answer": said}, refused)
            return refused

        async def replied() -> Any:
            value = self.environment.reply(said)
            if inspect.isawaitable(value):
                value = await value
            self.over = value is None
            return "" if value is None else value

        result = await self._answer(REPLY, {"answer": said}, replied)
        return None if self.over else result

    def _too_long(self, said: str) -> str:
        """Why the class does not get a message of the policy; "" if it does."""
        most = (self.limits or Limits.read()).max_message_characters
        if len(said) <= most:
            return ""
        return (
            f"the message has {len(said)} characters, more than the {most} of "
            "MAX_MESSAGE_CHARACTERS: write a shorter one"
        )

    async def _answer(
        self, name: str, arguments: dict[str, Any], method: Callable[[], Any]
    ) -> Answer:
        """The method's answer, which is kept. An exception becomes an output `error:`."""
        if self.over:
            return Answer("error: the episode is over", error="expected")
        try:
            value = method()
            if inspect.isawaitable(value):
                value = await value
            answer = as_answer(value)
        # A tool may call sys.exit(), or a program's main function that does.
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the policy reads it
            answer = self.problem(name, arguments, error)
        self.keep(name, arguments, answer)
        return answer

    def problem(
        self, name: str, arguments: dict[str, Any], error: BaseException
    ) -> Answer:
        """The answer to a call that raised. Logs the call and the exception of a bug.

        If the machine failed, the grade says nothing about the policy.
        """
        own = declared(self.domain_class)
        if own.is_expected(error) and not own.is_infrastructure(error):
            text = str(error) or type(error).__name__
            return Answer(sendable(f"error: {text}"), error="expected")
        call, fault = shown_call(name, arguments), fault_of(error)
        if isinstance(error, NotTextError):  # no line raised it: the method is named
            method = getattr(self.domain_class, name, None)
            method = method or getattr(self.domain_class, ROW_TOOL, None)
            fault = f"{error} ({where(method)})" if method else str(error)
        log.error("%s: %s %s", self.label, call, fault, exc_info=error)
        if lack := self._machine_failed(name, error):
            return Answer(
                f"error: {lack}", error="unexpected", fault=self.failure or lack
            )
        kind = type(error).__name__
        return Answer(f"error: {kind}", error="unexpected", fault=fault)

    def _machine_failed(self, method: str, error: BaseException) -> str:
        """Why a method's exception says nothing about the policy, which masks; "" if it does.

        The server was short of files, threads or processes, or the class lists the
        exception in `infrastructure_errors`.
        """
        if lack := shortage(error):
            self.failure = lack
        elif declared(self.domain_class).is_infrastructure(error):
            lack = type(error).__name__
            self.failure = f"{self.domain_class.__name__}.{method}() {fault_of(error)}"
        return lack

    def note_slow_model(self, seconds: float) -> None:
        """Note that a call took more than `seconds` because a model did not answer."""
        if self.models and self.models.waiting and not self.models.failure:
            self.models.failure = f"a model did not answer within {seconds:g} s"

    def keep(self, tool: str, arguments: dict[str, Any], answer: Answer) -> None:
        """Keep a call for the grader, within MAX_CALLS and MAX_CALL_CHARACTERS."""
        self.received += 1
        if not self.keeps_calls:
            return
        arguments = to_jsonable_python(arguments, fallback=repr)
        self._kept_characters += len(answer.output) + sum(map(len, scalars(arguments)))
        fits = self._kept_characters <= MAX_CALL_CHARACTERS
        if len(self.calls) < MAX_CALLS and fits:
            call = Call(tool, arguments, answer.output, answer.error != "")
            self.calls.append(call)

    async def reward(self, answer: str = "") -> float:
        """The grade: the class's own reward(), else a grade by `expected_output`.

        `answer` is the text of the policy's last message, for a `reward(answer)`, which
        gets it without the model's thinking. If it is too long, a grader raises, or it returns anything but
        a number within `reward_range`, the grade is the lowest, or the nearest one if the
        range is an estimate, and `grade_problem` has the reason: the policy may have
        caused it, so it must not mask the sample. An `infrastructure_failure` of the
        class, or one of its `infrastructure_errors`, is a `failure`, which does.

        Then `components` has what components() returns. If it is wrong, the grade is the
        lowest, too.
        """
        self.components = {}
        if not self._has_reward:
            return float(printed(self.calls, self.task.get("expected_output") or ""))
        arguments = [sendable(without_thinking(answer))] if self._takes_answer else []
        reward = await self._graded(arguments)
        if self.has_components and not (self.grade_problem or self.failure):
            reward = await self._with_components(reward)
        failed = getattr(self.environment, "infrastructure_failure", None)
        self.failure = failed or self.failure
        return reward

    async def _graded(self, arguments: list[str]) -> float:
        name = f"{self.domain_class.__name__}.reward()"
        low, high = self._reward_range
        if problem := self._too_long("".join(arguments)):
            self.grade_problem = problem
            return low
        try:
            value = self.environment.reward(*arguments)
            if inspect.isawaitable(value):
                value = await value
        except (NoAnswerError, ModelError) as error:
            log.warning("%s: %s: %s", self.label, name, error)
            self.grade_problem = f"{name}: {error}"
            return low
        except (Exception, SystemExit) as error:
            fault = f"{name} {fault_of(error)}"
            log.error("%s: %s", self.label, fault, exc_info=error)
            if not self._machine_failed("reward", error):
                text = one_line(sendable(str(error)), 200)
                self.grade_problem = f"{fault}{text and f': {text}'}"
            return low
        try:  # numpy's numbers are numbers, too
            number = float(value) if hasattr(type(value), "__float__") else math.nan
        except (TypeError, ValueError, OverflowError):  # such as an array of two
            number = math.nan
        if low <= number <= high:
            return number
        self.grade_problem = (
            f"{name} must return a number from {low:g} to {high:g}, the class's "
            f"reward_range, got {_shown(value)}"
        )
        earned = low
        if math.isfinite(number):
            self.outside_range = number
            if declared(self.domain_class).range_is_estimated:
                self.grade_problem += ": the range is an estimate, so correct it"
                earned = min(max(number, low), high)
        log.error("%s: %s", self.label, self.grade_problem)
        return earned

    async def _with_components(self, reward: float) -> float:
        """The reward, once `components` has its parts; the lowest if they are wrong."""
        name = f"{self.domain_class.__name__}.{COMPONENTS}()"
        try:
            values = self.environment.components()
            if inspect.isawaitable(values):
                values = await values
            parts = {sendable(str(key)): float(part) for key, part in values.items()}
        except (Exception, SystemExit) as error:
            fault = f"{name} {fault_of(error)}"
            log.error("%s: %s", self.label, fault, exc_info=error)
            if not self._machine_failed(COMPONENTS, error):
                text = one_line(sendable(str(error)), 200)
                self.grade_problem = f"{fault}{text and f': {text}'}"
            return self._reward_range[0]
        bounded = all(0 <= part <= self._reward_range[1] for part in parts.values())
        if parts and bounded and adds_up(parts, reward):
            self.components = parts
            return reward
        self.grade_problem = (
            f"{name} must return numbers from 0 to {self._reward_range[1]:g} that add up "
            f"to the reward, {reward:g}; got {_shown(parts)}"
        )
        log.error("%s: %s", self.label, self.grade_problem)
        return self._reward_range[0]

    async def metrics(self) -> dict[str, float]:
        """The class's metrics, none if metrics() raises, its models', and parameters.

        The reward's components are among them.
        """
        asked = self.models.metrics() if self.models else {}
        for name, value in self.played_with.items():
            if isinstance(value, int | float):
                asked[f"parameter_{name}"] = float(value)
        try:
            values = getattr(self.environment, "metrics", dict)()
            if inspect.isawaitable(values):
                values = await values
            numbers = {
                sendable(str(name)): float(value) for name, value in values.items()
            }
        except (Exception, SystemExit) as error:
            name = f"{self.domain_class.__name__}.metrics()"
            fault = fault_of(error)
            log.error("%s: %s %s", self.label, name, fault, exc_info=error)
            numbers = {}
        finite = {k: number for k, number in numbers.items() if math.isfinite(number)}
        return asked | finite | self.components

    async def observation(self) -> Answer | None:
        """The class's observation(), which the policy sees before its first call.

        None if the class has no observation(). Raises what observation() raises.
        """
        if not declared(self.domain_class).has_observation:
            return None
        value = self.environment.observation()
        return as_answer(await value if inspect.isawaitable(value) else value)

    async def close(self) -> None:
        """Close the object, if its class has close(). Logs an exception."""
        try:
            closed = getattr(self.environment, "close", dict)()
            if inspect.isawaitable(closed):
                await closed
        except (Exception, SystemExit) as error:
            name = f"{self.domain_class.__name__}.close()"
            fault = fault_of(error)
            log.error("%s: %s %s", self.label, name, fault, exc_info=error)


def adds_up(components: dict[str, float], reward: float) -> bool:
    """Whether components are the parts of a reward, as trainers such as NeMo RL check."""
    return math.isclose(sum(components.values()), reward, rel_tol=1e-6, abs_tol=1e-9)


def run_without_loop(steps: Coroutine[Any, Any, Any]) -> Any:
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


def run_alone(domain_class: type, steps: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that plays an episode where no event loop runs."""
    if declared(domain_class).has_async_methods:
        return asyncio.run(steps)
    return run_without_loop(steps)


def _shown(value: Any) -> str:
    """The repr of a value, cut; Python shows no integer of thousands of digits."""
    try:
        return f"{value!r:.80}"
    except Exception:  # noqa: BLE001 - the class may define it
        return f"a {type(value).__name__} that cannot be shown"
