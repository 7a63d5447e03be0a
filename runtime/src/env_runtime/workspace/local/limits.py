"""The limits of a local workspace."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ...settings import Limits as ServerLimits
from ...settings import PositiveFloat, PositiveInt
from ..settings import MIB, SandboxSettings, WorkspaceSettings

Isolation = Annotated[
    Literal["auto", "bubblewrap", "none"],
    Field(description="auto, bubblewrap or none"),
]


class IsolationSettings(WorkspaceSettings):
    """Whether bubblewrap is used. `auto` uses it if it works."""

    sandbox_isolation: Isolation = "auto"


class Limits(SandboxSettings):
    """Limits of one workspace, and of the processes in it."""

    sandbox_memory_mb: PositiveFloat = 1024  # address space of a process (not on macOS)
    sandbox_disk_mb: PositiveFloat = 512  # all files of the workspace together
    sandbox_files: PositiveInt = 20_000  # files and folders of the workspace
    sandbox_processes: PositiveInt = 128  # processes of one call, with bubblewrap
    # The server's own setting: as many commands can run at the same time.
    max_sessions: PositiveInt = ServerLimits.model_fields["max_sessions"].default

    @property
    def disk_bytes(self) -> int:
        return int(self.sandbox_disk_mb * MIB)

    @property
    def quota(self) -> str:
        return f"{self.sandbox_disk_mb:g} MiB or {self.sandbox_files} files"

    @property
    def epoll_watches(self) -> int:
        """The watches of one call: all calls together get half of the machine's."""
        return _machines_watches() // 2 // self.max_sessions

    def rlimits(self, *, isolated: bool) -> str:
        """The limits of a process, as launcher.py reads them."""
        values = {
            "RLIMIT_AS": int(self.sandbox_memory_mb * MIB),
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 1024,
            # The queues of one user are those of all sandboxes.
            "RLIMIT_MSGQUEUE": 0,
            "RLIMIT_SIGPENDING": 1024,
            # For processes that outlive their call. Others reach the wall time first.
            "RLIMIT_CPU": int(self.sandbox_seconds) + 2,
        }
        if isolated:
            # The launcher starts one more process, which counts the watches.
            values["RLIMIT_NPROC"] = self.sandbox_processes + 1
            values["EPOLL_WATCHES"] = self.epoll_watches
        return " ".join(f"{name}={value}" for name, value in values.items())


@functools.cache
def _machines_watches() -> int:
    """How many watches of epoll the kernel allows a user, whose server this is."""
    try:
        return int(Path("/proc/sys/fs/epoll/max_user_watches").read_text())
    except OSError:
        return 0
