#!/usr/bin/env bash
# Expected: in `+name=VALUE` on a command line, the value is what stands after the first =, as the shell passed it.
# Instead: the value has a grammar. A key that ends in =, an address with a query, and paths with ( or ' are refused, a comma
#   makes a list of choices, and 1_000 becomes the number 1000. Quotes of the shell do not help: the value needs quotes
#   inside of them. `gym eval run --input FILE` and other flags of NeMo Gym pass their values on without such quotes.
# Version: hydra-core 1.3.8
# In this project: runtime/src/env_runtime/under_gym.py passes ${oc.env:POLICY_API_KEY} and not the key, and quotes paths.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python hydra-core==1.3.8
cat > values.py <<'PY'
from importlib.metadata import version

from hydra import compose, initialize
from hydra.errors import HydraException

print("hydra-core", version("hydra-core"))
REFUSED = object()
EXPECTED = {
    "/home/me/rows.jsonl": "/home/me/rows.jsonl",
    "/home/me/my rows.jsonl": "/home/me/my rows.jsonl",
    "/home/me/rows(1).jsonl": REFUSED,
    "/home/o'neil/rows.jsonl": REFUSED,
    "rows,more.jsonl": REFUSED,
    "http://models:8000/v1": "http://models:8000/v1",
    "http://models:8000/v1?tenant=a": REFUSED,
    "bXkga2V5IQ==": REFUSED,
    "1_000": 1000,
    "'/home/me/rows(1).jsonl'": "/home/me/rows(1).jsonl",
    "'bXkga2V5IQ=='": "bXkga2V5IQ==",
    "\"/home/o'neil/rows.jsonl\"": "/home/o'neil/rows.jsonl",
}
with initialize(version_base=None, config_path=None):
    for value, expected in EXPECTED.items():
        try:
            seen = compose(overrides=[f"+value={value}"]).value
            print(f"  {value:32} {seen!r}")
        except HydraException as error:
            seen = REFUSED
            print(f"  {value:32} {str(error).splitlines()[0][:60]}")
        assert seen == expected, expected
PY
venv/bin/python values.py
