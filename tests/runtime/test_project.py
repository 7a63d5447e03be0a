"""The project around the runtime: the user's class, and the server's settings."""

import importlib
import pickle
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType

import pytest
import requests
from env_runtime import project as project_module
from env_runtime.episode.tasks import read_task
from env_runtime.episode.tools import tools_of
from env_runtime.errors import GateError, ProjectError
from env_runtime.project import Project, find, here, known, of_class

from .support import refusal


def project_in(root, module, class_name="MyEnv", folder="", name="my_env"):
    return Project(root, name, module, class_name, (), folder)


BROKEN = {
    "": "mine_{n}.py has no class MyEnv: write the class there, or import it there",
    "class Other:\n    def reward(self): ...": (
        "mine_{n}.py has no class MyEnv, but Other: copy again with --overwrite -d "
        "domain_class=Other, or write `MyEnv = Other` at its end"
    ),
    "def MyEnv(): ...\nclass Other:\n    def reward(self): ...": (
        "mine_{n}.py has no class MyEnv, but Other: copy again with --overwrite -d "
    ),
    "class MyEnv:\n    def guess(self word)": "mine_{n}.py, line 2: SyntaxError",
    "<<<<<<< before\nclass MyEnv: ...\n": (
        "mine_{n}.py, line 1: an update left a conflict there: keep one of the two "
    ),
    "import nowhere": (
        "ModuleNotFoundError in mine_{n}.py, line 1: No module named 'nowhere'. Not "
        "installed: nowhere. Add the packages that have it: `uv add --directory "
    ),
    "import importlib; importlib.import_module('nowhere.inner')": (
        "ModuleNotFoundError in mine_{n}.py, line 1: No module named 'nowhere'. Not "
        "installed: nowhere. Add"
    ),
    "MyEnv = 1 / 0": "ZeroDivisionError in mine_{n}.py, line 1: division by zero",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_class_that_cannot_be_imported(tmp_path, monkeypatch, source):
    number = list(BROKEN).index(source)  # a module is imported once
    (tmp_path / f"mine_{number}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    text = refusal(GateError, project_in(tmp_path, f"mine_{number}").load_class)
    assert text.startswith(BROKEN[source].format(n=number))


@pytest.mark.parametrize("layout", ["", "src"])
def test_a_class_of_the_repository_above(tmp_path, monkeypatch, layout):
    """Its package is to be added from there, and its name is not the answer's."""
    package = tmp_path / layout / "coinlab"
    package.mkdir(parents=True)
    (package / "coin.py").write_text("class Coin:\n    def reward(self): ...\n")
    (tmp_path / "pyproject.toml").touch()
    root = tmp_path / "envs/coin"
    (root / "nemo_gym").mkdir(parents=True)
    (root / "coin_env.py").write_text("from coinlab.coin import Coin")
    monkeypatch.setattr(sys, "argv", [str(root / "nemo_gym/gates.py")])
    monkeypatch.setattr(sys, "path", [*sys.path, str(root)])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    project = project_in(root, "coin_env")
    text = refusal(GateError, project.load_class)
    assert f"`uv add --directory {root}/nemo_gym --editable ../../.. && " in text
    sys.path.append(str(package.parent))
    text = refusal(GateError, project.load_class)
    assert "coin_env.py has no class MyEnv, but Coin: copy again with" in text


def test_threads_load_the_class_once(tmp_path, monkeypatch):
    """The first thread is in the middle of the module when the second one comes."""
    loading = ModuleType("loading_of_slow")
    loading.inside, loading.go_on = threading.Event(), threading.Event()  # type: ignore
    (tmp_path / "slow.py").write_text(
        "import loading_of_slow as loading\n"
        "loading.inside.set()\n"
        "loading.go_on.wait(10)\n"
        "class MyEnv: pass\n"
    )
    monkeypatch.setitem(sys.modules, "loading_of_slow", loading)
    monkeypatch.syspath_prepend(tmp_path)
    project = project_in(tmp_path, "slow")
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(project.load_class)
        assert loading.inside.wait(10)
        second = pool.submit(project.load_class)
        wait([second], timeout=0.2)  # without a lock, it fails right away
        loading.go_on.set()
        assert first.result() is second.result()


@pytest.mark.parametrize("name", ["MyEnv", "Session"])
def test_a_module_that_an_installed_package_hides(tmp_path, name):
    """The package may have a class of that name, too."""
    (tmp_path / "requests.py").write_text(f"class {name}: ...")
    project = project_in(tmp_path, "requests", name)
    with pytest.raises(GateError, match="the package requests in .* hides your module"):
        project.load_class()
    # An image has the user's package, and a copy of its module.
    shutil.copy(str(requests.__file__), tmp_path / "requests.py")
    if name == "Session":
        assert project.load_class() is requests.Session


@pytest.mark.parametrize("folder", ["", "src"])
@pytest.mark.parametrize("regular", [True, False])
def test_a_module_of_a_package(tmp_path, monkeypatch, folder, regular):
    """The package may be in src/, and may do without __init__.py."""
    place = tmp_path / folder / "caves"
    place.mkdir(parents=True)
    (place / "walls.py").write_text("HIGH = 3")
    (place / "inner.py").write_text("from caves.walls import HIGH\nclass MyEnv: ...")
    if regular:
        (place / "__init__.py").touch()
    project = project_in(tmp_path, "caves.inner", folder=folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    loaded = project.load_class()
    assert (loaded.__module__, sys.modules["caves.walls"].HIGH) == ("caves.inner", 3)
    assert project.load_class() is loaded


def test_a_package_that_was_imported_before_is_not_loaded_again(tmp_path, monkeypatch):
    """make_rows.py may import another module of it first."""
    package = tmp_path / "grottos"
    package.mkdir()
    for name, text in (("__init__", ""), ("levels", ""), ("inner", "class MyEnv: ...")):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    levels = importlib.import_module("grottos.levels")
    loaded = project_in(tmp_path, "grottos.inner").load_class()
    assert loaded is importlib.import_module("grottos.inner").MyEnv
    assert sys.modules["grottos.levels"] is levels


@pytest.fixture
def world(tmp_path):
    """Makes a project with these files, whose class is `World`."""

    def make(name, files, module="world"):
        root = tmp_path / name
        for path, source in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(source.replace("NAME", name))
        return project_in(root, module, "World", name=name)

    path, modules, finders = list(sys.path), dict(sys.modules), list(sys.meta_path)
    yield make
    sys.path[:], sys.meta_path[:] = path, finders
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


NAMES = ["first", "second"]
MODULES = ["world.py", "world/__init__.py"]


@pytest.mark.parametrize("module", MODULES)
def test_two_environments_whose_modules_have_one_name(world, module):
    files = {module: "class World: name = 'NAME'"}
    projects = [world(name, files) for name in NAMES]
    first, second = [project.load_class() for project in projects]
    assert (first.name, second.name) == ("first", "second")
    assert [project.load_class() for project in projects] == [first, second]
    assert sys.modules["world"].World is first  # as in a process of its own


# Each environment's Thing and Task are resolved when somebody needs them.
TYPES = """
from __future__ import annotations
from dataclasses import dataclass
from pydantic import BaseModel

class Pick(BaseModel):
    thing: Thing

@dataclass
class Task:
    thing: Thing

class World:
    def __init__(self, task: Task) -> None: ...
    def pick(self, pick: Pick) -> str: ...
    def reward(self) -> float: ...

class Thing(BaseModel):
    of_NAME: int
"""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("module", MODULES)
def test_types_are_those_of_their_own_environment(world, module, order):
    classes = [world(name, {module: TYPES}).load_class() for name in NAMES]
    for number in order:
        name, domain_class = NAMES[number], classes[number]
        parameters = tools_of(domain_class)["pick"].definition()["parameters"]
        thing = parameters["properties"]["pick"]["properties"]["thing"]
        assert list(thing["properties"]) == [f"of_{name}"]
        task = read_task(domain_class, {"thing": {f"of_{name}": 3}})
        assert type(task) is type(pickle.loads(pickle.dumps(task)))
        assert vars(task.thing) == {f"of_{name}": 3}


IMPORTS = """
import world.core
from . import core
from world import core as known
import words
from common.names import TEXT

class World:
    def names(self):
        from world.late import TEXT as LATE
        return [world.core.TEXT, core.TEXT, known.TEXT, words.TEXT, TEXT, LATE]
"""


@pytest.mark.parametrize("regular", [True, False])
def test_imports_find_the_modules_of_their_own_environment(world, regular):
    """They are absolute, relative or late, of the package or of a module beside it."""
    files = {"world/inner.py": IMPORTS, "common/__init__.py": ""}
    if regular:
        files["world/__init__.py"] = ""
    for path in ("world/core", "world/late", "words", "common/names"):
        files[f"{path}.py"] = "TEXT = 'NAME'"
    first, second = [world(n, files, "world.inner").load_class() for n in NAMES]
    assert first().names() == ["first"] * 6
    assert second().names() == ["second"] * 6


SERVER = """
from world import World

class Server:
    domain_class = World

    @classmethod
    def main(cls): ...

main = Server.main
"""


def test_server_py_imports_the_class_of_its_own_environment(world):
    """The class knows its project, too: the names of its models, for instance."""
    for name in NAMES:
        files = {"world.py": "class World: ...", "nemo_gym/server.py": SERVER}
        project = world(name, files)
        domain_class = project.load_server().domain_class
        assert of_class(domain_class) is project
        assert project in known()
        assert domain_class is project.load_class()


def test_a_broken_class_leaves_another_environments_module(world):
    first = world("first", {"world/__init__.py": "class World: ..."}).load_class()
    for _ in range(2):
        with pytest.raises(GateError, match=r"ZeroDivisionError in world\.py, line 1"):
            world("second", {"world.py": "1 / 0"}).load_class()
    assert sys.modules["world"].World is first


def test_a_command_outside_of_a_project_says_where_it_looked(tmp_path):
    assert refusal(ProjectError, find, tmp_path) == (
        f"no environment in {tmp_path}, or above: there is no nemo_gym/pyproject.toml with "
        "a table [tool.environment]. Run this in the project's folder nemo_gym/"
    )


def test_a_project_is_found_from_its_files(tmp_path):
    settings = tmp_path / "nemo_gym/pyproject.toml"
    settings.parent.mkdir()
    settings.write_text('[tool.environment]\nenv_name = "maze"\nmodule = "walls"\n')
    with pytest.raises(ProjectError, match=r"\[tool.environment\] has no class"):
        find(tmp_path)
    with settings.open("a") as file:
        file.write('class = "Maze"\n')
    for place in (tmp_path, settings.parent, tmp_path / "ors/server.py"):
        found = find(tmp_path.parent, place)
        assert found == Project(tmp_path.resolve(), "maze", "walls", "Maze", (), "")


def test_a_command_works_on_the_project_of_the_current_folder(tmp_path, monkeypatch):
    """One process may run commands of several projects, one after the other."""
    monkeypatch.setattr(project_module, "_program", list)
    for name in ("first", "second", "first"):
        gym = tmp_path / name / "nemo_gym"
        gym.mkdir(parents=True, exist_ok=True)
        lines = ["[tool.environment]", f'env_name = "{name}"', 'module = "maze"']
        (gym / "pyproject.toml").write_text("\n".join([*lines, 'class = "Maze"']))
        monkeypatch.chdir(gym)
        assert (here().name, here().root) == (name, tmp_path / name)
