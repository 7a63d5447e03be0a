"""The files of an environment package for NeMo Platform, and of its dataset.

The package has the manifest, the configurations, a folder for each server, and the wheels
that the servers install. The dataset has rows with their agent, in one or two splits.
"""

import os
import platform
import re
import shutil
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from packaging.markers import Marker
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from tqdm import tqdm

from ..command_line import counted
from ..episode.tasks import is_native
from ..episode.types import Row
from ..errors import DeployError
from ..evaluation.rows import hold_out, load_rows, row_name, write_rows
from ..imports import RUNTIME, own_files
from ..project import Project
from ..settings import ToolSettings
from ..shipped import READ, collect, copy_files, matcher, pyproject

MANIFEST = "nemo-environment.yaml"
SERVERS, AGENTS = "resources_servers", "responses_api_agents"
MODELS = "responses_api_models"
POLICY_MODEL = f"{MODELS}/vllm_model/configs/policy_model.yaml"
POLICY = {
    "base_url": "${policy_base_url}",
    "api_key": "${policy_api_key}",
    "model": "${policy_model_name}",
    "return_token_id_information": True,
}
# A file of a server's folder that lists nothing would not count as one.
NOTHING = "# only what the host installs: nemo-gym, ray, openai\n"
PYTHON = "3.13.15"  # the training images have Python 3.13; nemo-gym 0.7 needs 3.13.14
# The host pins these in each server's venv, so that a package cannot choose them.
HOST = ("nemo-gym", "ray", "openai")
TARGET = {
    "python_full_version": PYTHON,
    "python_version": "3.13",
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
}

Locked = dict[str, Any]  # a package of a pylock.toml
PLACES = {"vcs", "directory", "archive"}  # a key of one that comes from no index
Servers = dict[str, dict[str, dict[str, Any]]]  # instance, kind, implementation
Split = tuple[list[Row], list[Row]]


# ---------------------------------------------------------------------- the environment


def servers_of(project: Project) -> Servers:
    """The servers of configs/<env>_agent.yaml and of what it includes, without datasets.

    Raises DeployError.
    """
    found = _load(project, f"configs/{project.called}_agent.yaml")
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
            f"{project.gym}/configs/{project.called}_agent.yaml must configure one agent, "
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
        settings = {"entrypoint": "app.py", **POLICY, "uses_reasoning_parser": True}
        policy = {"policy_model": {MODELS: {"vllm_model": settings}}}
        configs[POLICY_MODEL] = policy
    for project in projects:
        text = _requirements(project, pins, arch)
        for name, kinds in servers_of(project).items():
            [(kind, implementations)] = kinds.items()
            [implementation] = implementations
            agent = kind == AGENTS
            owner = f"{kind}/{implementation}" if agent else f"{SERVERS}/{project.name}"
            file = f"{project.called}_agent.yaml" if agent else f"{project.called}.yaml"
            configs.setdefault(f"{owner}/configs/{file}", {})[name] = kinds
            own = project.gym / kind / implementation
            if own.is_dir():
                target = folder / kind / implementation
                if target.exists() and kind == SERVERS:
                    raise DeployError(
                        f"two projects have a resources server {implementation}: "
                        f"{project.root} is the second. An env_name must be unique"
                    )
                target.mkdir(parents=True, exist_ok=True)
                for source in sorted(own.glob("*.py")):
                    shutil.copyfile(source, target / source.name)
                _write_runtime(project, target)
                (target / "requirements.txt").write_text(text, encoding="utf-8")
        _write_project(project, folder / SERVERS / project.name)
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


def _write_runtime(project: Project, folder: Path) -> None:
    """Write env_runtime beside a server or an agent, which has a venv of its own."""
    with zipfile.ZipFile(runtime_wheel(project)) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("env_runtime/")]
        wheel.extractall(folder, names)


def _write_project(project: Project, folder: Path) -> None:
    """Write the user's files into the env_runtime beside their server."""
    if not folder.is_dir():
        raise DeployError(f"{project.gym}/{SERVERS}/{project.name} is missing")
    root, patterns = project.root, project.table().data_files
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
    files += [*READ, f"nemo_gym/configs/{project.name}.yaml"]
    copy_files(project, list(dict.fromkeys(files)), folder / "env_runtime" / "_project")


