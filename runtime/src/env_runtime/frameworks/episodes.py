"""An episode behind a server that is not NeMo Gym's."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from ..episode.answers import Answer
from ..episode.declaration import declared
from ..episode.episode import Episode, sendable
from ..episode.session import Session
from ..episode.tasks import task_of, validation_problem
from ..episode.tools import OVER, SAY_TOOL
from ..episode.types import Calls, Row, Task
from ..models.client import Models
from ..settings import Limits
from .tools import ANSWER_TOOL, tools_and_answer, tools_of

# Why a call was not made, or did not end.
Problem = Literal["", "unknown tool", "bad arguments", "timeout"]


@dataclass(frozen=True)
class Refusal(Answer):
    """The answer to a call that the class did not answer itself."""

    problem: Problem = ""


class AsyncEpisode:
    """An episode for a server on an event loop. None of its methods blocks the loop.

    It looks up tools by name, validates their arguments, and repeats its last grade
    after the end; a Session does the rest. TOOL_SECONDS, or the class's `tool_seconds`,
    limits each call, and TOOL_SECONDS each grade.
    With `answer_tool`, and if the class grades the policy's last message, the tool
    `answer` takes that message and ends the episode. If the class has reply(), the tool
    `say` calls it, and the episode ends when it returns None.
    """

    def __init__(
        self, domain_class: type, task: Task, *, answer_tool: bool = False
    ) -> None:
        self.domain_class, self.task = domain_class, task
        self.tools = (tools_and_answer if answer_tool else tools_of)(domain_class)
        self.limits = Limits.read()
        self.over = False  # answered or closed: all further calls are refused
        self._closed = False
        self._session: Session | None = None
        self._reward = declared(domain_class).lowest_reward
        self._said = ""  # the last message to reply()

    async def start(self) -> None:
        """Make the object.

        Raises TimeoutError, and what the constructor raises: ValueError for a task that
        the class refuses.
        """
        # Only a grade by `expected_output` reads the calls.
        keeps_calls = declared(self.domain_class).reward is None
        models = Models(self.domain_class).of_episode()

        def make() -> Episode:
            return Episode(
                self.domain_class, self.task, keeps_calls=keeps_calls, models=models
            )

        self._session = Session.of(self.domain_class, self.task, limits=self.limits)
        await self._session.start(make)

    @property
    def failure(self) -> str | None:
        """Why the grade says nothing about the policy; None if it does."""
        episode = self._session.episode if self._session else None
        if episode is None:
            return None
        asked = episode.models.failure if episode.models else None
        return asked or episode.failure

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool with arguments from JSON. The answer reports any problem.

        Raises RuntimeError before start().
        """
        if self.over:
            return refusal("the episode is over")
        tool = self.tools.get(name)
        if tool is None:
            there_are = ", ".join(self.tools) or "none"
            return refusal(f"no tool {name!r}; there are {there_are}", "unknown tool")
        try:
            keywords = tool.keywords(tool.arguments.model_validate(arguments))
        except ValidationError as error:
            return refusal(validation_problem(error), "bad arguments")
        session, episode = self._started()
        if tool is ANSWER_TOOL:
            return await self._answered(keywords["text"])
        usual = self.limits.tool_seconds
        seconds = declared(self.domain_class).tool_seconds.get(name, usual)

        def play() -> Any:
            if tool is SAY_TOOL:
                return episode.reply(self._said)
            return episode.call(tool, keywords)

        if tool is SAY_TOOL:
            self._said = keywords["text"]
        try:
            answer = await session.perform(play, seconds)
        except TimeoutError:
            return refusal(f"{name} took more than {seconds:g} seconds", "timeout")
        return await self._answered(self._said) if answer is None else answer

    async def _answered(self, text: str) -> Answer:
        """Grade the final answer. The first one counts."""
        await self.reward(text)
        self.over = True
        return Answer(OVER)

    async def observation(self) -> Answer | None:
        """The observation before the first call; None if the class shows nothing.

        Raises TimeoutError, and what the class's observation() raises.
        """
        session, episode = self._started()
        return await session.perform(episode.observation)

    async def reward(self, answer: str = "") -> float:
        """The grade so far, within the class's reward_range. It is final after the end.

        `answer` is the policy's last message, for a class that grades it. An episode
        whose last call hangs earns the lowest reward.
        """
        if not self.over and self._session and self._session.episode:
            seconds = self.limits.tool_seconds
            answer = answer or self._said
            self._reward = await self._session.reward(answer, seconds)
        return self._reward

    @property
    def metrics(self) -> dict[str, float]:
        """The class's own metrics() at the last grade; {} if it has none."""
        return self._session.metrics if self._session else {}

    async def close(self) -> None:
        """Close the object, once.

        Raises TimeoutError if a call hangs; the object is closed after that call.
        """
        session, closed = self._session, self._closed
        self.over = self._closed = True
        if session is not None and not closed:
            await session.close()

    def _started(self) -> tuple[Session, Episode]:
        if self._session is None or self._session.episode is None:
            raise RuntimeError("the episode is not started")
        return self._session, self._session.episode


def refusal(reason: str, problem: Problem = "") -> Refusal:
    """The answer to a call that cannot be made."""
    text = sendable(f"error: {reason}")
    return Refusal(text, error="expected", problem=problem)


async def bare_reward(domain_class: type, row: Row, calls: Calls) -> float:
    """The reward that calls earn on a row, with no framework around the class.

    A call of `answer` is the policy's last message, if the class grades it.
    """
    episode = AsyncEpisode(domain_class, task_of(row), answer_tool=True)
    await episode.start()
    try:
        for name, arguments in calls:
            await episode.call(name, arguments)
        return await episode.reward()
    finally:
        await episode.close()
