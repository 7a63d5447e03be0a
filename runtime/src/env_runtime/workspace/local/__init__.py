"""Workspaces on this machine, isolated by bubblewrap if it works."""

from ..errors import WorkspaceError
from .checks import isolation, missing, refusal
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "refusal"]
