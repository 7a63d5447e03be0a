"""The files of this project that configure NeMo Gym's servers."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import RolloutError
from ..gym_series import HAS_ENVIRONMENT_SERVERS
from ..project import here


def environment_name() -> str:
    """The environment's name in NeMo Gym's folders. Raises RolloutError."""
    configs = list(here().gym.glob("environments/*/config.yaml"))
    if len(configs) != 1:
        raise RolloutError("environments/ must hold one folder with a config.yaml")
    return configs[0].parent.name


def loop_config() -> str:
    """The file that configures the whole loop, relative to nemo_gym/."""
    if HAS_ENVIRONMENT_SERVERS:
        return f"environments/{environment_name()}/config.yaml"
    return f"configs/{environment_name()}_agent.yaml"


def agent_name() -> str:
    """The agent that loop_config() configures. Raises RolloutError if it has none."""
    config = loop_config()
    for name, kind, _ in _servers(here().gym / config):
        if kind == "responses_api_agents":
            return name
    raise RolloutError(f"{config} configures no agent")


def link_venvs(model_type: str = "openai_model") -> None:
    """Link this interpreter's venv into .venvs/, as the venv of every server."""
    servers = [*_servers(here().gym / loop_config())]
    servers.append(("", "responses_api_models", model_type))
    for _, kind, implementation in servers:
        link = here().gym / ".venvs" / kind / implementation / ".venv"
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink():
            link.unlink()
        link.symlink_to(sys.prefix)


def _servers(path: Path) -> Iterator[tuple[str, str, str]]:
    """The name, type and implementation of each server that a file configures."""
    settings: Any = OmegaConf.load(path)
    for included in settings.get("config_paths", []):
        if (here().gym / included).is_file():
            yield from _servers(here().gym / included)
    for name, types in settings.items():
        if isinstance(types, DictConfig):
            for kind, implementations in types.items():
                yield name, kind, next(iter(implementations))
