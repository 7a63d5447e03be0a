"""A local workspace on this machine: its limits, its folders, its quota, its removal.

Each process that makes workspaces holds a lock, on the file `.sandbox-MARK` in the
temporary folder. Its workspaces are `sandbox-MARK-*`. The kernel lifts the lock when
the process ends, however that happens. The next process of the same user that makes a
workspace finds the lock free, and removes the workspaces.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import functools
import os
import secrets
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..settings import Limits as ServerLimits
from ..settings import PositiveFloat, PositiveInt
from . import MIB, SandboxSettings
from .folder import FOLDER, MACHINE_ERRORS

# The user that runs the commands under bubblewrap if this process is root.
NOBODY = 65534
# Removes folders with rm, because shutil.rmtree gives up on very deep trees. The second
# try is for folders that a command has made unwritable. The lock's file goes last, so
# an interrupted removal goes on at the next start.
_REMOVE = """
lock=$1
shift
for folder; do
    rm -rf -- "$folder" || { chmod -R u+rwx -- "$folder"; rm -rf -- "$folder"; }
done
test -z "$lock" || rm -f -- "$lock"
"""


# ---------------------------------------------------------------------- limits


MOST_CALLS = 1000  # commands that share the watches of epoll, however many may run


class Limits(SandboxSettings):
    """Limits of one workspace, and of the processes in it."""

    sandbox_memory_mb: PositiveFloat = 1024  # address space of a process (not on macOS)
    sandbox_disk_mb: PositiveFloat = 512  # all files of the workspace together
    sandbox_files: PositiveInt = 20_000  # files and folders of the workspace
    sandbox_processes: PositiveInt = 128  # processes of one call, with bubblewrap
    # The server's own setting: as many commands can run at the same time, at most.
    max_sessions: PositiveInt = ServerLimits.model_fields["max_sessions"].default

    @property
    def disk_bytes(self) -> int:
        return int(self.sandbox_disk_mb * MIB)

    @property
    def quota(self) -> str:
        """The quota in words, for a policy."""
        return f"{self.sandbox_disk_mb:g} MiB or {self.sandbox_files} files"

    def rlimits(self, *, isolated: bool, of_server: bool = False) -> str:
        """The limits of a command, or `of_server`, of an MCP server: for launcher.py."""
        memory = int(self.sandbox_memory_mb * MIB)
        values = {
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 1024,
            # The queues of one user are those of all sandboxes.
            "RLIMIT_MSGQUEUE": 0,
            "RLIMIT_SIGPENDING": 1024,
        }
        if isolated:
            values["RLIMIT_NPROC"] = self.sandbox_processes
        if of_server:  # it lives as long as its episode
            # Not RLIMIT_AS: Node.js reserves more addresses than it uses.
            values["RLIMIT_DATA"] = memory
        else:
            values["RLIMIT_AS"] = memory
            # For processes that outlive their call. Others reach the wall time first.
            values["RLIMIT_CPU"] = int(self.sandbox_seconds) + 2
            if isolated:
                # The launcher starts one more process, which counts the watches. All
                # calls together get half of the machine's.
                values["RLIMIT_NPROC"] += 1
                calls = min(self.max_sessions, MOST_CALLS)
                watches = _machines_watches() // 2 // calls
                values["EPOLL_WATCHES"] = watches
        return " ".join(f"{name}={value}" for name, value in values.items())


@functools.cache
def _machines_watches() -> int:
    """How many watches of epoll the kernel allows a user, whose server this is."""
    try:
        return int(Path("/proc/sys/fs/epoll/max_user_watches").read_text())
    except OSError:
        return 0


# ---------------------------------------------------------------------- folders


class Places(NamedTuple):
    """The paths of a workspace's folders, as a command sees them."""

    home: str
    temporary: str
    scripts: str


UNDER_BUBBLEWRAP = Places("/workspace", "/tmp", "/run")


def places(root: Path, isolated: bool) -> Places:
    """The folders of the workspace at `root`."""
    own = Places(f"{root}/home", f"{root}/tmp", f"{root}/scripts")
    return UNDER_BUBBLEWRAP if isolated else own


def make_folders(root: Path, isolated: bool) -> None:
    """Make the folders of a workspace."""
    for name in ("home", "tmp", "scripts"):
        (root / name).mkdir()
        give(root / name, isolated)


def new_script(root: Path, name: str) -> int:
    """The descriptor of a new file in the folder of scripts. It replaces an old file.

    Without bubblewrap, a command may have left anything there, such as a link, or a
    fifo that nobody reads. Raises OSError.
    """
    scripts = os.open(root / "scripts", FOLDER)
    try:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=scripts)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        return os.open(name, flags, 0o644, dir_fd=scripts)
    finally:
        os.close(scripts)


def give(file: int | Path, isolated: bool) -> None:
    """Give a file to the user that commands run as."""
    if isolated and os.geteuid() == 0:
        os.chown(file, NOBODY, NOBODY)


# ---------------------------------------------------------------------- quota