def _requirements(project: Project, pins: dict[str, str], arch: str) -> str:
    """The text of requirements.txt: what the project itself names, each pinned."""
    lines = set()
    for one in requirements(project, arch):
        name = canonicalize_name(one.name)
        if name not in HOST and name in pins:  # else it is the host's
            lines.add(f"{name}{_extras(one)}{pins[name]}\n")
    return "".join(sorted(lines)) or NOTHING


def _extras(one: Requirement) -> str:
    return f"[{','.join(sorted(one.extras))}]" if one.extras else ""


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


# ---------------------------------------------------------------------- the dataset


def write_dataset(
    folder: Path,
    projects: Sequence[Project],
    rows: Path | None,
    validation: Path | float | None,
) -> str:
    """Write training.jsonl, and validation.jsonl if there are rows for it.

    `rows` and a `validation` file are of the first project; each other one gives the rows
    that its make_rows.py made, else its examples. A number is the share of each project's
    rows that is held out. Returns a line for the user. Raises DeployError, and RolloutError
    if a file cannot be read.
    """
    train: list[Row] = []
    held: list[Row] = []
    for number, project in enumerate(projects):
        first = number == 0
        file = validation if first and isinstance(validation, Path) else None
        share = validation if isinstance(validation, float) else None
        found = _split(project, rows if first else None, file, share)
        train += found[0]
        held += found[1]
    write_rows(folder / "training.jsonl", train)
    if held:
        write_rows(folder / "validation.jsonl", held)
    return f"{counted(len(train), 'row')} to train on, {len(held)} to validate on"


def _split(
    project: Project, rows: Path | None, validation: Path | None, share: float | None
) -> Split:
    made = project.gym / "data" / "train.jsonl"
    use_made = rows is None and made.is_file()
    path = rows or (made if use_made else project.rows)
    train = _rows_of(project, path)
    beside = made.with_name("validation.jsonl")
    if validation is None and share is None and use_made and beside.is_file():
        validation = beside
    if validation:
        return train, _rows_of(project, validation)
    if share is None:
        return train, []
    kept, held = hold_out(train, share)
    if not kept:
        raise DeployError(
            f"{path} has {counted(len(train), 'row')}, too few for two splits"
        )
    return kept, held


def _rows_of(project: Project, path: Path) -> list[Row]:
    """The rows of a file, with their agent. Raises DeployError if one lacks its tools."""
    agent = {"type": AGENTS, "name": agent_of(project)}
    served = {*project.served_tools()}
    found = []
    for number, row in enumerate(load_rows(path), start=1):
        params = row.get("responses_create_params")
        tools = params.get("tools") or [] if isinstance(params, dict) else []
        lacking = served - {tool.get("name") for tool in tools}
        if lacking and not (is_native(row) and tools):
            raise DeployError(
                f"{row_name(number, path)} lacks the tools {', '.join(sorted(lacking))} of "
                f"server.py, and the agent offers what the row names: run `uv run python "
                f"gates.py --write-tools --rows {path}` in {project.gym}"
            )
        found.append({**row, "agent_ref": agent})
    return found


# ---------------------------------------------------------------------- the packages


class Resolution(NamedTuple):
    """The packages that the servers of a package install."""

    packages: list[Locked]
    folder: Path  # from which paths in them are relative
    arch: str

    def pins(self) -> dict[str, str]:
        """The text behind each package's name in a requirements.txt.

        Raises DeployError if a package is only on this machine.
        """
        pins = {}
        for one in self.packages:
            pins[one["name"]] = f"=={one['version']}" if "version" in one else ""
            if PLACES & one.keys():
                place = address(one, self.folder)
                if place.startswith("file:"):
                    raise DeployError(
                        f"{one['name']} is installed from {place}, where only this machine "
                        "finds it: take --format wheels-v1, or publish it"
                    )
                pins[one["name"]] = f" @ {place}"
        return pins


def pins_of(wheels: Path) -> dict[str, str]:
    """The same for a folder of wheels."""
    parsed = (parse_wheel_filename(wheel.name) for wheel in wheels.glob("*.whl"))
    return {str(name): f"=={version}" for name, version, _, _ in parsed}


def tags(arch: str) -> list[Tag]:
    """The tags that a training image of this architecture installs.

    The oldest platform comes first: its wheels run on every machine. A wheel for plain
    `linux` is the last: it was built on a machine for that machine, and no index has one.
    """
    platforms = ["manylinux1", "manylinux2010", "manylinux2014"]
    platforms += [f"manylinux_2_{minor}" for minor in range(5, 40)] + ["linux"]
    named = [f"{one}_{arch}" for one in platforms]
    cpython = cpython_tags((3, 13), platforms=named)
    return [*cpython, *compatible_tags((3, 13), "cp313", named)]


