"""The rollout gate: the rewards of policies that bound a grader, over all rows."""

import json
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from .. import project
from ..episode.tasks import oracle_reward
from ..episode.types import Definitions, Row
from ..errors import GateError, NoOracleError, RolloutError
from ..project import GYM
from ..rollouts.client import Client
from ..rollouts.play import play
from ..rollouts.policies import fixed_policy
from ..rollouts.rows import row_name
from .manifests import is_deterministic, outdated_manifests
from .rows import counted, read_rows

ROWS_AT_A_TIME = 20
# So many rows are played a second time, to compare the outputs and the rewards.
ROWS_TWICE = 5


def rollout_gate(client: Client, path: Path) -> str:
    """Plays every row of `path` with each policy.

    Returns the gate's line. Raises GateError and RolloutError.
    """
    rows = read_rows(path)
    game = _Game(client, client.tools(), rows, path)
    seen = counted(len(rows), "row")
    game.check("noop", lambda row: 0.0)
    lacking = getattr(project.load_class(), "missing_requirement", lambda: None)
    if reason := lacking():
        return f"{seen}: noop earns 0.0 ({reason})"
    note = "" if game.repeats else "; not deterministic"
    game.check("garbage", lambda row: 0.0)
    try:
        game.check("oracle", oracle_reward)
    except NoOracleError as error:
        return f"{seen}: noop and nonsense earn 0.0 ({error}){note}"
    usual = all(oracle_reward(row) == 1 for row in rows)
    earned = "1.0" if usual else "what each row says"
    return f"{seen}: the oracle earns {earned}, noop and nonsense 0.0{note}"


class _Game:
    """The rows, and the server that plays them.

    Raises GateError if the manifest contradicts the class.
    """

    def __init__(
        self, client: Client, definitions: Definitions, rows: list[Row], path: Path
    ) -> None:
        self.client, self.definitions = client, definitions
        self.rows, self.path = rows, path
        self.repeats = is_deterministic()  # the same calls must do the same
        for manifest, _ in outdated_manifests():
            raise GateError(
                f"{manifest.relative_to(GYM)} does not say that the class is "
                f"{'' if self.repeats else 'not '}deterministic: "
                "`uv run python gates.py --write-tools` corrects it"
            )

    def check(self, policy: str, expected: Callable[[Row], float]) -> None:
        """Play all rows with a policy that must earn `expected(row)`.

        Raises GateError, and NoOracleError.
        """
        rows = self.rows
        with ThreadPool(min(ROWS_AT_A_TIME, len(rows))) as pool:
            # Several at a time, so that trouble with threads shows.
            results = pool.imap(lambda row: self._try(policy, row), rows)
            for number, result in enumerate(results, start=1):
                row, place = rows[number - 1], row_name(number, self.path)
                if isinstance(result, RolloutError):
                    raise GateError(f"{place}, policy {policy!r}: {result}")
                reward = result["reward"]
                if abs(reward - expected(row)) > 1e-9:
                    task = json.dumps(row["ground_truth"][0], ensure_ascii=False)
                    raise GateError(
                        f"{place}: the policy {policy!r} earns {reward}, "
                        f"not {expected(row)} (task: {task[:300]})"
                    )
                if number <= ROWS_TWICE and self.repeats:
                    calls = f"{place}: the same calls of the policy {policy!r}"
                    _compare(calls, result, self._play(policy, row))

    def _play(self, policy: str, row: Row) -> dict[str, Any]:
        return play(self.client, self.definitions, row, fixed_policy(policy), 2)

    def _try(self, policy: str, row: Row) -> dict[str, Any] | RolloutError:
        """The result of an episode, or the error that belongs to its row."""
        try:
            return self._play(policy, row)
        except NoOracleError:  # of all rows
            raise
        except RolloutError as error:
            return error


def _compare(calls: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Raise GateError if replaying the same calls changes an output or the reward.

    `calls` names the calls in the message.
    """
    outputs, replayed = (
        [item.get("output") for item in result["response"]["output"]]
        for result in (first, second)
    )
    for before, after in zip(outputs, replayed, strict=True):
        if before != after:
            raise GateError(
                f"{calls} were answered {before!r:.100}, then {after!r:.100}: let the task "
                "decide (a seed in it), or write `deterministic = False` into the class"
            )
    if first["reward"] != second["reward"]:
        raise GateError(
            f"{calls} earned {first['reward']}, then {second['reward']}: grade by the "
            "state alone, or write `deterministic = False` into the class"
        )
