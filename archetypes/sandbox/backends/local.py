"""The workspace of one episode: a private folder, and the processes that work in it.

With bubblewrap (`bwrap`, Linux) a command sees the system read-only, no network, no
process but its own, and can write only its folder and its own /tmp. It is never root:
if the server is, commands run as nobody. If bubblewrap cannot be used, commands run as
the user of this process: they start in their folder with a clean environment and the
limits below, but nothing keeps them from the network or from any file that this user
can read, the expected answers included. That is for trusted policies and for
development. `isolation` says which it is, and `refusal` why not to serve with it.

Environment variables, read when a workspace is made:

SANDBOX_ISOLATION     auto   auto (bubblewrap if it works), bubblewrap, none
SANDBOX_SECONDS       30     wall time of one call, in seconds
SANDBOX_MEMORY_MB     1024   address space of a process, in MiB (not on macOS)
SANDBOX_DISK_MB       512    all files of the workspace together, in MiB
SANDBOX_FILES         20000  files and folders of the workspace
SANDBOX_FILE_MB       64     size of a file, in MiB; a command's output counts as one
SANDBOX_PROCESSES     128    processes of one call, with bubblewrap
SANDBOX_OUTPUT_BYTES  20000  text of one call, in bytes; the middle is left out

Weaker than it may look:

* Memory is bounded per process, not in sum. Bound the sum with a container.
* The workspace is measured a few times a second, so a fast command gets some way above
  the quota before it is killed. A file that was deleted while it is open is not counted;
  it takes space until the call ends.
* A full disk counts as an infrastructure failure, unless the workspace is above its
  quota.
* Without bubblewrap the kernel would count every process of the user, this server and
  the other episodes too, so their number is not limited. A fork bomb ends at the time
  limit.
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
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
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

# Tries a sandbox out: whether a command in there can start, and use its folders.
_TRIAL = f"""
for folder in ("{_HOME}", "/tmp"):
    open(folder + "/trial", "w").close()
