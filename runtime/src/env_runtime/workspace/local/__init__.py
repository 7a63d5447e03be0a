"""Workspaces on this machine, isolated by bubblewrap if it works."""

from pathlib import Path
from typing import Any

from ..errors import WorkspaceError
from .checks import isolation, missing, refusal
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "prepare_tests"]
__all__ += ["refusal"]


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Prepare nothing: tests may run without isolation, or use bubblewrap if it works.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
