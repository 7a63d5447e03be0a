#!/usr/bin/env bash
# Expected: the definition that Transformers makes of a tool, for TRL and for chat templates, is a JSON schema that accepts
#   what the function's types accept.
# Instead: `int | None` is {"type": "integer", "nullable": true}. JSON Schema knows no "nullable", so a validator refuses
#   null, the argument's own default. `tuple[int, str]` accepts one item, and four.
# Version: transformers 5.24.0, jsonschema 4.26.0
# In this project: runtime/src/env_runtime/trainers/__init__.py gives Transformers plain types, and checks arguments itself.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python transformers==5.24.0 jsonschema==4.26.0 jinja2==3.1.6
cat > schema.py <<'PY'
from importlib.metadata import version

from jsonschema import Draft202012Validator
from transformers.utils import get_json_schema


def find(limit: int | None = None, span: tuple[int, str] = (1, "a")) -> str:
    """
    Find something.

    Args:
        limit: How many.
        span: Where.
    """
    return ""


print("transformers", version("transformers"), "jsonschema", version("jsonschema"))
schema = get_json_schema(find)["function"]["parameters"]
print(" ", schema["properties"])
validator = Draft202012Validator(schema)


def accepts(arguments):
    found = validator.is_valid(arguments)
    print(f"  {arguments!s:30} {'accepted' if found else 'refused'}")
    return found


Draft202012Validator.check_schema(schema)
assert accepts({"limit": 3}) and not accepts({"limit": None})
assert accepts({"span": [1, "a"]}) and accepts({"span": [1]}) and accepts({"span": [1, "a", "b", "c"]})
PY
venv/bin/python schema.py 2> errors.txt || { cat errors.txt; exit 1; }
