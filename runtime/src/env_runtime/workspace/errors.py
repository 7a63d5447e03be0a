"""The error that every backend raises."""


class WorkspaceError(RuntimeError):
    """The workspace could not be made or has failed, which is not the policy's fault."""
