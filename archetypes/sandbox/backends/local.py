"""The workspace of one episode: a private folder, and the processes that work in it.

With bubblewrap (`bwrap`, Linux) a command sees the system read-only, no network, no
process but its own, and can write only its folder and its own /tmp. If bubblewrap
cannot be used, commands run as the user of this process: they start in their folder
with a clean environment and the limits below, but nothing keeps them from the network
or from any file that this user can read, the expected answers included. That is for
trusted policies and for development. `isolation` says which it is.

Environment variables, read when a workspace is made:

SANDBOX_ISOLATION     auto   auto (bubblewrap if it works), bubblewrap, none
SANDBOX_SECONDS       30     wall time of one call, in seconds
SANDBOX_MEMORY_MB     1024   address space of a process, in MiB (not on macOS)
SANDBOX_FILE_MB       64     size of a file, in MiB; a command's output counts as one
SANDBOX_PROCESSES     128    processes of one call, with bubblewrap and not as root
SANDBOX_OUTPUT_BYTES  20000  text of one call, in bytes; the middle is left out

Weaker than it may look:

* Memory is bounded per process and disk per file; the number of files is not. A full
  disk counts as an infrastructure failure, whoever filled it. Bound the sums with a
  container or a quota around the server.
* The kernel exempts root from the process limit, and outside a user namespace it counts
  every process of the user, this server and the other episodes too. So it is only set
  with bubblewrap; without it a fork bomb ends at the time limit. Do not run the server
  as root.
* Without bubblewrap a command can escape its process group. On Linux what stays in its
  session or keeps its environment is found and killed all the same; on macOS the group
  is all there is.
* A server that is killed, or that exits while a command runs, leaves the folder
  ($TMPDIR/sandbox-*) behind. Processes then die with the server under bubblewrap, and
  at their CPU limit otherwise.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_MIB = 1024 * 1024

# Runs inside the sandbox and becomes the command. The byte it writes tells a command
# that failed from a sandbox that could not be set up. This is not a preexec_fn, which
# may deadlock in a process with threads.
_LAUNCHER = """
import os, resource, signal, sys
started, limits, *command = sys.argv[1:]
os.chdir(os.environ["HOME"])
for limit in limits.split():
    name, value = limit.split("=")
    kind = getattr(resource, name)
    hard = resource.getrlimit(kind)[1]
    value = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        pass  # macOS does not have all of them
for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(ignored_by_python, signal.SIG_DFL)
os.write(int(started), b"1")
os.close(int(started))
os.execv(command[0], command)
"""

# Where a command finds its folder and its script under bubblewrap.
_HOME = "/workspace"
_SCRIPTS = "/run"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# NONBLOCK: opening a fifo must not wait for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK

# Failures of the machine rather than of the path that a policy asked for.
_MACHINE_ERRORS = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO),
    *(errno.ENOSPC, errno.EDQUOT),
}

# So that several episodes that start at once, in a thread each, probe and warn once.
_once = threading.Lock()


class WorkspaceError(RuntimeError):
    """The workspace could not be made or has failed, which is not the policy's fault."""


@contextmanager
def _machine(action: str) -> Iterator[None]:
    """Turns an OSError, such as that of a full disk, into a WorkspaceError."""
    try:
        yield
    except OSError as error:
        raise WorkspaceError(f"cannot {action}: {error}") from error


