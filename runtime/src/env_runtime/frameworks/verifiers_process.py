"""The process that serves a rollout's tools: what it imports, and its variables.

verifiers imports anthropic and math_verify, which takes more than half of its import
time. The first serves models, the second grades mathematics, and a tool server does
neither. So verifiers gets stand-ins. If a later verifiers does not allow that,
everything is imported as usual.
"""

import importlib
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from ..errors import SettingError
from ..models.client import model_names
from ..settings import ModelSettings

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


def model_variables(
    domain_class: type, chosen: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """The environment variables for the class's models, such as JUDGE_MODEL.

    Their values are those of this process. `chosen` overrides them, by the model's name:
    {"judge": {"model": ..., "api_key": ...}}. Raises SettingError.
    """
    names = model_names(domain_class)
    if unknown := sorted(set(chosen) - set(names)):
        raise SettingError(
            f"models: the class asks {', '.join(names) or 'none'}, got "
            f"{', '.join(unknown)}"
        )
    variables = {}
    for name in names:
        own = ModelSettings.read_model(name).model_dump(exclude_unset=True)
        for key, value in {**own, **chosen.get(name, {})}.items():
            if value is not None:
                variables[f"{name}_{key}".upper()] = str(value)
    return variables
