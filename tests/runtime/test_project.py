"""The project around the runtime: the user's class, and the server's settings."""

import importlib
import shutil
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from types import ModuleType

import pytest
import requests
from env_runtime import project as project_module
from env_runtime.errors import GateError, ProjectError
from env_runtime.project import Project, find, here

from projects import git

from .support import refusal


def project_in(root, module, class_name="MyEnv", folder="", name="my_env"):
    return Project(root, name, module, class_name, (), folder)


@pytest.fixture(autouse=True)
def modules_end_with_their_test(tmp_path):
    """mutmut runs each test several times in one process."""
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


BROKEN = {
    "": "mine_{n}.py has no class MyEnv: write the class there, or import it there",
    "class Other:\n    def reward(self): ...": (
        "mine_{n}.py has no class MyEnv, but Other: copy again with `--overwrite -d "
        "domain_class=Other`, or write `MyEnv = Other` at its end"
    ),
    "def MyEnv(): ...\nclass Other:\n    def reward(self): ...": (
        "mine_{n}.py has no class MyEnv, but Other: copy again with `--overwrite -d "
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


def test_a_module_that_reads_the_command_line_is_named(tmp_path, monkeypatch, capsys):
    lines = (
        "import argparse\n\nargparse.ArgumentParser().parse_args()\nclass MyEnv: ..."
    )
    (tmp_path / "argsy.py").write_text(lines)
    monkeypatch.setattr(sys, "argv", ["gates.py", "import"])
    text = refusal(GateError, project_in(tmp_path, "argsy").load_class)
    assert text.startswith(
        "SystemExit in argsy.py, line 3: 2. The module argsy ends the"
    )
    assert "parse_args(), below `if __name__" in text


@pytest.mark.parametrize(
    "imports",
    ["import stock; stock.SHOPS", "import stock.shops", "from stock import SHOPS"],
)
def test_a_module_of_the_same_name_elsewhere_is_named_with_its_file(
    tmp_path, monkeypatch, imports
):
    """A folder of PYTHONPATH comes before the project's."""
    other, root = tmp_path / "other", tmp_path / "mine"
    for folder, text in ((other, "OTHER = 1"), (root, "SHOPS = []")):
        folder.mkdir()
        (folder / "stock.py").write_text(text)
    (root / "seller.py").write_text(f"{imports}\nclass MyEnv: ...")
    monkeypatch.syspath_prepend(other)
    text = refusal(GateError, project_in(root, "seller").load_class)
    assert f"Python has loaded {other}/stock.py in place of {root}/stock.py" in text


def test_another_answer_is_an_update_once_the_project_is_in_git(tmp_path):
    """A copy would replace what was written since."""
    project = project_in(tmp_path, "mine")
    settings = tmp_path / "nemo_gym/pyproject.toml"
    settings.parent.mkdir()
    settings.touch()
    git(tmp_path, "init", "--quiet")
    copied = "copy again with `--overwrite -d models=...`"
    assert project.new_answer("models=...") == copied
    git(tmp_path, "add", "--all")
    assert project.new_answer("models=...") == (
        "commit, and run `uvx copier update --trust --defaults --vcs-ref=:current: "
        f"-d models=...` in {tmp_path}"
    )


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


CLASS = "class World: name = 'NAME'"


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("world", {"world.py": CLASS}),
        ("world", {"world/__init__.py": CLASS}),
        ("world.inner", {"world/__init__.py": "", "world/inner.py": CLASS}),
        ("NAME", {"NAME.py": f"import words\n{CLASS}", "words.py": ""}),
        (
            "NAME",
            {"NAME.py": f"from words.few import A\n{CLASS}"}
            | {"words/__init__.py": "", "words/few.py": "A = 1"},
        ),
    ],
)
def test_a_second_environment_with_a_module_of_the_same_name_is_refused(
    world, module, files
):
    """The first one plays on."""
    first, second = (
        world(
            name,
            {path.replace("NAME", name): text for path, text in files.items()},
            module.replace("NAME", name),
        )
        for name in ("first", "second")
    )
    assert first.load_class().name == "first"
    message = refusal(GateError, second.load_class)
    shared = next(path for path in reversed(files) if "NAME" not in path)
    assert "cannot be imported beside" in message
    assert f"{second.root}/" in message and f"{first.root}/" in message
    assert "Rename one of the two, or play each environment in a process" in message
    assert first.load_class().name == "first"
    assert shared.partition("/")[0].removesuffix(".py") in message


def test_a_helper_that_nobody_imports_may_have_the_same_name(world):
    files = {"words.py": ""}
    for name in ("first", "second"):
        made = world(name, {**files, f"{name}.py": CLASS}, name)
        assert made.load_class().name == name


def test_a_broken_class_leaves_no_module(world):
    for _ in range(2):
        with pytest.raises(GateError, match=r"ZeroDivisionError in world\.py, line 1"):
            world("first", {"world.py": "1 / 0"}).load_class()
    assert world("second", {"world.py": CLASS}).load_class().name == "second"


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


SERVER = """
from env_runtime.server import SessionServer

class Server(SessionServer):
    domain_class = MyEnv

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/look")(self.tool(MyEnv.look))
        app.post("/say_hello")(self.tool(MyEnv.say_hello))
        return app
"""
LOOK = 'app.post("/look")(self.tool(MyEnv.look))'


@pytest.mark.parametrize(
    ("line", "other", "listed"),
    [
        (LOOK, LOOK, True),
        (LOOK, "pass", True),
        (LOOK, 'app.post("/look")(self.endpoint(look))', False),
        (LOOK, 'app.post("/look")(look)', False),
        (LOOK, 'app.post("/look")(self.tool(getattr(MyEnv, "look")))', False),
        (LOOK, "for method in METHODS: app.post(method)(self.tool(method))", False),
        (LOOK, "app.include_router(more)", False),
        (LOOK, f"{LOOK}; app.add_api_route('/more', more)", False),
        ("    domain_class = MyEnv", "    def tool(self, method): ...", False),
        ("(SessionServer)", "(Base)", False),
        ("from env_runtime.server", "from my_base", False),
        ("(SessionServer)", "(Tools, SessionServer)", False),
    ],
)
def test_tools_are_known_without_an_import_only_from_plain_lines(
    tmp_path, line, other, listed
):
    project = project_in(tmp_path, "box")
    project.gym.mkdir(exist_ok=True)
    (project.gym / "server.py").write_text(SERVER.replace(line, other))
    assert project.lists_its_tools() == listed
