"""Play task rows against a running server: seed, ask the policy, call tools, verify.

    uv run python rollout.py [--policy llm|oracle|noop] [--rows FILE] [--repeats K]
                             [--output FILE]

llm     the model MODEL of OpenAI, or of the compatible endpoint OPENAI_BASE_URL, with
        OPENAI_API_KEY; an episode ends after MAX_TURNS of its answers
oracle  the environment's own solution of each row
noop    no tool call at all

Prints the reward of each episode, from 0 to 1, then what they come to: means over the
episodes, the mean reward with its standard error and, if rows are repeated, pass@k.
view.py shows the episodes of an --output file. Environment variables of the server:
ENV_URL (http://127.0.0.1:11000), and API_TOKEN if it wants one. Exit status: 1 if an
episode could not be played.
"""

import argparse
import contextlib
import json
import sys
from itertools import product
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from plumbing.client import Client
from plumbing.figures import figures, mean_reward, measure, table
from plumbing.models import LLMPolicy, sampled
from plumbing.policies import NoOracle, Policy, fixed_policy
from plumbing.records import (
    ROWS,
    Item,
    RolloutError,
    Row,
    Tools,
    as_response,
    as_rollout,
    load_rows,
    number_of_turns,
    positive,
    rollouts_in,
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
    client, path = Client(), options.output
    rows = dict(enumerate(load_rows(options.rows)))
    row_of = sampled(rows, options.temperature, options.seed)
    known = rollouts_in(path, row_of, policy.name) if path else {}
    wanted = list(product(list(rows)[: options.limit], range(options.repeats)))
    episodes = [known[one] for one in wanted if one in known]
    todo = [one for one in wanted if one not in known]
    things = "rows" if options.repeats == 1 else "episodes"
    if episodes:
        done = f"{len(episodes)} of {len(wanted)} {things}"
        print(f"{done} are in {path}", file=sys.stderr)
    tools = client.tools()
    failed = 0

    def episode(which: tuple[int, int]) -> tuple[str, dict[str, Any] | RolloutError]:
        task, repeat = which
        name = f"row {task + 1}"
        if options.repeats > 1:
            name += f", repeat {repeat + 1}"
        try:
            row = row_of(task, repeat)
            result = play(client, tools, row, policy, max_turns)
            return name, as_rollout(task, repeat, row, result)
        except NoOracle:  # no other row would have one
            raise
        except RolloutError as error:
            return name, error

    # Daemon threads: Ctrl-C does not wait for them.
    with ThreadPool(min(options.concurrency, len(todo) or 1)) as pool:
        for name, rollout in pool.imap_unordered(episode, todo):
            if isinstance(rollout, RolloutError):
                failed += 1
                print(f"{name}: failed: {rollout}", file=sys.stderr)
                continue
            episodes.append(measure(rollout))
            if path:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rollout) + "\n")
            note = f" (out of turns: {max_turns})" if rollout["out_of_turns"] else ""
            print(f"{name}: reward {rollout['reward']}{note}", flush=True)
    if episodes:
        print(table(figures(episodes)))
    if episodes or not failed:
        print(f"mean reward: {mean_reward(episodes)[0] if episodes else 0.0}")
    if failed:
        print(f"rollout.py: {failed} of {len(todo)} {things} failed", file=sys.stderr)
    return 1 if failed else 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--policy", choices=["llm", "oracle", "noop"], default="llm")
    add("--rows", type=Path, default=ROWS, metavar="FILE", help="data/example.jsonl")
    add("--limit", type=positive, metavar="N", help="play only the first N rows")
    add("--output", type=Path, metavar="FILE", help="add the rollouts to this .jsonl")
    add("--repeats", type=positive, default=1, metavar="K", help="episodes of each row")
    text = "episodes at a time"
    add("--concurrency", type=positive, default=1, metavar="N", help=text)
    add("--api", choices=["responses", "chat"], default="responses", help="of the llm")
    text = "of the llm, in place of the row's own"
    add("--temperature", type=float, metavar="T", help=text)
    text = "of the llm with --api chat, plus the repeat from 0; Responses has no seed"
    add("--seed", type=int, metavar="N", help=text)
    options = parser.parse_args(arguments)
    samples = options.temperature is not None or options.seed is not None
    if samples and options.policy != "llm":
        parser.error("--temperature and --seed are for --policy llm: no other samples")
    if options.seed is not None and options.api != "chat":
        parser.error("--seed needs --api chat: the Responses API has no seed")
    try:
        return run(options)
    except (RolloutError, OSError) as error:
        print(f"rollout.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
