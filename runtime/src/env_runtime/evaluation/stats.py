"""Statistics of rollouts: rewards, turns, tool calls, tokens.

A rollout is an object of NeMo Gym's rollout files, which rollout.py writes too.
"""

import contextlib
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..episode.names import REPEAT, TASK, episode_name
from ..episode.types import by_model, is_tool_output
from .policies import is_error, items

PLAYER = "played_by"  # a person's name, in what a person played
SECONDS = "played_seconds"  # how long the person took

# Numbers in a rollout that /verify did not measure.
NO_METRICS = ("reward", "reward_outside_range", "oracle_reward", "baseline_reward")

LENGTH_COUNTS = 0.6  # a weaker correlation of reward and length is not reported
FEWEST_FOR_INTERVAL = 3  # rows
FEWEST_LENGTHS = 12  # with fewer rollouts, there is none


class RolloutStats(NamedTuple):
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
    components: dict[str, float]  # the parts of the reward, by name
    oracle_reward: float | None = None  # the row's own, if it has one
    outside_range: bool = False  # the class's grade was outside its reward_range
    not_graded: bool = False  # it has the lowest reward in place of a grade
    player: str | None = None  # the person who played, if one did
    name: str = ""  # the episode's in the log of the server, if a verdict names it
    difficulty: str = ""  # the row's own, if it has one


Figure = tuple[str, str]  # the name of a number about many episodes, and its text


def measure(rollout: dict[str, Any], task: int = 0) -> RolloutStats:
    """A rollout in numbers. `task` is its row's number if the rollout has none.

    NeMo Gym's files do not say whether the turns ran out. They did if the trajectory
    ends with a tool's output, which the model never answered.
    """
    response = _object(rollout.get("response"))
    usage = _object(response.get("usage"))
    turns = calls = errors = 0
    models_turn = False  # whether the last item was the model's
    for item in items(response.get("output")):
        turns += by_model(item) and not models_turn
        models_turn = by_model(item)
        calls += item.get("type") == "function_call"
        errors += is_tool_output(item) and is_error(item.get("output"))
    out_of_turns = rollout.get("out_of_turns")
    if not isinstance(out_of_turns, bool):
        out_of_turns = bool(turns) and not models_turn
    failed = rollout.get("mask_sample") is True
    session = rollout.get("session_name")
    number = _count(rollout.get(TASK))
    parts = _object(rollout.get("reward_components"))
    components = {
        key: part for key in parts if (part := _number(parts[key])) is not None
    }
    return RolloutStats(
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
            # Metrics are floats, and NeMo Gym's own keys begin with an underscore.
            if isinstance(value, float) and math.isfinite(value)
            if name not in NO_METRICS and not name.startswith("_")
            if name not in components
        },
        components=components,
        oracle_reward=_number(rollout.get("oracle_reward")),
        outside_range="reward_outside_range" in rollout,
        not_graded=not failed and rollout.get("failure_reason") is not None,
        player=name if isinstance(name := rollout.get(PLAYER), str) else None,
        name=episode_name(rollout, session=session) if isinstance(session, str) else "",
        difficulty=level if isinstance(level := rollout.get("difficulty"), str) else "",
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A finite float, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < 1e300 else None


