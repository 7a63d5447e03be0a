"""The workspace of one episode: a sandbox of NeMo Gym 0.7, on the cluster of your choice.

NeMo Gym's providers (docker, apptainer, enroot, daytona, e2b, ecs_fargate, opensandbox,
openshell, local, and those of other packages) start the sandbox, and run commands in it.
Its image needs python3 and a shell. It is offline if the provider can do that. The
settings, which are environment variables, are ProviderSettings.

Known weaknesses, beside those that docs/sandbox.md tells of:

* Python in the sandbox runs the commands, and limits and cuts their output. A command
  of the same user can reach it, and then print to this server without limits, for as
  long as a call may take.
* A daemon that leaves its session and its environment runs until the sandbox is gone.
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import os
import shlex
import tempfile
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from .. import event_loop
from ..facts import NEEDS_NEWEST
from ..settings import PositiveFloat
from . import (
    MIB,
    SandboxSettings,
    WorkspaceError,
    check_size,
    failure,
    refusal_text,
    report,
    time_limit,
    works,
)
from .folder import base_python, steps

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "prepare_tests"]
__all__ += ["refusal"]

# Time for a provider to answer, in addition to the command's time limit, and the time
# after which the answer counts as lost, in seconds.
GRACE = 15
LOST_SECONDS = 120

# A larger request is sent as a file: one argument is limited to 128 KiB.
_INLINE = 60_000

# Runs a script with bash, or else with sh.
_SHELL = 'if command -v bash > /dev/null; then exec bash "$0"; fi; exec sh "$0"'

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


# ---------------------------------------------------------------------- checks


def missing(provider: str = DEFAULT) -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    try:
        Provider.configured(provider).make()
    except WorkspaceError as error:
        return str(error)
    return None


def isolation(provider: str = DEFAULT) -> str:
    """Name the barrier between commands and this machine, or "none: " and why."""
    try:
        name = Provider.configured(provider).name
    except WorkspaceError as error:
        return f"unknown: {error}"
    if name == "local":
        return "none: NeMo Gym's sandbox provider is local"
    return f"nemo_gym: one {name} sandbox per episode"


def refusal(provider: str = DEFAULT) -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    There is a reason only if the settings are wrong, or if the provider is `local` and
    SANDBOX_ISOLATION=none does not say that a sandbox is not needed.
    """
    current = isolation(provider)
    if current.startswith("unknown: "):
        return current.removeprefix("unknown: ")
    trusted = ProviderSettings.read().sandbox_isolation == "none"
    if not current.startswith("none: ") or trusted:
        return None
    return refusal_text(
        current.removeprefix("none: "),
        "Choose another provider (SANDBOX_PROVIDER=docker)",
    )


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Use NeMo Gym's provider `local`, which needs nothing, unless another is set.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")  # the tests can be trusted
    chosen = ProviderSettings.read().model_fields_set
    if not {"sandbox_provider", "sandbox_config"} & chosen:
        monkeypatch.setenv("SANDBOX_PROVIDER", "local")


# ---------------------------------------------------------------------- providers


