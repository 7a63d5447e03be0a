"""Import verifiers quickly, for a process that only serves tools.

verifiers imports anthropic and math_verify, which takes more than half of its import
time. The first serves models, the second grades mathematics, and a tool server does
neither. So verifiers gets stand-ins. If a later verifiers does not allow that,
everything is imported as usual.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

from pydantic import BaseModel

UNUSED = ["anthropic", "anthropic.types", "math_verify", "math_verify.errors"]


class _StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return BaseModel  # verifiers derives models from some of them


def import_verifiers_quickly() -> None:
    """Import verifiers with stand-ins for what is not imported yet."""
    before = set(sys.modules)
    here = {name: _StandIn(name) for name in UNUSED if name not in before}
    sys.modules |= here
    try:
        importlib.import_module("verifiers.v1")
    except Exception:  # noqa: BLE001 - the next import raises the error again
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "verifiers":
                del sys.modules[name]
    finally:
        for name in here:
            del sys.modules[name]
