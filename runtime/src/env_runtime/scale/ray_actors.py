"""Shards as named actors on a Ray cluster. They outlive a proxy that only joined it."""

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import ray
import ray.exceptions

from ..errors import ShardsError
from .shard import ShardSpec, make_server

START_SECONDS = 120.0
# Shards that an earlier proxy left behind are reused if these keys are the same.
SAME = ("secret", "file", "class_name", "limits")


class RayActors:
    """Starts shards, which Ray restarts when they or their nodes end.

    `join()` connects to NeMo Gym's cluster, if this process is one of its servers.
    `prefix` is the prefix of the actors' names, if another process has started them.
    """

    def __init__(
        self,
        namespace: str,
        address: str,
        cpus: float,
        join: Callable[[], None] | None = None,
        prefix: str = "",
    ) -> None:
        self.namespace, self._cpus, self._prefix = namespace, cpus, prefix
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

    def start(self, specs: list[ShardSpec]) -> None:
        """Find the shards of these specs, or start them. Raises ShardsError."""
        text = json.dumps([specs[0][key] for key in SAME])
        digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
        self._prefix, self._count = f"shard-{digest}-", len(specs)
        self._end_others()
        actors = [
            ray.remote(ShardActor)
            .options(
                name=f"{self._prefix}{spec['number']}",
                namespace=self.namespace,
                get_if_exists=True,
                lifetime="detached",
                max_restarts=-1,
                num_cpus=self._cpus,
                scheduling_strategy="SPREAD",
                max_concurrency=4,
            )
            .remote(spec)
            for spec in specs
        ]
        try:
            addresses = [actor.address.remote() for actor in actors]  # ty: ignore[missing-attribute]
            ray.get(addresses, timeout=START_SECONDS)
        except ray.exceptions.GetTimeoutError:
            free = ray.available_resources().get("CPU", 0)
            raise ShardsError(
                f"Ray did not place {len(specs)} shards of {self._cpus:g} CPUs "
                f"(SHARD_CPUS) in {START_SECONDS:g} s; it has {free:g} CPUs free: "
                "set SHARDS or SHARD_CPUS lower, or add nodes"
            ) from None
        except ray.exceptions.RayError as error:
            raise ShardsError(f"a shard did not start: {error}") from error

    def shared(self) -> dict[str, str]:
        """Arguments with which another process finds the same shards."""
        address = ray.get_runtime_context().gcs_address
        shared = {"namespace": self.namespace, "prefix": self._prefix}
        return {**shared, "address": address}

    def locate(self, number: int) -> tuple[str, int]:
        """The address of a shard. Raises Ray's errors while it is not up."""
        host, port = ray.get(self._actor(number).address.remote(), timeout=10)
        return host, port

    def stop(self, seconds: float) -> None:
        """End all shards, and the cluster if this process started it."""
        actors = []
        for number in range(self._count):
            with contextlib.suppress(ValueError):
                actors.append(self._actor(number))
        with contextlib.suppress(Exception):  # a cluster that is gone has no shards
            stops = [actor.stop.remote(seconds) for actor in actors]
            ray.wait(stops, num_returns=len(stops), timeout=seconds)
            for actor in actors:
                ray.kill(actor, no_restart=True)
        if self._owns_cluster:
            ray.shutdown()

    def _actor(self, number: int) -> Any:
        return ray.get_actor(f"{self._prefix}{number}", namespace=self.namespace)

    def _end_others(self) -> None:
        """End shards that an earlier proxy left behind, if they are unlike these."""
        names = {f"{self._prefix}{number}" for number in range(self._count)}
        for listed in ray.util.list_named_actors(all_namespaces=True):
            if listed["namespace"] == self.namespace and listed["name"] not in names:
                with contextlib.suppress(ValueError):
                    ray.kill(ray.get_actor(**listed), no_restart=True)


class ShardActor:
    """A shard in a thread of its own: the process's main thread is Ray's."""

    def __init__(self, spec: ShardSpec) -> None:
        self._host = ray.util.get_node_ip_address()
        self._server = make_server(spec, host=self._host, port=0)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()

    def address(self) -> tuple[str, int]:
        """The shard's address, once it listens. Raises RuntimeError if it has ended."""
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the shard's server ended: see its output")
            time.sleep(0.01)
        [listener] = self._server.servers
        return self._host, listener.sockets[0].getsockname()[1]

    def stop(self, seconds: float) -> None:
        """Close all episodes. Returns after `seconds` at the latest."""
        self._server.should_exit = True
        self._thread.join(seconds)
