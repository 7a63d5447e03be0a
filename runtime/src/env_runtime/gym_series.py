"""The release series of NeMo Gym, 0.4 and 0.7, and everything in which they differ.

Only this module, and deferred_imports.py below it, know more than one series.
"""

import contextlib
import functools
import importlib.util
import re
from typing import Any

from . import deferred_imports  # noqa: F401 - before NeMo Gym

# isort: split
import itsdangerous
from fastapi import FastAPI
from nemo_gym import base_resources_server, server_utils
from starlette.types import Scope
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


def serves_mcp(server: Any) -> bool:
    """Whether configs/<env>.yaml says `expose_tools_over_mcp: true`. 0.4 ignores it."""
    return HAS_MCP and bool(getattr(server.config, "expose_tools_over_mcp", False))


def expose_over_mcp(server: Any, app: FastAPI) -> None:
    """Serve the tools over MCP, too, if the configuration says so."""
    if serves_mcp(server):
        # Imported here, because the import takes 0.3 s.
        from nemo_gym.mcp_auto_exposure import maybe_auto_expose

        maybe_auto_expose(server, app)


def show_images_over_mcp() -> None:
    """Have NeMo Gym answer MCP calls with images as images, and not as base64 text."""
    from nemo_gym import mcp_auto_exposure as mcp  # slow, as above

    if not isinstance(mcp._to_result, functools.partial):
        setattr(mcp, "_to_result", functools.partial(_with_image, mcp._to_result))  # noqa: B010


def _with_image(as_text: Any, payload: Any) -> Any:
    """What an MCP call answers with: a tool's answer as text, then its image."""
    image = payload.get("image") if isinstance(payload, dict) else None
    found = re.fullmatch(r"data:(image/[^,;]+)[^,]*;base64,(.*)", str(image), re.DOTALL)
    if found is None:
        return as_text(payload)
    from mcp.types import ImageContent

    rest = {key: value for key, value in payload.items() if key != "image"}
    # Without structured content, which some clients show instead of the images.
    content, _ = as_text(rest)
    return [*content, ImageContent(type="image", mimeType=found[1], data=found[2])]


def mcp_session(server: Any, scope: Scope) -> str | None:
    """The id of the session in an MCP request's token, if there is one."""
    if not serves_mcp(server):
        return None
    from nemo_gym import mcp_auto_exposure as mcp  # slow, as above

    token = dict(scope["headers"]).get(mcp.TOKEN_HEADER.lower().encode(), b"")
    key = server.get_session_middleware_key()
    signer = itsdangerous.URLSafeSerializer(key, salt=mcp._MCP_TOKEN_SALT)
    with contextlib.suppress(itsdangerous.BadSignature, KeyError, TypeError):
        return str(signer.loads(token.decode("latin-1"))["sid"])
    return None
