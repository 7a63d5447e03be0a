"""The rules of NeMo Helix for packages and datasets.

Each rule is a function that names what breaks it. They are those of the host, which
nemo-sandboxed-gym 0.1.0 has; of a submission, which nemo-helix 0.8.1 has; and of its
pages on environment packages. Training and evaluation differ: a host that evaluates
brings the policy's model server, and refuses a package with one.
"""

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import (
    InvalidWheelFilename,
    canonicalize_name,
    parse_wheel_filename,
)

from ..errors import DeployError, RolloutError
from ..evaluation.rows import load_rows
from . import AGENTS, HOST, MANIFEST, MODELS, POLICY, SEEDS, SERVERS, tags

NATIVE, ADAPTER = "native-v1", "adapter-wheels-v1"
FORMATS = (NATIVE, "wheels-v1", ADAPTER)
KEYS = {"format", "config_paths", "metadata", "adapter"}
METADATA = {"name", "description", "hub_id", "vf_env_id", "adapter_agent"}
KINDS = (SERVERS, AGENTS, MODELS)
ADAPTERS = ("verifiers_agent",)  # the agents for adapter-wheels-v1
LIMITS = {"description": 2048, "hub_id": 512, "vf_env_id": 512, "adapter_agent": 255}
DOMAINS = {
    *("math", "coding", "agent", "knowledge", "instruction_following", "long_context"),
    *("safety", "games", "translation", "e2e", "rlhf", "other"),
}
IN_IMAGE = {
    (AGENTS, "simple_agent"),
    (AGENTS, "verifiers_agent"),
    (MODELS, "vllm_model"),
}
Found = Iterator[str]  # `place: cure`


class Package(NamedTuple):
    """The folder of a package and its dataset, and what it was made for."""

    folder: Path
    arch: str
    model_server: bool  # whether the package has the policy's

    @property
    def environment(self) -> Path:
        return self.folder / "environment"

    def manifest(self) -> dict[str, Any]:
        """The manifest; {} if it cannot be read."""
        content = _yaml(self.environment / MANIFEST)
        return content if isinstance(content, dict) else {}

    def config_paths(self) -> list[str]:
        paths = self.manifest().get("config_paths")
        return [str(one) for one in paths] if isinstance(paths, list) else []

    def form(self) -> Any:
        return self.manifest().get("format")

    def wheels(self) -> Iterator[tuple[str, Any]]:
        """The file's name of each wheel, and what it says; None if it is wrong."""
        for file in sorted((self.environment / "wheels").glob("*.whl")):
            try:
                yield file.name, parse_wheel_filename(file.name)
            except InvalidWheelFilename:
                yield file.name, None

    def versions(self) -> dict[str, set[str]]:
        """The versions of each package in wheels/."""
        found = defaultdict(set)
        for _, parsed in self.wheels():
            if parsed:
                name, version, *_ = parsed
                found[name].add(str(version))
        return found

    def servers(self) -> Iterator[tuple[str, str, str, str, dict[str, Any]]]:
        """File, instance, kind, implementation and settings of each server."""
        for path in self.config_paths():
            content = _yaml(self.environment / path)
            for name, kinds in content.items() if isinstance(content, dict) else ():
                for kind, found in kinds.items() if isinstance(kinds, dict) else ():
                    for implementation, settings in (found or {}).items():
                        if kind in KINDS:
                            yield path, name, kind, implementation, settings or {}


