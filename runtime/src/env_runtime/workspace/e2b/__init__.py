"""Workspaces in cloud machines of E2B."""

from ..errors import WorkspaceError
from .checks import isolation, missing, refusal
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "refusal"]
