"""The environment of a package: manifest, configurations, and a folder for each server."""

import re
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name

from ..errors import DeployError
from ..imports import own_files
from ..project import Project
from ..space import collect, copy_files, matcher, pyproject
from .rules import AGENTS, MANIFEST, MODELS, SERVERS
from .wheels import HOST, requirements, runtime_wheel

POLICY_MODEL = f"{MODELS}/vllm_model/configs/policy_model.yaml"
POLICY = {
    "entrypoint": "app.py",
    "base_url": "${policy_base_url}",
    "api_key": "${policy_api_key}",
    "model": "${policy_model_name}",
    "return_token_id_information": True,
    "uses_reasoning_parser": True,
}
# A file of a server's folder that lists nothing would not count as one.
NOTHING = "# only what the host installs: nemo-gym, ray, openai\n"

Servers = dict[str, dict[str, dict[str, Any]]]  # instance, kind, implementation


def servers_of(project: Project) -> Servers:
    """The servers of configs/<env>_agent.yaml and of what it includes, without datasets.

    Raises DeployError.
    """
    found = _load(project, f"configs/{project.name}_agent.yaml")
    for kinds in found.values():
        for implementations in kinds.values():
            for settings in implementations.values():
                settings.pop("datasets", None)
    return found


def _load(project: Project, path: str) -> Servers:
    file = project.gym / path
    if not file.is_file():
        raise DeployError(
            f"{file} is missing, and a package needs the servers in it: if it is a file "
            "of NeMo Gym's, copy what it says into your configuration"
        )
    servers = yaml.safe_load(file.read_text(encoding="utf-8"))
    found: Servers = {}
    for included in servers.pop("config_paths", []):
        found |= _load(project, included)
    return found | servers


def agent_of(project: Project) -> str:
    """The instance of the project's agent. Raises DeployError."""
    agents = [name for name, kinds in servers_of(project).items() if AGENTS in kinds]
    if len(agents) != 1:
        raise DeployError(
            f"{project.gym}/configs/{project.name}_agent.yaml must configure one agent, "
            f"got {', '.join(agents) or 'none'}"
        )
    return agents[0]


def write_environment(
    folder: Path,
    projects: Sequence[Project],
    pins: dict[str, str],
    form: str,
    arch: str,
    model_server: bool,
) -> None:
    """Write everything but the wheels into an existing folder.

    `pins` says for each package what stands behind its name in a requirements.txt, and
    `form` is the manifest's format. Raises DeployError.
    """
    configs: dict[str, Servers] = {}
    if model_server:
        policy = {"policy_model": {MODELS: {"vllm_model": POLICY}}}
        configs[POLICY_MODEL] = policy
    for project in projects:
        text = _requirements(project, pins, arch)
        for name, kinds in servers_of(project).items():
            [(kind, implementations)] = kinds.items()
            [implementation] = implementations
            agent = kind == AGENTS
            owner = f"{kind}/{implementation}" if agent else f"{SERVERS}/{project.name}"
            file = f"{project.name}_agent.yaml" if agent else f"{project.name}.yaml"
            configs.setdefault(f"{owner}/configs/{file}", {})[name] = kinds
            own = project.gym / kind / implementation
            if own.is_dir():
                target = folder / kind / implementation
                if target.exists() and kind == SERVERS:
                    raise DeployError(
                        f"two projects have a resources server {implementation}: "
                        f"{project.root} is the second. An env_name must be unique"
                    )
                _copy_code(own, target)
                (target / "requirements.txt").write_text(text, encoding="utf-8")
        _write_runtime(project, folder / SERVERS / project.name)
    for path, servers in configs.items():
        _write_yaml(folder / path, servers)
    manifest = {"format": form, "config_paths": list(configs)}
    _write_yaml(folder / MANIFEST, {**manifest, "metadata": _metadata(projects)})


def image_models(projects: Iterable[Project]) -> set[str]:
    """Implementations of model servers that a package takes from the wheel of nemo-gym.

    A package must have each but vllm_model, which is the policy's.
    """
    return {
        implementation
        for project in projects
        for kinds in servers_of(project).values()
        for implementation in kinds.get(MODELS, {})
        if implementation != "vllm_model"
        and not (project.gym / MODELS / implementation).is_dir()
    }


def write_models(folder: Path, names: set[str], wheel: Path) -> None:
    """Copy model servers of NeMo Gym from its wheel. Raises DeployError."""
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            start = f"{MODELS}/{name}/"
            files = [
                path
                for path in archive.namelist()
                if re.fullmatch(rf"{re.escape(start)}(\w+\.py|requirements\.txt)", path)
            ]
            if not files:
                raise DeployError(
                    f"{wheel.name} has no {start}, which a configuration names: take a "
                    f"model server that it has, or put one into nemo_gym/{MODELS}"
                )
            archive.extractall(folder, files)


def _copy_code(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for file in sorted(source.glob("*.py")):
        shutil.copyfile(file, target / file.name)


def _write_runtime(project: Project, folder: Path) -> None:
    """Write env_runtime beside a server, with the user's files in it."""
    if not folder.is_dir():
        raise DeployError(f"{project.gym}/{SERVERS}/{project.name} is missing")
    with zipfile.ZipFile(runtime_wheel(project)) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("env_runtime/")]
        wheel.extractall(folder, names)
    root, patterns = project.root, project.table().get("data_files", [])
    known = list(collect(project))
    for pattern in patterns:
        if not any(map(matcher([pattern]).match_file, known)):
            raise DeployError(
                f"data_files of {project.gym}/pyproject.toml: {pattern!r} matches no file "
                "that git and .dockerignore leave in"
            )
    code = own_files(project.sources(), project.top_name())
    files = [file.relative_to(root).as_posix() for file in code]
    files += filter(matcher(patterns).match_file, known)
    files += ["nemo_gym/server.py", "nemo_gym/pyproject.toml"]
    files += [f"nemo_gym/configs/{project.name}.yaml"]
    copy_files(project, list(dict.fromkeys(files)), folder / "env_runtime" / "_project")


def _requirements(project: Project, pins: dict[str, str], arch: str) -> str:
    """The text of requirements.txt: what the project itself names, each pinned."""
    lines = set()
    for one in requirements(project, arch):
        name = canonicalize_name(one.name)
        if name not in HOST and name in pins:  # else it is the host's
            extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
            lines.add(f"{name}{extras}{pins[name]}\n")
    return "".join(sorted(lines)) or NOTHING


def package_name(projects: Sequence[Project]) -> str:
    """The name of a package of these projects, such as `my-env-other`."""
    return "-".join(project.name.replace("_", "-") for project in projects)[:255]


def _metadata(projects: Sequence[Project]) -> dict[str, str]:
    texts = [pyproject(one)["project"].get("description", "") for one in projects]
    return {"name": package_name(projects), "description": " ".join(texts)[:2048]}


def _write_yaml(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    path.write_text(text, encoding="utf-8")
