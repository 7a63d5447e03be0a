"""The rollout gate: the rewards of baseline policies on all rows."""

import json
from collections.abc import Iterable
from itertools import groupby, pairwise, zip_longest
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from ..command_line import counted
from ..episode.declaration import declared
from ..episode.tasks import (
    has_oracle,
    steps_of,
    task_of,
)
from ..episode.types import REPLY, Definitions, Row, Solution, by_model
from ..errors import GateError, NoOracleError, RolloutError, service_hint
from ..evaluation.client import Client
from ..evaluation.observations import first_observation, image_problem, prompt_problem
from ..evaluation.play import play
from ..evaluation.policies import (
    FIXED_TURNS,
    NONSENSE,
    PLANS,
    Turn,
    fixed_policy,
    solution_for,
)
from ..evaluation.rows import about_task, read_rows, row_name, shown
from ..evaluation.stats import is_error
from ..evaluation.trajectory import Item, message
from ..models.client import models_not_set, without_answers
from ..project import here, of_class
from .manifests import outdated_manifests
from .rewards import baseline, earned_by_oracle, estimate_note, honest, reward_problem
from .runner import doing
from .smoke import naming_skeleton
from .variety import Variety

ROWS_AT_A_TIME = 20
# The number of rows that are played twice, to compare the outputs and the rewards.
ROWS_TWICE = 5


def rollout_gate(client: Client, path: Path) -> str:
    """Play every row of `path` with each policy.

    Returns the gate's line, and its notes. Raises GateError and RolloutError.
    """
    domain_class = here().load_class()
    rows = read_rows(domain_class, path)
    game = _Game(domain_class, client, rows, path)
    seen = counted(len(rows), "row")
    if reason := declared(domain_class).missing_requirement():
        return f"{seen}, not played ({reason})"
    nothing = baseline(domain_class, rows)
    game.check("noop")
    note = "" if game.repeats else "; not deterministic"
    note += _stand_ins(domain_class)
    if game.repeats:
        note += game.check_prompts(domain_class)
    game.check("garbage")
    max_turns = game.project.table()["max_turns"]
    note += game.check_end(max_turns)
    try:
        game.check_turns(max_turns)
        game.check("oracle")
    except NoOracleError as error:
        highest = declared(domain_class).highest_reward
        return (
            f"{seen}: noop and nonsense earn {nothing} ({error}){note}"
            f"{game.variety.note_line()}\nwithout an oracle, nothing shows that {highest} can "
            "be earned, or that no episode earns more; the attack tests that need one "
            f"are skipped, and `uv run pytest` counts them{estimate_note(domain_class)}"
        )
    variety = game.variety.note_line() + estimate_note(domain_class)
    if without_answers(domain_class):
        return f"{seen}: played by the oracle, noop and nonsense{note}{variety}"
    solved = [row for _, row in game.solved()]
    if len(solved) < len(rows):
        variety += f"\n{len(rows) - len(solved)} of the rows have no oracle"
    most = earned_by_oracle(domain_class, solved)
    line = f"{seen}: the oracle earns {most}, noop and nonsense {nothing}{note}"
    return line + variety


def _stand_ins(domain_class: type) -> str:
    """The end of the gate's line: which models it did not ask, and what that means."""
    keys = " and ".join(
        f"{name.upper()}_MODEL" for name in models_not_set(domain_class)
    )
    if without_answers(domain_class):
        return (
            f"; no grade was checked: set {keys}, or write stand_in(model, prompt) into "
            "the class"
        )
    return f"; stand_in() answers in place of {keys}" if keys else ""


