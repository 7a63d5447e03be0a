#!/usr/bin/env bash
# Expected: a data set's scorer gives 1.0 to the right answer, and little or nothing to a wrong one.
# Instead: the default scorer looks for the gold text in the answer: for the gold 1, "113" earns a third, and "1." a half.
#   game_of_life_halting compares bool(text): "False" and "True" both earn 1.0, in every puzzle. coin_flip compares digits
#   up to the end of the shorter text: "0" earns 1.0 for 0.3125.
# Version: reasoning-gym 0.1.25
# In this project: the rollout gate names rows in which a fixed text is rewarded; docs/frameworks.md, "Some scorers of reasoning-gym".
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python reasoning-gym==0.1.25
cat > scores.py <<'PY'
from importlib.metadata import version

import reasoning_gym

print("reasoning-gym", version("reasoning-gym"))


def score(name, answer, gold=None):
    """The score of an answer to the first puzzle, or to the first whose gold answer is given."""
    data = reasoning_gym.create_dataset(name, size=30, seed=1)
    entry = next(entry for entry in data if gold in (None, entry["answer"]))
    earned = round(data.score_answer(answer, entry), 3)
    print(f"  {name:21} gold {entry['answer']!r:9} answer {answer!r:9} earns {earned}")
    return earned


assert score("gcd", "1", gold="1") == 1
assert score("gcd", "1.", gold="1") == 0.5
assert score("gcd", "113", gold="1") == 0.333
for gold in "True", "False":
    assert score("game_of_life_halting", "True", gold) == score("game_of_life_halting", "False", gold) == 1
assert score("coin_flip", "0", gold="0.3125") == 1
assert score("coin_flip", "0.3", gold="0.3125") == 1
PY
venv/bin/python -W ignore scores.py
