"""Sessions of the server: an episode each, the thread that runs it, and the limits."""

import asyncio
import inspect
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from plumbing.environment import episodes


@dataclass(frozen=True)
class Limits:
    """What one server allows, each out of an environment variable."""

    max_sessions: int = 1000
    max_hung_calls: int = 100
    idle_seconds: float = 1800
    tool_seconds: float = 60
    close_seconds: float = 10
    body_seconds: float = 60
    body_bytes: int = 1 << 20
    trajectory_bytes: int = 1 << 25

    VARIABLES: ClassVar[dict[str, str]] = {
        "max_sessions": "MAX_SESSIONS",  # one more open session is answered with 503
        "max_hung_calls": "MAX_HUNG_CALLS",  # so is a new session while so many hang
        "idle_seconds": "SESSION_IDLE_SECONDS",  # a session that waits longer is closed
        "tool_seconds": "TOOL_SECONDS",  # a longer tool call ends with an error output
        "close_seconds": "CLOSE_SECONDS",  # how long close() is waited for
        "body_seconds": "BODY_SECONDS",  # a slower request body is answered with 408
        "body_bytes": "MAX_BODY_BYTES",  # a longer request body is answered with 413
        "trajectory_bytes": "MAX_TRAJECTORY_BYTES",  # the same for rows and trajectories
    }

    @classmethod
    def from_environment(cls) -> Self:
        """Raises ValueError if a variable is not a positive number."""
        values: dict[str, Any] = {}
        for name, variable in cls.VARIABLES.items():
            if text := os.environ.get(variable):
                whole = not name.endswith("_seconds")
                try:
                    values[name] = int(text) if whole else float(text)
                except ValueError:
                    values[name] = 0
                if not values[name] > 0:
                    kind = "integer" if whole else "number"
                    raise ValueError(
                        f"{variable} must be a positive {kind}, got {text!r}"
                    )
        return cls(**values)


class EpisodeThread:
    """A thread that runs the jobs of one episode, one after the other.

    A daemon thread: a job that hangs must not hold up the server's exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._started: float | None = None  # when the job that runs now started
        self._given_up: float | None = None  # when the job started that nobody awaits
        threading.Thread(target=self._work, name="episode", daemon=True).start()

    def run(self, job: Callable[[], Any]) -> asyncio.Future:
        """The job's result. Cancelling it before the job starts drops the job."""
        future: Future = Future()
        self._jobs.put((future, job))
        return asyncio.wrap_future(future)

    def stop(self) -> None:
        """End the thread after the jobs that it has."""
        self._jobs.put(None)

    def give_up(self) -> None:
        """The job that runs now took too long, and nobody waits for it any more."""
        self._given_up = self._started

    def hangs(self, seconds: float) -> bool:
        """Whether a job has run for longer than `seconds`, or was given up."""
        started = self._started
        if started is None:
            return False
        return started == self._given_up or time.monotonic() - started > seconds

    def _work(self) -> None:
        while (item := self._jobs.get()) is not None:
            future, job = item
            if future.set_running_or_notify_cancel():
                self._started = time.monotonic()
                try:
                    future.set_result(job())
                except BaseException as error:  # noqa: BLE001 - whoever waits has it
                    future.set_exception(error)
                self._started = None
            del item, future, job  # an idle thread keeps no finished call alive


@dataclass
class Session:
    """One episode: the task it was seeded with (ground_truth[0]), and its object."""

    task: dict[str, Any]
    seeded: bool  # by a harness, with a task
    owner: Any = None  # the episode_id of NeMo Gym 0.7's typed seed
    thread: EpisodeThread | None = None  # None: the class is called on the event loop
    episode: episodes.Episode | None = None  # None while it is made
    metrics: dict[str, float] = field(default_factory=dict)  # beside the reward
    used: float = field(default_factory=time.monotonic)
    busy: int = 0  # calls in progress
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    verifying: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def environment(self) -> Any:
        """The object of the environment class that plays the episode."""
        assert self.episode is not None
        return self.episode.environment

    @property
    def calls(self) -> list[episodes.Call]:
        """The tool calls so far, as this server saw them.

        Raises RuntimeError if they are not kept, see SessionServer.keeps_calls.
        """
        if self.episode is None:
            return []
        if not self.episode.keeps_calls:
            raise RuntimeError(
                "this server keeps no calls, because verify() does not read them: "
                "write `keeps_calls = True` below `domain_class` in server.py"
            )
        return self.episode.calls

    def hangs(self, seconds: float) -> bool:
        """Whether a call has been running for longer than `seconds`."""
        return self.thread is not None and self.thread.hangs(seconds)

    async def perform(
        self, job: Callable[[], Any], seconds: float, *, on_loop: bool = False
    ) -> Any:
        """The result of `job`, a function or a coroutine function, run alone.

        Raises TimeoutError after `seconds`. A job that has not started by then never
        does. One that runs in the thread goes on, because nothing can stop it, and
        later jobs wait for its end. `on_loop` keeps a job out of the thread.
        """
        self.busy += 1
        in_turn = False
        try:
            async with asyncio.timeout(seconds), self.lock:
                in_turn = True
                if self.thread is not None and not on_loop:
                    return await self.thread.run(lambda: _finish(job()))
                value = job()
                return await value if inspect.isawaitable(value) else value
        except TimeoutError:
            # A call before this one, which it waited for, may have time left.
            if in_turn and self.thread is not None:
                self.thread.give_up()
            raise
        finally:
            self.busy -= 1
            self.used = time.monotonic()

    async def reward(self, seconds: float = 60) -> float:
        """The episode's grade, from 0 to 1: the class's own reward(), else whether the
        environment printed the row's `expected_output`. See Episode.reward.

        An episode whose last call still hangs earns 0.0: it was the policy's call.
        """
        started = False

        async def grade() -> float:
            nonlocal started
            started = True
            assert self.episode is not None
            reward = await self.episode.reward()
            self.metrics = await self.episode.metrics()
            return reward

        try:
            return await self.perform(grade, seconds)
        except TimeoutError:
            assert self.episode is not None
            if started:
                self.episode.failure = f"the grade took more than {seconds:g} s"
            return 0.0

    async def close(self, seconds: float) -> None:
        """Close the episode, after the calls that wait and what hangs in the thread.

        Raises TimeoutError after `seconds`; a thread closes the episode even then, as
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
            closing = self.thread.run(lambda: _finish(close_episode()))
            self.thread.stop()
            await asyncio.wait_for(asyncio.shield(closing), seconds)


def _finish(value: Any) -> Any:
    return episodes.run(value) if inspect.iscoroutine(value) else value


@dataclass(frozen=True)
class Ended:
    """What is remembered of a session that ended."""

    reason: str
    task: dict[str, Any]
    # The answer of /verify, without the trajectory that it repeats.
    verdict: dict[str, Any] | None = None
