"""One episode of the environment class in this process."""

import contextlib
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from pydantic import ValidationError

from ..class_models import models_of
from ..episode.answers import Answer, sendable
from ..episode.declaration import declared
from ..episode.episode import Episode
from ..episode.names import episode_name
from ..episode.session import OneTurn, Session
from ..episode.tasks import steps_of, validation_problem
from ..episode.tools import ANSWER_TOOL, EMPTY, OVER, SAY_TOOL, Tool
from ..episode.types import REPLY, Calls, Solution, Task
from ..settings import Limits

# Why a call was not made, or did not end.
Problem = Literal["", "unknown tool", "bad arguments", "timeout"]


@dataclass(frozen=True)
class Refusal(Answer):
    """The answer to a call that the class did not answer itself."""

    problem: Problem = ""


def refused_call(reason: str, problem: Problem = "") -> Refusal:
    """The answer to a call that cannot be made."""
    text = sendable(f"error: {reason}")
    return Refusal(text, error="expected", problem=problem)


@dataclass(eq=False)
class LocalEpisode:
    """An episode that starts and closes with an `async with` block, or its methods.

    None of them blocks the event loop. TOOL_SECONDS limits each, or the class's
    `tool_seconds` a call. If ANSWER_TOOL is among the tools, it takes the policy's last
    message and ends the episode. If SAY_TOOL is, it calls reply(), and the episode ends
    when that returns None.
    """

    domain_class: type
    task: Task
    tools: dict[str, Tool]  # that a policy may call
    limits: Limits = field(default_factory=Limits.read)
    parameters: dict[str, Any] | None = None  # as of Episode
    pinned: bool = (
        False  # whether the loop's own thread may block: nothing bounds a call
    )

    def __post_init__(self) -> None:
        if self.parameters is None and declared(self.domain_class).parameters:
            from ..episode.parameters import collected

            self.parameters = {**collected(self.domain_class)}
        self.over = False  # answered or closed: all further calls are refused
        self._closed = False
        self._session: Session | None = None
        self._reward = declared(self.domain_class).lowest_reward
        self._said = ""  # the last message to reply()

    async def start(self) -> None:
        """Make the object.

        Raises TimeoutError, and what the constructor raises: ValueError for a task that
        the class refuses.
        """
        label = episode_name({}, self.task)
        models = models_of(self.domain_class)
        make = functools.partial(
            Episode,
            self.domain_class,
            self.task,
            # Only a grade by `expected_output` reads the calls.
            keeps_calls=declared(self.domain_class).reward is None,
            label=label,
            models=models and models.of_episode(label),
            parameters=self.parameters,
            limits=self.limits,
        )
        if self._session is None:
            self._session = (
                Session(self.task, bool(self.task), limits=self.limits)
                if self.pinned
                else Session.of(self.domain_class, self.task, limits=self.limits)
            )
        await self._session.start(make)

    async def play_whole[T](
        self, steps: Callable[[], Coroutine[Any, Any, T]], seconds: float
    ) -> T:
        """Start, do the steps, and close. Returns what the steps return.

        In a class without async methods, a thread does all of it in one turn. Raises
        TimeoutError if a step takes more than `seconds`, and like `start`.
        """

        async def whole() -> T:
            async with self:
                return await steps()

        if self.pinned or declared(self.domain_class).runs_on_loop:
            return await whole()
        turn = OneTurn.of(self.domain_class, self.task, limits=self.limits)
        self._session = turn
        return await turn.run(whole, seconds)

    @property
    def episode(self) -> Episode:
        """The episode itself. Raises RuntimeError before start()."""
        if self._session is None or self._session.episode is None:
            raise RuntimeError("the episode is not started")
        return self._session.episode

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool with arguments from JSON. The answer reports any problem.

        Raises RuntimeError before start().
        """
        tool, seconds = self.tools.get(name), self.seconds(name)
        if self.over:
            return refused_call("the episode is over")
        if tool is None and declared(self.domain_class).has_row_tools:
            job: Any = functools.partial(self.episode.call_row_tool, name, arguments)
        elif tool is None:
            there_are = ", ".join(self.tools) or "none"
            return refused_call(
                f"no tool {name!r}; there are {there_are}", "unknown tool"
            )
        else:
            try:
                keywords = tool.keywords(tool.arguments.model_validate(arguments))
            except ValidationError as error:
                return refused_call(validation_problem(error), "bad arguments")
            if tool is ANSWER_TOOL:
                return await self._answered(keywords["text"])
            job = functools.partial(self.episode.call, tool, keywords)
        try:
            if tool is not SAY_TOOL:
                return await self.perform(job, seconds)
            self._said = keywords["text"]
            reply = await self.say(self._said)
            if reply is None and not self.episode.over:
                return Answer(EMPTY, error="expected")
            return reply or await self._answered(self._said)
        except TimeoutError:
            return refused_call(f"{name} took more than {seconds:g} seconds", "timeout")

    async def say(self, text: str) -> Answer | None:
        """The class's reply to a message of the policy, see Episode.reply.

        Raises TimeoutError, and RuntimeError before start().
        """
        return await self.perform(functools.partial(self.episode.reply, text))

    async def play(self, calls: Calls) -> None:
        """Make calls, and say the messages among them. Raises like `say`."""
        for name, arguments in calls:
            if name == REPLY:
                await self.say(arguments["answer"])
            else:
                await self.call(name, arguments)

    async def carry_out(self, plan: Solution) -> tuple[list[Answer], float]:
        """Make a plan's calls, and say its messages. Returns what was answered, and the grade.

        Raises like `say`.
        """
        answers = []
        for name, arguments in steps_of(self.domain_class, plan):
            if name == REPLY:
                answer = await self.say(arguments["answer"])
            else:
                answer = await self.call(name, arguments)
            answers.append(answer or Answer(""))
        return answers, await self.reward(plan.answer)

    async def reward(self, answer: str = "") -> float:
        """The grade so far, within the class's reward_range. It is final after the end.

        `answer` is the policy's last message, for a class that grades it. An episode
        whose last call hangs earns the lowest reward.
        """
        if not self.over and self._session and self._session.episode:
            seconds = self.limits.tool_seconds
            self._reward = await self._session.reward(answer or self._said, seconds)
        return self._reward

    async def _answered(self, text: str) -> Answer:
        """Grade the final answer. The first one counts."""
        await self.reward(text)
        self.over = True
        return Answer(OVER)

    async def close(self) -> None:
        """Close the object, once.

        Raises TimeoutError if a call hangs; the object is closed after that call.
        """
        closed, self.over, self._closed = self._closed, True, True
        if self._session is not None and not closed:
            await self._session.close()

    def seconds(self, name: str) -> float:
        """The time limit of a tool's calls."""
        usual = self.limits.tool_seconds
        return declared(self.domain_class).tool_seconds.get(name, usual)

    async def perform(
        self, job: Callable[[], Any], seconds: float | None = None
    ) -> Any:
        """The result of a job where the object's methods run. Raises TimeoutError."""
        assert self._session is not None
        return await self._session.perform(job, seconds)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(TimeoutError):
            await self.close()
