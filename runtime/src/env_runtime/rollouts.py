"""Rollouts of task rows: what nemo_gym/rollout.py and view.py are made of."""

from .errors import RolloutError
from .evaluation.client import Client, ClientSession
from .evaluation.command import main
from .evaluation.play import check_verdict
from .evaluation.policies import Policy, Turn
from .evaluation.report import main as view
from .evaluation.trajectory import as_response

__all__ = [
    "Client",
    "ClientSession",
    "Policy",
    "RolloutError",
    "Turn",
    "as_response",
    "check_verdict",
    "main",
    "view",
]
