"""The release series of NeMo Gym, 0.4 and 0.7, and everything in which they differ.

Only this module knows more than one series. Import it before NeMo Gym: it imports NeMo
Gym quickly, with settings for Ray. Half of a server's start, and most of its packages,
are modules that it never uses: NeMo Gym needs them for its statistics, its command line
and Ray. So NeMo Gym's modules get stand-ins, which import the real objects when they are
first used. An image that only serves lacks some of these packages: slim_image.py lists
them. If a later NeMo Gym does not allow stand-ins, everything is imported as usual.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from typing import Any

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LATER = ["gprof2dot", "hydra", "pandas", "pandas.core.groupby.generic", "pydot", "ray"]
LATER += ["rich", "rich.markdown", "rich.text", "scipy", "wandb", "wandb.util", "yappi"]
NOT_HERE = (
    "this needs a package that an image for serving leaves out: use the image of "
    "`docker build --target gym`"
)
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


def _stand_in(module: str) -> types.ModuleType:
    """A stand-in for a module, whose attributes are stand-ins, too."""

    def later(name: str) -> Any:
        if name == "__version__":
            return importlib.metadata.version(module)
        if name.startswith("__"):
            raise AttributeError(name)
        return Later(module, name)

    stand_in = types.ModuleType(module)
    setattr(stand_in, "__getattr__", later)  # noqa: B010
    return stand_in


def _set_up_ray() -> None:
    """Set variables that Ray reads on import. NeMo Gym 0.4 imports Ray."""
    # Otherwise Ray detects `uv run`, uploads this folder and works in the copy.
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    ours = "NEMO_GYM_CONFIG_PATH" not in os.environ  # NeMo Gym did not start us
    if ours and (os.environ.get("RAY_ADDRESS") or "local") == "local":
        # Keeps Ray on 127.0.0.1, off the other addresses of a shared machine.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")


def _import_quickly() -> None:
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


_set_up_ray()
_import_quickly()
base_resources_server = importlib.import_module("nemo_gym.base_resources_server")
server_utils = importlib.import_module("nemo_gym.server_utils")


def _from_0_7(name: str) -> Any:
    """A name of base_resources_server; None in NeMo Gym 0.4, which lacks it."""
    return getattr(base_resources_server, name, None)


def _has_module(name: str) -> bool:
    return importlib.util.find_spec(f"nemo_gym.{name}") is not None


# 0.7's environment servers name the sessions that they seed and close.
SeedByName: Any = _from_0_7("ResourcesSeedSessionRequest")
SeededByName: Any = _from_0_7("ResourcesSeedSessionResponse")
CloseByName: Any = _from_0_7("ResourcesCloseSessionRequest")
ClosedByName: Any = _from_0_7("ResourcesCloseSessionResponse")
ReverifyMode: Any = _from_0_7("ReverifyMode")

HAS_ENVIRONMENT_SERVERS = _has_module("base_environment_server")
HAS_REVERIFICATION = _has_module("rollout_reverification")
HAS_MCP = _has_module("mcp_auto_exposure")


def observability() -> Any:
    """0.7's module with the types of its records of episodes."""
    return importlib.import_module("nemo_gym.rollout_observability")


# 0.7's run_webserver has uvicorn speak HTTP with a class of its own.
_PROTOCOL = "KeepaliveHttpToolsProtocol"
Protocol: Any = getattr(server_utils, _PROTOCOL, HttpToolsProtocol)


def use_protocol(protocol: type[HttpToolsProtocol]) -> None:
    """Have run_webserver speak HTTP with this class, a subclass of Protocol.

    On 0.4, only the first worker does.
    """
    if Protocol is HttpToolsProtocol:
        HTTP_PROTOCOLS["auto"] = f"{protocol.__module__}:{protocol.__qualname__}"
    else:
        setattr(server_utils, _PROTOCOL, protocol)
