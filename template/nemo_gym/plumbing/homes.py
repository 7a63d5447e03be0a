"""Where shards live: child processes of this one, or named actors on a Ray cluster.

Both start a shard again when it ends. A front asks them for one thing only, the address
of a shard, so any number of fronts may share the shards of one owner.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from plumbing.shards import Address, Order, Wire, positive, run_loop, serve_shard

log = logging.getLogger(__name__)

START_SECONDS = 120.0
# What a shard that an earlier front left behind must agree in.
SAME = ("number", "secret", "file", "class", "limits")
# Variables of a machine, which a shard on another one must not get.
KEPT_OUT = ("RAY_", "CUDA_", "LD_", "XDG_", "SSH_", "SHARDS")
KEPT_OUT += ("PATH", "HOME", "PWD", "TMPDIR", "HOSTNAME", "SESSION_SECRET", "PYTHON")


# ---------------------------------------------------------------------- processes


class Child(NamedTuple):
    process: BaseProcess
    pipe: Connection  # once we close it, however that comes about, the shard ends


class Processes:
    """Shards as child processes, on Unix sockets in a folder that only we can enter.

    They are forked off a process that has imported NeMo Gym, and nothing of the user's:
    so they start at once, share that memory, and no thread of the user's is forked.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or tempfile.mkdtemp(prefix="shards-", dir="/tmp")
        self._forks = multiprocessing.get_context("forkserver")
        self._forks.set_forkserver_preload(["plumbing.forkable"])
        self._orders: list[Order] = []
        self._children: list[Child] = []
        self._stopping = threading.Event()
        self._watcher: threading.Thread | None = None

    def start(self, orders: list[Order]) -> None:
        """Raises RuntimeError if a shard does not start."""
        self._orders = orders
        self._children = [self._child(order) for order in orders]
        deadline = time.monotonic() + START_SECONDS
        while waiting := [
            one for one in orders if not os.path.exists(self.locate(one["number"]))
        ]:
            statuses = [child.process.exitcode for child in self._children]
            ended = [status for status in statuses if status is not None]
            if ended or time.monotonic() > deadline:
                self.stop(0)
                how = f"ended with status {ended[0]}" if ended else "hangs"
                raise RuntimeError(
                    f"shard {waiting[0]['number']} did not start: it {how}; its own "
                    "words are above"
                )
            time.sleep(0.05)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def shared(self) -> dict[str, str]:
        """What another process needs to find the same shards."""
        return {"folder": self.folder}

    def locate(self, number: int) -> str:
        """The address of a shard."""
        return f"{self.folder}/{number}"

    def kill(self, number: int, pid: int | None) -> None:
        """End a shard that hangs. Only while its connection holds, so `pid` is its."""
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def stop(self, seconds: float) -> None:
        """End all shards; those that still close episodes after `seconds` are killed."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()
        for child in self._children:
            child.pipe.close()
        deadline = time.monotonic() + seconds
        for process, _ in self._children:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _child(self, order: Order) -> Child:
        number = order["number"]
        theirs, ours = self._forks.Pipe(duplex=False)
        process = self._forks.Process(
            target=shard_process,
            args=(order, self.locate(number), theirs),
            name=_name(number),
        )
        process.start()
        theirs.close()
        return Child(process, ours)

    def _watch(self) -> None:
        """Start shards again, each after a pause that grows while it keeps failing."""
        count = len(self._children)
        again, pauses, started = [0.0] * count, [0.5] * count, [0.0] * count
        while not self._stopping.wait(0.1):
            for number, (process, pipe) in enumerate(self._children):
                now = time.monotonic()
                if process.is_alive():
                    if now - started[number] > 60:
                        pauses[number] = 0.5
                elif not again[number]:
                    status = process.exitcode
                    log.error("shard %d ended with status %s", number, status)
                    again[number] = now + pauses[number]
                    pauses[number] = min(2 * pauses[number], 30)
                elif now > again[number]:
                    pipe.close()
                    again[number], started[number] = 0.0, now
                    self._children[number] = self._child(self._orders[number])


def shard_process(order: Order, path: str, pipe: Connection) -> None:
    """A shard in a child process. It ends once nobody holds the other end of `pipe`."""
    os.setpgrp()  # Ctrl-C in a terminal is for the front, which then ends the shards
    with contextlib.suppress(OSError):  # what `top` shows
        Path("/proc/self/comm").write_text(_name(order["number"]))

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(pipe.fileno(), stop.set)
        loop.add_signal_handler(signal.SIGTERM, stop.set)

        async def listen(connection: Callable[[], Wire]) -> Address:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}.new")
            await loop.create_unix_server(connection, f"{path}.new")
            os.rename(f"{path}.new", path)  # in place of a shard's that ended
            return path

        await serve_shard(order, listen, lambda address: None, stop)

    run_loop(serve())
    with contextlib.suppress(
        OSError
    ):  # of a parent that was killed: the last one tidies
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


# ---------------------------------------------------------------------- Ray


class RayActors:
    """Shards as named actors. They outlive this process on a cluster that it joined.

    `join()` connects to the cluster of NeMo Gym, if this process is one of its servers.
    """

    def __init__(
        self,
        namespace: str,
        join: Callable[[], None] | None = None,
        address: str | None = None,
    ) -> None:
        address = address or os.environ.get("RAY_ADDRESS") or "local"
        import ray  # its settings are in plumbing/imports.py

        self.namespace = namespace
        self._ray: Any = ray
        self._owns_cluster, self._count = False, 0
        if ray.is_initialized():
            return
        if join is not None:
            join()
            return
        options: dict[str, Any] = {"address": address}
        if address == "local":
            self._owns_cluster = True
            # The shards use none of Ray's object store: its smallest size will do.
            options |= {"include_dashboard": False, "object_store_memory": 80 << 20}
        ray.init(**options)

    def start(self, orders: list[Order]) -> None:
        """Find the shards of these orders, or start them. Raises RuntimeError."""
        ray, self._count = self._ray, len(orders)
        cpus = positive("SHARD_CPUS", 0.01)
        self._end_others(orders)
        actor = ray.remote(_actor_class())
        actors = [
            actor.options(
                name=_name(order["number"]),
                namespace=self.namespace,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=cpus,
                scheduling_strategy="SPREAD",
                max_concurrency=4,
            ).remote(order, sys.path)
            for order in orders
        ]
        try:
            ray.get([one.address.remote() for one in actors], timeout=START_SECONDS)
        except ray.exceptions.GetTimeoutError:
            resources = ray.available_resources()
            self.stop(0)
            raise RuntimeError(
                f"Ray did not place {len(orders)} shards of {cpus:g} CPUs (SHARD_CPUS) "
                f"in {START_SECONDS:g} s; it has {resources.get('CPU', 0):g} CPUs free: "
                "set SHARDS or SHARD_CPUS lower, or add nodes"
            ) from None
        except ray.exceptions.RayError as error:
            self.stop(0)
            raise RuntimeError(f"a shard did not start: {error}") from error

    def shared(self) -> dict[str, str]:
        """What another process needs to find the same shards."""
        address = self._ray.get_runtime_context().gcs_address
        return {"namespace": self.namespace, "address": address}

    def locate(self, number: int) -> Address:
        """The address of a shard. Raises Ray's errors while it is not up."""
        host, port = self._ray.get(self._actor(number).address.remote(), timeout=10)
        return host, port

    def kill(self, number: int, pid: int | None) -> None:
        """End a shard that hangs. Ray starts it again."""
        self._ray.kill(self._actor(number), no_restart=False)

    def stop(self, seconds: float) -> None:
        """End all shards, and the cluster if this process started it."""
        found = []
        for index in range(self._count):
            with contextlib.suppress(ValueError):
                found.append(self._actor(index))
        with contextlib.suppress(Exception):  # a cluster that is gone has no shards
            self._ray.wait(
                [one.stop.remote(seconds) for one in found],
                num_returns=len(found),
                timeout=seconds or 0.1,
            )
            for one in found:
                self._ray.kill(one, no_restart=True)
        if self._owns_cluster:
            self._ray.shutdown()

    def _actor(self, number: int) -> Any:
        return self._ray.get_actor(_name(number), namespace=self.namespace)

    def _end_others(self, orders: list[Order]) -> None:
        """End shards that an earlier front left behind, if it wanted other ones."""
        listed = self._ray.util.list_named_actors(all_namespaces=True)
        names = [one["name"] for one in listed if one["namespace"] == self.namespace]
        expected = {_name(order["number"]): order for order in orders}
        for name in names:
            actor = self._ray.get_actor(name, namespace=self.namespace)
            with contextlib.suppress(self._ray.exceptions.RayError):
                order = self._ray.get(actor.order.remote(), timeout=30)
                wanted = expected.get(name, {})
                if all(order[key] == wanted.get(key) for key in SAME):
                    continue
            self._ray.kill(actor, no_restart=True)
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:  # its name is free a little later
                try:
                    self._ray.get_actor(name, namespace=self.namespace)
                except ValueError:
                    break
                time.sleep(0.1)


