"""The folders of a workspace, and the shell that runs in it."""

from __future__ import annotations

import functools
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..folder import FOLDER

# The user that runs the commands under bubblewrap if this process is root.
NOBODY = 65534


class Places(NamedTuple):
    """The paths of a workspace's folders, as a command sees them."""

    home: str
    temporary: str
    scripts: str


UNDER_BUBBLEWRAP = Places("/workspace", "/tmp", "/run")


def unconfined(root: Path) -> Places:
    """The folders of the workspace at `root` without bubblewrap."""
    return Places(f"{root}/home", f"{root}/tmp", f"{root}/scripts")


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


@functools.cache
def shell() -> str:
    """The path of bash, or else of sh."""
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"
