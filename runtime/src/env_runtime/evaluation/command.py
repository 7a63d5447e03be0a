"""The command of nemo_gym/rollout.py, and its output files, which a later run resumes."""

import argparse
import contextlib
import fcntl
import io
import json
import os
import re
import sys
from collections.abc import Callable, Generator
from itertools import product
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from ..command_line import counted, exit_status, new_parser, positive
from ..episode.types import Row
from ..errors import NoOracleError, OutsideRangeError, RolloutError
from ..project import here
from .client import Client, Play
from .llm import LLMPolicy, sampled
from .policies import FIXED_TURNS, OwnPolicy, Policy, fixed_policy
from .rows import load_rows, shown, write_rows
from .stats import (
    REPEAT,
    TASK,
    RolloutStats,
    figures,
    mean_reward,
    measure,
    signal_of,
    table,
)

FIXED = ["oracle", "noop"]


def main(
    play: Play, description: str | None, arguments: list[str] | None = None
) -> int:
    """Play rows with `play`, and print their rewards. Returns the exit status."""
    parser = new_parser(description)
    add = parser.add_argument
    text = "llm, oracle, noop, or a Policy of yours"
    add("--policy", default="llm", metavar="NAME", type=_policy_name, help=text)
    add(
        "--rows",
        type=Path,
        default=here().rows,
        metavar="FILE",
        help="data/example.jsonl",
    )
    add("--limit", type=positive, metavar="N", help="play only the first N rows")
    add("--output", type=Path, metavar="FILE", help="add the rollouts to this .jsonl")
    add("--repeats", type=positive, default=1, metavar="K", help="episodes of each row")
    text = "episodes at a time"
    add("--concurrency", type=positive, default=1, metavar="N", help=text)
    text = "the API of the model (responses)"
    add("--api", choices=["responses", "chat"], default="responses", help=text)
    text = "the temperature of the model, instead of the row's"
    add("--temperature", type=float, metavar="T", help=text)
    text = "the seed of a row's first repeat, for --api chat; each repeat adds 1"
    add("--seed", type=int, metavar="N", help=text)
    text = "write the rows whose attempts earn different rewards to this .jsonl"
    add("--write-signal", type=Path, metavar="FILE", help=text)
    options = parser.parse_args(arguments)
    if options.write_signal and options.repeats < 2:
        parser.error("--write-signal needs --repeats 2, or more")
    samples = options.temperature is not None or options.seed is not None
    if samples and options.policy != "llm":
        parser.error("--temperature and --seed are only for --policy llm")
    if options.seed is not None and options.api != "chat":
        parser.error("--seed needs --api chat: the Responses API has no seed")
    return exit_status("rollout.py", lambda: run(play, options))


def _policy_name(text: str) -> str:
    """`llm`, the name of a fixed policy, or `module:Class`."""
    if text in ("llm", *FIXED) or re.fullmatch(r"[\w.]+:\w+", text):
        return text
    names = ", ".join(["llm", *FIXED])
    raise argparse.ArgumentTypeError(
        f"no policy {text!r}; there are {names}, and MODULE:CLASS, such as greedy:Greedy"
    )


def _policy(options: argparse.Namespace) -> Policy:
    """The policy that plays. Raises RolloutError if it cannot be made."""
    if options.policy in FIXED:
        return fixed_policy(options.policy)
    if options.policy == "llm":
        return LLMPolicy(options.api)
    return OwnPolicy(options.policy)


def run(play: Play, options: argparse.Namespace) -> int:
    """Play the episodes that the output file lacks. Returns the exit status.

    Raises RolloutError if nothing can be played, and SettingError.
    """
    if options.output is None:
        return _run(play, options)
    with only_writer(options.output):
        return _run(play, options)


