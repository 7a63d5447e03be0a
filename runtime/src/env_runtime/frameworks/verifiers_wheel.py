"""Hatchling's hook for verifiers/: adds the class, the rows and env_runtime to the wheel.

env_runtime is in the wheel under a name of its own, with the class and the rows in it.
So the wheel installs no other name of this project, and two environments in one venv may
have different releases of env_runtime. An editable installation uses the installed one.

verifiers/hatch_build.py imports this module from env_runtime's wheel while a wheel is
built. It needs only hatchling, and what that needs.
"""

import re
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ..shipped import READ, ROWS

__all__ = ["CustomBuildHook"]

RUNTIME, PACKAGE = "nemo-gym-env-runtime", __name__.partition(".")[0]


class CustomBuildHook(BuildHookInterface):
    """pyproject.toml names the `runtime`, and the class in `include`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        root, runtime = Path(self.root), self.config["runtime"]
        project = root.parent
        [wheel] = (project / "nemo_gym/vendor").glob("nemo_gym_env_runtime-*.whl")
        self.folder = tempfile.TemporaryDirectory()
        unpacked, content = (Path(self.folder.name) / name for name in ("a", "b"))
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
        content.mkdir()
        (unpacked / PACKAGE).rename(content / runtime)
        [metadata] = unpacked.glob("*.dist-info/METADATA")
        read = [path for path in [*READ, *ROWS] if (project / path).is_file()]
        for path in [*self.config["include"], *read]:
            copy(project, path, content / runtime / "_project", runtime)
        for path in self.build_config.only_include.values():
            copy(root, path, content, runtime)
        build_data["force_include"] |= {
            str(file): str(file.relative_to(content))
            for file in content.rglob("*")
            if file.is_file()
        }
        requirements = self.metadata.core.dependencies
        requirements[:] = without_runtime(requirements, metadata.read_bytes())

    def finalize(self, version: str, build_data: dict[str, Any], path: str) -> None:
        if version == "standard":
            self.folder.cleanup()


def copy(root: Path, path: str, target: Path, runtime: str) -> None:
    """Copy a file or a folder to its place in `target`.

    Modules import the wheel's `runtime` instead of env_runtime.
    """
    source = root / path
    for file in source.rglob("*") if source.is_dir() else [source]:
        if file.is_dir() or "__pycache__" in file.parts:
            continue
        content = file.read_bytes()
        if file.suffix == ".py":
            content = re.sub(rf"\b{PACKAGE}\b".encode(), runtime.encode(), content)
        place = target / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def without_runtime(requirements: list[str], metadata: bytes) -> list[str]:
    """The requirements, with those of env_runtime instead of env_runtime itself."""
    texts = message_from_bytes(metadata).get_all("Requires-Dist", [])
    known, wanted = [Requirement(text) for text in texts], []
    for requirement in map(Requirement, requirements):
        if canonicalize_name(requirement.name) == RUNTIME:
            wanted += required_by(known, {"", *requirement.extras})
        else:
            wanted.append(str(requirement))
    # It is for editable installations.
    return [text for text in wanted if text != "editables"]


def required_by(known: list[Requirement], extras: set[str]) -> list[str]:
    """The known requirements with these extras, which may name other extras."""
    wanted = []
    for requirement in known:
        marker, name = requirement.marker, canonicalize_name(requirement.name)
        if not any(marker.evaluate({"extra": x}) if marker else not x for x in extras):
            continue
        if name == RUNTIME:
            wanted += required_by(known, requirement.extras)
        else:
            wanted.append(str(requirement).partition(";")[0].strip())
    return wanted
