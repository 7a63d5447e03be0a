#!/usr/bin/env bash
# Expected: close() returns a reward for each player, also for a game that was given up, and a state that can be summed.
# Instead: the rewards are None, and not a mapping, until the game is over: a trainer that cuts an episode at its limit of
#   turns gets a TypeError for `rewards[0]`. step() returns no reward at all, and its second value is an empty mapping.
# Version: textarena 0.7.4
# In this project: examples/packages/mastermind.py takes 0.0 for such an episode.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python textarena==0.7.4
cat > game.py <<'PY'
from importlib.metadata import version

import textarena

print("textarena", version("textarena"))


def play(*moves):
    game = textarena.make("TicTacToe-v0")
    game.reset(num_players=2, seed=1)
    for move in moves:
        game.get_observation()
        step = game.step(move)
    rewards, _ = game.close()
    print(f"  {' '.join(moves):20} step {step} rewards {rewards}")
    return step, rewards


assert play("[0]", "[3]", "[1]", "[4]", "[2]") == ((True, {}), {0: 1, 1: -1})
step, rewards = play("[0]", "[3]", "[1]")
assert (step, rewards) == ((False, {}), None)
PY
venv/bin/python game.py