def _count(value: Any) -> int | None:
    """An int of at least 0, else None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1e15 else None


# ---------------------------------------------------------------------- figures


def figures(rollouts: list[RolloutStats], highest: float = 1.0) -> list[Figure]:
    """The figures of rollouts, in the order in which they are shown.

    The mean reward has its standard error. Rows with several rollouts have pass@k and
    pass^k: the probabilities that one of k attempts passes, and that all of them do,
    see `passes`. People have pass@1 at least. The other figures are means
    over the rollouts, also of the reward's components and of the metrics of /verify.
    """
    graded = [rollout for rollout in rollouts if rollout.reward is not None]
    rows = {rollout.task for rollout in rollouts}
    shown = [("episodes", f"{len(rollouts):,}")]
    if len(rows) < len(rollouts):
        shown.append(("rows", f"{len(rows):,}"))
    if lost := len(rollouts) - len(graded):
        shown.append(("without a reward", f"{lost:,}"))
    if not_graded := sum(rollout.not_graded for rollout in rollouts):
        shown.append(("without a grade", f"{not_graded:,}"))
    if outside := sum(rollout.outside_range for rollout in rollouts):
        shown.append(("outside reward_range", f"{outside:,}"))
    if graded:
        mean, error = mean_reward(graded)
        text = f"{mean:.3f}" + (f" ± {error:.3f}" if error is not None else "")
        shown.append(("reward", text))
    shown += _means("reward: ", [rollout.components for rollout in graded])
    some, every = pass_at(graded, highest)
    if graded and not some and any(rollout.player for rollout in rollouts):
        some = {1: statistics.fmean(passes(one, highest) for one in graded)}
    for sign, means in (("@", some), ("^", every)):
        shown += [(f"pass{sign}{k}", f"{value:.3f}") for k, value in means.items()]
    signal = signal_of(rollouts, highest)
    if played := sum(map(len, signal[:3])):
        count = len(signal.teaching)
        text = f"{count} of {played} rows ({count / played:.0%})"
        shown.append(("with signal", text))
    if rollouts:
        for name in ("turns", "calls", "errors"):
            mean = statistics.fmean(getattr(rollout, name) for rollout in rollouts)
            shown.append((name if name == "turns" else f"tool {name}", f"{mean:.2f}"))
        cut = sum(rollout.out_of_turns for rollout in rollouts)
        shown.append(("out of turns", f"{cut} ({cut / len(rollouts):.0%})"))
    for name in ("input_tokens", "output_tokens"):
        counts = [getattr(rollout, name) for rollout in rollouts]
        counts = [count for count in counts if count is not None]
        # Only a model counts its tokens.
        if any(counts):
            shown.append((name.replace("_", " "), f"{statistics.fmean(counts):,.0f}"))
    return shown + _means("", [rollout.metrics for rollout in rollouts])


def _means(title: str, measured: list[dict[str, float]]) -> list[Figure]:
    """The mean of each name among the episodes that have it."""
    return [
        (
            title + name,
            f"{statistics.fmean(one[name] for one in measured if name in one):.3f}",
        )
        for name in dict.fromkeys(name for one in measured for name in one)
    ]


def mean_reward(graded: list[RolloutStats]) -> tuple[float, float | None]:
    """The mean reward, and its standard error if there are two rollouts.

    The repeats of a row are alike, so this is the error of a mean over rows, unless
    there is only one row.
    """
    rewards = _by_row(graded)
    if len(rewards) == 1:
        [only] = rewards.values()
        rewards = {number: [reward] for number, reward in enumerate(only)}
    count = sum(map(len, rewards.values()))
    mean = math.fsum(sum(of_row) for of_row in rewards.values()) / count
    rows = len(rewards)
    if rows < 2:
        return mean, None
    spread = math.fsum(
        sum(reward - mean for reward in of_row) ** 2 for of_row in rewards.values()
    )
    return mean, math.sqrt(spread * rows / (rows - 1)) / count


def passes(rollout: RolloutStats, highest: float = 1.0) -> bool:
    """Whether an attempt earns its row's `oracle_reward`, or the `highest` reward."""
    goal = highest
    if rollout.oracle_reward is not None:
        goal = min(goal, rollout.oracle_reward)
    return rollout.reward is not None and rollout.reward >= goal - 1e-9


def pass_at(
    graded: list[RolloutStats], highest: float = 1.0
) -> tuple[dict[int, float], dict[int, float]]:
    """pass@k for k = 1, 2, 4, ... up to the number of attempts that every row has, and
    pass^k for the same k, except 1, where they are equal.

    Both are {} if a row has only one attempt. An attempt passes if it earns its row's
    `oracle_reward`, or the `highest` reward. The estimators are unbiased: of n attempts
    with c passes, 1 - C(n - c, k) / C(n, k) and C(c, k) / C(n, k).
    """
    passed_by_row = defaultdict(list)
    for rollout in graded:
        if rollout.reward is not None:
            passed_by_row[rollout.task].append(passes(rollout, highest))
    attempts = [(len(passed), sum(passed)) for passed in passed_by_row.values()]
    most = min((n for n, _ in attempts), default=0)
    if most < 2:
        return {}, {}
    some, every = {}, {}
    for k in sorted({2**power for power in range(most.bit_length())} | {most}):
        one = [1 - math.comb(n - c, k) / math.comb(n, k) for n, c in attempts]
        some[k] = statistics.fmean(one)
        if k > 1:
            all_ = [math.comb(c, k) / math.comb(n, k) for n, c in attempts]
            every[k] = statistics.fmean(all_)
    return some, every


class Signal(NamedTuple):
    """Rows that were played more than once, by what GRPO learns from them.

    The advantages of a row's attempts are zero if all of them earn the same.
    """

    teaching: list[int]  # numbers of rows whose attempts earn different rewards
    solved: list[int]  # every attempt passes
    failed: list[int]  # no attempt passes, and all earn the same
    length: float | None  # correlation of rewards and output tokens, if both vary

    def notes(self) -> list[str]:
        """A sentence on each problem of the rows."""
        said = []
        for rows, text in (
            (self.solved, "all of them pass, and GRPO learns nothing"),
            (self.failed, "none passes, and GRPO learns nothing"),
        ):
            if rows:
                row = "row" if len(rows) == 1 else "rows"
                said.append(f"no attempt at {row} {_listed(rows)} differs: {text}")
        if self.length is not None and abs(self.length) >= LENGTH_COUNTS:
            which = "longer" if self.length > 0 else "shorter"
            said.append(
                f"{which} answers earn more (correlation {self.length:+.2f}): a policy "
                "may learn the length instead of the task"
            )
        return said


