"""The runtime of the environment in whose nemo_gym/ folder a benchmark runs."""

import importlib
import os
import sys
from pathlib import Path
from typing import Any

# server.py and the class are imported from there; the runtime's package is installed.
sys.path.insert(0, os.getcwd())

[_FOLDER] = Path.cwd().parent.glob("*_runtime")
NAME = _FOLDER.name


def module(name: str) -> Any:
    """A module of the runtime, which has another name in every environment."""
    return importlib.import_module(f"{NAME}.{name}")
