#!/usr/bin/env bash
# Expected: whether a JSONL file can be loaded does not depend on the order or number of its lines.
# Instead: the first 10 MB decide the columns and their types. A number with a fraction, an optional key or a text in a
#   column of numbers is an error after that, though the same lines load if the odd one stands first, or if the file is small.
# Version: datasets 5.2.0
# In this project: `--format parquet` of runtime/src/env_runtime/prepare.py reads all rows before it chooses the columns.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python datasets==5.2.0
cat > load.py <<'PY'
import json
from importlib.metadata import version
from pathlib import Path

import datasets

datasets.disable_progress_bars()
datasets.logging.set_verbosity(datasets.logging.CRITICAL)
print("datasets", version("datasets"))
PROMPT = "x" * 1000


def load(rows):
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    try:
        found = datasets.Dataset.from_json("rows.jsonl", cache_dir="cache")
        return f"{found.num_rows} rows, answer: {found.features['answer']}"
    except datasets.exceptions.DatasetGenerationError as error:
        return f"{type(error.__cause__).__name__}: {str(error.__cause__).splitlines()[0]}"


for odd in {"answer": 1.5}, {"answer": "none"}, {"answer": 1, "hint": "even"}:
    odd = {"prompt": PROMPT, **odd}
    usual = {"prompt": PROMPT, "answer": 1}
    few, late, first = load([usual] * 100 + [odd]), load([usual] * 11_000 + [odd]), load([odd] + [usual] * 11_000)
    print(f"  {list(odd.items())[1:]}\n    last of 101:     {few}\n    last of 11,001:  {late}\n    first of 11,001: {first}")
    assert few.startswith("101 rows")
    assert late.startswith(("ArrowInvalid", "CastError"))
    assert first.startswith("11001 rows")
PY
HF_HOME="$work" venv/bin/python load.py
