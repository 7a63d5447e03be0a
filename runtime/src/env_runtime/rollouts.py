"""Rollouts of task rows: what nemo_gym/rollout.py, view.py and play.py are made of.

A policy of your own plays rows with `uv run python rollout.py --policy greedy:Greedy`:

    # greedy.py, beside rollout.py
    from env_runtime.rollouts import Turn, function_call, message

    class Greedy:
        name = "greedy"

        def turn(self, row, definitions, output):
            if output:  # [..., {"type": "function_call_output", "output": '{"output": "..."}'}]
                return Turn([message("done")])
            return Turn([function_call("guess", '{"word": "crane"}')])

`row` is the row of the dataset, `definitions` are its tools, and `output` has the
items of the Responses API so far: the policy's own, and the results of its calls. An
episode ends when a turn has no calls, or after MAX_TURNS turns. The arguments of a call
are JSON text, or an object. An exception in the policy fails the row that it plays.
"""

from .episode.types import as_response, function_call, message
from .errors import RolloutError
from .evaluation.client import Client, ClientSession, check_verdict
from .evaluation.command import main
from .evaluation.policies import Policy, Turn
from .evaluation.report import main as view

__all__ = [
    "Client",
    "ClientSession",
    "Policy",
    "RolloutError",
    "Turn",
    "as_response",
    "check_verdict",
    "function_call",
    "main",
    "message",
    "play_page",
    "view",
]


def play_page(description: str | None, arguments: list[str] | None = None) -> int:
    """Serve the page of play.py until Ctrl-C. Returns the exit status."""
    from .playing import main  # its server takes a while to import

    return main(description, arguments)