class ProviderSettings(SandboxSettings):
    """The limits of a workspace, and the place where its sandbox runs."""

    sandbox_provider: str | None = None  # its options are in NeMo Gym's own file
    sandbox_config: Path | None = None  # a file that names the provider, with options
    sandbox_image: str | None = None  # overrides the image in the file
    sandbox_isolation: str | None = None  # "none": serve although the provider is local
    e2b_api_key: str | None = None
    sandbox_memory_mb: PositiveFloat | None = None  # None is 1024 with docker and local
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
        name, options, spec = _configuration(settings, default)
        image = settings.sandbox_image or spec.get("image")
        spec["image"] = image or _IMAGES.get(name, _IMAGE)
        if name not in _ENDLESS:
            spec.setdefault("ttl_s", int(settings.sandbox_lifetime_seconds))
        memory = settings.sandbox_memory_mb
        if name == "docker" or (name != "local" and memory):
            own = spec.get("resources") or {}
            spec["resources"] = {"memory_mib": int(memory or 1024), **own}
        return cls(name, options, spec)

    def make(self) -> Any:
        """NeMo Gym's provider. Raises WorkspaceError if it cannot be used here."""
        from ..gym_series import create_provider  # slow

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
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The name of the provider, its options, and the spec of a sandbox."""
    try:
        from omegaconf import OmegaConf

        from ..gym_series import (
            LocalProvider,  # noqa: F401 - nemo-gym 0.4 has only a part of the package
            module_of,
            resolve_provider_config,
            resolve_provider_metadata,
        )
    except ImportError as error:
        raise WorkspaceError(f"install {NEEDS_NEWEST} ({error})") from error
    name = settings.sandbox_provider or default
    providers = Path(str(module_of("create_provider").__file__)).parent
    theirs = providers / name / f"configs/{name}.yaml"
    path = settings.sandbox_config or theirs
    config: dict[Any, Any] = {"sandbox": {name: {}}}
    try:
        if settings.sandbox_config or path.exists():
            loaded = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
            config = cast(dict[Any, Any], loaded)
        [(name, options)] = resolve_provider_config("sandbox", config).items()
        # A user's file overrides the guards, and the guards override NeMo Gym's file.
        both: list[Any] = [options or {}, _GUARDS.get(name, {})]
        if settings.sandbox_config:
            both.reverse()
        merged = OmegaConf.to_container(OmegaConf.merge(*both))
        options = cast(dict[str, Any], merged)
        metadata = resolve_provider_metadata("sandbox", config)
        spec = dict(config.get("sandbox_spec") or {})
        spec["metadata"] = {**metadata, **(spec.get("metadata") or {})}
    except Exception as error:
        raise WorkspaceError(f"cannot use {path}: {error}") from error
    return name, options, spec


# ---------------------------------------------------------------------- workspaces


def _wait(work: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
    """The result of work on one loop: providers share locks and clients in it."""
    return event_loop.wait("sandboxes", work, seconds)


class _NoAnswer(ValueError):
    """A command has stopped or ended the program that runs it in the sandbox."""


class Workspace:
    """A sandbox of NeMo Gym and a folder in it."""

    provider = DEFAULT  # if no setting names one

    def __init__(self) -> None:
        self._limits = ProviderSettings.read()
        self._root = ""  # the folder, once the sandbox has answered
        provider = Provider.configured(self.provider)
        self._local = provider.name == "local"
        self._python = base_python() if self._local else "python3"
        try:
            self._sandbox = _wait(_started(provider))
        except WorkspaceError:
            raise
        except Exception as error:
            raise WorkspaceError(
                f"the provider {provider.name} could not make a sandbox: {error}"
            ) from error
        try:
            try:
                answer = self._ask("make", 0, local=self._local)
            except ValueError as error:
                raise WorkspaceError(
                    f"cannot make the workspace folder: {error}; the image needs python3"
                ) from error
            self._root = answer["text"]
        except BaseException:
            self.close()
            raise

    def run_command(self, command: str) -> str:
        """Run a shell script (bash, or else sh) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit `error: ...` and the output so far. If the folder's path
        is random, it reads as ~.
        """
        return self._run(["sh", "-c", _SHELL], "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with the sandbox's python3, isolated (-I).

        With `local`, this server's base interpreter runs it. Returns what `run_command`
        returns.
        """
        return self._run([self._python, "-I", "-u"], "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        steps(path)
        check_size(path, content.encode(), self._limits.file_bytes)
        self._ask("write", 0, root=self._root, path=path, content=content)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        return self._read(path, self._limits.sandbox_output_bytes, cut=True)

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        return self._read(path, limit, cut=False)

    def close(self) -> None:
        """End the sandbox. Calling it again does nothing."""
        try:
            _wait(self._sandbox.stop(), LOST_SECONDS)
        except Exception:
            logging.getLogger(__name__).exception(
                "the provider did not end a sandbox; it may do so at its lifetime"
            )

    def _read(self, path: str, limit: int, cut: bool) -> str:
        steps(path)
        request = {"root": self._root, "path": path, "limit": limit, "cut": cut}
        return self._ask("read", limit, **request)["text"]

    def _run(self, command: list[str], name: str, script: str) -> str:
        limits = self._limits
        # Other providers limit the memory of the sandbox themselves.
        memory_mb = (limits.sandbox_memory_mb or 1024) if self._local else 0
        try:
            answer = self._ask(
                "run",
                limits.sandbox_output_bytes,
                root=self._root,
                local=self._local,
                command=command,
                script=script,
                name=name,
                seconds=limits.sandbox_seconds,
                file_bytes=limits.file_bytes,
                memory_bytes=int(memory_mb * MIB),
                output_bytes=limits.sandbox_output_bytes,
            )
        except _NoAnswer as error:
            return failure(str(error))
        if answer.get("killed"):
            return failure(time_limit(limits.sandbox_seconds), answer["text"])
        status = answer.get("status")  # a command can forge it
        return report(answer["text"], status if isinstance(status, int) else 0)

    def _ask(self, action: str, size: int, **request: Any) -> dict[str, Any]:
        """The answer of folder.py, see `_answered`.

        A command may end the sandbox, at once or later. So one that has answered before,
        and fails, is lost by its policy if a new one works.
        """
        try:
            return self._answered(action, size, **request)
        except WorkspaceError as error:
            if self._root and works(type(self)):
                raise ValueError(f"{error}; a command may have ended it") from error
            raise

    def _answered(self, action: str, size: int, **request: Any) -> dict[str, Any]:
        """The answer of folder.py, which runs in the sandbox; `text` is a string.

        The text has about `size` bytes. A much longer answer is a command's.
        """
        message = json.dumps({"action": action, **request}).encode()
        argument = base64.b64encode(message).decode()
        if len(argument) > _INLINE:
            argument = self._upload(argument)
        command = (
            f"{shlex.quote(self._python)} -I -c {shlex.quote(_program())} {argument}"
        )
        done = self._exec(command, self._limits.sandbox_seconds + GRACE)
        # A character of a command can take 6 bytes of JSON.
        if done.error_type is None and len(done.stdout or "") < 6 * size + 10_000:
            answer = _answer(done.stdout or "")
            if isinstance(answer.get("error"), str):
                raise ValueError(answer["error"])
            if isinstance(answer.get("text"), str):
                return answer
        # The command may have stopped or ended folder.py, or the provider has failed.
        detail = (done.stderr or "").strip()[-500:] or "no message"
        if done.error_type not in (None, "timeout") or not self._alive():
            kind = done.error_type or f"status {done.return_code}"
            raise WorkspaceError(f"the sandbox has failed ({kind}): {detail}")
        if done.error_type == "timeout":
            raise _NoAnswer(time_limit(self._limits.sandbox_seconds))
        raise _NoAnswer(
            f"the command ended what ran it (status {done.return_code}): {detail}"
        )

    def _exec(self, command: str, seconds: float) -> Any:
        """Run a command in the sandbox as NeMo Gym does."""
        from ..gym_series import SandboxExecResult  # slow to import

        try:
            running = self._sandbox.exec(command, timeout_s=seconds)
            return _wait(running, seconds + LOST_SECONDS)
        except TimeoutError as error:
            return SandboxExecResult(None, str(error), 124, "timeout")
        except Exception as error:
            raise WorkspaceError(f"the provider has failed: {error}") from error

    def _alive(self) -> bool:
        """Whether the sandbox still runs commands."""
        with suppress(WorkspaceError):
            done = self._exec("true", GRACE)
            return done.error_type is None and done.return_code == 0
        return False

    def _upload(self, text: str) -> str:
        """Put a long request into the sandbox. Returns the argument that names it."""
        # A random name, at which no command can have put a link.
        place = f"{self._root}/{uuid.uuid4().hex}"
        with tempfile.NamedTemporaryFile("w", prefix="sandbox-") as file:
            file.write(text)
            file.flush()
            # The file is uploaded by root, and read by the image's user.
            os.chmod(file.name, 0o644)
            try:
                _wait(self._sandbox.upload(file.name, place), LOST_SECONDS)
            except Exception as error:
                raise WorkspaceError(f"cannot upload a file: {error}") from error
        return f"@{place}"


@functools.cache
def _program() -> str:
    """The text of the program that runs in a sandbox."""
    return resources.files(__package__).joinpath("folder.py").read_text("utf-8")


async def _started(provider: Provider) -> Any:
    """A sandbox that runs. Raises WorkspaceError, and the provider's errors."""
    from ..gym_series import AsyncSandbox, SandboxSpec  # slow to import

    spec = SandboxSpec(**provider.spec)
    sandbox = AsyncSandbox(provider.make(), spec)
    try:
        return await sandbox.start()
    except BaseException:
        await sandbox.stop()  # releases what the provider itself holds
        raise


def _answer(printed: str) -> dict[str, Any]:
    """The answer, which is the last line; {} if a command has spoiled it."""
    try:
        answer = json.loads(printed.rstrip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}
