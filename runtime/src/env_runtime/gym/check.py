"""The rollout gate under NeMo Gym's own servers, agent and collector."""

import tempfile
from pathlib import Path

from ..checks.project_files import server_tools
from ..checks.rewards import baseline, earned_by_oracle, reward_problem
from ..command_line import counted
from ..episode.types import Solution
from ..errors import NoOracleError, RolloutError
from ..evaluation.policies import solution_for
from ..evaluation.rows import load_rows, write_rows
from ..evaluation.scripted_model import numbered, scripted_model
from ..evaluation.stats import measure
from ..project import here
from .loop import collect
from .processes import log_file


def check(path: Path) -> str:
    """Check the rewards of the oracle and of noop under NeMo Gym.

    Plays the oracle in every other row. Returns the gate's line. Raises RolloutError if
    a reward is wrong, or if there are no rows.
    """
    rows, definitions, domain_class = (
        load_rows(path),
        server_tools(),
        here().load_class(),
    )
    if not rows:
        raise RolloutError(f"{path} has no rows")
    plans: list[Solution | None] = [None] * len(rows)
    why = ""
    for number, row in enumerate(rows):
        try:
            if number % 2 == 0:
                plans[number] = solution_for(row, definitions)
        except NoOracleError as error:
            why = str(error)
    scripts = [plan or Solution([]) for plan in plans]
    with tempfile.TemporaryDirectory() as folder, scripted_model(scripts) as model:
        played = Path(folder, "rows.jsonl")
        write_rows(played, numbered(rows))
        output = Path(folder, "rollouts.jsonl")
        rollouts = collect(
            "scripted", model.url, rows=played, output=output, trusted=True
        )
    cut = [measure(rollout).out_of_turns for rollout in rollouts]
    limit = "max_steps in configs/*_agent.yaml"
    for number, (plan, rollout) in enumerate(zip(plans, rollouts, strict=True)):
        policy, reward = "oracle" if plan else "noop", rollout["reward"]
        problem = reward_problem(domain_class, rows[number], policy, reward)
        if problem is not None:
            hint = f": it ran out of turns ({limit})" if cut[number] else ""
            if model.unnamed:
                hint += f"; the agent sent {counted(model.unnamed, 'request')} that named no row"
            raise RolloutError(
                f"row {number + 1} earns {reward} under NeMo Gym, {problem}{hint}; see "
                f"{log_file()}"
            )
    nothing = baseline(domain_class, rows)
    earned = f"the oracle earns {earned_by_oracle(domain_class, rows)}, noop {nothing}"
    if why:
        earned = f"noop earns {nothing} ({why})"
    notes = (
        f"; the model saw up to {model.images} images at once" if model.images else ""
    )
    if any(cut):
        notes += f"; {counted(sum(cut), 'rollout')} ran out of turns ({limit})"
    return f"{len(rows)} rows under NeMo Gym: {earned}{notes}"
