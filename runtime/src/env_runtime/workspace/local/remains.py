"""The folders of workspaces: their names, their removal, and what dead servers left.

Each process that makes workspaces holds a lock, on the file `.sandbox-MARK` in the
temporary folder. Its workspaces are `sandbox-MARK-*`. The kernel lifts the lock when
the process ends, however that happens. The next process of the same user that makes a
workspace finds the lock free, and removes the workspaces.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

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
