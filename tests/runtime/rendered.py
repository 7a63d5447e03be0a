"""A game of the working tree, importable in this process.

`import my_env_runtime` works after this import, and so do `my_env` and the modules of
nemo_gym/. Each process renders its own game, in about a second.
"""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

from conftest import copy_working_tree, import_path, render_project

FOLDER = Path(tempfile.mkdtemp(prefix="runtime-"))
PROJECT = FOLDER / "my_env"
IMPORT_PATH = import_path(PROJECT)

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
copy_working_tree(FOLDER / "template")
render_project(FOLDER / "template", PROJECT, env_name="my_env", siblings=["ors"])
sys.path += IMPORT_PATH.split(os.pathsep)
