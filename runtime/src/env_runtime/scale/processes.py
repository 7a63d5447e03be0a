"""Shards as child processes, on Unix sockets in a folder that only this user enters."""

import contextlib
import logging
import multiprocessing
import os
import shutil
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from ..errors import ShardsError
from .shard import ShardSpec, make_server

log = logging.getLogger(__name__)

START_SECONDS = 120.0
# The pause before a restart of a shard grows while it ends within STEADY_SECONDS.
SHORTEST_PAUSE, LONGEST_PAUSE, STEADY_SECONDS = 0.5, 30.0, 60.0


class Processes:
    """Starts shards, and restarts them when they end.

    They are forked from a process that has imported NeMo Gym, but no code of the user.
    So they start immediately, share its memory, and never fork a thread of the user.
    `folder` is the folder of another process that has started the shards.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or tempfile.mkdtemp(prefix="shards-", dir="/tmp")
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload([f"{__package__}.forkserver_preload"])
        self._threads: list[threading.Thread] = []
        # A shard ends once this process closes its pipe, or ends.
        self._running: dict[int, tuple[BaseProcess, Connection]] = {}
        self._ended: dict[int, str] = {}  # how a shard ended, or why it cannot start
        self._stopping = threading.Event()

    def start(self, specs: list[ShardSpec]) -> None:
        """Start the shards. Raises ShardsError if one does not start."""
        for spec in specs:
            thread = threading.Thread(target=self._keep, args=[spec], daemon=True)
            self._threads.append(thread)
            try:
                thread.start()
            except RuntimeError as error:
                number = spec["number"]
                raise ShardsError(f"shard {number} did not start: {error}") from error
        deadline = time.monotonic() + START_SECONDS
        for number in range(len(specs)):
            while not os.path.exists(self.locate(number)):
                if number in self._ended or time.monotonic() > deadline:
                    how = self._ended.get(number, "hangs")
                    raise ShardsError(
                        f"shard {number} did not start: it {how}; see its output above"
                    )
                time.sleep(0.05)

    def shared(self) -> dict[str, str]:
        """Arguments with which another process finds the same shards."""
        return {"folder": self.folder}

    def locate(self, number: int) -> str:
        """The address of a shard."""
        return f"{self.folder}/{number}"

    def stop(self, seconds: float) -> None:
        """End all shards. Kill those that still close episodes after `seconds`."""
        self._stopping.set()
        deadline = time.monotonic() + seconds
        for _, pipe in self._running.values():
            pipe.close()
        for process, _ in self._running.values():
            process.join(max(0.0, deadline - time.monotonic()))
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _keep(self, spec: ShardSpec) -> None:
        """Run a shard, and restart it whenever it has ended."""
        number, pause = spec["number"], SHORTEST_PAUSE
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                ended = f"ended with status {self._run(spec)}"
            except (OSError, EOFError) as error:  # no more processes, or no more files
                ended = f"cannot be started: {error!r}"
            self._ended[number] = ended
            if not self._stopping.is_set():
                log.error("shard %d %s", number, ended)
                if time.monotonic() > started + STEADY_SECONDS:
                    pause = SHORTEST_PAUSE
                self._stopping.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _run(self, spec: ShardSpec) -> int | None:
        """Run a shard to its end. Returns its exit status. Raises OSError and EOFError."""
        number = spec["number"]
        theirs, ours = self._forks.Pipe(duplex=False)
        with theirs:
            arguments = spec, self.locate(number), theirs
            process = self._forks.Process(target=serve_shard, args=arguments)
            process.start()
        self._running[number] = process, ours
        process.join()
        return process.exitcode


def serve_shard(spec: ShardSpec, path: str, pipe: Connection) -> None:
    """Serve a shard until the other end of `pipe` is closed."""
    os.setpgrp()  # Ctrl-C in a terminal is for the proxy, which then ends the shards
    with contextlib.suppress(OSError):  # what `top` shows
        Path("/proc/self/comm").write_text(f"shard-{spec['number']}")
    server = make_server(spec, uds=path)

    def end_with_parent() -> None:
        pipe.poll(None)
        server.should_exit = True

    threading.Thread(target=end_with_parent, daemon=True).start()
    server.run()
    with contextlib.suppress(OSError):  # the parent does this, unless it was killed
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(path))