class Workspace:
    """A private folder and what runs in it.

    Paths are relative to the folder. Text is UTF-8; other bytes read as U+FFFD. The
    methods raise ValueError for what a caller can put right, and WorkspaceError for a
    failure of the workspace. A workspace is for one thread.
    """

    def __init__(self) -> None:
        self._limits = _Limits.from_environment()
        self._isolated = _isolated()
        with _machine("make a workspace folder"):
            # Resolved, because links are not followed on the way to a file.
            self._root = Path(tempfile.mkdtemp(prefix="sandbox-")).resolve()
            self._home = self._root / "home"
            try:
                _make_folders(self._root)
            except OSError:
                self.close()
                raise

    def run_command(self, command: str) -> str:
        """Run a shell script (bash, or sh if there is no bash) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit `error: ...` and the output so far. Nothing that it
        started is left running.
        """
        return self._run([_shell()], "command.sh", command)

    def run_python(self, code: str) -> str:
        """Run a Python program in the folder with this server's base interpreter.

        The interpreter is isolated (-I). Returns what `run_command` returns.
        """
        return self._run([_python(), "-I", "-u"], "program.py", code)

    def write(self, path: str, content: str) -> None:
        """Create or replace a text file, with its parent folders."""
        data = content.encode()
        if len(data) > self._limits.file_bytes:
            raise ValueError(
                f"content for {path!r} has {len(data)} bytes, the limit is "
                f"{self._limits.file_bytes}; write less, or in several files"
            )
        descriptor = self._open(path, os.O_WRONLY | os.O_CREAT)
        with _machine(f"write {path!r}"), open(descriptor, "wb") as file:
            file.truncate()
            file.write(data)

    def read(self, path: str) -> str:
        """The text of a file; the middle of a long one is replaced by a note."""
        descriptor = self._open(path, os.O_RDONLY)
        with _machine(f"read {path!r}"), open(descriptor, "rb") as file:
            return _clipped(file.fileno(), self._limits.output_bytes)

    def read_whole(self, path: str, limit: int) -> str:
        """The whole text of a file. Raises ValueError if it is longer than `limit` bytes."""
        descriptor = self._open(path, os.O_RDONLY)
        with _machine(f"read {path!r}"), open(descriptor, "rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ValueError(f"{path!r} has more than {limit} bytes")
        return data.decode(errors="replace")

    def close(self) -> None:
        """Remove the folder. Calling it again does nothing."""
        # rm instead of shutil.rmtree, which gives up on very deep trees; the second try
        # is for folders that a command has made unwritable.
        remove = ["rm", "-rf", "--", str(self._root)]
        subprocess.run(remove, stderr=subprocess.DEVNULL, check=False)
        if self._root.exists():
            unlock = ["chmod", "-R", "u+rwx", str(self._root)]
            subprocess.run(unlock, stderr=subprocess.DEVNULL, check=False)
            subprocess.run(remove, stderr=subprocess.DEVNULL, check=False)

    def _run(self, interpreter: list[str], name: str, script: str) -> str:
        self._check_home()
        # A script file, because one argument is limited to 128 KiB and has no line
        # numbers.
        data = script.encode()
        with _machine("run a command"):
            (self._root / "scripts" / name).write_bytes(data)
            return self._execute(interpreter, name)

    def _execute(self, interpreter: list[str], name: str) -> str:
        # The output goes to a file: unlike a pipe it cannot be kept open by a process
        # that got away, needs no thread to drain it, is bounded by the file size limit,
        # and has an end that can be read without what comes before it.
        with tempfile.TemporaryFile(dir=self._root) as output:
            reading, writing = os.pipe()
            try:
                try:
                    process = self._start(interpreter, name, output, writing)
                finally:
                    os.close(writing)
                try:
                    status = process.wait(self._limits.seconds)
                except subprocess.TimeoutExpired:
                    status = None
                finally:
                    self._kill(process)
                started = b""
                os.set_blocking(reading, False)
                # Bubblewrap may not have let go of its end yet.
                with suppress(BlockingIOError):
                    started = os.read(reading, 1)
            finally:
                os.close(reading)
            text = _clipped(output.fileno(), self._limits.output_bytes)
        if not started:
            raise WorkspaceError(
                f"the sandbox did not start: {text.strip() or 'no message'}"
            )
        if status is None:
            note = f"error: killed after {self._limits.seconds:g} seconds"
            return f"{note}\n{text}".rstrip("\n")
        return _report(text, status)

    def _start(
        self, interpreter: list[str], name: str, output: IO[bytes], writing: int
    ) -> subprocess.Popen:
        if self._isolated:
            prefix = _bubblewrap(self._root)
            home, temporary, scripts = _HOME, "/tmp", _SCRIPTS
        else:
            prefix = []
            home, temporary, scripts = (
                str(self._root / n) for n in ("home", "tmp", "scripts")
            )
        launcher = [_python(), "-I", "-S", "-c", _LAUNCHER, str(writing)]
        limits = self._limits.rlimits(processes=self._isolated)
        # All of it: nothing is inherited, so no key of the server can be read from
        # here.
        environment = {
            "PATH": f"{os.path.dirname(_python())}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": home,
            "TMPDIR": temporary,
            "LANG": "C.UTF-8",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return subprocess.Popen(
            [*prefix, *launcher, limits, *interpreter, f"{scripts}/{name}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd="/",
            start_new_session=True,
            pass_fds=(writing,),
        )

    def _kill(self, process: subprocess.Popen) -> None:
        """Kill a command and everything it started, whether it has ended or not."""
        # PermissionError is what macOS says of a group of which only zombies are left.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if self._isolated:
            return  # the processes die with their namespace
        for _ in range(10):  # again, for what was forked meanwhile
            stragglers = _stragglers(self._home, process.pid)
            if not stragglers:
                break
            for pid in stragglers:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def _check_home(self) -> None:
        """Undo or refuse what a command can do to the folder itself."""
        try:
            is_folder = stat.S_ISDIR(os.lstat(self._home).st_mode)
        except FileNotFoundError:
            is_folder = False
        if not is_folder:
            raise ValueError(
                "a command has removed the workspace folder; nothing more can run"
            )
        os.chmod(self._home, 0o700)

    def _open(self, path: str, flags: int) -> int:
        """The descriptor of a regular file in the folder.

        Every step is taken from the folder opened before it and follows no link, so
        neither a link that is there nor one put there meanwhile leads out.
        """
        self._check_home()
        *parents, name = _parts(path)
        try:
            folder = os.open(self._home, _FOLDER)
            try:
                for parent in parents:
                    if flags & os.O_CREAT:
                        with suppress(FileExistsError):
                            os.mkdir(parent, dir_fd=folder)
                    below = os.open(parent, _FOLDER, dir_fd=folder)
                    os.close(folder)
                    folder = below
                file = os.open(name, flags | _FILE, 0o644, dir_fd=folder)
            finally:
                os.close(folder)
        except OSError as error:
            if error.errno in _MACHINE_ERRORS:
                raise WorkspaceError(
                    f"cannot open {path!r}: {error.strerror}"
                ) from error
            raise ValueError(
                f"cannot open {path!r}: {error.strerror}; it must be a regular file below the "
                "working directory, and links are not followed"
            ) from error
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise ValueError(
                f"{path!r} is not a regular file; look at it with run_command"
            )
        return file


def missing() -> str | None:
    """What this machine lacks to run an episode, if anything."""
    return None


def isolation() -> str:
    """What keeps commands from this machine: "bubblewrap", or "none: " and the reason.

    The first call tries bubblewrap out, which takes a moment. Raises WorkspaceError if
    SANDBOX_ISOLATION has a wrong value.
    """
    choice = os.environ.get("SANDBOX_ISOLATION", "auto")
    if choice not in ("auto", "bubblewrap", "none"):
        raise WorkspaceError(
            f"SANDBOX_ISOLATION must be auto, bubblewrap or none, got {choice!r}"
        )
    if choice == "none":
        return "none: SANDBOX_ISOLATION=none"
    with _once, _machine("try bubblewrap out"):
        problem = _probe()
    return "bubblewrap" if problem is None else f"none: {problem}"


def _isolated() -> bool:
    found = isolation()
    if found == "bubblewrap":
        return True
    if os.environ.get("SANDBOX_ISOLATION") == "bubblewrap":
        raise WorkspaceError(
            f"SANDBOX_ISOLATION=bubblewrap, but the isolation is {found}"
        )
    with _once:
        _warn(found)
    return False


@functools.cache
def _warn(found: str) -> None:
    logging.getLogger(__name__).warning(
        "Commands run WITHOUT ISOLATION, as the user of this server (isolation: %s). "
        "SANDBOX_ISOLATION=bubblewrap refuses that.",
        found,
    )


@functools.cache
def _probe() -> str | None:
    """Why bubblewrap cannot be used here, or None."""
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        root = Path(folder).resolve()
        _make_folders(root)
        command = [*_bubblewrap(root), _python(), "-I", "-S", "-c", ""]
        try:
            subprocess.run(
                command, capture_output=True, check=True, timeout=20, text=True
            )
        except subprocess.CalledProcessError as error:
            return f"bwrap does not work here ({error.stderr.strip()})"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap does not work here ({error})"
    return None


def _make_folders(root: Path) -> None:
    for name in ("home", "tmp", "scripts"):
        (root / name).mkdir()


def _bubblewrap(root: Path) -> list[str]:
    """The arguments before a command that confine it to the workspace at `root`."""
    program = shutil.which("bwrap") or "bwrap"  # the commands have another PATH
    arguments = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--bind", f"{root}/tmp", "/tmp", "--bind", f"{root}/tmp", "/dev/shm"]
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    for name in ("alternatives", "group", "ld.so.cache", "localtime", "passwd"):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    prefix = os.path.realpath(sys.base_prefix)
    if not Path(prefix).is_relative_to("/usr"):
        arguments += ["--ro-bind", prefix, prefix]
    # The data of this project holds the answers, and it may well be below /usr
    # (/usr/src/app).
    project = Path(__file__).resolve().parent
    if any(project.is_relative_to(folder) for folder in ("/usr", prefix)):
        arguments += ["--tmpfs", str(project)]
    arguments += ["--ro-bind", f"{root}/scripts", _SCRIPTS]
    arguments += ["--bind", f"{root}/home", _HOME]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--"]


@functools.cache
def _python() -> str:
    """The interpreter that this one's virtual environment, if any, was made from."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base = Path(sys.base_prefix, "bin", version)
    return os.path.realpath(base if base.exists() else sys.executable)


@functools.cache
def _shell() -> str:
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"


@dataclass(frozen=True)
class _Limits:
    seconds: float
    memory_bytes: int
    file_bytes: int
    processes: int
    output_bytes: int

    @classmethod
    def from_environment(cls) -> _Limits:
        return cls(
            seconds=_number("SANDBOX_SECONDS", 30),
            memory_bytes=int(_number("SANDBOX_MEMORY_MB", 1024) * _MIB),
            file_bytes=int(_number("SANDBOX_FILE_MB", 64) * _MIB),
            processes=int(_number("SANDBOX_PROCESSES", 128)),
            output_bytes=int(_number("SANDBOX_OUTPUT_BYTES", 20_000)),
        )

    def rlimits(self, *, processes: bool) -> str:
        """The limits of a process, as `_LAUNCHER` reads them."""
        values = {
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
            # For what outlives its call; what does not meets the wall time first.
            "RLIMIT_CPU": int(self.seconds) + 2,
        }
        if processes:
            values["RLIMIT_NPROC"] = self.processes
        return " ".join(f"{name}={value}" for name, value in values.items())


def _number(name: str, default: float) -> float:
    text = os.environ.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise WorkspaceError(f"{name} must be a positive number, got {text!r}")
    return value


def _parts(path: str) -> list[str]:
    """The steps of a relative path that stays below where it starts."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or ".." in parts or "\0" in path or not parts:
        raise ValueError(
            f"path {path!r} must name a file relative to the working directory, without '..'"
        )
    return parts


def _clipped(file: int, limit: int) -> str:
    """The text of an open file: its two ends if it has more than `limit` bytes."""
    size = os.fstat(file).st_size
    if size <= limit:
        return os.pread(file, size, 0).decode(errors="replace")
    half = limit // 2
    head = os.pread(file, half, 0).decode(errors="replace")
    tail = os.pread(file, half, size - half).decode(errors="replace")
    return f"{head}\n[truncated: {size - 2 * half} of {size} bytes left out]\n{tail}"


def _report(text: str, status: int) -> str:
    """The output of a command that has ended, as the policy reads it."""
    text = text.rstrip("\n")
    if status == 0:
        return text or "(no output)"
    # Popen gives -N for death by signal N; a shell, and bubblewrap, give 128 + N.
    code = 128 - status if status < 0 else status
    note = f"[exit status {code}]"
    with suppress(ValueError):
        note = f"[exit status {code}, {signal.Signals(code - 128).name}]"
    return f"{text}\n{note}".lstrip("\n")


def _stragglers(home: Path, session: int) -> list[int]:
    """Processes of a command that left its group, which only Linux can tell.

    They are known by their session or their environment.
    """
    mark = f"HOME={home}\0".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                os.getsid(int(folder.name)) == session
                or mark in (folder / "environ").read_bytes()
            ):
                found.append(int(folder.name))
    return found
