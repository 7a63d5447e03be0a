"""The space that a workspace uses."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

from ..folder import FOLDER, MACHINE_ERRORS
from .limits import Limits


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
            for entry in os.scandir(descriptor):
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


def deleted(leader: int, output: int) -> int:
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
