"""What rollouts come to: rewards, turns, tool calls, tokens.

A rollout is an object of NeMo Gym's rollout files, which rollout.py writes too.
"""

import contextlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

TASK = "_ng_task_index"  # NeMo Gym's key in a rollout: the row's number, from 0
REPEAT = "_ng_rollout_index"  # the number of the row's repeat, from 0

# Numbers in a rollout that /verify did not measure.
NO_METRICS = ("reward", "oracle_reward")


class Episode(NamedTuple):
    """A rollout in numbers."""

    task: int  # the row's number, from 0
    repeat: int  # from 0
    reward: float | None  # None if there is none, or if the environment failed
    turns: int  # answers of the model
    calls: int
    errors: int  # calls that were answered with an error
    out_of_turns: bool  # it was cut off by the turn limit
    input_tokens: int | None
    output_tokens: int | None
    metrics: dict[str, float]  # what /verify measured beside the reward


class Figure(NamedTuple):
    """A number about many episodes, and how it is written."""

    name: str
    value: float
    text: str


def measure(rollout: dict[str, Any], task: int = 0) -> Episode:
    """A rollout in numbers. `task` is its row if it does not name one.

    NeMo Gym's files do not say whether the turns ran out: there, they did if the last
    thing in the trajectory is a tool's output, which the model never answered.
    """
    response = _object(rollout.get("response"))
    usage = _object(response.get("usage"))
    turns = calls = errors = 0
    models_turn = False  # while the items are the model's
    for item in items(response.get("output")):
        turns += by_model(item) and not models_turn
        models_turn = by_model(item)
        calls += item.get("type") == "function_call"
        errors += is_tool_output(item) and is_error(item.get("output"))
    out_of_turns = rollout.get("out_of_turns")
    if not isinstance(out_of_turns, bool):
        out_of_turns = bool(turns) and not models_turn
    failed = rollout.get("mask_sample") is True
    number = _count(rollout.get(TASK))
    return Episode(
        task=task if number is None else number,
        repeat=_count(rollout.get(REPEAT)) or 0,
        reward=None if failed else _number(rollout.get("reward")),
        turns=turns,
        calls=calls,
        errors=errors,
        out_of_turns=out_of_turns,
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        metrics={
            name: value
            for name, value in rollout.items()
            # /verify's are floats, and NeMo Gym's own keys begin with an underscore.
            if isinstance(value, float) and math.isfinite(value)
            if name not in NO_METRICS and not name.startswith("_")
        },
    )


def items(found: Any) -> list[dict[str, Any]]:
    """The objects in a list of items; [] if it is not a list."""
    listed = found if isinstance(found, list) else []
    return [item for item in listed if isinstance(item, dict)]


def by_model(item: dict[str, Any]) -> bool:
    """Whether an item of a trajectory is the model's, rather than what it was shown."""
    return item.get("role", "assistant") == "assistant" and not is_tool_output(item)


def is_tool_output(item: dict[str, Any]) -> bool:
    return item.get("type") == "function_call_output"


