"""The machine's limits on this process: threads, open files, memory.

A container's limits are those of its control groups, of version 1 or 2. What cannot be
read has no limit.
"""

import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ..errors import shortage

NEAR = 0.9  # the part of a limit above which no session starts
LOOK_SECONDS = 1.0  # the pause between two looks at the files and the memory
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
KERNEL = Path("/proc/sys")
FILES = Path("/dev/fd")


def most_threads() -> int:
    """Half of the threads that this process, its user or its container may have.

    The other half is for the server's own threads, and for what a class starts.
    """
    limits = [resource.getrlimit(resource.RLIMIT_NPROC)[0]]
    limits += [_number(KERNEL / "kernel/pid_max")]
    limits += [_number(KERNEL / "vm/max_map_count") // 2]  # a stack and its guard
    limits += [_number(folder / "pids.max") for folder in _groups("pids")]
    found = [limit for limit in limits if limit >= 0]  # -1 means unlimited
    return max(1, min(found, default=sys.maxsize) // 2)


class Machine:
    """The open files and the memory that are left."""

    def __init__(self) -> None:
        self._looked, self._problem = -LOOK_SECONDS, ""

    def problem(self) -> str:
        """Why no session should start, as it was at most LOOK_SECONDS ago, or ""."""
        now = time.monotonic()
        if now >= self._looked + LOOK_SECONDS:
            self._looked, self._problem = now, _files() or _memory()
        return self._problem


def _files() -> str:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir(FILES))
    except OSError as error:
        return shortage(error)
    if 0 <= most * NEAR <= used:
        return f"{used} of {most} open files are in use (ulimit -n)"
    return ""


def _memory() -> str:
    for folder in _groups("memory"):
        limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if 0 <= limit * NEAR <= used:
            # The kernel gives back the memory of files that nobody uses.
            used -= _inactive(folder)
            if limit * NEAR <= used:
                return f"{used >> 20} of the container's {limit >> 20} MiB are in use"
    return ""


def _inactive(folder: Path) -> int:
    """The bytes of files in memory that are not in use."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    found = dict(line.split(maxsplit=1) for line in lines)
    return int(found.get("total_inactive_file") or found.get("inactive_file") or 0)


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups, and of the groups around them.

    In a container, the own group is the root of what is mounted.
    """
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = GROUPS / controller if controllers else GROUPS
        own = root / path.lstrip("/")
        yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def _number(*paths: Path) -> int:
    """The number in the first file that is there, -1 if it is "max", or none is."""
    for path in paths:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else -1
    return -1