def requirements(project: Project, arch: str) -> list[Requirement]:
    """The packages that a project's server needs: its own, and those of the runtime.

    The runtime itself is not among them, because a package has its source.
    """
    target = {**TARGET, "platform_machine": arch}
    text = (project.gym / "pyproject.toml").read_text(encoding="utf-8")
    with zipfile.ZipFile(runtime_wheel(project)) as wheel:
        [path] = (name for name in wheel.namelist() if name.endswith("/METADATA"))
        metadata = Metadata.from_email(wheel.read(path), validate=False)
    known = metadata.requires_dist or []
    named = map(Requirement, tomllib.loads(text)["project"].get("dependencies", []))
    wanted = {str(one): one for one in _expanded(named, known, [target])}
    return list(wanted.values())


def _expanded(
    named: Iterable[Requirement],
    known: list[Requirement],
    targets: Sequence[dict[str, str]],
) -> Iterator[Requirement]:
    """The requirements that one of the targets needs, with `known` for the runtime."""
    for one in named:
        if one.marker and not any(map(one.marker.evaluate, targets)):
            continue
        if canonicalize_name(one.name) == RUNTIME:
            extras = [{**targets[0], "extra": extra} for extra in ("", *one.extras)]
            yield from _expanded(known, known, extras)
        else:
            yield Requirement(str(one).partition(";")[0])


def runtime_wheel(project: Project) -> Path:
    """The runtime's wheel. Raises DeployError if there is not exactly one."""
    wheels = list((project.gym / "vendor").glob("nemo_gym_env_runtime-*.whl"))
    if len(wheels) != 1:
        raise DeployError(
            f"{project.gym}/vendor has {len(wheels)} wheels of {RUNTIME}, and a package "
            f"needs one: run `{project.update_command()}` in {project.root} if it is "
            "missing, or remove the others"
        )
    return wheels[0]


def resolve(
    projects: Sequence[Project], versions: dict[str, str], arch: str, folder: Path
) -> Resolution:
    """Resolve what all servers install, with the first project's lock where it fits.

    `versions` has versions of HOST, in place of the lock's, and `folder` is for files of
    uv. Raises DeployError.
    """
    lock = folder / "pylock.toml"
    frozen = ["--frozen", "--no-dev", "--no-emit-project"]
    written = ["--format=pylock.toml", f"--output-file={lock}"]
    for project in reversed(projects):  # the first one's lock is what remains
        _uv(project.gym, "export", *frozen, *written)
        sources = _sources(lock, arch)
        needed = [*map(str, _with_sources(requirements(project, arch), sources))]
        with (folder / "requirements.in").open("a", encoding="utf-8") as file:
            file.writelines(f"{one}\n" for one in needed)
    locked = {one["name"]: one.get("version") for one in _packages(lock, arch)}
    chosen = {name: versions.get(name) or locked.get(name) for name in HOST}
    extras = {"nemo-gym": "[dev]", "ray": "[default]"}
    with (folder / "requirements.in").open("a", encoding="utf-8") as file:
        for name, version in chosen.items():
            pinned = versions.get(name) or name not in sources
            pin = f"=={version}" if version and pinned else ""
            file.write(f"{name}{extras.get(name, '')}{pin}\n")
        # `uv venv --seed` installs pip, and nemo-gym's model servers are built in place.
        file.write("pip\nsetuptools\nsetuptools-scm\n")
    options = [f"--python-version={PYTHON}", f"--python-platform={arch}-manylinux_2_39"]
    options += [*written, str(folder / "requirements.in")]
    _uv(projects[0].gym, "pip", "compile", *options)
    return Resolution(_packages(lock, arch), folder, arch)


def _packages(lock: Path, arch: str) -> list[Locked]:
    """The packages of a pylock.toml that a training image installs."""
    target = {**TARGET, "platform_machine": arch}
    packages = tomllib.loads(lock.read_text(encoding="utf-8")).get("packages", [])
    return [
        one
        for one in packages
        if "marker" not in one or Marker(one["marker"]).evaluate(target)
    ]


def _sources(lock: Path, arch: str) -> dict[str, str]:
    """The packages that come from no index, each with the address it comes from."""
    return {
        one["name"]: address(one, lock.parent)
        for one in _packages(lock, arch)
        if PLACES & one.keys() and one["name"] != RUNTIME
    }


