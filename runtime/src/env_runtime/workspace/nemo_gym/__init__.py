"""Workspaces in sandboxes of NeMo Gym's providers."""

from ..errors import WorkspaceError
from .checks import isolation, missing, refusal
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "refusal"]
