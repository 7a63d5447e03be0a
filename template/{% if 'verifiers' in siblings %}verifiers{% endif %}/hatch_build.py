"""Add the class, the runtime and the rows to the wheel.

All of them go into the runtime's package, so that the wheel installs no other name of
this project. An editable installation reads them in place.
"""

import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import (  # type: ignore
    BuildHookInterface,  # which is installed while a wheel is built
)
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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
        project, runtime = Path(self.root).parent, self.config["runtime"]
        package = project / runtime / "src" / runtime
        if not package.is_dir():
            raise FileNotFoundError(
                f"{package} is missing: run `uv build --wheel` in the project's folder "
                "verifiers/, where the runtime is beside it"
            )
        copied = self.config["include"] + [
            path for path in READ if (project / path).is_file()
        ]
        files = {package: runtime}
        files |= {project / path: f"{runtime}/_project/{path}" for path in copied}
        build_data["force_include"].update(
            {str(path): place for path, place in files.items()}
        )
        self.require_what_the_runtime_requires(project / runtime / "pyproject.toml")

    def require_what_the_runtime_requires(self, pyproject: Path) -> None:
        """Replace the requirement of the runtime with the runtime's requirements."""
        runtime = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
        name = canonicalize_name(runtime["name"])
        requirements = self.metadata.core.dependencies
        extras = [
            extra
            for requirement in map(Requirement, requirements)
            if canonicalize_name(requirement.name) == name
            for extra in requirement.extras
        ]
        wanted = [*requirements, *runtime["dependencies"]]
        for extra in sorted(extras):
            wanted += runtime["optional-dependencies"][extra]
        left_out = (name, "editables")  # the second is for editable installations
        requirements[:] = [
            text
            for text in wanted
            if canonicalize_name(Requirement(text).name) not in left_out
        ]
