#!/usr/bin/env bash
# Expected: the command that validates and collates a data set refuses a row that is no valid request, or leaves it out.
# Instead: it names no row, writes all of them to the training file and exits with 0. Its report counts the valid rows only:
#   "Number of examples" is 1, and the file beside it has two lines. The second has a misspelled key, which the type of its
#   requests refuses.
# Version: nemo-gym 0.7.0
# In this project: runtime/src/env_runtime/prepare.py checks each row with NeMo Gym's own type before it calls the command.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# NEWER_PYTHON names an interpreter for NeMo Gym 0.7 if uv does not find one.
uv venv -q --python "${NEWER_PYTHON:->=3.13.14,<3.14}" venv
uv pip install -q --python venv/bin/python nemo-gym==0.7.0
cat > rows.jsonl <<'JSON'
{"responses_create_params": {"input": "2 + 2?", "temperature": 0.5}, "answer": "4"}
{"responses_create_params": {"input": "1 + 2?", "temprature": 0.5}, "answer": "3"}
JSON
cat > config.yaml <<'YAML'
sums:
  resources_servers:
    sums: {entrypoint: app.py, domain: math}
sums_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: sums}
      model_server: {type: responses_api_models, name: policy_model}
      datasets: [{name: train, type: train, jsonl_fpath: rows.jsonl, license: Apache 2.0}]
environment:
  environment_servers:
    legacy_agent:
      entrypoint: app.py
      agent_server: {type: responses_api_agents, name: sums_agent}
YAML
venv/bin/gym dataset collate --config config.yaml --mode train_preparation --output-dir out \
  +policy_base_url=none +policy_api_key=none +policy_model_name=none > output.txt 2>&1 && status=0 || status=$?
uv pip freeze -q --python venv/bin/python | grep '^nemo-gym=='
echo "exit status $status"
[ "$status" = 0 ] || { cat output.txt; exit 1; }
grep 'Number of examples' out/train_metrics.json
cat out/train.jsonl
grep -q '"Number of examples": 1' out/train_metrics.json
[ "$(wc -l < out/train.jsonl)" = 2 ]
grep -q temprature out/train.jsonl
venv/bin/python - <<'PY'
import json
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming as Params
from pydantic import ValidationError

try:
    Params.model_validate(json.loads(open("out/train.jsonl").readlines()[1])["responses_create_params"])
    raise SystemExit("NeMo Gym's servers take the row")
except ValidationError as error:
    print("What NeMo Gym's servers say:", error.errors()[0]["loc"], error.errors()[0]["msg"])
PY
