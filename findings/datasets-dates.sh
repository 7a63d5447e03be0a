#!/usr/bin/env bash
# Expected: a text in a JSONL file is a text in the data set, so that a gold answer can be compared with a model's.
# Instead: if all texts of a column look like dates, the column becomes timestamps: "2024-02-29" comes back as
#   "2024-02-29 00:00:00", without its zone if it had one, and one other text in the column changes that. Texts such as "007" stay.
# Version: datasets 5.2.0
# In this project: `--format parquet` of runtime/src/env_runtime/prepare.py writes the table with pyarrow, from the values' types.
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
print("datasets", version("datasets"))


def loaded(*answers):
    lines = [json.dumps({"answer": answer}) for answer in answers]
    Path("rows.jsonl").write_text("\n".join(lines))
    rows = datasets.Dataset.from_json("rows.jsonl", cache_dir="cache")
    found = [str(answer) for answer in rows["answer"]]
    print(f"  {rows.features['answer']}\n    {answers}\n    {tuple(found)}")
    return found


assert loaded("2024-02-29", "2025-01-01") == ["2024-02-29 00:00:00", "2025-01-01 00:00:00"]
assert loaded("2024-02-29T12:00:00+02:00", "2025-01-01T09:30:00+02:00") == ["2024-02-29 10:00:00", "2025-01-01 07:30:00"]
assert loaded("2024-02-29", "unknown") == ["2024-02-29", "unknown"]
assert loaded("007", "10") == ["007", "10"]
PY
HF_HOME="$work" venv/bin/python load.py
