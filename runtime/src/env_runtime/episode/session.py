"""One session: an episode, in a thread or on the event loop, one call at a time."""

import asyncio
import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from ..errors import BusyThreadError
from .episode import Call, Episode, run_without_loop, runs_on_loop
from .tasks import reward_range
from .thread import EpisodeThread, EpisodeThreads, Job
from .types import Task


@dataclass
class Session:
    """One episode: the task it was seeded with (ground_truth[0]), and its object."""

    task: Task
    seeded: bool  # whether a harness seeded it with a task
    owner: Any = None  # the episode_id of NeMo Gym 0.7's typed seed
    thread: EpisodeThread | None = None  # None: the class is called on the event loop
    seconds: float = math.inf  # a close() that takes longer hangs
    episode: Episode | None = None  # None while the object is made
    metrics: dict[str, float] = field(default_factory=dict)  # beside the reward
    used: float = field(default_factory=time.monotonic)
    busy: int = 0  # calls in progress
    job: Job | None = None  # the one in the thread that runs, or is next
    hung: bool = False  # whether a call of its own was given up
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    def of(
        cls,
        domain_class: type,
        task: Task,
        owner: Any = None,
        threads: EpisodeThreads | None = None,
        seconds: float = math.inf,
    ) -> Self:
        """A session with a thread if the class may block. `start` makes its object.

        The thread is one of `threads` in which no call hangs, by default a new one.
        close() hangs after `seconds`. Raises NoThreadError.
        """
        thread = None
        if not runs_on_loop(domain_class):
            thread = (threads or EpisodeThreads(1)).pin()
        return cls(task, bool(task), owner, thread, seconds)

    async def start(self, make: Callable[[], Episode], seconds: float) -> None:
        """Make the object. Raises TimeoutError, or the constructor's exception."""

        def construct() -> None:
            self.episode = make()

        await self.perform(construct, seconds)

    @property
    def environment(self) -> Any:
        """The object of the environment class that plays the episode."""
        assert self.episode is not None
        return self.episode.environment

    @property
    def calls(self) -> list[Call]:
        """The tool calls so far, as this server saw them.

        Raises RuntimeError if they are not kept, see SessionServer.keeps_calls.
        """
        if self.episode is None:
            return []
        if not self.episode.keeps_calls:
            raise RuntimeError(
                "this server keeps no calls, because the class has a reward(): write "
                "`keeps_calls = True` below `domain_class` in server.py"
            )
        return self.episode.calls

    def hangs(self) -> bool:
        """Whether a call of its own has been running for longer than it may."""
        return self.job is not None and self.job.hangs()

    async def perform(
        self, job: Callable[[], Any], seconds: float, *, on_loop: bool = False
    ) -> Any:
        """The result of `job`, a function or a coroutine function, run alone.

        Raises TimeoutError after `seconds`. A job that has not started by then never
        starts. A job in the thread goes on, because nothing can stop it, and later jobs
        wait for its end. `on_loop` keeps a job out of the thread.

        Raises BusyThreadError if other episodes had the thread for as long: then the
        grade says nothing about the policy.
        """
        self.busy += 1
        mine: Job | None = None
        try:
            async with asyncio.timeout(seconds) as limit, self.lock:
                if self.thread is None or on_loop:
                    value = job()
                    return await value if inspect.isawaitable(value) else value
                mine = self.thread.run(lambda: _finish(job()), seconds, limit)
                if self.job is None:  # else an earlier one still hangs
                    self.job = mine
                return await asyncio.wrap_future(mine.result)
        except TimeoutError as error:
            # An episode that once held up the thread itself can blame no other.
            if mine is not None and mine.waits and not self.hung:
                raise self._kept_waiting(seconds) from error
            # A call before this one, which it waited for, may have time left.
            if mine is not None and not mine.result.done():
                mine.given_up = self.hung = True
            if self.episode is not None:
                self.episode.note_slow_model(seconds)
            raise
        finally:
            self.busy -= 1
            self.used = time.monotonic()
            if self.job is not None and self.job.result.done():
                self.job = None

    def _kept_waiting(self, seconds: float) -> BusyThreadError:
        reason = f"calls of other episodes kept its thread for {seconds:g} s (THREADS)"
        if self.episode is not None:
            self.episode.failure = reason
        return BusyThreadError(reason)

    async def reward(self, answer: str = "", seconds: float = 60) -> float:
        """The episode's grade: the class's own reward(), else whether the environment
        printed the row's `expected_output`. See Episode.reward.

        `answer` is the text of the policy's last message, `body.answer` of /verify.
        An episode whose last call still hangs earns the lowest reward: it was the
        policy's call.
        """
        started = False

        async def grade() -> float:
            nonlocal started
            started = True
            assert self.episode is not None
            reward = await self.episode.reward(answer)
            self.metrics = await self.episode.metrics()
            return reward

        try:
            return await self.perform(grade, seconds)
        except TimeoutError:
            assert self.episode is not None
            if started:
                self.episode.failure = f"the grade took more than {seconds:g} s"
            return reward_range(self.episode.domain_class)[0]

    async def close(self, seconds: float) -> None:
        """Close the episode, after the calls that wait and a job that hangs.

        Raises TimeoutError after `seconds`. A thread closes the episode even then, as
        soon as it can.
        """

        async def close_episode() -> None:
            if self.episode is not None:
                await self.episode.close()

        async with self.lock:
            if self.thread is None:
                async with asyncio.timeout(seconds):
                    await close_episode()
                return
            thread = self.thread
            closing = asyncio.wrap_future(
                thread.run(lambda: _finish(close_episode()), self.seconds).result
            )
            closing.add_done_callback(lambda _: thread.threads.release(thread))
            await asyncio.wait_for(asyncio.shield(closing), seconds)


def _finish(value: Any) -> Any:
    return run_without_loop(value) if inspect.iscoroutine(value) else value
