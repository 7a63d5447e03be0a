"""Imports NeMo Gym without what only its statistics use: pandas, SciPy and wandb.

They are two thirds of the time that a server takes to start, and a server needs them
once rollouts are aggregated, if ever. So nemo_gym.reward_profile, which imports them, gets
stand-ins, each of which imports the real object when it is first used. If that cannot be
done, as with a later NeMo Gym, everything is imported as usual.
"""

import importlib
import sys
import types
from typing import Any

LATER = ["pandas", "pandas.core.groupby.generic", "scipy", "wandb"]


class Later:
    """Stands for an object of a module that is not imported yet."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    def _real(self) -> Any:
        module, name = self._place
        try:
            return getattr(importlib.import_module(module), name)
        except AttributeError:  # a module of a package
            return importlib.import_module(f"{module}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._real()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._real())


def _stand_in(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    setattr(module, "__getattr__", lambda attribute: _later(name, attribute))  # noqa: B010
    return module


def _later(module: str, name: str) -> Later:
    if name.startswith("__"):
        raise AttributeError(name)
    return Later(module, name)


def import_quickly() -> None:
    """Import nemo_gym.reward_profile, with stand-ins for what is not imported yet."""
    importlib.import_module("nemo_gym.server_utils")  # with all that is used at once
    here = [name for name in LATER if name.partition(".")[0] not in sys.modules]
    sys.modules |= {name: _stand_in(name) for name in here}
    try:
        importlib.import_module("nemo_gym.reward_profile")
    except Exception:  # noqa: BLE001 - it is imported again, and raises what it raises
        sys.modules.pop("nemo_gym.reward_profile", None)
    finally:
        for name in here:
            del sys.modules[name]


import_quickly()
