"""Why a policy earns what it should not: its plan, played once more in this process."""

import asyncio

from ..episode.tasks import steps_of
from ..episode.tools import tools_of
from ..episode.types import Row, Solution, task_of
from ..evaluation.episodes import LocalEpisode
from .rewards import made_calls


def cause_of(domain_class: type, row: Row, plan: Solution, policy: str) -> str:
    """The beginning of a message's part on what was played, such as `no milk; `, or "".

    The oracle is told the object's `unmet`, and nonsense the call that earns more each time.
    """
    find = {"oracle": _unmet, "nonsense": _repeated}.get(policy)
    if find is None:
        return ""
    try:
        found = asyncio.run(find(domain_class, row, plan))
    except Exception:  # noqa: BLE001 - the gate's message is about something else
        return ""
    return f"{found}; " if found else ""


async def _played(domain_class: type, row: Row, plan: Solution) -> tuple[float, str]:
    """The reward of a plan, and the object's `unmet` after it."""
    tools = tools_of(domain_class)
    async with LocalEpisode(domain_class, task_of(row), tools) as played:
        await played.play(steps_of(domain_class, plan))
        reward = await played.reward(plan.answer)
        unmet = getattr(played.episode.environment, "unmet", "")
        return reward, str(await played.perform(unmet) if callable(unmet) else unmet)


async def _unmet(domain_class: type, row: Row, plan: Solution) -> str:
    return (await _played(domain_class, row, plan))[1]


async def _repeated(domain_class: type, row: Row, plan: Solution) -> str:
    """The first call of a plan that earns more each time; "" without one."""
    for call in plan.calls:
        rewards = [
            (await _played(domain_class, row, Solution(n * [call])))[0] for n in (1, 3)
        ]
        if rewards[0] < rewards[1]:
            made = made_calls([call], []).removeprefix("it called ")
            return (
                f"it is repetition that earns: {made} earns {rewards[0]:g} once, and "
                f"{rewards[1]:g} three times, so count each thing once"
            )
    return ""
