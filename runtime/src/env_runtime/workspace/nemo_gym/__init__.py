"""Workspaces in sandboxes of NeMo Gym's providers."""

from pathlib import Path
from typing import Any

from ..errors import WorkspaceError
from .checks import isolation, missing, refusal
from .providers import ProviderSettings
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "prepare_tests"]
__all__ += ["refusal"]


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Use NeMo Gym's provider `local`, which needs nothing, unless another is set.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")  # the tests can be trusted
    chosen = ProviderSettings.read().model_fields_set
    if not {"sandbox_provider", "sandbox_config"} & chosen:
        monkeypatch.setenv("SANDBOX_PROVIDER", "local")
