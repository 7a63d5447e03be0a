"""The checks before a server serves commands: is there a barrier, and who needs it?

`provider` is NeMo Gym's provider if no setting names one.
"""

from __future__ import annotations

from ..errors import WorkspaceError
from ..settings import WorkspaceSettings
from .providers import DEFAULT, Provider


class IsolationSettings(WorkspaceSettings):
    sandbox_isolation: str | None = None  # "none": serve although the provider is local


def missing(provider: str = DEFAULT) -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    try:
        Provider.configured(provider).make()
    except WorkspaceError as error:
        return str(error)
    return None


def isolation(provider: str = DEFAULT) -> str:
    """Name the barrier between commands and this machine, or "none: " and why."""
    try:
        name = Provider.configured(provider).name
    except WorkspaceError as error:
        return f"unknown: {error}"
    if name == "local":
        return "none: NeMo Gym's sandbox provider is local"
    return f"nemo_gym: one {name} sandbox per episode"


def refusal(provider: str = DEFAULT) -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    There is a reason only if the settings are wrong, or if the provider is `local` and
    SANDBOX_ISOLATION=none does not say that a sandbox is not needed.
    """
    current = isolation(provider)
    if current.startswith("unknown: "):
        return current.removeprefix("unknown: ")
    trusted = IsolationSettings.read().sandbox_isolation == "none"
    if not current.startswith("none: ") or trusted:
        return None
    return (
        f"{current.removeprefix('none: ')}: commands would run as this server's user, "
        "with all files that it can read and the network. Choose another provider "
        "(SANDBOX_PROVIDER=docker) or serve in a container. Set SANDBOX_ISOLATION=none "
        "if you trust the policies or a container is the wall"
    )
