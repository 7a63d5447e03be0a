"""The packages of the modules that a class imports."""

import importlib
import sys

import pytest
from env_runtime import imports

from projects import UV, run

SOURCE = """
import json, os.path
import numpy.linalg as algebra
from sklearn import svm
from . import nothing
from helpers import thing
import typing
try:
    import lightgbm
except ImportError:
    lightgbm = None
if typing.TYPE_CHECKING:
    import pandas

class Maze:
    def look(self):
        import PIL.Image
        try:
            import late
        finally:
            pass
"""


@pytest.fixture
def maze(tmp_path):
    (tmp_path / "maze.py").write_text(SOURCE)
    (tmp_path / "helpers").mkdir()
    (tmp_path / "helpers/__init__.py").write_text("import maze, xgboost\n")
    return tmp_path


def test_modules_that_must_be_there(maze):
    modules = imports.imported_modules(maze, "maze")
    assert modules == ["PIL", "late", "numpy", "sklearn", "xgboost"]


def test_only_modules_that_the_class_reaches_count(tmp_path):
    """A package may have modules for packages that are optional, like its extras."""
    files = {
        "mazes/__init__.py": "from .walls import Wall",
        "mazes/walls.py": "import numpy",
        "mazes/export.py": "import msgpack",
        "mazes/play/search.py": "from .. import walls\nfrom . import near as n",
        "mazes/play/near.py": "from ..paths.short import step\nimport helpers.used",
        "mazes/paths/short.py": "import sklearn.svm",
        "helpers/__init__.py": "",
        "helpers/used.py": "import PIL",
        "helpers/unused.py": "import yaml",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    modules = imports.imported_modules(tmp_path, "mazes.play.search")
    assert modules == ["PIL", "numpy", "sklearn"]
    files_of_both = imports.own_files(tmp_path, "mazes")  # an image gets all of them
    assert len(files_of_both) == len(files)


def test_missing_modules(maze):
    (maze / "maze.py").write_text("import pydantic, helpers.x, no_such_module")
    (maze / "helpers/__init__.py").write_text("")
    assert imports.missing_modules(maze, "maze") == ["no_such_module"]


def installed(folder, name, requires, module=""):
    """Write the metadata of a distribution, as an installer does."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    lines = [f"Requires-Dist: {text}\n" for text in requires]
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{''.join(lines)}"
    (info / "METADATA").write_text(text)
    (info / "top_level.txt").write_text(module)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """An environment with its runtime, its own package, and what they need."""
    folder = tmp_path / "site"
    asks = ["nemo-gym-env-runtime[served] ", "Own_Package"]
    asks.append("scikit.learn>=1 ; python_version>'3'")
    installed(folder, "the-environment", asks)
    asks = ["xgb", "pytest; extra == 'testing'", 'numpy ; extra == "served"']
    installed(folder, "nemo-gym-env-runtime", asks)
    installed(folder, "own-package", ["pillow[more]"], "mazes")
    installed(folder, "pillow", ["for-all; extra == 'all'"], "PIL")
    installed(folder, "scikit-learn", [], "sklearn")
    installed(folder, "xgb", ["late-joiner"], "xgboost")
    installed(folder, "numpy", [], "numpy")
    installed(folder, "late-joiner", [], "late")
    installed(folder, "pytest", [], "testing")
    installed(folder, "for-all", [], "unasked")
    (folder / "pyproject.toml").write_text('[project]\nname = "the-environment"\n')
    monkeypatch.setattr(sys, "path", [str(folder)])
    imports._declared.cache_clear()
    importlib.invalidate_caches()
    yield folder
    imports._declared.cache_clear()


def test_what_only_the_runtime_brings_is_there_by_accident(maze, site):
    """PIL comes with a package that the project names, late with one of the runtime's."""
    assert imports.undeclared_packages(maze, "maze", site) == {"late": "late-joiner"}


def test_an_extra_that_nobody_asked_for_declares_nothing(maze, site):
    (maze / "maze.py").write_text("import testing, mazes, unasked")
    undeclared = imports.undeclared_packages(maze, "maze", site)
    assert undeclared == {"testing": "pytest", "unasked": "for-all"}
    # A server's group declares packages, too: the folder of OpenEnv has the runtime there.
    server = '[dependency-groups]\nserver = ["nemo-gym-env-runtime[testing]"]\n'
    with (site / "pyproject.toml").open("a") as file:
        file.write(server)
    undeclared = imports.undeclared_packages(maze, "maze", site)
    assert undeclared == {"unasked": "for-all"}
    # A project that is not installed is not checked.
    (site / "pyproject.toml").write_text(f'[project]\nname = "nobody"\n{server}')
    assert imports.undeclared_packages(maze, "maze", site) == {}


SETTINGS = """
[project]
name = "the-environment"
dependencies = ["rocks @ file:///srv/rocks", "numpy>=2"]
[tool.uv.sources]
nemo-gym-env-runtime = { path = "vendor/x-1-py3-none-any.whl" }
digging = [{ path = "../../digging", marker = "python_version > '3'" }]
own = { path = ".." }
teamlib = { path = "vendor/teamlib-1-py3-none-any.whl" }
other = { git = "https://example.com/other" }
"""


def test_packages_that_an_image_does_not_get(tmp_path):
    gym = tmp_path / "nemo_gym"
    gym.mkdir()
    (gym / "pyproject.toml").write_text(SETTINGS)
    outside = [
        "digging is installed from ../../digging, which an image does not get: ",
        "rocks is installed from /srv/rocks, which an image does not get: ",
    ]

    def starts():
        notes = imports.not_in_image(gym, tmp_path)
        return sorted(note.partition("install it")[0] for note in notes)

    assert starts() == outside  # the image is built from `own`, too
    (gym / "Dockerfile").write_text("RUN uv export --no-emit-local")
    own = "own is installed from .., which an image does not get: "
    assert starts() == sorted([*outside, own])


LIBRARY = """
[project]
name = "team.lib"
version = "1"
requires-python = ">=3.12"
[build-system]
requires = ["uv_build>=0.9,<0.14"]
build-backend = "uv_build"
[tool.uv.build-backend]
module-name = "teamlib"
"""


def test_a_library_of_the_repository_as_a_wheel(tmp_path):
    """The import gate's command, after each change of the library."""
    module = tmp_path / "libs/teamlib/src/teamlib/__init__.py"
    module.parent.mkdir(parents=True)
    (tmp_path / "libs/teamlib/pyproject.toml").write_text(LIBRARY)
    gym = tmp_path / "envs/words/nemo_gym"
    gym.mkdir(parents=True)
    (gym / "pyproject.toml").write_text(
        '[project]\nname = "words"\nversion = "0"\nrequires-python = ">=3.12"\n'
        'dependencies = ["team.lib"]\n[tool.uv.sources]\n'
        '"team.lib" = { path = "../../../libs/teamlib", editable = true }\n'
    )
    [note] = imports.not_in_image(gym, gym.parent)
    for number in (1, 2):
        module.write_text(f"NUMBER = {number}\n")
        command = note.split("`")[3].replace("uv ", f"{UV} --quiet ")
        run(["bash", "-ec", command], gym)
        assert imports.not_in_image(gym, gym.parent) == []
        code = "import teamlib; print(teamlib.NUMBER)"
        printed = run([UV, "run", "--quiet", "--locked", "python", "-c", code], gym)
        assert printed.stdout == f"{number}\n"
    assert [path.suffix for path in (gym / "vendor").iterdir()] == [".whl"]
