"""The workspace of one episode: a sandbox of NeMo Gym 0.7, on the cluster of your choice.

NeMo Gym's providers (docker, apptainer, enroot, daytona, e2b, ecs_fargate, opensandbox,
openshell, local, and those of other packages) start the sandbox, and run commands in it.
Its image needs python3 and a shell. It is offline if the provider can do that.

Environment variables, read when a workspace is made:

SANDBOX_PROVIDER          docker  where sandboxes run, with NeMo Gym's options for it
SANDBOX_CONFIG                    a YAML file that says it instead, with options; see below
SANDBOX_IMAGE                     default: python:3.13-slim; e2b: code-interpreter-v1
SANDBOX_SECONDS           30      wall time of one call, in seconds
SANDBOX_MEMORY_MB         1024    memory of the sandbox, in MiB; unless set only with docker
SANDBOX_FILE_MB           64      size of a file, in MiB; a command's output is one
SANDBOX_OUTPUT_BYTES      20000   text of one call, in bytes; the middle is left out
SANDBOX_LIFETIME_SECONDS  3600    after which the provider ends the sandbox, if it can
SANDBOX_ISOLATION                 none: serve although the provider is `local`

The file is one of NeMo Gym's own for a provider. `sandbox_spec` has what its
`SandboxSpec` takes, and may be left out:

    sandbox: {docker: {create: {network: bridge, pids_limit: 64}}}
    sandbox_spec: {image: "my/image", resources: {cpu: 2, memory_mib: 4096}}

Weaker than it may look:

* `local` isolates nothing. Commands run as this server's user; memory is bounded per
  process.
* Only docker, apptainer, e2b and daytona are told to be offline. Enroot has the network
  of its machine; for the others it is the cluster that decides. Containers share the
  kernel of their machine.
* Disk and processes are those of the provider.
* A policy can end its sandbox. That cannot be told from an outage: the episode counts as
  an infrastructure failure.
* Python in the sandbox runs the commands, bounds and cuts their output. A command of the
  same user can reach it, and then print to this server without bounds, for as long as a
  call may take.
* A daemon that leaves its session and its environment lives until the sandbox is gone.
* A server killed by SIGKILL leaves the sandbox to its lifetime. Apptainer, enroot and
  local have none.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import shlex
import signal
import sys
import tempfile
import threading
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MIB = 1024 * 1024

# Time for a provider to answer, on top of the time the command has, in seconds; and the
# time after which it is taken for lost.
_GRACE = 15
_LOST = 120

# A larger request goes as a file: one argument is limited to 128 KiB.
_INLINE = 60_000

# What providers get, unless SANDBOX_CONFIG says otherwise, so that nothing but the
# sandbox is in reach.
_GUARDS: dict[str, dict[str, Any]] = {
    "apptainer": {
        "create": {"extra_start_args": ["--containall", "--net", "--network=none"]},
        # Or commands see the variables of this process.
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
    # NeMo Gym's own file has a folder of this project, and few places for all episodes.
    "local": {"workspace_root": None, "concurrency": 256},
}

# Providers whose sandboxes have no lifetime, and that warn of one.
_ENDLESS = ("apptainer", "enroot", "local")

_IMAGE = "python:3.13-slim"
_IMAGES = {"e2b": "code-interpreter-v1", "local": None}

# Runs in the sandbox. It answers one request with one line of JSON, in ASCII. Links are
# not followed on the way to a file: they may lead to what is not the policy's.
_HELPER = """
import base64, json, os, resource, signal, stat, subprocess, sys, tempfile, time

def main(request):
    if request.startswith("@"):
        with open(request[1:]) as file:
            text = file.read()
        os.unlink(request[1:])
        request = text
    request = json.loads(base64.b64decode(request).decode())
    return globals()[request.pop("action")](**request)

def make(local):
    root = os.getcwd() if local else "/tmp/sandbox"
    if not local:
        try:
            os.mkdir(root, 0o700)
        except FileExistsError:  # the provider shares /tmp
            root = tempfile.mkdtemp(prefix="sandbox-")
    for name in ("home", "tmp"):
        os.mkdir(root + "/" + name)
    return {"text": root}

