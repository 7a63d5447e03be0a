"""Adds the class, the rows and env_runtime to the wheel, with env_runtime's own hook."""

import sys
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[1] / "nemo_gym/vendor"
wheels = list(VENDOR.glob("nemo_gym_env_runtime-*.whl"))
if len(wheels) != 1:
    raise FileNotFoundError(
        f"{VENDOR} has {len(wheels)} wheels, expected one of nemo-gym-env-runtime: run "
        "`uv build --wheel` in the project's folder verifiers/"
    )
sys.path.insert(0, str(wheels[0]))  # Python imports from a wheel, too

from env_runtime.frameworks.verifiers_wheel import CustomBuildHook

__all__ = ["CustomBuildHook"]
