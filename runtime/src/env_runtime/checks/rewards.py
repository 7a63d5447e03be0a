"""The reward that each policy must earn on a row: the same in every framework."""

from collections.abc import Iterable

from ..episode.declaration import declared
from ..episode.tasks import (
    baseline_reward,
    oracle_reward,
)
from ..episode.types import Row
from ..models.client import without_answers


def baseline(domain_class: type, rows: Iterable[Row]) -> str:
    """The most that doing nothing and nonsense may earn, for a gate's line."""
    baselines = {baseline_reward(domain_class, row) for row in rows}
    if len(baselines) > 1:
        return "at most what each row says"
    [most] = baselines
    exact = most == declared(domain_class).lowest_reward
    return f"{most}" if exact else f"at most {most}"


def earned_by_oracle(domain_class: type, rows: Iterable[Row]) -> str:
    """The reward of the oracle, for a gate's line."""
    highest = declared(domain_class).highest_reward
    usual = all(oracle_reward(domain_class, row) == highest for row in rows)
    return f"{highest}" if usual else "what each row says"


def estimate_note(domain_class: type) -> str:
    """The gate's note on a `reward_range` that is an estimate, else ""."""
    if not declared(domain_class).range_is_estimated:
        return ""
    return (
        f"\nreward_range {declared(domain_class).reward_range} is an estimate: an episode that "
        "earns more or less gets no reward, so a goal outside it is never learned. "
        "Correct it, then remove `reward_range_estimated` from the class"
    )


def honest(policy: str, reward: float) -> str:
    """Return what to do about a reward that a policy may not earn, for a message."""
    if policy == "oracle":
        key, other = "oracle_reward", "Correct the class, or its oracle"
    else:
        key, other = "baseline_reward", "Make the grade stricter"
    return f'. {other} or, if that is honest, write "{key}": {reward} into the row'


def reward_problem(
    domain_class: type, row: Row, policy: str, reward: float
) -> str | None:
    """Why a policy may not earn this reward on a row; None if it may.

    The oracle earns the row's `oracle_reward`, and every other policy at most its
    `baseline_reward`. Any reward is accepted if a model that the class asks is not set,
    and the class has no stand_in(): rewards mean nothing then.
    """
    if without_answers(domain_class):
        return None
    if policy == "oracle":
        expected = oracle_reward(domain_class, row)
        return None if abs(reward - expected) <= 1e-9 else f"not {expected}"
    most = baseline_reward(domain_class, row)
    if reward <= most + 1e-9:
        return None
    exact = most == declared(domain_class).lowest_reward
    return f"not {most}" if exact else f"more than {most}"
