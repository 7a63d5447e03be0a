"""The project around an environment: its folders, its settings, and the user's class.

This is the only module that loads what the user wrote.
"""

import ast
import contextlib
import filecmp
import functools
import importlib
import importlib.util
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from .errors import GateError, ProjectError, SettingError
from .files import file_of
from .project_settings import ProjectSettings, read_tool
from .settings import ClientSettings, ParameterSettings

PACKAGE = Path(__file__).resolve().parent
# A wheel of verifiers/ has a copy of the class, the settings and the rows.
COPY = PACKAGE / "_project"
SETTINGS = Path("nemo_gym", "pyproject.toml")

# With one of these names, server.py may serve more than the lines with self.tool().
OTHER_ROUTES = {"endpoint", "router", "routes", "include_router", "mount", "getattr"}
OTHER_ROUTES |= {"add_route", "add_api_route", "route", "api_route"}

# Threads load the class, too. No thread may see a module that is half executed.
_loading = threading.RLock()

# The project that loaded a class.
of_loaded: "WeakKeyDictionary[type, Project]" = WeakKeyDictionary()


def here() -> "Project":
    """The project that a command works on: the program's, else the current folder's.

    Raises ProjectError if there is none.
    """
    return find(*_program(), Path.cwd())


def _program() -> list[Path]:
    """The file of this process, unless a package has it: a venv may be anywhere."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    path = Path(file or sys.prefix).absolute()
    installed = path.is_relative_to(sys.prefix) or "site-packages" in path.parts
    return [] if installed else [path]


def find(*places: Path | str) -> "Project":
    """The project that has the first of `places`, files or folders, that is in one.

    A wheel has its own project. Raises ProjectError if there is none.
    """
    if COPY.is_dir():
        return Project.read(COPY)
    for place in map(Path, places):
        for folder in (place.absolute(), *place.absolute().parents):
            if "environment" in read_tool(folder / SETTINGS):
                return Project.read(folder)
    looked = " or ".join(str(Path(place).absolute()) for place in places)
    raise ProjectError(
        f"no environment in {looked}, or above: there is no {SETTINGS} with a table "
        "[tool.environment]. Run this in the project's folder nemo_gym/"
    )


def of_class(domain_class: type) -> "Project":
    """The project that loaded a class, else the one of here()."""
    return of_loaded.get(domain_class) or here()


def known() -> "set[Project]":
    """The projects whose classes this process has loaded, and the one of its program.

    There may be none: a class can do without.
    """
    projects = set(of_loaded.values())
    with contextlib.suppress(ProjectError):
        projects.add(here())
    return projects


@dataclass(frozen=True)
class Project:
    """An environment's project, as [tool.environment] describes it."""

    root: Path  # the folder of nemo_gym/
    name: str
    module: str
    class_name: str
    models: tuple[str, ...]  # models that the class asks
    folder: str  # where Python finds the module, from `root`

    @classmethod
    def read(cls, root: Path) -> "Project":
        """The project in `root`: the same object until its settings change.

        Raises ProjectError.
        """
        return cls._read(root, (root / SETTINGS).stat().st_mtime_ns)

    @classmethod
    @functools.cache
    def _read(cls, root: Path, changed: int) -> "Project":
        table = ProjectSettings.read(root / SETTINGS)
        return cls(
            root.resolve(),
            table.env_name,
            table.module,
            table.class_name,
            tuple(table.models),
            table.folder,
        )

    @property
    def gym(self) -> Path:
        """The folder nemo_gym/."""
        return self.root / "nemo_gym"

    @property
    def variant(self) -> str:
        """The name of the variant that is played, "" without one."""
        return ParameterSettings.read().env_variant

    @property
    def called(self) -> str:
        """The environment's name, and its variant's, as files in configs/ have it."""
        return f"{self.name}_{self.variant}".removesuffix("_")

    @property
    def rows(self) -> Path:
        """The file of the example rows."""
        return self.gym / "data" / self.variant / "example.jsonl"

    def update_command(self) -> str:
        """`copier update`, with the name of the answers file if that is not the usual one."""
        named = [
            f" -a {path.name}"
            for path in sorted(self.root.glob(".copier-answers.*.yml"))
            if f"\nenv_name: {self.name}\n" in path.read_text(encoding="utf-8")
        ]
        return f"uvx copier update --trust --defaults{''.join(named[:1])}"

    def new_answer(self, answer: str) -> str:
        """The advice to give another answer, such as `models='[judge]'`.

        A copy replaces what was written since, so it is for a project that git lacks.
        """
        listed = ["git", "ls-files", "--error-unmatch", "nemo_gym/pyproject.toml"]
        with contextlib.suppress(OSError):
            done = subprocess.run(
                listed, cwd=self.root, capture_output=True, check=False
            )
            if done.returncode == 0:
                return (
                    f"commit, and run `{self.update_command()} --vcs-ref=:current: "
                    f"-d {answer}` in {self.root}"
                )
        return f"copy again with `--overwrite -d {answer}`"

    def server_block(self) -> tuple[str, dict[str, Any]]:
        """The name and the settings of the one resources server in nemo_gym/configs/."""
        import yaml  # a framework's venv may lack it

        names = f"configs/{self.called if self.variant else '*'}.yaml"
        for path in sorted(self.gym.glob(names)):
            loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
            for name, value in loaded.items():
                if isinstance(value, dict) and "resources_servers" in value:
                    [settings] = value["resources_servers"].values()
                    return name, settings
        raise SettingError(f"no {self.gym}/{names} configures a resources server")

    def table(self) -> ProjectSettings:
        """[tool.environment] as it is now. Raises ProjectError."""
        return ProjectSettings.read(self.root / SETTINGS)

    def number_of_turns(self) -> int:
        """MAX_TURNS, else max_turns of [tool.environment]. Raises SettingError."""
        return ClientSettings.read().max_turns or self.table().max_turns

    def sources(self) -> Path:
        """The folder in which Python finds the class's module: `root`, or `root`/src."""
        return self.root / self.folder

    def top_name(self) -> str:
        """The first part of the module's name: its package, if it is in one."""
        return self.module.partition(".")[0]

    def is_packaged(self) -> bool:
        """Whether the class is in an installed package."""
        return is_installed(self.top_name())

    def load_class(self) -> type:
        """The environment class. Raises GateError, with the place and what to do."""
        self._import_from_sources()
        try:
            with _loading:
                module = self._class_module()
                domain_class = getattr(module, self.class_name)
        except GateError:
            raise
        except (Exception, SystemExit) as error:
            from .import_problems import import_problem

            raise GateError(import_problem(self, error)) from error
        if self._is_hidden_by(module) or not isinstance(domain_class, type):
            from .import_problems import missing_class

            raise GateError(missing_class(self, module))
        of_loaded[domain_class] = self
        return domain_class

    def _class_module(self) -> ModuleType:
        """The class's module, loaded from its file.

        Raises GateError if the process has another environment's module of that name, or
        of a module that the class imports.
        """
        top, sources = self.top_name(), self.sources()
        file = file_of(sources, self.module)
        private = f"{__package__}.{COPY.name}.{self.module}"
        for name in (self.module, private):
            loaded = sys.modules.get(name)
            if file and loaded and _is_file_of(loaded, file):
                return loaded
        from .imports import own_files

        own = own_files(sources, top)
        if not own or is_installed(top):
            return importlib.import_module(self.module)
        if self.root == COPY and top in sys.modules and not _import_it(own, top):
            # Another wheel has the name. This one has its files in a package of its own.
            return importlib.import_module(private)
        known = set(sys.modules)
        try:
            self._check_names(own)
            if top not in sys.modules:
                # Load it by hand: another folder may come first in sys.path.
                spec = PathFinder.find_spec(top, [str(sources)])
                assert spec and spec.loader
                module = sys.modules[top] = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
            module = importlib.import_module(self.module)
            self._check_names(own)
            return module
        except BaseException:
            for name in set(sys.modules) - known:
                if name.partition(".")[0] == top:
                    del sys.modules[name]
            raise

    def _check_names(self, own: list[Path]) -> None:
        """Raise GateError if a loaded module has the name of one of our files, `own`."""
        for file, loaded in self.others_in_place_of(own):
            raise GateError(
                f"{file} cannot be imported beside {loaded.__file__}: one process has one "
                f"module {loaded.__name__!r}. Rename one of the two, or play each "
                "environment in a process of its own"
            )

    def others_in_place_of(self, own: list[Path]) -> Iterator[tuple[Path, ModuleType]]:
        """Our files whose name a loaded module has, which is another one."""
        for file in own:
            *packages, name = file.relative_to(self.sources()).with_suffix("").parts
            parts = packages if name == "__init__" else [*packages, name]
            loaded = sys.modules.get(".".join(parts))
            if loaded and not _is_file_of(loaded, file):
                yield file, loaded

    def _import_from_sources(self) -> None:
        """Have Python find what the class imports from its own folder, and from `root`."""
        for folder in dict.fromkeys((str(self.sources()), str(self.root))):
            if folder not in sys.path:
                sys.path.append(folder)

    def _is_hidden_by(self, module: ModuleType) -> bool:
        """Whether an installed module was loaded, and it is not a copy of the user's."""
        own_file, file = file_of(self.sources(), self.module), module.__file__
        return bool(own_file and file) and not filecmp.cmp(
            own_file, file, shallow=False
        )

    def load_server(self) -> Any:
        """The server class of nemo_gym/server.py, loaded from its file.

        Raises what server.py raises.
        """
        name, path = f"{self.name}_server", self.gym / "server.py"
        module = sys.modules.get(name) or _running(path)
        if module is None:
            self._import_from_sources()
            with _loading:
                self._class_module()
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec and spec.loader
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[name]
                raise
        server = module.main.__self__
        of_loaded.setdefault(server.domain_class, self)
        return server

    def served_tools(self) -> list[str]:
        """The methods that nemo_gym/server.py serves as tools, `self.tool(MyEnv.look)`.

        They are read from its source: only nemo_gym/ has the packages to import it.
        """
        return [
            call.args[0].attr
            for call in ast.walk(self._server_source())
            if isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "tool"
            and call.args
            and isinstance(call.args[0], ast.Attribute)
        ]

    def lists_its_tools(self) -> bool:
        """Whether each route of nemo_gym/server.py is a line of served_tools().

        Then nothing has to be imported to know its tools: that takes two seconds.
        """
        nodes = [*ast.walk(self._server_source())]
        kinds = ("attr", "id", "name")  # of attributes, variables and functions
        names = Counter(getattr(one, kind, None) for one in nodes for kind in kinds)
        sources = [
            node.module
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            and "SessionServer" in [alias.name for alias in node.names]
        ]
        classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
        bases = [getattr(base, "id", "") for one in classes for base in one.bases]
        return (
            names["tool"] == names["post"] == len(self.served_tools())
            and not names.keys() & OTHER_ROUTES
            and bases == ["SessionServer"]
            and "env_runtime.server" in sources
        )

    def _server_source(self) -> ast.Module:
        return ast.parse((self.gym / "server.py").read_text(encoding="utf-8"))


def is_installed(name: str) -> bool:
    """Whether an installed package has this name: it hides the user's module."""
    spec = PathFinder.find_spec(name)
    place = Path(spec.origin) if spec and spec.origin else Path()
    folder = place.parents[1] if place.name == "__init__.py" else place.parent
    return folder.name in ("site-packages", "dist-packages")


def _import_it(files: list[Path], name: str) -> bool:
    """Whether one of the files imports a module, or one in it, by its full name."""
    pattern = re.compile(rf"^\s*(?:import|from)\s+{name}\b", re.MULTILINE)
    return any(pattern.search(file.read_text(encoding="utf-8")) for file in files)


def _is_file_of(module: ModuleType, file: Path) -> bool:
    place = getattr(module, "__file__", None)
    return place is None or Path(place).resolve() == file.resolve()


def _running(path: Path) -> ModuleType | None:
    """The module of server.py, if that is the program that runs."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return main if file and Path(file).resolve() == path else None
