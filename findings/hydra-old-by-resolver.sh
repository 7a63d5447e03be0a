#!/usr/bin/env bash
# Expected: a package that needs another ANTLR than Hydra's cannot stand beside NeMo Gym, and the resolver says so.
# Instead: hydra-core 1.x needs antlr4-python3-runtime 4.9, NeMo Gym names no version of hydra-core, and releases of 2019
#   need no ANTLR. So the resolver takes hydra-core 0.11.3 and omegaconf 1.4.1 without a word, and NeMo Gym cannot be imported.
# Versions: nemo-gym 0.7.0, math-verify 0.9.0 with its extra antlr4_13_2
# In this project: extensions/post_generate.py declares math-verify without an extra, for a class that imports it.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# NEWER_PYTHON names an interpreter for NeMo Gym 0.7 if uv does not find one.
uv venv -q --python "${NEWER_PYTHON:->=3.13.14,<3.14}" venv
uv pip install -q --python venv/bin/python nemo-gym==0.7.0 'math-verify[antlr4_13_2]==0.9.0'
uv pip freeze -q --python venv/bin/python | grep -E '^(antlr4|hydra|math-verify|nemo-gym|omegaconf)' | tee versions.txt
grep -q '^hydra-core==0.11.3$' versions.txt
grep -q '^omegaconf==1.4.1$' versions.txt
if venv/bin/python -c 'import nemo_gym.global_config' 2> errors.txt; then
  echo 'NeMo Gym can be imported'
  exit 1
fi
tail -n 1 errors.txt
