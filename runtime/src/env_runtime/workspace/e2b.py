"""Workspaces in virtual machines of E2B: those of nemo_gym, with its provider `e2b`.

SANDBOX_PROVIDER and SANDBOX_CONFIG can name another provider, as with nemo_gym.
"""

from functools import partial

from . import nemo_gym
from .nemo_gym import WorkspaceError, prepare_tests

__all__ = ["Workspace", "WorkspaceError", "isolation", "missing", "prepare_tests"]
__all__ += ["refusal"]


class Workspace(nemo_gym.Workspace):
    provider = "e2b"


missing = partial(nemo_gym.missing, Workspace.provider)
isolation = partial(nemo_gym.isolation, Workspace.provider)
refusal = partial(nemo_gym.refusal, Workspace.provider)
