"""Says where env_runtime's wheel is: pip does not read [tool.uv.sources]."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RUNTIME = "nemo-gym-env-runtime"


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        folder = Path(self.root).resolve()
        wheels = [
            wheel
            for place in (folder.parent, folder)  # in the project, and in its Space
            for wheel in place.glob("nemo_gym/vendor/nemo_gym_env_runtime-*.whl")
        ]
        if len(wheels) == 1:  # else pip says what it does not find
            requirements = self.metadata.core.dependencies
            requirements[:] = [
                f"{one} @ {wheels[0].as_uri()}" if one.startswith(RUNTIME) else one
                for one in requirements
            ]
