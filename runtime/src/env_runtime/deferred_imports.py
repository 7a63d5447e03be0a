"""Import NeMo Gym quickly, with settings for Ray. Import this module before NeMo Gym.

Half of a server's start, and most of its packages, are modules that it never uses: NeMo
Gym needs them for its statistics, its command line and Ray. So NeMo Gym's modules get
stand-ins, which import the real objects when they are first used. An image that only
serves lacks some of these packages: slim_image.py lists them. If a later NeMo Gym
does not allow stand-ins, everything is imported as usual.
"""

import importlib
import importlib.metadata
import os
import sys
import types
from typing import Any

LATER = ["gprof2dot", "hydra", "pandas", "pandas.core.groupby.generic", "pydot", "ray"]
LATER += ["rich", "rich.markdown", "rich.text", "scipy", "wandb", "wandb.util", "yappi"]
NOT_HERE = (
    "this needs a package that an image for serving leaves out: use the image of "
)
NOT_HERE += "`docker build --target gym`"
# The modules of NeMo Gym that every server imports.
MODULES = ["nemo_gym.server_utils", "nemo_gym.reward_profile"]


class Later:
    """A stand-in for an object of a module that is not imported yet."""

    def __init__(self, module: str, name: str) -> None:
        self._place = module, name

    def _real(self) -> Any:
        module, name = self._place
        try:
            return getattr(importlib.import_module(module), name)
        except ModuleNotFoundError as error:
            text = f"{NOT_HERE} ({error})"
            raise ModuleNotFoundError(text, name=error.name) from error
        except AttributeError:  # a module of a package
            return importlib.import_module(f"{module}.{name}")

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._real()(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # typing looks for some in every annotation
            raise AttributeError(name)
        return getattr(self._real(), name)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._real())


def _stand_in(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    setattr(module, "__getattr__", lambda attribute: _later(name, attribute))  # noqa: B010
    return module


def _later(module: str, name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version(module)
    if name.startswith("__"):
        raise AttributeError(name)
    return Later(module, name)


def set_up_ray() -> None:
    """Set variables that Ray reads on import. NeMo Gym 0.4 imports Ray."""
    # Otherwise Ray detects `uv run`, uploads this folder and works in the copy.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    ours = "NEMO_GYM_CONFIG_PATH" not in os.environ  # NeMo Gym did not start us
    if ours and (os.environ.get("RAY_ADDRESS") or "local") == "local":
        # Keeps Ray on 127.0.0.1, off the other addresses of a shared machine.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def import_quickly() -> None:
    """Import NeMo Gym's modules, with stand-ins for what is not imported yet."""
    here = [name for name in LATER if name.partition(".")[0] not in sys.modules]
    sys.modules |= {name: _stand_in(name) for name in here}
    try:
        for module in MODULES:
            importlib.import_module(module)
    except ModuleNotFoundError:
        raise
    except Exception:  # noqa: BLE001 - the next import raises the error again
        for name in list(sys.modules):
            if name.partition(".")[0] == "nemo_gym":
                del sys.modules[name]
    finally:
        for name in here:
            del sys.modules[name]


set_up_ray()
import_quickly()