class _Game:
    """The rows, and the server that plays them.

    Raises GateError if a manifest contradicts the class.
    """

    def __init__(
        self, domain_class: type, client: Client, rows: list[Row], path: Path
    ) -> None:
        self.domain_class, self.project = domain_class, of_class(domain_class)
        self.client = client
        self.rows, self.path = rows, path
        self.variety = Variety(self.project, rows, path)
        self.repeats = declared(
            domain_class
        ).deterministic  # the same calls must do the same
        for manifest, problem, _ in outdated_manifests(domain_class):
            raise GateError(
                f"{shown(manifest)} {problem}: "
                "`uv run python gates.py --write-tools` corrects it"
            )

    def solved(self) -> list[tuple[int, Row]]:
        """The rows that the oracle plays, and their numbers.

        If a class has no oracle(task), only some rows may have an `oracle`.
        """
        numbered = list(enumerate(self.rows, start=1))
        return [
            (number, row)
            for number, row in numbered
            if has_oracle(self.domain_class, row)
        ] or numbered

    def check(self, policy: str) -> None:
        """Play all rows with a policy, and check its rewards.

        Raises GateError and NoOracleError.
        """
        every = policy != "oracle"
        numbered = list(enumerate(self.rows, start=1)) if every else self.solved()
        rows = [row for _, row in numbered]
        doing(f"{policy} plays {counted(len(rows), 'row')}")
        with ThreadPool(min(ROWS_AT_A_TIME, len(rows))) as pool:
            # Several rows at a time show problems with threads.
            results = pool.imap(lambda row: self._try(policy, row), rows)
            for (number, row), result in zip(numbered, results, strict=True):
                doing(f"{policy} has played {number} of {len(self.rows)} rows")
                place = row_name(number, self.path)
                if isinstance(result, RolloutError):
                    note = about_task(self.domain_class, row)
                    note += service_hint(str(result))
                    raise GateError(f"{place}, policy {policy!r}: {result}{note}")
                with naming_skeleton(self.domain_class, row):
                    self._check_reward(place, policy, row, result)
                    if policy == "garbage":
                        self.variety.note_outcome(result)
                    if number <= ROWS_TWICE and self.repeats:
                        calls = f"{place}: the same calls of the policy {policy!r}"
                        _compare(calls, result, self._play(policy, row))

    def _check_reward(
        self, place: str, policy: str, row: Row, result: dict[str, Any]
    ) -> None:
        reward = result["reward"]
        problem = reward_problem(self.domain_class, row, policy, reward)
        if problem is None:
            return
        text = f"{place}: the policy {policy!r} earns {reward}, {problem}"
        text += honest(policy, reward)
        if policy == "noop":
            text += ". Leave the row out if its task is solved from the start"
        plan = PLANS[policy](row, self.client.tools_in(row))
        calls = steps_of(self.domain_class, plan)
        did = made_calls(calls, result["response"]["output"], policy == "oracle")
        if (
            declared(self.domain_class).takes_answer
            and not declared(self.domain_class).replies
        ):
            answer = (
                f"answered {plan.answer!r:.200}" if plan.answer else "did not answer"
            )
            did += f", and {answer}"
        task = json.dumps(task_of(row), ensure_ascii=False)
        raise GateError(f"{text} ({did}; task: {task[:300]})")

    def check_prompts(self, domain_class: type) -> str:
        """A note on the first picture that is not drawn now; "" without one.

        Raises GateError if a row's prompt lacks what the policy must see first.
        """
        note = ""
        if not declared(domain_class).has_observation:
            return note
        for number, row in enumerate(self.rows, start=1):
            place = row_name(number, self.path)
            with naming_skeleton(domain_class, row):
                try:
                    observation = first_observation(domain_class, row)
                except RolloutError as error:
                    raise GateError(f"{place}: {error}") from error
                self.variety.note("first observation", observation)
                if problem := prompt_problem(domain_class, row, observation):
                    raise GateError(f"{place}: {problem}")
            if not note and (problem := image_problem(domain_class, row, observation)):
                note = f"\n{place}: {problem}"
        return note

    def check_turns(self, max_turns: int) -> None:
        """Raise GateError if a row's solution, with a call per turn, is too long.

        Raises NoOracleError if the class has no oracle.
        """
        longest, problem = max_turns, ""
        solved = self.solved()
        for number, row in solved:
            place = row_name(number, self.path)
            with naming_skeleton(self.domain_class, row):
                try:
                    solution = solution_for(row, self.client.tools_in(row))
                except NoOracleError:  # it would be the same for every row
                    raise
                except RolloutError as error:
                    raise GateError(f"{place}, policy 'oracle': {error}") from error
            if len(solved) == len(self.rows):
                self.variety.note("solution", list(solution))
            needed = self._turns(solution)
            if len(needed) > longest:
                longest = len(needed)
                problem = (
                    f"{place}: a model that makes one call a turn needs {longest} turns "
                    f"to solve it ({_listed(needed)}), but max_turns is {max_turns}"
                )
        if problem:
            raise GateError(
                f"{problem}. Commit your work, then raise it in all files: `uvx copier "
                "update --trust --defaults --vcs-ref=:current: -d "
                f"max_turns={longest}` in {self.project.root}"
            )

    def _turns(self, solution: Solution) -> list[str]:
        """The kinds of a solution's turns, with one call each.

        Calls of a row's tools are one turn: nothing that they return is needed.
        """
        turns = ["message" if tool == REPLY else "call" for tool, _ in solution.calls]
        if declared(self.domain_class).has_row_tools:
            turns = [kind for kind, _ in groupby(turns)]
        if solution.answer and not declared(self.domain_class).replies:
            turns.append("final answer")
        return turns

    def check_end(self, max_turns: int) -> str:
        """A note if reply() never ends an episode whose policy only talks; else ""."""
        if not declared(self.domain_class).replies:
            return ""
        row, talker = self.rows[0], _Talker()
        place, tools = row_name(1, self.path), self.client.tools_in(row)
        with naming_skeleton(self.domain_class, row):
            try:
                result = play(self.client, tools, row, talker, max_turns)
            except RolloutError as error:
                raise GateError(f"{place}, {talker.name}: {error}") from error
            self._check_reward(place, "garbage", row, result)
        if not result["out_of_turns"]:
            return ""
        return (
            f"\nreply() has not ended row 1 after {max_turns} messages of nonsense: only "
            "max_turns ends such an episode"
        )

    def _play(self, policy: str, row: Row) -> dict[str, Any]:
        fixed = fixed_policy(policy)
        return play(self.client, self.client.tools_in(row), row, fixed, FIXED_TURNS)

    def _try(self, policy: str, row: Row) -> dict[str, Any] | RolloutError:
        """The result of an episode, or the error that belongs to its row."""
        try:
            return self._play(policy, row)
        except NoOracleError:  # it would be the same for every row
            raise
        except RolloutError as error:
            return error