"""

# Who runs the commands under bubblewrap if this process is root.
_NOBODY = 65534

# How often the workspace is measured while a command runs, in seconds.
_LOOK_SECONDS = 0.25
# Above so many times the quota nothing runs any more. Up to there a command may still
# delete files.
_FAR_ABOVE = 4

# How long `close` waits for the folder to be removed, in seconds.
_CLOSE_SECONDS = 1
# rm instead of shutil.rmtree, which gives up on very deep trees; the second try is for
# folders that a command has made unwritable.
_REMOVE = 'rm -rf -- "$1" || { chmod -R u+rwx -- "$1"; rm -rf -- "$1"; }'

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# NONBLOCK: opening a fifo must not wait for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK

_FULL_DISK = {errno.ENOSPC, errno.EDQUOT}
# Failures of the machine rather than of the path that a policy asked for.
_MACHINE_ERRORS = {
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO),
    *_FULL_DISK,
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
            # How full the workspace was when it was last measured; 1.0 is the quota.
            self._fill = 0.0
            try:
                _make_folders(self._root, self._isolated)
            except OSError:
                self.close()
                raise

    def run_command(self, command: str) -> str:
        """Run a shell script (bash, or sh if there is no bash) in the folder.

        Returns stdout and stderr, followed by a line with the exit status unless that
        is 0; at the time limit or above the quota `error: ...` and the output so far.
        Nothing that it started is left running.
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
        if self._measure(1) + len(data) / self._limits.disk_bytes > 1:
            raise ValueError(
                f"cannot write {path!r}: the workspace would have more than "
                f"{self._limits.quota}; delete some"
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
        """Remove the folder; a large one in the background. Can be called again."""
        # In a session of its own, so that it goes on if the server exits meanwhile.
        removal = subprocess.Popen(
            ["sh", "-c", _REMOVE, "sh", str(self._root)],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            removal.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            threading.Thread(target=removal.wait, daemon=True).start()

    def _run(self, interpreter: list[str], name: str, script: str) -> str:
        self._check_home()
        if self._fill > _FAR_ABOVE:
            raise ValueError(
                f"the workspace has more than {_FAR_ABOVE} times {self._limits.quota}; "
                "nothing more can run"
            )
        # A script file, because one argument is limited to 128 KiB and has no line
        # numbers.
        data = script.encode()
        file = self._root / "scripts" / name
        try:
            with _machine("run a command"):
                file.write_bytes(data)
                self._give(file)
                return self._execute(interpreter, name)
        except WorkspaceError as error:
            full = getattr(error.__cause__, "errno", None) in _FULL_DISK
            if full and self._fill > 1:  # it may be this workspace that fills the disk
                raise ValueError(
                    f"{error}; the workspace has more than {self._limits.quota}"
                ) from error
            raise

    def _execute(self, interpreter: list[str], name: str) -> str:
        # The output goes to a file: unlike a pipe it cannot be kept open by a process
        # that got away, needs no thread to drain it, is bounded by the file size limit,
        # and has an end that can be read without what comes before it.
        with tempfile.TemporaryFile(dir=self._root) as output:
            self._give(output.fileno())  # for those who open /dev/stdout
            reading, writing = os.pipe()
            try:
                try:
                    process = self._start(interpreter, name, output, writing)
                finally:
                    os.close(writing)
                try:
                    stopped = self._wait(process)
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
        self._fill = self._measure(_FAR_ABOVE)
        if stopped:
            return f"error: killed{stopped}\n{text}".rstrip("\n")
        report = _report(text, process.returncode)
        if self._fill > 1:
            return (
                f"error: the workspace has more than {self._limits.quota}; delete "
                f"some\n{report}"
            )
        return report

    def _wait(self, process: subprocess.Popen) -> str | None:
        """Wait for the end of a command. Returns why it must be killed, if it must."""
        deadline = time.monotonic() + self._limits.seconds
        # A full workspace can be cleaned up.
        allowed = max(1.0, 1.1 * self._fill)
        pause = _LOOK_SECONDS
        while True:
            left = deadline - time.monotonic()
            if _ended(process, max(0.0, min(pause, left))):
                return None
            if left <= pause:
                return f" after {self._limits.seconds:g} seconds"
            began = time.monotonic()
            if self._measure(allowed) > allowed:
                return (
                    f": the workspace has more than {self._limits.quota}; delete some"
                )
            # Many large workspaces must not keep this process busy.
            pause = max(_LOOK_SECONDS, 4 * (time.monotonic() - began))

    def _measure(self, enough: float) -> float:
        """How full the workspace is; 1.0 is the quota. Stops counting above `enough`.

        A folder that is nested too deep to be opened counts as a full workspace.
        """
        size = count = 0

        def fill() -> float:
            return max(size / self._limits.disk_bytes, count / self._limits.files)

        # With their modes, which are not known yet.
        folders = [(str(self._root / name), 0) for name in ("home", "tmp")]
        with _machine("measure the workspace"):
            while folders:
                folder, mode = folders.pop()
                try:
                    descriptor = self._open_folder(folder, mode)
                except OSError as error:
                    if error.errno in _MACHINE_ERRORS:
                        raise
                    if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                        count += self._limits.files
                    continue
                try:
                    for entry in os.scandir(descriptor):
                        count += 1
                        with suppress(FileNotFoundError, PermissionError):
                            found = entry.stat(follow_symlinks=False)
                            size += max(found.st_size, found.st_blocks * 512)
                            if stat.S_ISDIR(found.st_mode):
                                folders.append(
                                    (f"{folder}/{entry.name}", found.st_mode)
                                )
                        if fill() > enough:
                            return fill()
                finally:
                    os.close(descriptor)
        return fill()

    def _open_folder(self, path: str, mode: int) -> int:
        """The descriptor of a folder; one that a command locked is unlocked."""
        if mode & 0o500 != 0o500:
            if sys.platform == "darwin":
                os.chmod(path, 0o700, follow_symlinks=False)
            else:
                locked = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
                try:
                    # A command may have put a link on the way there meanwhile.
                    link = f"/proc/self/fd/{locked}"
                    if Path(os.readlink(link)).is_relative_to(self._root):
                        os.chmod(link, 0o700)
                finally:
                    os.close(locked)
        return os.open(path, _FOLDER)

    def _give(self, file: int | Path) -> None:
        """Give a file to the user that commands run as."""
        _give(file, self._isolated)

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
                    if flags & os.O_CREAT:
                        self._give(folder)
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
        if flags & os.O_CREAT:
            self._give(file)
        return file


def _ended(process: subprocess.Popen, seconds: float) -> bool:
    """Whether a command ends within `seconds`."""
    if not hasattr(os, "pidfd_open"):  # macOS
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return process.returncode is not None
    # Told at once, while Popen.wait() looks every 50 ms.
    watched = os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and process.wait() is not None
    finally:
        os.close(watched)


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
        problem = _problem()
    return "bubblewrap" if problem is None else f"none: {problem}"


def refusal() -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    None if bubblewrap works, or if SANDBOX_ISOLATION=none says that it is not needed.
    """
    try:
        found = isolation()
    except WorkspaceError as error:
        return str(error)
    if found == "bubblewrap" or os.environ.get("SANDBOX_ISOLATION") == "none":
        return None
    return (
        f"{found.removeprefix('none: ')}: commands would run as this server's user, with "
        "all files that it can read and the network. Install bubblewrap (apt-get install "
        "bubblewrap; Linux only) or serve in a container. Set SANDBOX_ISOLATION=none if "
        "you trust the policies or a container is the wall"
    )


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
def _problem() -> str | None:
    """Why bubblewrap cannot be used here, or None."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "this is root, and setpriv (util-linux) is not installed"
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        root = Path(folder).resolve()
        _make_folders(root, isolated=True)
        try:
            command = [*_bubblewrap(root), _python(), "-I", "-S", "-c", _TRIAL]
            subprocess.run(
                command, capture_output=True, check=True, timeout=20, text=True
            )
        except subprocess.CalledProcessError as error:
            return f"bwrap does not work here ({error.stderr.strip()})"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap does not work here ({error})"
    return None


def _make_folders(root: Path, isolated: bool) -> None:
    for name in ("home", "tmp", "scripts"):
        (root / name).mkdir()
        _give(root / name, isolated)


def _give(file: int | Path, isolated: bool) -> None:
    if isolated and os.geteuid() == 0:
        os.chown(file, _NOBODY, _NOBODY)


def _bubblewrap(root: Path) -> list[str]:
    """The arguments before a command that confine it to the workspace at `root`."""
    program = shutil.which("bwrap") or "bwrap"  # the commands have another PATH
    common = ["--die-with-parent", "--cap-drop", "ALL"]
    # World-writable files in there, and sysctls if a command were root after all.
    kernel = ["--ro-bind", "/proc/sys", "/proc/sys"]
    kernel += ["--ro-bind-try", "/proc/pressure", "/proc/pressure"]
    mounts = [*_mounts(root), "--remount-ro", "/dev", "--remount-ro", "/"]
    if os.geteuid() != 0:
        own = ["--unshare-all", *_user_namespace(), *common]
        return [program, *own, *mounts, *kernel, "--"]
    # A user namespace made by root maps to root, who owns the sysctls and whose processes
    # are not counted. So root only mounts, which works for folders that nobody else can
    # reach; then nobody makes the user namespace, in a second bubblewrap.
    outer = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    outer += ["--unshare-cgroup-try", *common]
    outer += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    drop = ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    inner = ["bwrap", *_user_namespace(), *common, "--dev-bind", "/", "/", *kernel]
    return [program, *outer, *mounts, "--", *drop, "--", *inner, "--"]


@functools.cache
def _user_namespace() -> tuple[str, ...]:
    """A user namespace in which, from bubblewrap 0.8 on, no further one can be made."""
    manual = subprocess.run(
        ["bwrap", "--help"], capture_output=True, check=False
    ).stdout
    own = ("--unshare-user",)
    return (*own, "--disable-userns") if b"--disable-userns" in manual else own


def _mounts(root: Path) -> list[str]:
    """The arguments for bubblewrap that say what a command sees."""
    arguments = ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--bind", f"{root}/tmp", "/tmp", "--bind", f"{root}/tmp", "/dev/shm"]
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    arguments += ["--dir", "/etc"]
    for name in ("alternatives", "group", "ld.so.cache", "localtime", "passwd"):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    prefix = os.path.realpath(sys.base_prefix)
    if not Path(prefix).is_relative_to("/usr"):
        # Bubblewrap would make the folders on the way for their owner only.
        for folder in [*Path(prefix).parents][-2::-1]:
            arguments += ["--dir", str(folder)]
        arguments += ["--ro-bind", prefix, prefix]
    # The data of this project holds the answers, and it may well be below /usr
    # (/usr/src/app).
    project = Path(__file__).resolve().parent
    if any(project.is_relative_to(folder) for folder in ("/usr", prefix)):
        arguments += ["--tmpfs", str(project), "--remount-ro", str(project)]
    arguments += ["--ro-bind", f"{root}/scripts", _SCRIPTS]
    return [*arguments, "--bind", f"{root}/home", _HOME]


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
    disk_bytes: int
    files: int
    file_bytes: int
    processes: int
    output_bytes: int

    @classmethod
    def from_environment(cls) -> _Limits:
        return cls(
            seconds=_number("SANDBOX_SECONDS", 30),
            memory_bytes=int(_number("SANDBOX_MEMORY_MB", 1024) * _MIB),
            disk_bytes=int(_number("SANDBOX_DISK_MB", 512) * _MIB),
            files=int(_number("SANDBOX_FILES", 20_000)),
            file_bytes=int(_number("SANDBOX_FILE_MB", 64) * _MIB),
            processes=int(_number("SANDBOX_PROCESSES", 128)),
            output_bytes=int(_number("SANDBOX_OUTPUT_BYTES", 20_000)),
        )

    @property
    def quota(self) -> str:
        return f"{self.disk_bytes / _MIB:g} MiB or {self.files} files"

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
