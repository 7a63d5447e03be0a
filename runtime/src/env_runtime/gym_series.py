"""The names that the runtime takes from NeMo Gym, wherever its releases have them.

Only this module imports NeMo Gym. `from .gym_series import ServerClient` works with 0.4,
with 0.7 and with the modules as NeMo Gym's main branch has moved them.

NeMo Gym is imported when the first name is taken, and quickly, with settings for Ray.
Half of a server's start, and most of its packages, are modules that it never uses: NeMo
Gym needs them for its statistics, its command line and Ray. So NeMo Gym's modules get
stand-ins, which import the real objects when they are first used. An image that only
serves lacks some of these packages: slim_image.py lists them. If a later NeMo Gym does
not allow stand-ins, everything is imported as usual.
"""

import functools
import importlib
import importlib.metadata
import importlib.util
import os
import sys
import types
from typing import Any

from .facts import NEWEST, OLDEST

_GYM = "nemo_gym"

# The modules that may have a name: that of the main branch, then those of 0.7 and 0.4.
_PLACES = {
    ".client.http_client .server_utils": "get_response_json raise_for_status request",
    ".client.server_client .server_utils": "ServerClient",
    ".config.config_types .config_types": (
        "AggregateMetricsRequest BaseServerConfig DatasetConfig"
    ),
    ".config.global_config .global_config": "get_first_server_config_dict",
    ".core.responses_api_types .openai_utils": (
        "NeMoGymChatCompletion NeMoGymEasyInputMessage NeMoGymFunctionCallOutput "
        "NeMoGymResponse NeMoGymResponseCreateParamsNonStreaming"
    ),
    ".models.chat_completions_converter .responses_converter": "ResponsesConverter",
    ".rollouts.rollout_reverification .rollout_reverification": (
        "RolloutReverificationConfig"
    ),
    ".sandbox": (
        "AsyncSandbox SandboxExecResult SandboxSpec create_provider "
        "resolve_provider_config resolve_provider_metadata"
    ),
    ".sandbox.providers.local": "LocalProvider",
    ".server_runtime.base_environment_server .base_environment_server": (
        "BaseEnvironmentServer"
    ),
    ".server_runtime.base_resources_server .base_resources_server": (
        "BaseResourcesServerConfig BaseVerifyRequest BaseVerifyResponse ReverifyMode "
        "ResourcesCloseSessionRequest ResourcesCloseSessionResponse "
        "ResourcesSeedSessionRequest ResourcesSeedSessionResponse SimpleResourcesServer"
    ),
    ".server_runtime.base_server .server_utils": "KeepaliveHttpToolsProtocol",
    ".server_runtime.mcp_auto_exposure .mcp_auto_exposure": (
        "DirectBinding MCPTool maybe_auto_expose"
    ),
    ".server_runtime.ray_support .server_utils": "initialize_ray",
    ".server_runtime.request_handling.session_id .server_runtime.base_server "
    ".server_utils": "SESSION_ID_KEY",
    ".server_runtime.testing.session_conformance .testing.session_conformance": (
        "check_resources_session_contract"
    ),
    ".trajectory.trajectory_record .rollout_observability": "TrajectoryRecord",
    ".utils.server_process .server_utils": "is_nemo_gym_fastapi_worker",
    ".verification.verifier_fixture .verifier_fixture": (
        "VerifierFixture exercise_verifier_fixture"
    ),
    "responses_api_agents.simple_agent.app": (
        "SimpleAgent SimpleAgentRunRequest SimpleAgentVerifyResponse"
    ),
}
_MODULES = {
    name: modules.split()
    for modules, names in _PLACES.items()
    for name in names.split()
}
# None in NeMo Gym 0.4, which lacks them.
_SINCE_0_7 = {
    "KeepaliveHttpToolsProtocol",
    "ResourcesCloseSessionRequest",
    "ResourcesCloseSessionResponse",
    "ResourcesSeedSessionRequest",
    "ResourcesSeedSessionResponse",
    "ReverifyMode",
}

LATER = ["gprof2dot", "hydra", "pandas", "pandas.core.groupby.generic", "pydot", "ray"]
LATER += ["rich", "rich.markdown", "rich.text", "scipy", "wandb", "wandb.util", "yappi"]
NOT_HERE = (
    "this needs a package that an image for serving leaves out: use the image of "
    "`docker build --target gym`"
)


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


@functools.cache
def _import_quickly() -> None:
    """Import NeMo Gym's modules, with stand-ins for what is not imported yet."""
    _set_up_ray()
    here = [name for name in LATER if name.partition(".")[0] not in sys.modules]
    sys.modules |= {name: _stand_in(name) for name in here}
    try:
        _found("SimpleResourcesServer")
    except ImportError:
        raise
    except Exception:  # noqa: BLE001 - the next import raises the error again
        for name in list(sys.modules):
            if name.partition(".")[0] == "nemo_gym":
                del sys.modules[name]
    finally:
        for name in here:
            del sys.modules[name]


def _has(name: str) -> bool:
    """Whether NeMo Gym has a module for this name, without an import of it."""
    return any(map(_spec, _MODULES[name]))


def _spec(module: str) -> Any:
    try:
        return importlib.util.find_spec(module, _GYM)
    except ModuleNotFoundError:  # it has no such package
        return None


def _found(name: str) -> Any:
    """A name of NeMo Gym. Raises ImportError if this release does not have it."""
    for module in filter(_spec, _MODULES[name]):
        found = importlib.import_module(module, _GYM)
        if hasattr(found, name):
            return getattr(found, name)
    if name in _SINCE_0_7:
        return None
    version = importlib.metadata.version("nemo-gym")
    places = [importlib.util.resolve_name(module, _GYM) for module in _MODULES[name]]
    raise ImportError(
        f"nemo-gym {version} has no {name} in {' or '.join(places)}. This environment "
        f"knows nemo-gym {OLDEST} to {NEWEST}: install one of these, or update the template",
        name=name,
    )


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _import_quickly()
    return globals().setdefault(name, _found(name))


def module_of(name: str) -> types.ModuleType:
    """The module of NeMo Gym that defines a name."""
    return sys.modules[__getattr__(name).__module__]


HAS_ENVIRONMENT_SERVERS = _has("BaseEnvironmentServer")
HAS_REVERIFICATION = _has("RolloutReverificationConfig")
HAS_MCP = _has("maybe_auto_expose")


def use_protocol(protocol: type) -> None:
    """Have run_webserver speak HTTP with this class, a subclass of its own.

    On 0.4, only the first worker does.
    """
    if __getattr__("KeepaliveHttpToolsProtocol") is None:
        from uvicorn.config import HTTP_PROTOCOLS

        HTTP_PROTOCOLS["auto"] = f"{protocol.__module__}:{protocol.__qualname__}"
    else:
        module = module_of("KeepaliveHttpToolsProtocol")
        setattr(module, "KeepaliveHttpToolsProtocol", protocol)  # noqa: B010
