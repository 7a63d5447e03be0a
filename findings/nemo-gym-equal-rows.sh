#!/usr/bin/env bash
# Expected: each line of an input file is a task, or lines with the same content are one task.
# Instead: lines with the same *bytes* are one task, which gets the attempts of both. The newline counts: if the last
#   line of the file has none, its twin is a task of its own. So do the order of keys, and spaces.
# Version: nemo-gym 0.7.0
# In this project: not yet
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# NEWER_PYTHON names an interpreter for NeMo Gym 0.7 if uv does not find one.
uv venv -q --python "${NEWER_PYTHON:->=3.13.14,<3.14}" venv
uv pip install -q --python venv/bin/python nemo-gym==0.7.0
cat > tasks.py <<'PY'
import contextlib
import io
import json
from importlib.metadata import version
from pathlib import Path

from nemo_gym.rollout_collection import RolloutCollectionConfig, RolloutCollectionHelper

print("nemo-gym", version("nemo-gym"))


def tasks(text):
    """The task's number and the attempt's of each planned rollout, with two attempts for each row."""
    Path("rows.jsonl").write_text(text)
    config = RolloutCollectionConfig(
        agent_name="agent", input_jsonl_fpath="rows.jsonl", output_jsonl_fpath="rollouts.jsonl", num_repeats=2
    )
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        rows = RolloutCollectionHelper()._preprocess_rows_from_config(config)
    return [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in rows]


def line(question, **options):
    return json.dumps({"answer": "4", "responses_create_params": {"input": question}}, **options)


two, three = line("2 + 2?"), line("1 + 3?")
for name, text, expected in [
    ("equal lines, newline at the end", f"{two}\n{three}\n{two}\n", {0, 1}),
    ("equal lines, none at the end", f"{two}\n{three}\n{two}", {0, 1, 2}),
    ("other spaces", f"{two}\n{three}\n{line('2 + 2?', separators=(',', ':'))}\n", {0, 1, 2}),
]:
    planned = tasks(text)
    print(f"  {name:32}", planned)
    assert {task for task, _ in planned} == expected
    assert len(set(planned)) == 6
assert tasks(f"{two}\n{two}\n") == [(0, 0), (0, 1), (0, 2), (0, 3)]
PY
venv/bin/python tasks.py
