"""The release series of NeMo Gym, 0.4 and 0.7, and everything in which they differ.

Only this module, and deferred_imports.py below it, know more than one series.
"""

import importlib.util
from typing import Any

from . import deferred_imports  # noqa: F401 - before NeMo Gym

# isort: split
from nemo_gym import base_resources_server, server_utils
from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


def _from_0_7(name: str) -> Any:
    """A name of base_resources_server; None in NeMo Gym 0.4, which lacks it."""
    return getattr(base_resources_server, name, None)


# 0.7's environment servers name the sessions that they seed and close.
SeedByName: Any = _from_0_7("ResourcesSeedSessionRequest")
SeededByName: Any = _from_0_7("ResourcesSeedSessionResponse")
CloseByName: Any = _from_0_7("ResourcesCloseSessionRequest")
ClosedByName: Any = _from_0_7("ResourcesCloseSessionResponse")
ReverifyMode: Any = _from_0_7("ReverifyMode")

HAS_ENVIRONMENT_SERVERS = (
    importlib.util.find_spec("nemo_gym.base_environment_server") is not None
)
HAS_REVERIFICATION = (
    importlib.util.find_spec("nemo_gym.rollout_reverification") is not None
)
HAS_MCP = importlib.util.find_spec("nemo_gym.mcp_auto_exposure") is not None

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