def measure(root: Path, limits: Limits, enough: float) -> float:
    """The used share of the quota of the workspace at `root`, counted up to `enough`.

    A folder that is nested too deep to be opened counts as a full workspace.
    """
    size = count = 0

    def fill() -> float:
        return max(size / limits.disk_bytes, count / limits.sandbox_files)

    # Pairs of a path and a mode, which is not known yet.
    folders = [(str(root / name), 0) for name in ("home", "tmp")]
    while folders:
        folder, mode = folders.pop()
        try:
            descriptor = _open_folder(root, folder, mode)
        except OSError as error:
            if error.errno in MACHINE_ERRORS:
                raise
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                count += limits.sandbox_files
            continue
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    count += 1
                    with suppress(FileNotFoundError, PermissionError):
                        status = entry.stat(follow_symlinks=False)
                        size += max(status.st_size, status.st_blocks * 512)
                        if stat.S_ISDIR(status.st_mode):
                            folders.append((f"{folder}/{entry.name}", status.st_mode))
                    if fill() > enough:
                        return fill()
        finally:
            os.close(descriptor)
    return fill()


def deleted_bytes(leader: int, output: int) -> int:
    """Bytes of the files that a command holds open and has deleted, memfds included.

    `leader` is its first process, and `output` the descriptor of its output, which does
    not count. The result is 0 if there is no /proc (macOS).
    """
    own = os.fstat(output)
    sizes = {(own.st_dev, own.st_ino): 0}
    processes = [leader]
    while processes:
        folder = f"/proc/{processes.pop()}"
        with suppress(OSError):  # a process has ended
            for thread in os.listdir(f"{folder}/task"):
                children = Path(f"{folder}/task/{thread}/children").read_text()
                processes += map(int, children.split())
            for file in os.listdir(f"{folder}/fd"):
                with suppress(OSError):
                    status = os.stat(f"{folder}/fd/{file}")
                    if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                        place = status.st_dev, status.st_ino
                        sizes.setdefault(place, status.st_blocks * 512)
    return sum(sizes.values())


def _open_folder(root: Path, path: str, mode: int) -> int:
    """The descriptor of a folder, which is unlocked if a command has locked it."""
    if mode & 0o500 != 0o500:
        if sys.platform == "darwin":
            os.chmod(path, 0o700, follow_symlinks=False)
        else:
            locked = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                # A command may have put a link on the way there meanwhile.
                link = f"/proc/self/fd/{locked}"
                if Path(os.readlink(link)).is_relative_to(root):
                    os.chmod(link, 0o700)
            finally:
                os.close(locked)
    return os.open(path, FOLDER)


# ---------------------------------------------------------------------- removal


class _Mark(NamedTuple):
    """The lock of this process."""

    folder: str
    process: int
    name: str
    descriptor: int


_own: _Mark | None = None
_one_at_a_time = threading.Lock()


def new_folder() -> Path:
    """Make the folder of a workspace. The first one removes what dead servers left.

    The path is resolved, because links on the way to a file are not followed. Raises
    OSError.
    """
    global _own
    folder, process = tempfile.gettempdir(), os.getpid()
    with _one_at_a_time:
        if _own is None or _own[:2] != (folder, process):
            if _own:  # a fork, or a test with another temporary folder
                os.close(_own.descriptor)
                _own = None
            with suppress(OSError):  # a folder of which nobody may see the content
                _remove_left(folder)
            _own = _new_mark(folder, process)
        prefix = f"{_own.name}-"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=folder)).resolve()


def remove(
    folders: Sequence[str | Path], lock: str = "", held: Sequence[int] = ()
) -> subprocess.Popen:
    """Start to remove folders, then the file `lock`; `held` stays open until then."""
    # A session of its own lets the removal go on if the server exits meanwhile.
    return subprocess.Popen(
        ["sh", "-c", _REMOVE, "sh", lock, *map(str, folders)],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=held,
    )


def _new_mark(folder: str, process: int) -> _Mark:
    descriptor, path = tempfile.mkstemp(prefix=".new-sandbox-", dir=folder)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    mark = _Mark(folder, process, f"sandbox-{secrets.token_hex(4)}", descriptor)
    # Others see the file only now that it is locked.
    os.rename(path, f"{folder}/.{mark.name}")
    atexit.register(_forget, mark)
    return mark


def _forget(mark: _Mark) -> None:
    """Remove the lock's file at the end of its process, if no workspace is left."""
    with suppress(OSError):
        if mark.process == os.getpid() and not [*_workspaces(mark.folder, mark.name)]:
            os.unlink(f"{mark.folder}/.{mark.name}")


def _remove_left(folder: str) -> None:
    """Start to remove the workspaces of this user whose process is gone."""
    for name in os.listdir(folder):
        if not name.startswith(".sandbox-"):
            continue
        lock = f"{folder}/{name}"
        with suppress(OSError):  # another user's, or a live server's
            # A link is not followed, and nothing is waited for.
            descriptor = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if os.fstat(descriptor).st_uid != os.geteuid():
                    continue
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                left = [*_workspaces(folder, name.removeprefix("."))]
                removal = remove(left, lock, [descriptor])
                threading.Thread(target=removal.wait, daemon=True).start()
            finally:
                os.close(descriptor)


def _workspaces(folder: str, mark: str) -> Iterator[str]:
    """The workspaces with a mark: folders of this user, not links."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f"{mark}-"):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                    yield entry.path