def is_error(output: Any) -> bool:
    """Whether a tool's output is an error, in the words of the server or of an agent.

    The server says {"output": "error: ..."} or, to malformed calls, {"detail": ...};
    NeMo Gym's agent says {"error": ...} to arguments that are not JSON.
    """
    answer: Any = output
    if isinstance(output, list):  # parts of text and images
        answer = next((str(part.get("text")) for part in items(output)), "")
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        answer = json.loads(answer)
    if isinstance(answer, dict):
        if "output" not in answer:
            return "error" in answer or "detail" in answer
        answer = answer["output"]
    return isinstance(answer, str) and answer.startswith("error:")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A finite float, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def _count(value: Any) -> int | None:
    """An int from 0 on, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1e15 else None


# ---------------------------------------------------------------------- figures


def figures(episodes: list[Episode]) -> list[Figure]:
    """What is said of episodes, in the order in which it is shown.

    The mean reward has its standard error. Rows that were played more than once have
    pass@k: how likely it is that one of k attempts earns 1. The others are means over
    the episodes, and the metrics that /verify gave.
    """
    graded = [one for one in episodes if one.reward is not None]
    rows = {one.task for one in episodes}
    found = [_whole("episodes", len(episodes))]
    if len(rows) < len(episodes):
        found.append(_whole("rows", len(rows)))
    if lost := len(episodes) - len(graded):
        found.append(_whole("without a reward", lost))
    if graded:
        mean, error = mean_reward(graded)
        text = f"{mean:.3f}" + (f" ± {error:.3f}" if error is not None else "")
        found.append(Figure("reward", mean, text))
    for k, value in pass_at(graded).items():
        found.append(Figure(f"pass@{k}", value, f"{value:.3f}"))
    for name in ("turns", "calls", "errors"):
        label = name if name == "turns" else f"tool {name}"
        found += _mean(label, [getattr(one, name) for one in episodes], ".2f")
    cut = sum(one.out_of_turns for one in episodes)
    if episodes:
        text = f"{cut} ({cut / len(episodes):.0%})"
        found.append(Figure("out of turns", cut, text))
    for name in ("input_tokens", "output_tokens"):
        known = [getattr(one, name) for one in episodes]
        known = [count for count in known if count is not None]
        # Only a model counts its tokens.
        if any(known):
            found += _mean(name.replace("_", " "), known, ",.0f")
    for name in dict.fromkeys(name for one in episodes for name in one.metrics):
        known = [one.metrics[name] for one in episodes if name in one.metrics]
        found += _mean(name, known, ".3f")
    return found


def _whole(name: str, count: int) -> Figure:
    return Figure(name, count, f"{count:,}")


def _mean(name: str, values: list[float], form: str) -> list[Figure]:
    if not values:
        return []
    mean = statistics.fmean(values)
    return [Figure(name, mean, f"{mean:{form}}")]


def mean_reward(graded: list[Episode]) -> tuple[float, float | None]:
    """The mean reward, and its standard error if there are two episodes.

    The repeats of a row are alike, so the error is that of a mean over rows, unless
    there is one row only.
    """
    rewards = _by_row(graded)
    if len(rewards) == 1:
        [only] = rewards.values()
        rewards = {number: [one] for number, one in enumerate(only)}
    count = sum(map(len, rewards.values()))
    mean = math.fsum(sum(of_row) for of_row in rewards.values()) / count
    rows = len(rewards)
    if rows < 2:
        return mean, None
    spread = math.fsum(
        sum(one - mean for one in of_row) ** 2 for of_row in rewards.values()
    )
    return mean, math.sqrt(spread * rows / (rows - 1)) / count


def pass_at(graded: list[Episode]) -> dict[int, float]:
    """pass@k for k = 1, 2, 4, ... up to the number of attempts that every row has.

    {} if a row has one attempt only. An attempt passes if it earns 1. The estimator is
    unbiased: of n attempts with c passes, 1 - C(n - c, k) / C(n, k).
    """
    attempts = [
        (len(rewards), sum(one >= 1 - 1e-9 for one in rewards))
        for rewards in _by_row(graded).values()
    ]
    most = min((n for n, _ in attempts), default=0)
    if most < 2:
        return {}
    found = {}
    for k in sorted({2**power for power in range(most.bit_length())} | {most}):
        passed = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in attempts]
        found[k] = statistics.fmean(passed)
    return found


def difference(before: list[Episode], after: list[Episode]) -> Figure | None:
    """By how much the mean reward of the rows that both have changed.

    The standard error is of the rows' differences: that rows differ in difficulty does
    not count. None if there is no common row with rewards.
    """
    first, second = (
        {task: statistics.fmean(rewards) for task, rewards in _by_row(found).items()}
        for found in (before, after)
    )
    changes = [second[task] - first[task] for task in first if task in second]
    if not changes:
        return None
    mean = statistics.fmean(changes)
    text = f"{mean:+.3f}"
    if len(changes) > 1:
        text += f" ± {statistics.stdev(changes) / math.sqrt(len(changes)):.3f}"
    rows = "1 common row" if len(changes) == 1 else f"{len(changes):,} common rows"
    return Figure(f"reward on {rows}", mean, text)


def _by_row(episodes: Iterable[Episode]) -> dict[int, list[float]]:
    """The rewards of each row, without the episodes that have none."""
    found = defaultdict(list)
    for one in episodes:
        if one.reward is not None:
            found[one.task].append(one.reward)
    return found


def table(found: list[Figure]) -> str:
    """Figures as lines of text, indented."""
    width = max((len(figure.name) for figure in found), default=0)
    return "\n".join(f"  {one.name:{width}}  {one.text}" for one in found)
