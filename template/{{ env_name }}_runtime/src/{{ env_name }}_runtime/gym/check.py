"""The rollout gate under NeMo Gym's own servers, agent and collector."""

import tempfile
from pathlib import Path

from ..episode.tasks import oracle_reward
from ..errors import NoOracleError, RolloutError
from ..gates.rows import server_tools
from ..project import ROWS
from ..rollouts.policies import solve
from ..rollouts.rows import load_rows, write_rows
from ..testing.scripted_model import scripted_model
from .loop import collect
from .processes import LOG


def check(path: Path = ROWS) -> str:
    """Check that NeMo Gym pays the oracle its reward, and 0.0 for doing nothing.

    Plays the oracle in every other row. Returns the gate's line, and raises RolloutError
    if a reward is another.
    """
    rows, definitions = load_rows(path), server_tools()
    plans, why = [], ""
    for number, row in enumerate(rows):
        try:
            plans.append(solve(row, definitions) if number % 2 == 0 else [])
        except NoOracleError as error:
            plans.append([])
            why = str(error)
        row["responses_create_params"]["metadata"] = {"row": str(number)}
    with tempfile.TemporaryDirectory() as folder, scripted_model(plans) as model:
        numbered = Path(folder, "rows.jsonl")
        write_rows(numbered, rows)
        output = Path(folder, "rollouts.jsonl")
        rollouts = collect(
            "scripted", model.url, rows=numbered, output=output, trusted=True
        )
    for number, (plan, rollout) in enumerate(zip(plans, rollouts, strict=True)):
        expected = oracle_reward(rows[number]) if plan else 0.0
        if abs(rollout["reward"] - expected) > 1e-9:
            raise RolloutError(
                f"row {number + 1} earns {rollout['reward']} under NeMo Gym, not "
                f"{expected}; see {LOG}"
            )
    earned = f"noop earns 0.0 ({why})" if why else "the oracle earns 1.0, noop 0.0"
    images = f"; the model saw {model.images} images" if model.images else ""
    return f"{len(rows)} rows under NeMo Gym: {earned}{images}"