def _with_sources(
    named: list[Requirement], sources: dict[str, str]
) -> Iterator[Requirement]:
    for one in named:
        if place := sources.get(canonicalize_name(one.name)):
            one = Requirement(f"{one.name}{_extras(one)} @ {place}")
        yield one


def address(package: Locked, folder: Path) -> str:
    """The address of a package that does not come from an index, for pip."""
    if vcs := package.get("vcs"):
        part = f"#subdirectory={vcs['subdirectory']}" if "subdirectory" in vcs else ""
        return f"{vcs['type']}+{vcs['url']}@{vcs['commit-id']}{part}"
    place = package.get("directory") or package.get("archive") or package["sdist"]
    return place.get("url") or (folder / place["path"]).resolve().as_uri()


def download(resolution: Resolution, wheels: Path) -> None:
    """Write every wheel into a new folder.

    What has no wheel is built here. Raises DeployError if that makes a wheel for another
    machine than the training image.
    """
    wheels.mkdir()
    known = {tag: number for number, tag in enumerate(tags(resolution.arch))}
    urls, sources = [], {}
    for one in resolution.packages:
        fitting = {}
        for wheel in one.get("wheels", []):
            place = wheel.get("url") or (resolution.folder / wheel["path"]).as_uri()
            name = place.partition("#")[0].rpartition("/")[2].replace("%2B", "+")
            ranks = [
                known[tag] for tag in parse_wheel_filename(name)[3] if tag in known
            ]
            if ranks:
                fitting[min(ranks)] = f"{place}#sha256={wheel['hashes']['sha256']}"
        if fitting:
            urls.append(fitting[min(fitting)])
        else:
            sources[one["name"]] = one
    options = ["--no-deps", "--no-index", "--only-binary=:all:"]
    options += [f"--python-version={PYTHON}"]
    options += [f"--platform={name}" for name in {tag.platform for tag in known}]
    with tqdm(total=len(urls) + len(sources), unit=" wheels", desc="wheels") as bar:
        for line in _pip("download", *options, f"--dest={wheels}", *urls):
            bar.update(line.startswith("Collecting "))
        unusable = []
        for name, one in sources.items():
            before = set(wheels.iterdir())
            place = address(one, resolution.folder)
            list(_pip("wheel", "--no-deps", f"--wheel-dir={wheels}", place))
            for built in set(wheels.iterdir()) - before:
                if not known.keys() & _tags_of(built):
                    unusable.append(f"{name} (built here: {built.name})")
            bar.update()
    if unusable:
        raise DeployError(
            f"no wheel for {resolution.arch} and Python 3.13 of {', '.join(unusable)}: run "
            "this on such a machine, or take a release that has one"
        )
    for wheel in sorted(wheels.glob("*.whl")):
        if all(one.platform.startswith("linux_") for one in _tags_of(wheel)):
            library = " ".join(platform.libc_ver())
            print(
                f"note: {wheel.name} was compiled here, with {library}. It runs where that "
                "and the libraries that it links are as new; auditwheel makes a manylinux "
                "wheel of it"
            )


def _tags_of(wheel: Path) -> frozenset[Tag]:
    return parse_wheel_filename(wheel.name)[3]


def _uv(folder: Path, *arguments: str) -> None:
    """Run uv in a folder. Raises DeployError with what it said."""
    done = subprocess.run(
        [ToolSettings.read().uv, *arguments, "--quiet"],
        cwd=folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise DeployError(f"`uv {' '.join(arguments[:2])}` failed in {folder}:\n{said}")


def _pip(*arguments: str) -> Iterator[str]:
    """The lines that pip prints. Raises DeployError if it fails."""
    command = [ToolSettings.read().uv, "tool", "run", "--quiet", "pip", *arguments]
    lines = []
    with subprocess.Popen(
        [*command, "--progress-bar=off", "--disable-pip-version-check"],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout
        for line in process.stdout:
            lines.append(line)
            yield line
    if process.returncode:
        said = [line for line in lines if re.match(r"ERROR|error", line)] or lines
        raise DeployError(
            f"`pip {arguments[0]}` failed:\n{''.join(said[-20:]).strip()}"
        )


def _environment() -> dict[str, str]:
    """The environment without the interpreter that somebody chose for the project."""
    hidden = ("VIRTUAL_ENV", "UV_PYTHON")
    return {name: text for name, text in os.environ.items() if name not in hidden}
