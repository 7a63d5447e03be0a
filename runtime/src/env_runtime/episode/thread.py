"""The thread of one episode."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class EpisodeThread:
    """A thread that runs the jobs of one episode, one after the other.

    It is a daemon thread: a job that hangs must not hold up the server's exit.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future, Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._started: float | None = None  # start of the job that runs now
        self._given_up: float | None = (
            None  # start of the job that is no longer awaited
        )
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
        """Note that the job that runs now is no longer awaited."""
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
                except BaseException as error:  # noqa: BLE001 - the awaiter gets it
                    future.set_exception(error)
                self._started = None
            del item, future, job  # an idle thread keeps no finished call alive
