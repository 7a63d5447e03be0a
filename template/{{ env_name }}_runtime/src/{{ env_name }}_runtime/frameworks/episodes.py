"""An episode behind a server that is not NeMo Gym's."""

from typing import Any

from pydantic import ValidationError

from ..episode.episode import Answer, Episode, sendable
from ..episode.session import Session
from ..episode.tasks import grader, validation_problem
from ..episode.tools import tools_of
from ..episode.types import Calls, Row, Task
from ..models.client import Models
from ..settings import Limits


class AsyncEpisode:
    """An episode for a server on an event loop. None of its methods blocks the loop.

    It looks up tools by name, validates their arguments, and repeats its last grade
    after close(); a Session does the rest. TOOL_SECONDS limits each call and grade.
    """

    def __init__(self, domain_class: type, task: Task) -> None:
        self.domain_class, self.task = domain_class, task
        self.tools = tools_of(domain_class)
        self.limits = Limits.read()
        self.over = False  # closed: all further calls are refused
        self._session: Session | None = None
        self._reward = 0.0

    async def start(self) -> None:
        """Make the object.

        Raises TimeoutError, and what the constructor raises: ValueError for a task that
        the class refuses.
        """
        # Only a grade by `expected_output` reads the calls.
        keeps_calls = grader(self.domain_class) is None
        models = Models(self.domain_class).of_episode()

        def make() -> Episode:
            return Episode(
                self.domain_class, self.task, keeps_calls=keeps_calls, models=models
            )

        self._session = Session.of(self.domain_class, self.task)
        await self._session.start(make, self.limits.tool_seconds)

    @property
    def failure(self) -> str | None:
        """Why the grade says nothing about the policy; None if it does."""
        episode = self._session.episode if self._session else None
        if episode is None:
            return None
        asked = episode.models.failure if episode.models else None
        return asked or episode.failure

    async def call(self, name: str, arguments: Any) -> Answer:
        """Call a tool with arguments from JSON. Its problems are answers.

        Raises RuntimeError before start().
        """
        if self.over:
            return refusal("the episode is over")
        tool = self.tools.get(name)
        if tool is None:
            return refusal(f"no tool {name!r}; there are {', '.join(self.tools)}")
        try:
            keywords = tool.keywords(tool.arguments.model_validate(arguments))
        except ValidationError as error:
            return refusal(validation_problem(error))
        session, episode = self._started()
        seconds = self.limits.tool_seconds
        try:
            return await session.perform(lambda: episode.call(tool, keywords), seconds)
        except TimeoutError:
            return refusal(f"{name} took more than {seconds:g} seconds")

    async def reward(self) -> float:
        """The grade so far, from 0 to 1; after close(), the last one.

        An episode whose last call hangs earns 0.0.
        """
        if not self.over and self._session and self._session.episode:
            seconds = self.limits.tool_seconds
            self._reward = await self._session.reward(seconds=seconds)
        return self._reward

    @property
    def metrics(self) -> dict[str, float]:
        """The class's own metrics() at the last grade; {} if it has none."""
        return self._session.metrics if self._session else {}

    async def close(self) -> None:
        """Close the object, once.

        Raises TimeoutError if a call hangs; the object is closed after that call.
        """
        session, closed, self.over = self._session, self.over, True
        if session is not None and not closed:
            await session.close(self.limits.close_seconds)

    def _started(self) -> tuple[Session, Episode]:
        if self._session is None or self._session.episode is None:
            raise RuntimeError("the episode is not started")
        return self._session, self._session.episode


def refusal(reason: str) -> Answer:
    """The answer to a call that cannot be made."""
    return Answer(sendable(f"error: {reason}"), error="expected")


async def bare_reward(domain_class: type, row: Row, calls: Calls) -> float:
    """The reward that calls earn on a row, with no framework around the class."""
    episode = AsyncEpisode(domain_class, row["ground_truth"][0])
    await episode.start()
    try:
        for name, arguments in calls:
            await episode.call(name, arguments)
        return await episode.reward()
    finally:
        await episode.close()
