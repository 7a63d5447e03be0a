"""A game of the working tree, importable in this process.

After this import, it is the project of this process's program: `my_env`, env_runtime and
the modules of nemo_gym/ can be imported. Each process renders its own game, in about a
second.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from projects import WHEEL, import_path
from rendering import copy_working_tree, render_project

FOLDER = Path(tempfile.mkdtemp(prefix="runtime-"))
PROJECT = FOLDER / "my_env"
IMPORT_PATH = import_path(PROJECT)

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
copy_working_tree(FOLDER / "template")
render_project(FOLDER / "template", PROJECT, env_name="my_env", siblings=["ors"])
# deploy.py needs the file, and nobody installs it here.
VENDOR = PROJECT / "nemo_gym/vendor"
VENDOR.mkdir()
(VENDOR / WHEEL).touch()
sys.path += IMPORT_PATH.split(os.pathsep)

from env_runtime import project

project._program = lambda: [PROJECT]  # ty: ignore[invalid-assignment]
