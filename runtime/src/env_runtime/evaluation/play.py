"""One episode against a running server: seed, ask the policy, call tools, verify.

The gates play with this function, and not with the one of nemo_gym/rollout.py: that page
is the user's to change, and must not change what a gate measures.
"""

import contextlib
from collections.abc import Callable
from typing import Any

from ..episode.types import Definitions, Row
from ..errors import OutsideRangeError, RolloutError
from .client import Client
from .policies import Policy
from .trajectory import Item, as_response

# A function like `play` below; nemo_gym/rollout.py has the user's own.
Play = Callable[[Client, Definitions, Row, Policy, int], dict[str, Any]]


def play(
    client: Client, definitions: Definitions, row: Row, policy: Policy, max_turns: int
) -> dict[str, Any]:
    """Play one episode. Returns the answer of /verify, with the `response`.

    The episode ends when nothing answers the policy, because it called no tool, or after
    `max_turns` turns; `out_of_turns` says which. Raises RolloutError if the server or the model fails. The
    episode then has no reward.
    """
    session = client.session()
    session.post("/seed_session", row)
    output: list[Item] = []
    usage = {"input_tokens": 0, "output_tokens": 0}
    reason, out_of_turns = None, True
    try:
        for _ in range(max_turns):
            turn = policy.turn(row, definitions, output)
            output += turn.items
            usage["input_tokens"] += turn.input_tokens
            usage["output_tokens"] += turn.output_tokens
            reason = turn.incomplete_reason
            results = [] if reason else session.respond(definitions, turn)
            output += results
            if not results:
                out_of_turns = False
                break
    except RolloutError:
        with contextlib.suppress(RolloutError):
            session.post("/close_session", {})
        raise
    response = as_response(
        policy.name, definitions, output, incomplete_reason=reason, **usage
    )
    verdict = session.post("/verify", {**row, "response": response})
    check_verdict(verdict, client.reward_range())
    return {"response": response, "out_of_turns": out_of_turns, **verdict}


def check_verdict(
    verdict: dict[str, Any], reward_range: tuple[float, float] = (0.0, 1.0)
) -> None:
    """Raise RolloutError if an answer of /verify has no reward that counts.

    `reward_range` has the lowest and the highest reward, see Client.reward_range.
    """
    if verdict.get("mask_sample"):
        problem = f"the environment failed: {verdict.get('failure_reason')}"
        if (outside := verdict.get("reward_outside_range")) is not None:
            raise OutsideRangeError(problem, outside)
        raise RolloutError(problem)
    reward = verdict.get("reward")
    low, high = reward_range
    if not isinstance(reward, int | float) or not low <= reward <= high:
        raise RolloutError(
            f"/verify returned the reward {reward!r}; expected {low:g} to {high:g}"
        )
