"""Add the class, the rows and env_runtime to the wheel.

env_runtime is in the wheel under a name of its own, with the class and the rows in it.
So the wheel installs no other name of this project, and two environments in one venv may
have different releases of env_runtime. An editable installation uses the installed one.
"""

import re
import tempfile
import zipfile
from email import message_from_bytes
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import (  # type: ignore
    BuildHookInterface,  # which is installed while a wheel is built
)
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

RUNTIME, PACKAGE = "nemo-gym-env-runtime", "env_runtime"

# Files of the project that the runtime reads: rows of each split, max_turns, the tools.
READ = [
    *("nemo_gym/data/example.jsonl", "nemo_gym/data/train.jsonl"),
    *("nemo_gym/data/validation.jsonl", "nemo_gym/pyproject.toml"),
    "nemo_gym/server.py",
]


class CustomBuildHook(BuildHookInterface):
    """The hook. pyproject.toml names the `runtime`, and the class in `include`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "standard":
            return
        project, name = Path(self.root).parent, self.config["runtime"]
        wheels = list((project / "nemo_gym/vendor").glob("*.whl"))
        if len(wheels) != 1:
            raise FileNotFoundError(
                f"{project}/nemo_gym/vendor must hold one wheel, the one of {RUNTIME}, "
                f"but has {len(wheels)}: run `copier update`"
            )
        self.folder = tempfile.TemporaryDirectory()
        package = Path(self.folder.name, name)
        metadata = self.unpack(wheels[0], package)
        for path in [*self.config["include"], *READ]:
            source = project / path
            files = source.rglob("*.py") if source.is_dir() else [source]
            for file in filter(Path.is_file, files):
                place = package / "_project" / file.relative_to(project)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(renamed(file, name))
        include = build_data["force_include"]
        include[str(package)] = name
        for module in self.build_config.only_include or ():
            place = Path(self.folder.name, module)
            place.write_bytes(renamed(Path(self.root, module), name))
            include[str(place)] = module
        self.build_config.target_config["only-include"] = []
        self.require_what_the_runtime_requires(metadata)

    def finalize(self, version: str, build_data: dict[str, Any], path: str) -> None:
        if version == "standard":
            self.folder.cleanup()

    def unpack(self, wheel: Path, package: Path) -> bytes:
        """Write the wheel's package. Returns its metadata."""
        metadata = b""
        with zipfile.ZipFile(wheel) as archive:
            for path in archive.namelist():
                if path.endswith(".dist-info/METADATA"):
                    metadata = archive.read(path)
                elif path.startswith(f"{PACKAGE}/") and not path.endswith("/"):
                    place = package / path.removeprefix(f"{PACKAGE}/")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_bytes(archive.read(path))
        return metadata

    def require_what_the_runtime_requires(self, metadata: bytes) -> None:
        """Replace the requirement of env_runtime with its own requirements."""
        known = message_from_bytes(metadata).get_all("Requires-Dist", [])
        requirements = self.metadata.core.dependencies
        wanted, extras = [], {""}
        for requirement in map(Requirement, requirements):
            if canonicalize_name(requirement.name) == RUNTIME:
                extras |= requirement.extras
            else:
                wanted.append(str(requirement))
        for requirement in map(Requirement, known):
            marker, requirement.marker = requirement.marker, None
            if marker is None or any(marker.evaluate({"extra": x}) for x in extras):
                wanted.append(str(requirement))
        # It is for editable installations.
        requirements[:] = [text for text in wanted if text != "editables"]


def renamed(file: Path, runtime: str) -> bytes:
    """The content of a file, in which imports of env_runtime name the wheel's own."""
    content = file.read_bytes()
    if file.suffix != ".py":
        return content
    pattern = rb"(?m)^(\s*(?:from|import)\s+)env_runtime\b"
    return re.sub(pattern, rb"\g<1>" + runtime.encode(), content)
