"""The project around the runtime: the user's class, and the server's settings."""

import importlib
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType

import pytest
from env_runtime.errors import GateError, SettingError
from env_runtime.project import Project


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
    "MyEnv = 1 / 0": "ZeroDivisionError in mine_{n}.py, line 1: division by zero",
}


@pytest.mark.parametrize("source", BROKEN)
def test_a_class_that_cannot_be_imported(tmp_path, monkeypatch, source):
    number = list(BROKEN).index(source)  # a module is imported once
    (tmp_path / f"mine_{number}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(GateError) as error:
        project_in(tmp_path, f"mine_{number}").load_class()
    assert str(error.value).startswith(BROKEN[source].format(n=number))


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
    with pytest.raises(GateError, match="the package requests in .* hides your module"):
        project_in(tmp_path, "requests", name).load_class()


def test_a_module_that_is_installed_too(tmp_path):
    """An image has the user's package, and a copy of its module."""
    import requests

    shutil.copy(str(requests.__file__), tmp_path / "requests.py")
    project = project_in(tmp_path, "requests", "Session")
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
    (package / "__init__.py").touch()
    (package / "levels.py").touch()
    (package / "inner.py").write_text("class MyEnv: ...")
    project = project_in(tmp_path, "grottos.inner")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    levels = importlib.import_module("grottos.levels")
    assert project.load_class() is importlib.import_module("grottos.inner").MyEnv
    assert sys.modules["grottos.levels"] is levels


@pytest.fixture
def world(tmp_path):
    """Makes a project whose class is in `world`, in a folder of its own."""

    def make(name, package):
        root = tmp_path / name
        module = root / ("world/__init__.py" if package else "world.py")
        module.parent.mkdir(parents=True)
        core = ""
        if package:
            core = "from world.core import NAME\n"
            (root / "world/core.py").write_text(f"NAME = {name!r}\n")
        source = f"{core or f'NAME = {name!r}'}\nclass World:\n    name = NAME\n"
        module.write_text(source)
        return project_in(root, "world", "World", name=name)

    path, modules = list(sys.path), dict(sys.modules)
    yield make
    sys.path[:] = path
    for name in set(sys.modules) - set(modules):
        del sys.modules[name]


@pytest.mark.parametrize("package", [False, True])
def test_two_environments_whose_modules_have_one_name(world, package):
    first = world("first", package).load_class()
    known = sys.modules["world"]
    project = world("second", package)
    second = project.load_class()
    assert (first.name, second.name) == ("first", "second")
    assert project.load_class() is second
    assert sys.modules["world"] is known  # pickles of the first know it by this name


def test_a_broken_class_leaves_another_environments_module(world, tmp_path):
    world("first", True).load_class()
    known = {name: sys.modules[name] for name in ("world", "world.core")}
    (tmp_path / "world.py").write_text("1 / 0")
    with pytest.raises(GateError, match=r"ZeroDivisionError in world\.py, line 1"):
        project_in(tmp_path, "world", "World", name="second").load_class()
    assert {name: sys.modules[name] for name in known} == known


@pytest.mark.parametrize(
    ("variables", "port"),
    [
        ({}, 11000),
        ({"SPACE_ID": "me/space"}, 7860),
        ({"SPACE_ID": "me/space", "PORT": "81"}, 81),
    ],
)
def test_ports(serve, monkeypatch, variables, port):
    for name in ("SPACE_ID", "PORT"):
        monkeypatch.setenv(name, variables.get(name, ""))
    assert serve().config.port == port


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_is_a_number(serve, monkeypatch, port):
    monkeypatch.setenv("PORT", port)
    message = f"PORT must be a number from 0 to 65535, got '{port}'"
    with pytest.raises(SettingError, match=message):
        serve()
