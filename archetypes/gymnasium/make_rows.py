"""Make rows of episodes for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite. Each prompt ends with
the first observation.

This file is yours: change what options() and tasks() yield.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

from env_runtime.gymnasium import facts_of, rules
from env_runtime.rows import (
    Example,
    baseline_reward,
    call_everything,
    main,
    server_tools,
)
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from my_env import MyEnv as EnvironmentClass

EXAMPLES = 20  # number of rows in data/example.jsonl
INSTRUCTIONS = (
    "Call `step` with one action at a time until the episode is over. An episode that "
    "you leave before its end earns the least."
)

ID = facts_of(EnvironmentClass).id


def options(rng: random.Random) -> dict[str, Any]:
    """Draw the options of a task for gymnasium.make(): here, a frozen lake."""
    if ID != "FrozenLake-v1":
        return {}
    size, slippery = rng.choice([(4, False), (6, False), (8, False), (4, True)])
    desc = generate_random_map(size=size, seed=rng.randrange(10**6))
    return {"desc": desc, "is_slippery": slippery}


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty, rewards), without end."""
    about = rules(EnvironmentClass)
    while True:
        chosen = options(rng)
        task = {"id": ID, "seed": rng.randrange(10**6), "options": chosen}
        said = [f"{key} is {value}." for key, value in chosen.items() if key != "desc"]
        text = "\n\n".join([about, *said, INSTRUCTIONS])
        if not hasattr(EnvironmentClass, "oracle"):
            yield Example(text, task, "medium", baseline_reward=chance(task))
            continue
        calls = EnvironmentClass.oracle(task)
        reward = earned(task, calls)
        if reward > EnvironmentClass.reward_range[0]:  # slippery ice may spoil it
            level = (
                "easy" if len(calls) < 8 else "medium" if len(calls) < 13 else "hard"
            )
            yield Example(text, task, level, reward, chance(task))


def earned(task: dict[str, Any], calls: list[tuple[str, dict[str, Any]]]) -> float:
    """The reward of an episode with these calls."""
    episode = EnvironmentClass(task)
    try:
        for tool, arguments in calls:
            getattr(episode, tool)(**arguments)
    except ValueError:  # the episode is over
        pass
    finally:
        episode.close()
    return episode.reward()


def chance(task: dict[str, Any]) -> float | None:
    """The reward of two actions taken without looking; None if that is the usual one."""
    reward = earned(task, call_everything({}, server_tools()).calls)
    return reward if reward > baseline_reward(EnvironmentClass, {}) else None


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