def _name(number: int) -> str:
    return f"shard-{number}"


def passed_on() -> dict[str, str]:
    """The variables of this process that shards on other machines get too."""
    return {k: v for k, v in os.environ.items() if not k.startswith(KEPT_OUT)}


def _actor_class() -> type:
    """The actor's class, made here so that Ray sends it by value: a worker must have
    this process's sys.path before it can import this module."""

    class ShardActor:
        def __init__(self, order: dict[str, Any], paths: list[str]) -> None:
            sys.path += [path for path in paths if path not in sys.path]
            for name, text in order["variables"].items():
                os.environ.setdefault(name, text)
            import ray

            from plumbing.homes import ShardInThread

            self.shard = ShardInThread(order, ray.util.get_node_ip_address())

        def address(self) -> Any:
            return self.shard.address

        def order(self) -> dict[str, Any]:
            return self.shard.order

        def stop(self, seconds: float) -> None:
            self.shard.stop(seconds)

    return ShardActor


class ShardInThread:
    """A shard on a loop of its own, for a process whose main thread is Ray's."""

    def __init__(self, order: Order, host: str) -> None:
        self.order = order
        self._ready: Future[Address] = Future()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, args=[host], daemon=True)
        self._thread.start()
        self.address = self._ready.result(START_SECONDS)

    def stop(self, seconds: float) -> None:
        """Close all episodes. Returns after `seconds` at the latest."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(seconds)

    def _run(self, host: str) -> None:
        async def serve() -> None:
            self._loop = loop = asyncio.get_running_loop()

            async def listen(connection: Callable[[], Wire]) -> Address:
                server = await loop.create_server(connection, host, 0)
                return host, server.sockets[0].getsockname()[1]

            await serve_shard(self.order, listen, self._ready.set_result, self._stop)

        try:
            run_loop(serve())
        except BaseException as error:
            log.exception("the shard failed")
            if not self._ready.done():
                self._ready.set_exception(error)