class _Talker:
    """A policy that only talks, and never ends the episode."""

    name = "a policy that only talks"

    def turn(self, row: Row, definitions: Definitions, output: list[Item]) -> Turn:
        return Turn([message(NONSENSE)])


def _listed(turns: list[str]) -> str:
    """["call", "call", "message"] as "2 calls and 1 message"."""
    kinds = dict.fromkeys(turns)
    texts = [counted(turns.count(kind), kind) for kind in kinds]
    return " and ".join(texts).replace("1 final", "the final")


def made_calls(
    calls: Iterable[tuple[str, dict[str, Any]]],
    items: list[dict[str, Any]],
    failed: bool = False,
) -> str:
    """A policy's calls, and the output of the last one, for a message.

    With `failed`, the first call that failed is quoted, too. `items` is the
    trajectory's output. Long lists are cut in the middle.
    """
    made = [
        repr(sent["answer"]) if tool == REPLY else f"{tool}({_arguments(sent)})"
        for tool, sent in calls
    ]
    if not made:
        return "it called nothing"
    text = ", ".join(made)
    if len(text) > 300:
        text = f"{text[:150]} ... {text[-150:]}"
    outputs = [item["output"] for item in items if "output" in item]
    returned = ""
    if failed and (failure := _first_failure(items)):
        returned = f"; {failure}"
    if outputs and outputs[-1][:200] not in returned:
        returned += f"; the last call returned {outputs[-1]:.200}"
    return f"it called {text}{returned}"


def _first_failure(items: list[dict[str, Any]]) -> str:
    """The first call of a trajectory that was answered with an error, and the error."""
    calls = {item["call_id"]: item for item in items if item.get("name")}
    for item in items:
        if "output" in item and is_error(item["output"]):
            call = calls[item["call_id"]]
            made = f"{call['name']}({_arguments(json.loads(call['arguments']))})"
            return f"{made:.150} failed: {item['output']:.200}"
    return ""


def _arguments(sent: dict[str, Any]) -> str:
    return ", ".join(
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in sent.items()
    )


def _answers(items: list[dict[str, Any]]) -> list[Any]:
    """The outputs of the tools, and the replies to the policy's messages.

    A message after an output shows its image: it names the call by a random identifier.
    """
    return [
        item.get("output", item.get("content"))
        for before, item in pairwise(items)
        if "output" in item or (by_model(before) and not by_model(item))
    ]


def _compare(calls: str, first: dict[str, Any], second: dict[str, Any]) -> None:
    """Raise GateError if replaying the same calls changes an output or the reward.

    `calls` names the calls in the message.
    """
    answers = (_answers(result["response"]["output"]) for result in (first, second))
    for before, after in zip_longest(*answers):
        if before != after:
            raise GateError(
                f"{calls} were answered {before!r:.100}, then {after!r:.100}: seed "
                "all randomness from the task, or write `deterministic = False` into the class"
            )
    if first["reward"] != second["reward"]:
        raise GateError(
            f"{calls} earned {first['reward']}, then {second['reward']}: grade by the "
            "state alone, or write `deterministic = False` into the class"
        )
