"""NeMo Gym's providers: the chosen provider, its options, and the sandbox's spec.

SANDBOX_CONFIG names a YAML file in NeMo Gym's format for a provider. `sandbox_spec` has
the fields of NeMo Gym's `SandboxSpec`, and may be left out:

    sandbox: {docker: {create: {network: bridge, pids_limit: 64}}}
    sandbox_spec: {image: "my/image", resources: {cpu: 2, memory_mib: 4096}}
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ...settings import PositiveFloat
from ..errors import WorkspaceError
from ..settings import MIB, SandboxSettings, WorkspaceSettings

# Options that keep commands inside the sandbox, unless SANDBOX_CONFIG overrides them.
_GUARDS: dict[str, dict[str, Any]] = {
    "apptainer": {
        "create": {"extra_start_args": ["--containall", "--net", "--network=none"]},
        # Otherwise, commands see the variables of this process.
        "exec": {"extra_exec_args": ["--cleanenv"]},
    },
    "daytona": {"create": {"network_block_all": True}},
    "docker": {
        "create": {
            "network": "none",
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges"],
            "pids_limit": 256,
        }
    },
    "e2b": {"create": {"allow_internet_access": False}},
    # NeMo Gym's own file has a folder of this project, and few episodes at a time.
    "local": {"workspace_root": None, "concurrency": 256},
}

# Providers whose sandboxes have no lifetime, and that warn if a lifetime is set.
_ENDLESS = ("apptainer", "enroot", "local")

DEFAULT = "docker"
_IMAGE = "python:3.13-slim"
_IMAGES = {"e2b": "code-interpreter-v1", "local": None}


class Limits(SandboxSettings):
    """Limits of one workspace."""

    sandbox_memory_mb: PositiveFloat = 1024  # per sandbox; with `local`, per process

    @property
    def memory_bytes(self) -> int:
        return int(self.sandbox_memory_mb * MIB)


class ProviderSettings(WorkspaceSettings):
    """The settings for the place where sandboxes run."""

    sandbox_provider: str | None = None  # its options are in NeMo Gym's own file
    sandbox_config: Path | None = None  # a file that names the provider, with options
    sandbox_image: str | None = None  # overrides the image in the file
    e2b_api_key: str | None = None
    sandbox_memory_mb: PositiveFloat | None = None  # None is 1024 with docker
    sandbox_lifetime_seconds: PositiveFloat = 3600  # if the provider can end a sandbox


@dataclass(frozen=True)
class Provider:
    """A provider of NeMo Gym, its options, and the spec of its sandboxes."""

    name: str
    options: dict[str, Any]
    spec: dict[str, Any]

    @classmethod
    def configured(cls, default: str = DEFAULT) -> Provider:
        """The provider that a setting names, else `default`.

        Raises WorkspaceError if a setting is wrong, and without nemo-gym 0.7.
        """
        settings = ProviderSettings.read()
        name, options, metadata, spec = _configuration(settings, default)
        guards = _GUARDS.get(name, {})
        # A user's file overrides the guards, and the guards override NeMo Gym's file.
        if settings.sandbox_config:
            options = _merged(guards, options)
        else:
            options = _merged(options, guards)
        spec["metadata"] = {**metadata, **(spec.get("metadata") or {})}
        image = settings.sandbox_image or spec.get("image")
        spec["image"] = image or _IMAGES.get(name, _IMAGE)
        if name not in _ENDLESS:
            spec.setdefault("ttl_s", int(settings.sandbox_lifetime_seconds))
        memory = settings.sandbox_memory_mb
        if name == "docker" or (name != "local" and memory):
            memory_mib = int(memory or 1024)
            spec["resources"] = {
                "memory_mib": memory_mib,
                **(spec.get("resources") or {}),
            }
        return cls(name, options, spec)

    def make(self) -> Any:
        """NeMo Gym's provider. Raises WorkspaceError if it cannot be used here."""
        from nemo_gym.sandbox import create_provider  # slow, and not in nemo-gym 0.4

        if self.name == "e2b":
            self._check_account()
        try:
            return create_provider({self.name: self.options})
        except Exception as error:
            raise WorkspaceError(
                f"the sandbox provider {self.name!r} cannot be used: {error}"
            ) from error

    def _check_account(self) -> None:
        """Raise WorkspaceError if E2B cannot be used: its provider notices that late."""
        key = (self.options.get("connection") or {}).get("api_key")
        if not (key or ProviderSettings.read().e2b_api_key):
            raise WorkspaceError(
                "E2B_API_KEY is not set; export a key from https://e2b.dev"
            )
        if find_spec("e2b") is None:
            raise WorkspaceError("the package e2b is not installed: `uv add e2b`")


def _configuration(
    settings: ProviderSettings, default: str
) -> tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The name of the provider, its options, its metadata, and the spec of a sandbox."""
    try:
        # nemo-gym 0.4 has only a part of the package, without this module.
        import nemo_gym.sandbox.providers.local
        from omegaconf import OmegaConf
    except ImportError as error:
        raise WorkspaceError(
            f"nemo-gym 0.7 is needed, which needs Python 3.13.14 or newer ({error})"
        ) from error
    sandbox = nemo_gym.sandbox
    name = settings.sandbox_provider or default
    theirs = Path(sandbox.__file__).parent / f"providers/{name}/configs/{name}.yaml"
    path = settings.sandbox_config or theirs
    config: dict[Any, Any] = {"sandbox": {name: {}}}
    try:
        if settings.sandbox_config or path.exists():
            loaded = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
            config = cast(dict[Any, Any], loaded)
        [(name, options)] = sandbox.resolve_provider_config("sandbox", config).items()
        metadata = sandbox.resolve_provider_metadata("sandbox", config)
        spec = dict(config.get("sandbox_spec") or {})
    except Exception as error:
        raise WorkspaceError(f"cannot use {path}: {error}") from error
    return name, options, metadata, spec


def _merged(options: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The options of both. If both have an option, `over` wins."""
    both = dict(options or {})
    for key, value in (over or {}).items():
        old = both.get(key)
        nested = isinstance(old, dict) and isinstance(value, dict)
        both[key] = _merged(old, value) if nested else value
    return both
