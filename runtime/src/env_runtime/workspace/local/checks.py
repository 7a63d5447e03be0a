"""The checks before a server serves commands: is there a barrier, and who needs it?"""

from __future__ import annotations

import functools
import logging
import threading

from ..errors import WorkspaceError
from . import bubblewrap
from .limits import IsolationSettings

# Episodes that start at the same time, each in a thread, check and warn only once.
_once = threading.Lock()


def missing() -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    return None


def isolation() -> str:
    """Name the barrier before this machine: "bubblewrap", or "none: " and the reason.

    The first call tests bubblewrap, which takes a moment. Raises WorkspaceError if
    SANDBOX_ISOLATION has a wrong value.
    """
    if IsolationSettings.read().sandbox_isolation == "none":
        return "none: SANDBOX_ISOLATION=none"
    try:
        with _once:
            problem = bubblewrap.problem()
    except OSError as error:
        raise WorkspaceError(f"cannot try bubblewrap out: {error}") from error
    return "bubblewrap" if problem is None else f"none: {problem}"


def refusal() -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    None if bubblewrap works, or if SANDBOX_ISOLATION=none says that it is not needed.
    """
    try:
        current = isolation()
        choice = IsolationSettings.read().sandbox_isolation
    except WorkspaceError as error:
        return str(error)
    if current == "bubblewrap" or choice == "none":
        return None
    return (
        f"{current.removeprefix('none: ')}: commands would run as this server's user, "
        "with all files that it can read and the network. Install bubblewrap (apt-get "
        "install bubblewrap; Linux only) or serve in a container. Set "
        "SANDBOX_ISOLATION=none if you trust the policies or a container is the wall"
    )


def isolated() -> bool:
    """Whether commands run under bubblewrap.

    Raises WorkspaceError if they must, but cannot.
    """
    current = isolation()
    if current == "bubblewrap":
        return True
    if IsolationSettings.read().sandbox_isolation == "bubblewrap":
        raise WorkspaceError(
            f"SANDBOX_ISOLATION=bubblewrap, but the isolation is {current}"
        )
    with _once:
        _warn(current)
    return False


@functools.cache
def _warn(isolation: str) -> None:
    logging.getLogger(__name__).warning(
        "Commands run WITHOUT ISOLATION, as the user of this server (isolation: %s). "
        "SANDBOX_ISOLATION=bubblewrap refuses that.",
        isolation,
    )
