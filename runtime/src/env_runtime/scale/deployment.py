"""Starts the shards of a server, or finds those that another process started."""

import contextlib
import hmac
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from nemo_gym.server_utils import initialize_ray
from omegaconf import OmegaConf

from ..deferred_imports import NOT_HERE
from ..errors import ShardsError
from ..resources_server.store import most_threads
from ..settings import ServerSettings, ShardSettings
from .client import ShardClient
from .processes import Processes
from .shard import ShardSpec, key_of

# Variables of one machine, which a shard on another machine must not get.
LOCAL_VARIABLES = ("RAY_", "CUDA_", "LD_", "XDG_", "SSH_", "SHARDS", "PATH", "HOME")
LOCAL_VARIABLES += ("PWD", "TMPDIR", "HOSTNAME", "SESSION_SECRET", "PYTHON")


def deploy(server: Any, stack: contextlib.ExitStack) -> list[ShardClient]:
    """Clients of the shards of a server, [] if it has none.

    The first process starts the shards, and `stack` ends them. Further workers find
    them by SHARDS_AT. Raises ShardsError and SettingError.
    """
    settings, secret = ShardSettings.read(), server._secret
    count = settings.shards or server.config.shards or 0
    if not count:
        return []
    launcher = _launcher(server, settings)
    if not settings.shards_at:
        # uvicorn ends with the signal that it received. The shards must end, too.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        stack.callback(launcher.stop, server.limits.close_seconds + 5)
        launcher.start([_spec(server, number, count) for number in range(count)])
        if (server.config.num_workers or 1) > 1:
            os.environ["SHARDS_AT"] = json.dumps(launcher.shared())
            os.environ["SESSION_SECRET"] = secret
    key, silence = key_of(secret), settings.shard_seconds
    locate, numbers = launcher.locate, range(count)
    return [ShardClient(number, key, locate, silence) for number in numbers]


def _launcher(server: Any, settings: ShardSettings) -> Any:
    shared = json.loads(settings.shards_at or "{}")
    if settings.shards_on == "processes":
        return Processes(**shared)
    try:
        from .ray_actors import RayActors  # Ray takes seconds to import
    except ModuleNotFoundError as error:
        raise ShardsError(
            f"{NOT_HERE} ({error}), or set SHARDS_ON=processes"
        ) from error

    digest = hmac.digest(server._secret.encode(), b"namespace", "sha256").hex()[:12]
    under_gym = ServerSettings.read().nemo_gym_config_path
    arguments = {
        "namespace": f"{server.config.name}-{digest}",
        "address": settings.ray_address or "local",
        **shared,
    }
    join = initialize_ray if under_gym else None
    return RayActors(**arguments, cpus=settings.shard_cpus, join=join)


def _spec(server: Any, number: int, count: int) -> ShardSpec:
    file, class_name = _place_of(type(server))
    client, limits = server.server_client, server.limits
    gym_config = OmegaConf.create(client.global_config_dict)
    on_ray = ShardSettings.read().shards_on == "ray"
    # Shards on other machines find their own limits.
    threads = limits.threads or (None if on_ray else most_threads())
    most = {
        "max_sessions": limits.max_sessions,
        "max_hung_calls": limits.max_hung_calls,
        "threads": threads,
    }
    share = {name: number and -(-number // count) for name, number in most.items()}
    return {
        "number": number,
        "secret": server._secret,
        "file": file,
        "class_name": class_name,
        "config": server.config.model_dump(mode="json"),
        "head_server": client.head_server_config.model_dump(mode="json"),
        "gym_config": OmegaConf.to_container(gym_config, resolve=True),
        "limits": {**limits.model_dump(), **share},
        "variables": _portable_variables() if on_ray else {},
    }


def _portable_variables() -> dict[str, str]:
    variables = os.environ.items()
    return {k: v for k, v in variables if not k.startswith(LOCAL_VARIABLES)}


def _place_of(server_class: type) -> tuple[str, str]:
    """The file and the name of a class, for other processes. Raises ShardsError."""
    file = getattr(sys.modules[server_class.__module__], "__file__", None)
    name = server_class.__qualname__
    if not file or "." in name:
        raise ShardsError(
            f"{name} cannot be served in shards: other processes must find it at the "
            "top level of a Python file, as in server.py"
        )
    return str(Path(file).resolve()), name