def _run(play: Play, options: argparse.Namespace) -> int:
    fixed = options.policy in FIXED
    policy = _policy(options)
    max_turns = FIXED_TURNS if fixed else here().number_of_turns()
    client, output = Client(), options.output
    rows = dict(enumerate(load_rows(options.rows)))
    if not rows:
        raise RolloutError(f"{shown(options.rows)} has no rows")
    row_of = sampled(rows, options.temperature, options.seed)
    finished = rollouts_in(output, row_of, policy.name) if output else {}
    keys = list(product(list(rows)[: options.limit], range(options.repeats)))
    rollouts = [finished[key] for key in keys if key in finished]
    to_play = [key for key in keys if key not in finished]
    things = "rows" if options.repeats == 1 else "episodes"
    if rollouts:
        done = f"{len(rollouts)} of {len(keys)} {things}"
        print(f"{done} are in {output}", file=sys.stderr)
    client.tools()  # raises RolloutError if no server answers

    def episode(key: tuple[int, int]) -> tuple[str, dict[str, Any] | RolloutError]:
        """The episode's name in messages, and its rollout or the error."""
        task, repeat = key
        name = f"row {task + 1}"
        if options.repeats > 1:
            name += f", repeat {repeat + 1}"
        try:
            row = row_of(task, repeat)
            result = play(client, client.tools_in(row), row, policy, max_turns)
            return name, as_rollout(task, repeat, row, result)
        except NoOracleError:  # it would be the same for every other row
            raise
        except RolloutError as error:
            return name, error

    failed, outside = 0, list[float]()
    # Daemon threads: Ctrl-C does not wait for them.
    with ThreadPool(min(options.concurrency, len(to_play) or 1)) as pool:
        for name, rollout in pool.imap_unordered(episode, to_play):
            if isinstance(rollout, RolloutError):
                failed += 1
                if isinstance(rollout, OutsideRangeError):
                    outside.append(rollout.reward)
                print(f"{name}: failed: {rollout}", file=sys.stderr)
                continue
            rollouts.append(measure(rollout))
            if output:
                append_rollout(output, rollout)
            note = f" (out of turns: {max_turns})" if rollout["out_of_turns"] else ""
            print(f"{name}: reward {rollout['reward']}{note}", flush=True)
    if rollouts:
        print(table(figures(rollouts, client.reward_range()[1])))
        signal = signal_of(rollouts, client.reward_range()[1])
        for note in [] if fixed else signal.notes():
            print(f"note: {note}", file=sys.stderr)
        if options.write_signal:
            kept = [rows[task] for task in signal.teaching]
            write_rows(options.write_signal, kept)
            saved = f"{options.write_signal}: {counted(len(kept), 'row')}"
            print(f"{saved} with signal", file=sys.stderr)
        print(f"mean reward: {mean_reward(rollouts)[0]}")
    if failed:
        print(
            f"rollout.py: {failed} of {len(to_play)} {things} failed", file=sys.stderr
        )
    if outside:
        low, high = client.reward_range()
        print(
            f"rollout.py: {len(outside)} of {len(to_play)} {things} earned rewards from "
            f"{min(outside):g} to {max(outside):g}, outside the class's reward_range "
            f"({low:g}, {high:g}): correct it, or no policy learns from such an episode",
            file=sys.stderr,
        )
    return 1 if failed else 0


# The start of each line of an output file.
START = ('{"' + TASK + '": ').encode()


@contextlib.contextmanager
def only_writer(path: Path) -> Generator[None]:
    """Lock an output file. It is made, with its folders, and removed if it stays empty.

    Raises RolloutError if another process has the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    made = not path.exists()
    with path.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RolloutError(
                f"another rollout.py or play.py writes to {path}: wait until it ends, or "
                "name another file with --output"
            ) from None
        try:
            yield
        finally:
            if made and os.fstat(file.fileno()).st_size == 0:
                path.unlink(missing_ok=True)


def rollouts_in(
    path: Path, row_of: Callable[[int, int], Row], policy: str
) -> dict[tuple[int, int], RolloutStats]:
    """The rollouts in an output file by task and repeat; cuts off a half-written line.

    `row_of(task, repeat)` returns the row that the policy plays, and raises LookupError
    if there is none. Raises RolloutError if the file holds anything but rollouts of
    these rows by this policy: other rewards would count as this policy's.
    """
    finished: dict[tuple[int, int], RolloutStats] = {}
    size, last = 0, b""
    with path.open("rb") if path.is_file() else io.BytesIO() as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                last = line
                break
            size += len(line)
            try:
                rollout = json.loads(line)
                key = rollout[TASK], rollout[REPEAT]
                twice = key in finished
                same = rollout["response"]["model"] == policy
                same &= row_of(*key).items() <= rollout.items()
                finished[key] = measure(rollout)
                same &= finished[key].reward is not None
            except (ValueError, LookupError, TypeError, RecursionError):
                same, twice = False, False
            if not same:
                raise RolloutError(
                    f"{path}, line {number}, is not a rollout of {policy} on these "
                    "rows, temperature and seed as they are now: name another file "
                    "with --output"
                )
            if twice:
                raise RolloutError(
                    f"{path}, line {number}, is a second rollout of row {key[0] + 1}, "
                    f"repeat {key[1] + 1}: remove it, or name another file with --output"
                )
    if last:
        if not last.startswith(START[: len(last)]):
            raise RolloutError(
                f"{path} holds no rollouts: name another file with --output"
            )
        os.truncate(path, size)
    return finished


def as_rollout(
    task: int, repeat: int, row: Row, result: dict[str, Any]
) -> dict[str, Any]:
    """An episode as NeMo Gym's rollout files have it, with the dataset's row in it."""
    ids = {TASK: task, REPEAT: repeat}
    graded = {key: result[key] for key in ("response", "reward")}
    agent = {"name": "rollout.py"}
    return {**ids, "agent_ref": agent, **result, **row, **ids, **graded}


def append_rollout(path: Path, rollout: dict[str, Any]) -> None:
    """Add a line to an output file."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(rollout) + "\n")
