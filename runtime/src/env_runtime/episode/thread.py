"""The threads of episodes. Each episode is pinned to one, and shares it if it must."""

import asyncio
import contextlib
import functools
import math
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from ..errors import NoThreadError


@dataclass(eq=False)
class Job:
    """Work that a thread does for an episode."""

    work: Callable[[], Any]
    seconds: float = math.inf  # a job that runs for longer hangs
    result: Future = field(default_factory=Future)
    on_start: Callable[[], Any] | None = None  # called in the thread
    waits: bool = False  # for jobs of other episodes, with its clock stopped
    started: float | None = None
    given_up: bool = False  # no longer awaited, though it may run

    def hangs(self) -> bool:
        """Whether it has run for longer than its seconds, or runs though it was given up."""
        if self.started is None or self.result.done():
            return False
        return self.given_up or time.monotonic() - self.started > self.seconds

    def stop_clock(self, limit: asyncio.Timeout) -> None:
        """Give the job all that is left of `limit` once more when it starts."""
        loop, when = asyncio.get_running_loop(), limit.when()
        assert when is not None
        left = when - loop.time()

        def start_clock() -> None:
            with contextlib.suppress(RuntimeError):  # it is no longer awaited
                limit.reschedule(loop.time() + left)
                self.waits = False

        self.waits = True
        self.on_start = functools.partial(loop.call_soon_threadsafe, start_clock)


class EpisodeThread:
    """A thread that runs the jobs of its episodes, one after the other.

    It is a daemon thread: a job that hangs must not hold up the server's exit. Raises
    RuntimeError if it cannot be started.
    """

    def __init__(self, threads: "EpisodeThreads") -> None:
        self.threads, self.episodes = threads, 0
        self.job: Job | None = None  # the one that runs now
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._taken = self._done = 0  # one is counted on the loop, one in the thread
        threading.Thread(target=self._work, name="episode", daemon=True).start()

    def run(
        self,
        work: Callable[[], Any],
        seconds: float = math.inf,
        limit: asyncio.Timeout | None = None,
    ) -> Job:
        """A job, whose result can be cancelled before it starts.

        It hangs if it runs for longer than `seconds`. While jobs of other episodes run, the clock of `limit` stops. The job waits as
        long as `limit` allows, and may then take as long.
        """
        job = Job(work, seconds)
        if limit is not None and self.episodes > 1 and self._taken != self._done:
            job.stop_clock(limit)
        self._taken += 1
        self._jobs.put(job)
        return job

    def stop(self) -> None:
        """End the thread after the jobs that it has."""
        self._jobs.put(None)

    def hangs(self) -> bool:
        job = self.job
        return job is not None and job.hangs()

    def _work(self) -> None:
        working = self.threads.working
        while (job := self._jobs.get()) is not None:
            if job.result.set_running_or_notify_cancel():
                self.job, job.started = job, time.monotonic()
                working.add(self)
                try:
                    if job.on_start is not None:
                        job.on_start()
                    job.result.set_result(job.work())
                except BaseException as error:  # noqa: BLE001 - the awaiter gets it
                    job.result.set_exception(error)
                self.job = None
                working.discard(self)
            self._done += 1
            del job  # an idle thread keeps no finished call alive


class EpisodeThreads:
    """At most `most` threads. An episode has one of its own as long as they suffice."""

    def __init__(self, most: int) -> None:
        self.most, self.count = most, 0
        self.problem = ""  # why the last thread could not be started
        self.working: set[EpisodeThread] = set()  # those that run a job
        # By the number of their episodes; in each dict, the oldest is first
        self._by_load: defaultdict[int, dict[EpisodeThread, None]] = defaultdict(dict)

    def pin(self) -> EpisodeThread:
        """The thread of one more episode, until `release`. No call in it hangs.

        Raises NoThreadError.
        """
        thread = self._start() if self.count < self.most else self._least_used()
        self._move(thread, 1)
        return thread

    def release(self, thread: EpisodeThread) -> None:
        """Note that an episode of the thread has ended. The last one ends the thread."""
        self._move(thread, -1)
        if thread.episodes == 0:
            self.count -= 1
            self.problem = ""
            thread.stop()

    def hung_calls(self) -> int:
        """The number of calls that run for longer than they may."""
        return sum(thread.hangs() for thread in list(self.working))

    def _start(self) -> EpisodeThread:
        try:
            thread = EpisodeThread(self)
        except RuntimeError as error:
            self.problem = f"no more threads can be started beside {self.count} of episodes: {error}"
            raise NoThreadError(self.problem) from error
        self.count, self.problem = self.count + 1, ""
        return thread

    def _least_used(self) -> EpisodeThread:
        """A thread with the fewest episodes, if possible one that runs no job."""
        for load in sorted(self._by_load):
            threads = self._by_load[load]
            for thread in threads:
                if thread not in self.working:
                    return thread
            for thread in threads:
                if not thread.hangs():
                    return thread
        raise NoThreadError(f"a call hangs in each of {self.most} threads (THREADS)")

    def _move(self, thread: EpisodeThread, change: int) -> None:
        before = self._by_load[thread.episodes]
        before.pop(thread, None)
        if not before:
            del self._by_load[thread.episodes]
        thread.episodes += change
        if thread.episodes:
            self._by_load[thread.episodes][thread] = None
