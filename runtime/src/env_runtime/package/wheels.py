"""The packages that the servers of a package install, and their wheels."""

import email
import os
import re
import subprocess
import tomllib
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from tqdm import tqdm

from ..errors import DeployError
from ..imports import RUNTIME
from ..project import Project
from ..settings import ToolSettings

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

Package = dict[str, Any]  # of a pylock.toml


class Resolution(NamedTuple):
    """The packages that the servers of a package install."""

    packages: list[Package]
    folder: Path  # from which paths in them are relative
    arch: str

    def pins(self) -> dict[str, str]:
        """The text behind each package's name in a requirements.txt.

        Raises DeployError if a package is only on this machine.
        """
        pins = {}
        for one in self.packages:
            pins[one["name"]] = f"=={one['version']}" if "version" in one else ""
            if {"vcs", "directory", "archive"} & one.keys():
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

    The oldest platform comes first: its wheels run on every machine.
    """
    platforms = ["manylinux1", "manylinux2010", "manylinux2014"]
    platforms += [f"manylinux_2_{minor}" for minor in range(5, 40)]
    named = [f"{platform}_{arch}" for platform in platforms]
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
        metadata = email.message_from_bytes(wheel.read(path))
    known = [Requirement(one) for one in metadata.get_all("Requires-Dist", [])]
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
    """The wheel in nemo_gym/vendor. Raises DeployError if there is not exactly one."""
    wheels = list((project.gym / "vendor").glob("*.whl"))
    if len(wheels) != 1:
        raise DeployError(
            f"{project.gym}/vendor has {len(wheels)} wheels, and a package needs the one "
            f"of {RUNTIME}: run `{project.update_command()}` in {project.root} if it is "
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
    for project in reversed(projects):  # the first one's lock is what remains
        _uv(
            project.gym,
            "export",
            *frozen,
            "--format=pylock.toml",
            f"--output-file={lock}",
        )
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
    options += ["--format=pylock.toml", f"--output-file={lock}"]
    _uv(projects[0].gym, "pip", "compile", str(folder / "requirements.in"), *options)
    return Resolution(_packages(lock, arch), folder, arch)


def _packages(lock: Path, arch: str) -> list[Package]:
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
    found = {}
    for one in _packages(lock, arch):
        if {"vcs", "directory", "archive"} & one.keys() and one["name"] != RUNTIME:
            found[one["name"]] = address(one, lock.parent)
    return found


def _with_sources(
    named: list[Requirement], sources: dict[str, str]
) -> Iterator[Requirement]:
    for one in named:
        if place := sources.get(canonicalize_name(one.name)):
            extras = f"[{','.join(sorted(one.extras))}]" if one.extras else ""
            one = Requirement(f"{one.name}{extras} @ {place}")
        yield one


def address(package: Package, folder: Path) -> str:
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
                if not known.keys() & parse_wheel_filename(built.name)[3]:
                    unusable.append(f"{name} (built here: {built.name})")
            bar.update()
    if unusable:
        raise DeployError(
            f"no wheel for {resolution.arch} and Python 3.13 of {', '.join(unusable)}: run "
            "this on such a machine, or take a release that has one"
        )


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
