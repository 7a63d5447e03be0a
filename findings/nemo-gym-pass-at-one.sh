#!/usr/bin/env bash
# Expected: pass@1 is the chance that one attempt succeeds, and it does not depend on the order in which attempts ended.
# Instead: with rewards of 0 and 1 it is that. As soon as one of a task's rewards lies between, the task's pass@k is the best
#   of its first k attempts: pass@1 is the reward of the first one. The same attempts give 0 % in one order, 100 % in another.
# Version: nemo-gym 0.7.0
# In this project: runtime/src/env_runtime/evaluation/stats.py counts passes, in any order; docs/running.md says what counts as one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# NEWER_PYTHON names an interpreter for NeMo Gym 0.7 if uv does not find one.
uv venv -q --python "${NEWER_PYTHON:->=3.13.14,<3.14}" venv
uv pip install -q --python venv/bin/python nemo-gym==0.7.0
cat > figures.py <<'PY'
from importlib.metadata import version

from nemo_gym.reward_profile import compute_pass_majority_metrics

print("nemo-gym", version("nemo-gym"))


def pass_at_1(*rewards):
    figures = compute_pass_majority_metrics([[{"reward": reward} for reward in rewards]])[0]
    print(f"  {rewards!s:18} pass@1 {figures['pass@1/accuracy']:5} mean {figures['pass@1[avg-of-4]/accuracy']:5}")
    return figures["pass@1/accuracy"]


assert pass_at_1(1, 0, 0, 0) == pass_at_1(0, 0, 0, 1) == 25
assert pass_at_1(1, 0, 0.5, 0) == 100
assert pass_at_1(0, 0, 0.5, 1) == 0
assert pass_at_1(0.5, 0, 0, 1) == 50
PY
venv/bin/python figures.py