def signal_of(rollouts: list[RolloutStats], highest: float = 1.0) -> Signal:
    """The signal in rows with at least two attempts among `rollouts`."""
    by_row = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward is not None:
            by_row[rollout.task].append(rollout)
    teaching, solved, failed = list[int](), list[int](), list[int]()
    for task, attempts in sorted(by_row.items()):
        if len({attempt.reward for attempt in attempts}) > 1:
            teaching.append(task)
        elif len(attempts) > 1:
            (solved if passes(attempts[0], highest) else failed).append(task)
    measured = [
        (rollout.reward, rollout.output_tokens)
        for rollout in rollouts
        if rollout.reward is not None and rollout.output_tokens
    ]
    length = None
    if len(measured) >= FEWEST_LENGTHS:
        with contextlib.suppress(statistics.StatisticsError):  # all are equal
            length = statistics.correlation(*zip(*measured, strict=True))
    return Signal(teaching, solved, failed, length)


def differences(
    before: list[RolloutStats], after: list[RolloutStats], highest: float = 1.0
) -> list[Figure]:
    """What changed over the rows that both runs have; [] if no common row has rewards.

    First the change of the mean reward, in all rows and in those of each difficulty. Its
    standard error, and the interval that has the true change in 95 of 100 such
    comparisons, are computed from the rows' differences, so they do not grow if some rows
    are harder than others. Then the rows that turned: half of their attempts passed, and
    now fewer do, or the other way round.
    """
    first, second = _by_row(before), _by_row(after)
    common = [task for task in first if task in second]
    if not common:
        return []
    change = {
        task: statistics.fmean(second[task]) - statistics.fmean(first[task])
        for task in common
    }
    rows = "1 common row" if len(common) == 1 else f"{len(common):,} common rows"
    shown = [(f"reward on {rows}", _mean_change([*change.values()]))]
    level = {rollout.task: rollout.difficulty for rollout in before}
    levels = sorted({level[task] for task in common})
    for name in levels if len(levels) > 1 else []:
        of_level = [change[task] for task in common if level[task] == name]
        text = _mean_change(of_level)
        shown.append((f"  {name or 'no difficulty'}: {len(of_level):,}", text))
    passed, passes_now = _mostly_pass(before, highest), _mostly_pass(after, highest)
    for name, turned in (
        ("rows that pass now", passes_now - passed),
        ("rows that fail now", passed - passes_now),
    ):
        if numbers := sorted(turned.intersection(common)):
            shown.append((name, _listed(numbers)))
    return shown


def _mean_change(changes: list[float]) -> str:
    """The mean of changes, with its standard error and its interval of 95 %."""
    mean, count = statistics.fmean(changes), len(changes)
    text = f"{mean:+.3f}"
    if count > 1:
        error = statistics.stdev(changes) / math.sqrt(count)
        text += f" ± {error:.3f}"
        if count >= FEWEST_FOR_INTERVAL:
            half = _quantile_of_t(count - 1) * error
            text += f" (95 %: {mean - half:+.3f} to {mean + half:+.3f})"
    return text


def _quantile_of_t(freedom: int) -> float:
    """The 97.5 % quantile of Student's t, to 3 % from two degrees of freedom on.

    This is the expansion in Abramowitz and Stegun, 26.7.5.
    """
    z = statistics.NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


def _mostly_pass(rollouts: list[RolloutStats], highest: float) -> set[int]:
    """The rows of which at least half of the attempts pass."""
    passed = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward is not None:
            passed[rollout.task].append(passes(rollout, highest))
    return {task for task, each in passed.items() if statistics.fmean(each) >= 0.5}


def _listed(rows: list[int]) -> str:
    """Numbers of rows, from 1, as text: at most 20."""
    more = f" and {len(rows) - 20} more" if len(rows) > 20 else ""
    return ", ".join(str(row + 1) for row in rows[:20]) + more


def _by_row(rollouts: Iterable[RolloutStats]) -> dict[int, list[float]]:
    """The rewards of each row, without the rollouts that have none."""
    rewards = defaultdict(list)
    for rollout in rollouts:
        if rollout.reward is not None:
            rewards[rollout.task].append(rollout.reward)
    return rewards


def table(shown: list[Figure]) -> str:
    """Figures as lines of text, indented."""
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(f"  {name:{width}}  {text}" for name, text in shown)