def check(root):
    home = root + "/home"
    if not os.path.isdir(home) or os.path.islink(home):
        raise ValueError("a command has removed the workspace folder; nothing more can run")
    os.chmod(home, 0o700)

def run(root, local, command, script, name, seconds, file_bytes, memory_bytes, limit):
    check(root)
    with open(root + "/" + name, "wb") as file:
        file.write(script.encode())
    home = root + "/home"
    environment = dict(os.environ)
    if local:  # then these are the server's
        folder = os.path.dirname(sys.executable)
        environment = {"PATH": folder + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    environment.setdefault("LANG", "C.UTF-8")
    environment.update(
        HOME=home, TMPDIR=root + "/tmp", PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1"
    )
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": file_bytes}
    if memory_bytes:
        limits["RLIMIT_AS"] = memory_bytes

    def limited():
        for kind, value in limits.items():
            try:
                resource.setrlimit(getattr(resource, kind), (value, value))
            except (OSError, ValueError):
                pass  # macOS does not have all of them

    # A file cannot be kept open by a process that got away, and is bounded by the limit.
    with tempfile.TemporaryFile(dir=root) as output:
        process = subprocess.Popen(
            command + [root + "/" + name],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=limited,
        )
        try:
            process.wait(seconds)
            killed = False
        except subprocess.TimeoutExpired:
            killed = True
        kill(process.pid, ("HOME=" + home).encode())
        process.wait()
        # Where the script is, which may be another place another time, is of no use.
        text = clipped(output.fileno(), limit).replace(root + "/" + name, name)
        return {
            "text": text,
            "status": process.returncode,
            "killed": killed,
        }

def kill(session, mark):
    try:
        os.killpg(session, signal.SIGKILL)
    except OSError:
        pass
    until = time.monotonic() + 2
    while time.monotonic() < until:
        found = [one for one in filter(str.isdigit, listed("/proc")) if belongs(one, session, mark)]
        if not found:
            return
        for one in found:
            try:
                os.kill(int(one), signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)

def belongs(one, session, mark):
    if int(one) == os.getpid():
        return False
    try:
        with open("/proc/" + one + "/stat", "rb") as file:
            if file.read().rpartition(b") ")[2][:1] in b"ZX":
                return False  # it is dead
        if os.getsid(int(one)) == session:
            return True
        with open("/proc/" + one + "/environ", "rb") as file:
            return mark in file.read().split(b"\\0")
    except OSError:
        return False

def listed(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []  # macOS

def write(root, path, content):
    file = opened(root, path, os.O_WRONLY | os.O_CREAT)
    with open(file, "wb") as file:
        file.truncate()
        file.write(content.encode())
    return {"text": ""}

def read(root, path, limit, whole):
    with open(opened(root, path, os.O_RDONLY), "rb") as file:
        if not whole:
            return {"text": clipped(file.fileno(), limit)}
        data = file.read(limit + 1)
    if len(data) > limit:
        return {"error": "%r has more than %d bytes" % (path, limit)}
    return {"text": data.decode(errors="replace")}

def opened(root, path, flags):
    check(root)
    *parents, name = [part for part in path.split("/") if part not in ("", ".")]
    folder = os.open(root + "/home", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for parent in parents:
            if flags & os.O_CREAT:
                try:
                    os.mkdir(parent, dir_fd=folder)
                except FileExistsError:
                    pass
            below = os.open(
                parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder
            )
            os.close(folder)
            folder = below
        # Opening a fifo must not wait for its other end.
        file = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644, dir_fd=folder)
    except OSError as error:
        raise ValueError(
            "cannot open %r: %s; it must be a regular file below the working directory, "
            "and links are not followed" % (path, error.strerror)
        )
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError("%r is not a regular file; look at it with run_command" % path)
    return file

def clipped(file, limit):
    size = os.fstat(file).st_size
    if size <= limit:
        return os.pread(file, size, 0).decode(errors="replace")
    half = limit // 2
    head, tail = os.pread(file, half, 0), os.pread(file, half, size - half)
    note = "\\n[truncated: %d of %d bytes left out]\\n" % (size - 2 * half, size)
    return head.decode(errors="replace") + note + tail.decode(errors="replace")

try:
    answer = main(sys.argv[1])
except (OSError, ValueError) as error:
    answer = {"error": str(error)}
print(json.dumps(answer))
"""


class WorkspaceError(RuntimeError):
    """The workspace could not be made or has failed, which is not the policy's fault."""


class _NoAnswer(ValueError):
    """A command has stopped or ended what runs it in the sandbox."""


class Workspace:
    """A sandbox of NeMo Gym and a folder in it.

    Paths are relative to the folder. Text is UTF-8; other bytes read as U+FFFD. The
    methods raise ValueError for what a caller can put right, and WorkspaceError for a
    failure of the sandbox or of its provider. A workspace is for one thread.
    """

    def __init__(self) -> None:
        self._seconds = _number("SANDBOX_SECONDS", 30)
        self._file_bytes = int(_number("SANDBOX_FILE_MB", 64) * _MIB)
        self._output_bytes = int(_number("SANDBOX_OUTPUT_BYTES", 20_000))
        memory = int(_number("SANDBOX_MEMORY_MB", 1024) * _MIB)
        settings = _Settings.from_environment()
        self._local = settings.provider == "local"
        self._python = _base_python() if self._local else "python3"
        self._memory_bytes = memory if self._local else 0
        try:
            self._sandbox = _wait(_started(settings))
        except WorkspaceError:
            raise
        except Exception as error:
            raise WorkspaceError(
                f"the provider {settings.provider} could not make a sandbox: {error}"
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
        """Run a shell script (bash, or sh if there is no bash) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit `error: ...` and the output so far.
        """
        shell = 'if command -v bash > /dev/null; then exec bash "$0"; fi; exec sh "$0"'
        return self._run(["sh", "-c", shell], "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with the sandbox's python3, isolated (-I).

        With `local` it is this server's base interpreter. Returns what `run_command` returns.
        """
        return self._run([self._python, "-I", "-u"], "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        _check(path)
        size = len(content.encode())
        if size > self._file_bytes:
            raise ValueError(
                f"content for {path!r} has {size} bytes, the limit is {self._file_bytes}; "
                "write less, or in several files"
            )
        self._ask("write", 0, root=self._root, path=path, content=content)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        return self._read(path, self._output_bytes, whole=False)

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        return self._read(path, limit, whole=True)

    def close(self) -> None:
        """End the sandbox. Calling it again does nothing."""
        try:
            _wait(self._sandbox.stop(), _LOST)
        except Exception:
            logging.getLogger(__name__).exception(
                "the provider did not end a sandbox; it may do so at its lifetime"
            )

    def _read(self, path: str, limit: int, whole: bool) -> str:
        _check(path)
        request = {"root": self._root, "path": path, "limit": limit, "whole": whole}
        return self._ask("read", limit, **request)["text"]

    def _run(self, command: list[str], name: str, script: str) -> str:
        try:
            answer = self._ask(
                "run",
                self._output_bytes,
                root=self._root,
                local=self._local,
                command=command,
                script=script,
                name=name,
                seconds=self._seconds,
                file_bytes=self._file_bytes,
                memory_bytes=self._memory_bytes,
                limit=self._output_bytes,
            )
        except _NoAnswer as error:
            return f"error: {error}"
        if answer.get("killed"):
            text = f"error: killed after {self._seconds:g} seconds\n{answer['text']}"
            return text.rstrip("\n")
        status = answer.get("status")  # a command can forge it
        return _report(answer["text"], status if isinstance(status, int) else 0)

    def _ask(self, action: str, most: int, **request: Any) -> dict[str, Any]:
        """What the helper in the sandbox answers; `text` is a string.

        It has about `most` bytes, and what answers with more is not the helper.
        """
        message = json.dumps({"action": action, **request}).encode()
        argument = base64.b64encode(message).decode()
        if len(argument) > _INLINE:
            argument = self._upload(argument)
        command = f"{shlex.quote(self._python)} -I -c {shlex.quote(_HELPER)} {argument}"
        done = self._exec(command, self._seconds + _GRACE)
        # A character of a command can take 6 bytes of JSON.
        if done.error_type is None and len(done.stdout or "") < 6 * most + 10_000:
            answer = _answer(done.stdout or "")
            if isinstance(answer.get("error"), str):
                raise ValueError(answer["error"])
            if isinstance(answer.get("text"), str):
                return answer
        # The command may have stopped or ended the helper, or the provider has failed.
        detail = (done.stderr or "").strip()[-500:] or "no message"
        if done.error_type not in (None, "timeout") or not self._alive():
            kind = done.error_type or f"status {done.return_code}"
            raise WorkspaceError(f"the sandbox has failed ({kind}): {detail}")
        if done.error_type == "timeout":
            raise _NoAnswer(f"killed after {self._seconds:g} seconds")
        raise _NoAnswer(
            f"the command ended what ran it (status {done.return_code}): {detail}"
        )

    def _exec(self, command: str, seconds: float) -> Any:
        """Run a command in the sandbox as NeMo Gym does."""
        from nemo_gym.sandbox import SandboxExecResult

        try:
            running = self._sandbox.exec(command, timeout_s=seconds)
            return _wait(running, seconds + _LOST)
        except TimeoutError as error:
            return SandboxExecResult(None, str(error), 124, "timeout")
        except Exception as error:
            raise WorkspaceError(f"the provider has failed: {error}") from error

    def _alive(self) -> bool:
        """Whether the sandbox still runs commands."""
        with suppress(WorkspaceError):
            done = self._exec("true", _GRACE)
            return done.error_type is None and done.return_code == 0
        return False

    def _upload(self, text: str) -> str:
        """Put a long request into the sandbox. Returns what the helper finds it by."""
        # A name that no command could have put a link at.
        place = f"{self._root}/{uuid.uuid4().hex}"
        with tempfile.NamedTemporaryFile("w", prefix="sandbox-") as file:
            file.write(text)
            file.flush()
            # Uploaded as root, and read as the image's user.
            os.chmod(file.name, 0o644)
            try:
                _wait(self._sandbox.upload(file.name, place), _LOST)
            except Exception as error:
                raise WorkspaceError(f"cannot upload a file: {error}") from error
        return f"@{place}"


@dataclass(frozen=True)
class _Settings:
    provider: str
    options: dict[str, Any]
    spec: dict[str, Any]

    @classmethod
    def from_environment(cls) -> _Settings:
        """Raises WorkspaceError for a setting that is wrong, and without nemo-gym 0.7."""
        try:
            # nemo-gym 0.4 has a part of the package, and not this.
            import nemo_gym.sandbox.providers.local
            from omegaconf import OmegaConf
        except ImportError as error:
            raise WorkspaceError(
                f"nemo-gym 0.7 is needed, which wants Python 3.13.14 or newer ({error})"
            ) from error
        sandbox = nemo_gym.sandbox
        name = os.environ.get("SANDBOX_PROVIDER") or "docker"
        given = os.environ.get("SANDBOX_CONFIG")
        theirs = Path(sandbox.__file__).parent / f"providers/{name}/configs/{name}.yaml"
        path = Path(given) if given else theirs
        config: Any = {"sandbox": {name: {}}}
        try:
            if given or path.exists():
                config = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
            [(name, options)] = sandbox.resolve_provider_config(
                "sandbox", config
            ).items()
            metadata = sandbox.resolve_provider_metadata("sandbox", config)
            spec = dict(config.get("sandbox_spec") or {})
        except Exception as error:
            raise WorkspaceError(f"cannot use {path}: {error}") from error
        guards = _GUARDS.get(name, {})
        # Their own file says what they can do, the user's what is wanted.
        options = _merged(guards, options) if given else _merged(options, guards)
        spec["metadata"] = {**metadata, **(spec.get("metadata") or {})}
        image = os.environ.get("SANDBOX_IMAGE") or spec.get("image")
        spec["image"] = image or _IMAGES.get(name, _IMAGE)
        if name not in _ENDLESS:
            spec.setdefault("ttl_s", int(_number("SANDBOX_LIFETIME_SECONDS", 3600)))
        if name == "docker" or (name != "local" and "SANDBOX_MEMORY_MB" in os.environ):
            memory = int(_number("SANDBOX_MEMORY_MB", 1024))
            spec["resources"] = {"memory_mib": memory, **(spec.get("resources") or {})}
        return cls(name, options, spec)

    def make_provider(self) -> Any:
        """Raises WorkspaceError if the provider is unknown or lacks something here."""
        from nemo_gym.sandbox import create_provider

        try:
            return create_provider({self.provider: self.options})
        except Exception as error:
            raise WorkspaceError(
                f"the sandbox provider {self.provider!r} cannot be used: {error}"
            ) from error


def missing() -> str | None:
    """What this machine lacks to run an episode, if anything."""
    try:
        _Settings.from_environment().make_provider()
    except WorkspaceError as error:
        return str(error)
    return None


def isolation() -> str:
    """What keeps commands from this machine; "none: " and the reason if nothing does."""
    try:
        provider = _Settings.from_environment().provider
    except WorkspaceError as error:
        return f"unknown: {error}"
    if provider == "local":
        return "none: NeMo Gym's sandbox provider is local"
    return f"nemo_gym: one {provider} sandbox per episode"


def refusal() -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    None unless the provider is `local` or the settings are wrong. With `local` it is
    None if SANDBOX_ISOLATION=none says that a sandbox is not needed.
    """
    found = isolation()
    if found.startswith("unknown: "):
        return found.removeprefix("unknown: ")
    if not found.startswith("none: ") or os.environ.get("SANDBOX_ISOLATION") == "none":
        return None
    return (
        f"{found.removeprefix('none: ')}: commands would run as this server's user, with "
        "all files that it can read and the network. Choose another provider "
        "(SANDBOX_PROVIDER=docker) or serve in a container. Set SANDBOX_ISOLATION=none if "
        "you trust the policies or a container is the wall"
    )


async def _started(settings: _Settings) -> Any:
    from nemo_gym.sandbox import AsyncSandbox, SandboxSpec

    spec = SandboxSpec(**settings.spec)
    sandbox = AsyncSandbox(settings.make_provider(), spec)
    try:
        return await sandbox.start()
    except BaseException:
        await sandbox.stop()  # for what the provider itself holds
        raise


def _wait(work: Coroutine[Any, Any, Any], seconds: float | None = None) -> Any:
    """The result of work on the event loop. Raises TimeoutError after `seconds`."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds)
    finally:
        future.cancel()


def _loop() -> asyncio.AbstractEventLoop:
    """One loop for all episodes: providers share locks and clients between sandboxes."""
    global _running
    with _once:
        if _running is None:
            _running = asyncio.new_event_loop()
            threading.Thread(
                target=_running.run_forever, name="sandboxes", daemon=True
            ).start()
        return _running


_once = threading.Lock()
_running: asyncio.AbstractEventLoop | None = None


def _merged(one: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The options of both, and those of `over` where both have one."""
    both = dict(one or {})
    for key, value in (over or {}).items():
        old = both.get(key)
        nested = isinstance(old, dict) and isinstance(value, dict)
        both[key] = _merged(old, value) if nested else value
    return both


def _answer(printed: str) -> dict[str, Any]:
    """The helper's line, the last one; nothing if a command has spoilt it."""
    try:
        answer = json.loads(printed.rstrip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _base_python() -> str:
    """The interpreter that this one's virtual environment, if any, was made from."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix, "bin", version)
    return os.path.realpath(base if base.exists() else sys.executable)


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise WorkspaceError(f"{name} must be a positive number, got {text!r}")
    return value


def _check(path: str) -> None:
    """Raises ValueError unless it is a relative path that stays below the folder."""
    path.encode()  # ValueError for what has no UTF-8 form
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise ValueError(
            f"path {path!r} must name a file relative to the working directory, without '..'"
        )


def _report(text: str, status: int) -> str:
    """The output of a command that has ended, as the policy reads it."""
    text = text.rstrip("\n")
    if status == 0:
        return text or "(no output)"
    # Popen gives -N for death by signal N; a shell gives 128 + N.
    code = 128 - status if status < 0 else status
    note = f"[exit status {code}]"
    with suppress(ValueError):
        note = f"[exit status {code}, {signal.Signals(code - 128).name}]"
    return f"{text}\n{note}".lstrip("\n")
