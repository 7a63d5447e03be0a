#!/usr/bin/env bash
# Expected: an installed package is found by its name, as on the Hub, whatever its module is called.
# Instead: the module's name is the id in lower case, with _ for -. The distribution's own list of modules and its entry points
#   are not read: for an installed package whose module has another name, the message says that it must be installed.
# Version: verifiers 0.4.0
# In this project: the distribution of the folder verifiers/ has its module's name, with - for _.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
uv venv -q --python '>=3.11,<3.14' venv
uv pip install -q --python venv/bin/python verifiers==0.4.0
mkdir package
cat > package/pyproject.toml <<'TOML'
[project]
name = "acme-sums"
version = "1"
[project.entry-points."verifiers.tasksets"]
acme-sums = "sums_env:Sums"
[build-system]
requires = ["uv_build>=0.9,<1"]
build-backend = "uv_build"
[tool.uv.build-backend]
module-name = "sums_env"
module-root = ""
TOML
mkdir package/sums_env
cat > package/sums_env/__init__.py <<'PY'
import verifiers.v1 as vf

__all__ = ["Sums"]


class Sums(vf.Taskset):
    """Tasks that add two numbers."""

    def load(self):
        return []
PY
uv pip install -q --python venv/bin/python ./package
cat > find.py <<'PY'
from importlib.metadata import packages_distributions, version

import verifiers.v1 as vf

print("verifiers", version("verifiers"), "acme-sums", version("acme-sums"), packages_distributions()["sums_env"])


def found(name):
    try:
        return type(vf.load_taskset(vf.resolve_env_config({"taskset": {"id": name}}).taskset)).__name__
    except ModuleNotFoundError as error:
        return str(error)


for name in "sums-env", "me/sums-env", "acme-sums", "me/acme-sums":
    seen = found(name)
    print(f"  {name:14} {seen}")
    assert seen == "Sums" if "sums-env" in name else "must already be installed" in seen
PY
venv/bin/python find.py
