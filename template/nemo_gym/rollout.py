"""Play task rows against a running server: seed, ask the policy, call tools, verify.

    uv run python rollout.py [--policy llm|oracle|noop] [--rows FILE] [--output FILE]

llm     the model MODEL of OpenAI, or of the compatible endpoint OPENAI_BASE_URL, with
        OPENAI_API_KEY; an episode ends after MAX_TURNS of its answers
oracle  the environment's own solution of each row
noop    no tool call at all

Prints the reward of each row, from 0 to 1, and their mean. Environment variables of
the server: ENV_URL (http://127.0.0.1:11000), and API_TOKEN if it wants one. Exit
status: 1 if a row could not be played.
"""

import argparse
import contextlib
import os
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from plumbing.client import Client
from plumbing.models import LLMPolicy
from plumbing.policies import NoOracle, Policy, fixed_policy
from plumbing.records import (
    ROWS,
    Item,
    RolloutError,
    Row,
    Tools,
    as_response,
    load_rows,
    record,
    rollouts_in,
    settings,
)


def play(
    client: Client, tools: Tools, row: Row, policy: Policy, max_turns: int
) -> dict[str, Any]:
    """One episode: the answer of /verify, with its `reward` and the `response`.

    Ends when the policy calls no tool, or after `max_turns` turns; `out_of_turns` says
    which. Raises RolloutError if the server or the model fails: there is no reward then.
    """
    session = client.session()
    session.post("/seed_session", row)
    output: list[Item] = []  # the trajectory: what the policy did, and what it saw
    usage = {"input_tokens": 0, "output_tokens": 0}
    reason, out_of_turns = None, True
    try:
        for _ in range(max_turns):
            turn = policy.turn(row, tools, output)
            output += turn.items
            usage["input_tokens"] += turn.input_tokens
            usage["output_tokens"] += turn.output_tokens
            reason = turn.incomplete_reason
            if reason or not turn.calls:
                out_of_turns = False
                break
            output += session.call_tools(tools, turn.calls)
    except RolloutError:
        with contextlib.suppress(RolloutError):
            session.post("/close_session", {})
        raise
    response = as_response(
        policy.name, tools, output, incomplete_reason=reason, **usage
    )
    answer = session.post("/verify", {**row, "response": response})
    if answer.get("mask_sample"):
        raise RolloutError(f"the environment failed: {answer.get('failure_reason')}")
    reward = answer.get("reward")
    if not isinstance(reward, int | float) or not 0 <= reward <= 1:
        raise RolloutError(f"/verify must pay from 0 to 1, got the reward {reward!r}")
    return {"response": response, "out_of_turns": out_of_turns, **answer}


def run(options: argparse.Namespace) -> int:
    """What the command does. Returns its exit status, raises RolloutError."""
    llm = options.policy == "llm"
    policy = LLMPolicy(options.api) if llm else fixed_policy(options.policy)
    # A fixed policy makes all its calls in one turn, and ends in the next.
    max_turns = number_of_turns() if llm else 2
    client, rows, path = (
        Client(),
        dict(enumerate(load_rows(options.rows))),
        options.output,
    )
    known = rollouts_in(path, rows, policy.name) if path else {}
    wanted = list(rows)[: options.limit]
    rewards = [known[task] for task in wanted if task in known]
    todo = [task for task in wanted if task not in known]
    if rewards:
        print(f"{len(rewards)} of {len(wanted)} rows are in {path}", file=sys.stderr)
    tools = client.tools()
    failed = 0

    def episode(task: int) -> tuple[int, dict[str, Any] | RolloutError]:
        try:
            return task, play(client, tools, rows[task], policy, max_turns)
        except NoOracle:  # no other row would have one
            raise
        except RolloutError as error:
            return task, error

    # Daemon threads: Ctrl-C does not wait for them.
    with ThreadPool(min(options.concurrency, len(todo) or 1)) as pool:
        for task, result in pool.imap_unordered(episode, todo):
            if isinstance(result, RolloutError):
                failed += 1
                print(f"row {task + 1}: failed: {result}", file=sys.stderr)
                continue
            rewards.append(result["reward"])
            note = f" (out of turns: {max_turns})" if result["out_of_turns"] else ""
            print(f"row {task + 1}: reward {result['reward']}{note}", flush=True)
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    file.write(record(task, rows[task], result))
    if rewards or not failed:
        print(f"mean reward: {sum(rewards) / len(rewards) if rewards else 0.0}")
    if failed:
        print(f"rollout.py: {failed} of {len(todo)} rows failed", file=sys.stderr)
    return 1 if failed else 0


def number_of_turns() -> int:
    """MAX_TURNS, else max_turns of pyproject.toml. Raises RolloutError."""
    text = os.environ.get("MAX_TURNS") or str(settings()["max_turns"])
    try:
        return positive(text)
    except argparse.ArgumentTypeError as error:
        raise RolloutError(f"MAX_TURNS {error}") from None


def positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"must be a positive integer, got {text!r}")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--policy", choices=["llm", "oracle", "noop"], default="llm")
    add("--rows", type=Path, default=ROWS, metavar="FILE", help="data/example.jsonl")
    add("--limit", type=positive, metavar="N", help="play only the first N rows")
    add("--output", type=Path, metavar="FILE", help="add the rollouts to this .jsonl")
    add("--concurrency", type=positive, default=1, metavar="N", help="rows at a time")
    add("--api", choices=["responses", "chat"], default="responses", help="of the llm")
    options = parser.parse_args(arguments)
    try:
        return run(options)
    except (RolloutError, OSError) as error:
        print(f"rollout.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
