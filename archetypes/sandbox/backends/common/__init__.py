"""The workspace of one episode: a private folder, and the commands that work in it.

A class module imports from here. The backend was chosen when the project was generated.
Every backend has these five names:

Workspace        makes a workspace: run_command, run_python, write, read, read_whole, close
WorkspaceError   the workspace has failed, which is not the policy's fault
isolation()      what keeps commands from this machine
missing()        what this machine lacks to run an episode, or None
refusal()        why untrusted policies should not be served here, or None
"""

from .checks import isolation, missing, refusal
from .errors import WorkspaceError
from .workspace import Workspace

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "refusal"]