def _yaml(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None


def manifest(package: Package) -> Found:
    """nemo-environment.yaml is at the root, with the known keys only."""
    content = package.manifest()
    if not content:
        yield f"{MANIFEST}: write a mapping there: format, config_paths, metadata"
        return
    about = content.get("metadata")
    about = about if isinstance(about, dict) else {}
    for key in [*(content.keys() - KEYS), *(about.keys() - METADATA)]:
        yield f"{MANIFEST}, {key}: remove this key, which NeMo Helix does not know"
    known = FORMATS if package.model_server else FORMATS[:2]
    if content.get("format") not in known:
        yield f"{MANIFEST}, format: name one of {', '.join(known)}"
    adapts, adapter = content.get("format") == ADAPTER, content.get("adapter")
    if ("adapter" in content) != adapts:
        yield f"{MANIFEST}, adapter: only {ADAPTER} has this, and needs it"
    agent = adapter.get("agent") if isinstance(adapter, dict) else None
    if adapts and agent not in ADAPTERS:
        yield f"{MANIFEST}, adapter.agent: name one of {', '.join(ADAPTERS)}"
    if not isinstance(name := about.get("name"), str) or not 0 < len(name) < 256:
        yield f"{MANIFEST}, metadata.name: give it 1 to 255 characters"
    for key, limit in LIMITS.items():
        if len(str(about.get(key) or "")) > limit:
            yield f"{MANIFEST}, metadata.{key}: shorten it to {limit} characters"


def config_paths(package: Package) -> Found:
    """Each one is a file below the root, in a folder that the format allows."""
    if not (paths := package.config_paths()):
        yield f"{MANIFEST}, config_paths: list at least one file"
    for path in sorted({path for path in paths if paths.count(path) > 1}):
        yield f"{MANIFEST}, {path}: list it once"
    for path in dict.fromkeys(paths):
        place, file = PurePosixPath(path), package.environment / path
        if place.is_absolute() or ".." in place.parts or "\\" in path:
            yield f"{MANIFEST}, {path}: name it from the package's root, without .."
        elif path != path.strip():
            yield f"{MANIFEST}, {path!r}: remove the spaces around it"
        elif not file.is_file() or not isinstance(_yaml(file), dict):
            yield f"{MANIFEST}, {path}: name a YAML file that the package has"
        elif package.form() == NATIVE and place.parts[0] not in KINDS:
            cure = f"move it below {', '.join(KINDS)}, or take wheels-v1"
            yield f"{path}: native-v1: {cure}"
        elif package.form() == ADAPTER and place.parts[0] != "configs":
            yield f"{path}: {ADAPTER}: move it below configs, or take wheels-v1"


def files(package: Package) -> Found:
    """No .jsonl, no link, no pyproject.toml at the root."""
    for file in sorted(package.environment.rglob("*")):
        place = file.relative_to(package.environment).as_posix()
        if file.is_symlink():
            yield f"{place}: put the file itself there, not a link"
        elif file.suffix == ".jsonl":
            yield f"{place}: rows belong into the dataset; give other data another suffix"
        elif place == "pyproject.toml":
            cure = "remove it: NeMo Gym would take the package for its own checkout"
            yield f"{place}: {cure}"


def server_folders(package: Package) -> Found:
    """Each server has its folder, with its entrypoint and one list of requirements."""
    used = {(*one[2:4], str(one[4].get("entrypoint"))) for one in package.servers()}
    for kind, implementation, entrypoint in sorted(used):
        folder = package.environment / kind / implementation
        if (kind, implementation) in IN_IMAGE and not list(folder.glob("*.py")):
            continue
        if not (folder / entrypoint).is_file():
            place = f"{kind}/{implementation}/{entrypoint}"
            yield f"{place}: put the server there, as its entrypoint says"
    folders = (package.environment.glob(f"{kind}/*") for kind in KINDS)
    for folder in sorted(itertools.chain.from_iterable(folders)):
        lists = [folder / name for name in ("requirements.txt", "pyproject.toml")]
        lists = [file for file in lists if file.is_file()]
        place = folder.relative_to(package.environment).as_posix()
        if list(folder.glob("*.py")) and len(lists) != 1:
            yield f"{place}: have either requirements.txt or pyproject.toml, and not both"
        for file in lists:
            if not file.read_text(encoding="utf-8").strip():
                yield f"{place}/{file.name}: name what app.py imports, or say why not"


def domains(package: Package) -> Found:
    """A resources server has a domain of NeMo Gym's list, and no other server has one."""
    for path, name, kind, _, settings in package.servers():
        place, domain = f"{path}, {name}, domain", settings.get("domain")
        if kind == SERVERS and domain not in DOMAINS:
            yield f"{place}: name one of {', '.join(sorted(DOMAINS))}"
        elif kind != SERVERS and "domain" in settings:
            yield f"{place}: remove it: only resources servers have one"


def datasets(package: Package) -> Found:
    """No server names datasets."""
    for path, name, _, _, settings in package.servers():
        if "datasets" in settings:
            yield f"{path}, {name}, datasets: remove them: rows are in the dataset"


def references(package: Package) -> Found:
    """Each server that another refers to is defined, and defined once."""
    defined = [(kind, name) for _, name, kind, _, _ in package.servers()]
    known = {*defined, *(() if package.model_server else ((MODELS, "policy_model"),))}
    for kind, name in sorted({one for one in defined if defined.count(one) > 1}):
        yield f"{kind}, {name}: an instance is defined twice: rename one"
    for path, name, _, _, settings in package.servers():
        for key, value in settings.items():
            refers = isinstance(value, dict) and value.get("type") in KINDS
            if refers and (value["type"], value.get("name")) not in known:
                cure = f"define {value.get('name')}, or name an instance that is"
                yield f"{path}, {name}, {key}: {cure}"


def one_kind(package: Package) -> Found:
    """No name is an agent's and a resources server's, of instances and folders alike."""
    names = {}
    for kind in (SERVERS, AGENTS):
        folders = {one.name for one in package.environment.glob(f"{kind}/*/")}
        names[kind] = folders | {one[1] for one in package.servers() if one[2] == kind}
    for name in sorted(names[SERVERS] & names[AGENTS]):
        yield f"{name}: rename the agent, or the resources server of that name"


def model_servers(package: Package) -> Found:
    """No files of a model server, and for a host that evaluates none in a configuration."""
    configured = set(package.config_paths())
    for file in sorted((package.environment / MODELS).rglob("*")):
        place = file.relative_to(package.environment).as_posix()
        if file.is_file() and place not in configured:
            yield f"{place}: remove it: NeMo Helix takes no code of model servers"
    for path, name, kind, _, _ in () if package.model_server else package.servers():
        if kind == MODELS:
            cure = "remove it, or leave out --without-model-server"
            yield f"{path}, {name}: {cure}: a host that evaluates takes none"


def policy_model(package: Package) -> Found:
    """The first configuration defines the policy's model server, in a package to train."""
    found = [one for one in package.servers() if one[1] == "policy_model"]
    if not package.model_server:
        return
    if not found:
        yield "policy_model: define it, or pass --without-model-server"
        return
    [(path, _, _, implementation, settings), *_] = found
    wrong = [key for key, value in POLICY.items() if settings.get(key) != value]
    if implementation != "vllm_model" or wrong:
        wanted = ", ".join(f"{key}: {value}" for key, value in POLICY.items())
        yield f"{path}, policy_model: take vllm_model with {wanted}"
    if path != package.config_paths()[0]:
        yield f"{path}, policy_model: list this file first in config_paths"


def wheels_folder(package: Package) -> Found:
    """wheels/ has wheels, and nothing else."""
    if not list(package.wheels()):
        yield "wheels/: put all wheels there that the servers install"
    for file in sorted((package.environment / "wheels").glob("*")):
        if not file.is_file() or file.suffix != ".whl":
            yield f"wheels/{file.name}: remove it: only .whl files, and no folders"


def one_version(package: Package) -> Found:
    """wheels/ has one version of each package."""
    for name, found in sorted(package.versions().items()):
        if len(found) > 1:
            yield f"wheels/, {name}: keep one of {', '.join(sorted(found))}"


def wheel_tags(package: Package) -> Found:
    """Each wheel fits CPython 3.13 on the architecture."""
    known = {*tags(package.arch)}
    for name, parsed in package.wheels():
        if parsed is None:
            yield f"wheels/{name}: this is not the name of a wheel: build it again"
        elif not known & parsed[3]:
            cure = f"for {package.arch} and Python 3.13, or another --arch"
            yield f"wheels/{name}: take its wheel {cure}"


def complete(package: Package) -> Found:
    """wheels/ has what the host installs, and what each requirements.txt names."""
    versions = package.versions()
    for name in (*HOST, *SEEDS):
        if name not in versions:
            yield f"wheels/, {name}: add its wheel: the host installs it in each venv"
    for file in sorted(package.environment.glob("*/*/requirements.txt")):
        place = file.relative_to(package.environment).as_posix()
        for line in file.read_text(encoding="utf-8").splitlines():
            line = line.partition("#")[0].strip()
            if not line or "../.." in line:  # which NeMo Gym drops
                continue
            try:
                one = Requirement(line)
            except InvalidRequirement:
                yield f"{place}, {line}: write a name with a version"
                continue
            found = versions.get(canonicalize_name(one.name), set())
            if not any(
                one.specifier.contains(each, prereleases=True) for each in found
            ):
                has = ", ".join(sorted(found)) or "none"
                yield f"{place}, {line}: add this wheel to wheels/, which has {has}"


def rows(package: Package) -> Found:
    """training.jsonl and validation.jsonl are rows of agents that the package has."""
    known = {name for _, name, kind, _, _ in package.servers() if kind == AGENTS}
    agents = [{"type": AGENTS, "name": name} for name in known]
    seen: dict[str, str] = {}
    folder = package.folder / "dataset"
    for name in ("training.jsonl", "validation.jsonl"):
        if name == "validation.jsonl" and not (folder / name).exists():
            return
        try:
            found = load_rows(folder / name)
        except RolloutError as error:
            yield f"dataset/{name}: write rows there, one JSON object a line ({error})"
            continue
        if not found:
            yield f"dataset/{name}: write at least one row"
        for number, row in enumerate(found, start=1):
            place = f"dataset/{name}, row {number}"
            params = row.get("responses_create_params")
            if not isinstance(params, dict) or not params.get("input"):
                yield f"{place}, responses_create_params: write the prompt in its input"
            if row.get("agent_ref") not in agents:
                names = " or ".join(sorted(known)) or "an agent's"
                cure = f"write type: {AGENTS}, name: {names}, and no other key"
                yield f"{place}, agent_ref: {cure}"
            key = json.dumps(row, sort_keys=True)
            if seen.setdefault(key, name) != name:
                yield f"{place}: leave it out of one split: it is in {seen[key]}, too"


RULES: dict[str, Callable[[Package], Found]] = {
    "manifest": manifest,
    "config-paths": config_paths,
    "files": files,
    "server-folder": server_folders,
    "domain": domains,
    "datasets": datasets,
    "references": references,
    "one-kind": one_kind,
    "model-servers": model_servers,
    "policy-model": policy_model,
    "wheels-folder": wheels_folder,
    "one-version": one_version,
    "wheel-tags": wheel_tags,
    "complete": complete,
    "rows": rows,
}
OF_WHEELS = {"wheels-folder", "wheel-tags", "complete"}  # not of native-v1


def check(package: Package) -> None:
    """Raise DeployError with each rule that is broken, its place, and the cure."""
    left_out = OF_WHEELS if package.form() == NATIVE else set()
    refused = [
        f"{rule}: {broken}"
        for rule in RULES
        if rule not in left_out
        for broken in RULES[rule](package)
    ]
    if refused:
        raise DeployError(
            "\n".join(["the package breaks rules of NeMo Helix", *refused])
        )
