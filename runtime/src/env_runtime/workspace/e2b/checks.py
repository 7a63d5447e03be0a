"""The checks before a server serves commands."""

from __future__ import annotations

from ..settings import WorkspaceSettings


class AccountSettings(WorkspaceSettings):
    e2b_api_key: str | None = None


def missing() -> str | None:
    """Return the reason why this machine cannot run an episode, or None."""
    if AccountSettings.read().e2b_api_key:
        return None
    return "E2B_API_KEY is not set; export a key from https://e2b.dev"


def isolation() -> str:
    """Name the barrier between commands and this machine."""
    return "e2b: one cloud virtual machine per episode"


def refusal() -> str | None:
    """None, because each episode has a machine of its own."""
    return None
