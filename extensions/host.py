"""Finds what new folders would change in a repository.

A repository may build, lock and check everything below it. Host.refusals() are reasons
not to add a folder, and Host.notes() are what its owner may want to know. Each is one
line, with the text to write into a file of the repository. Nothing is written here.
"""

import ast
import configparser
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

try:
    import tomllib
except ModuleNotFoundError:  # Copier runs on Python 3.10, too
    tomllib = None

# Top-level folders that setuptools leaves out when it looks for packages by itself.
RESERVED = re.compile(
    r"[._].*|benchmarks?|bin|build|changelog|ci|debian|docs?|documentation|examples?"
    r"|exercises?|htmlcov|manpages|news|newsfragments|python|scripts|tests?|tools"
    r"|unit_tests?|utils?"
)

# Tools that check every file of a repository: the table of their settings, the settings
# that name folders, and the line that leaves folders out.
CHECKERS = {
    "mypy": ("mypy", ["files", "packages", "modules"], 'exclude = "^({either})/"'),
    "pyright": ("pyright", ["include"], "exclude = [{names}]"),
    "basedpyright": ("basedpyright", ["include"], "exclude = [{names}]"),
    "ty": ("ty.src", ["include"], "exclude = [{names}]"),
    "black": ("black", ["include"], "extend-exclude = '^/({either})/'"),
    "isort": ("isort", ["src_paths"], "extend_skip = [{names}]"),
}


def read_toml(path: Path, python: str) -> dict[str, Any]:
    """Return a TOML file as a dict, {} if it is missing or broken.

    `python` is an interpreter with tomllib, if this one has none.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if tomllib:
            return tomllib.loads(text)
    except (OSError, ValueError):
        return {}
    code = "import json, sys, tomllib; print(json.dumps(tomllib.loads(sys.argv[1]), default=str))"
    command = [python, "-c", code, text]
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(printed.stdout) if printed.returncode == 0 else {}


def read_ini(*paths: Path) -> dict[str, dict[str, str]]:
    """Return the sections of setup.cfg and similar files, without broken files."""
    config = configparser.ConfigParser(interpolation=None)
    for path in paths:
        try:
            config.read(path, encoding="utf-8")
        except (configparser.Error, ValueError):
            continue
    return {name: dict(config[name]) for name in config.sections()}


def at(table: Any, path: str) -> Any:
    """Return what a dotted path leads to in nested dicts, {} if nothing."""
    for key in path.split("."):
        table = table.get(key, {}) if isinstance(table, dict) else {}
    return table


def listed(values: list[str]) -> str:
    return json.dumps(values, ensure_ascii=False)


def matches(parts: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a path fits a glob of uv; both are split at their slashes."""
    if not (parts and pattern):
        return not (parts or pattern)
    rest = pattern[1:]
    if pattern[0] == "**":
        return not rest or any(matches(parts[n:], rest) for n in range(len(parts)))
    return fnmatchcase(parts[0], pattern[0]) and matches(parts[1:], rest)


# Build tools of packages that have compiled sources
COMPILERS = re.compile(
    r"cython|cffi|maturin|meson-?py|mypyc|nanobind|pybind11|scikit[-_]build|setuptools[-_]rust"
)


class Host:
    """Reads the settings of the repository in `folder`, in which `ours` are new folders.

    `python` is an interpreter with tomllib.
    """

    def __init__(
        self, folder: Path, ours: list[str], python: str = sys.executable
    ) -> None:
        self.folder, self.ours, self.python = folder.resolve(), ours, python
        self.settings = read_toml(folder / "pyproject.toml", python)
        backend = at(self.settings, "build-system.build-backend") or "setuptools"
        self.backend = backend.partition(".")[0]
        scripts = (folder / "setup.py", folder / "setup.cfg")
        built = any(path.is_file() for path in scripts)
        self.is_built = built or "build-system" in self.settings

    def requires_python(self) -> str:
        """Return the versions of Python that the package allows, "" if it names none."""
        options = read_ini(self.folder / "setup.cfg").get("options", {})
        setup = self._calls(self.folder / "setup.py").get("setup", {})
        stated = [
            at(self.settings, "project.requires-python"),
            at(self.settings, "tool.poetry.dependencies.python"),
            options.get("python_requires"),
            setup.get("python_requires"),
        ]
        return next((one for one in stated if one and isinstance(one, str)), "")

    def refusals(self) -> list[str]:
        found = list(self._workspace())
        if self.is_built:
            found += [
                f"the wheel of this repository would hold {', '.join(self.ours)}, and "
                f"overwrite NVIDIA's package where both are installed: {cure}"
                for cure in self._wheel()
            ]
        return found

    def notes(self) -> list[str]:
        found = [*self._sdist(), *self._checkers(), *self._compiled()]
        if "project" in self.settings and not self.is_built:
            found += [
                f"if pip builds this repository, its wheel holds {', '.join(self.ours)} "
                f"and overwrites NVIDIA's package: {cure}"
                for cure in self._setuptools()
            ]
        return found

    def _workspace(self) -> Iterator[str]:
        """Yield a refusal if new folders would become members of a uv workspace."""
        for root in (self.folder, *self.folder.parents):
            settings = read_toml(root / "pyproject.toml", self.python)
            if workspace := at(settings, "tool.uv.workspace"):
                break
        else:
            return

        def is_member(path: Path) -> bool:
            parts = path.relative_to(root).parts
            members, excluded = (
                [
                    tuple(glob.removeprefix("./").rstrip("/").split("/"))
                    for glob in workspace.get(key, [])
                ]
                for key in ("members", "exclude")
            )
            return any(matches(parts, glob) for glob in members) and not any(
                matches(parts, glob) for glob in excluded
            )

        # A member without a pyproject.toml, such as envs/NAME, breaks uv in the root.
        above = [self.folder, *self.folder.parents]
        bare = [
            path
            for path in above[: above.index(root)]
            if not (path / "pyproject.toml").is_file()
        ]
        ours = [self.folder / name for name in self.ours]
        names = [str(one.relative_to(root)) for one in (*bare, *ours) if is_member(one)]
        names += [
            f"{path.relative_to(root)}/**"
            for path in ours
            if any(is_member(one) for one in sorted(path.glob("*/")))
        ]
        if names:
            yield (
                f"the uv workspace of {root} would take in {', '.join(names)}: in its "
                "pyproject.toml, set below [tool.uv.workspace]: "
                f"exclude = {listed([*workspace.get('exclude', []), *names])}"
            )

    def _wheel(self) -> Iterator[str]:
        """Yield what keeps the new folders out of the repository's wheel."""
        if self.backend == "setuptools":
            yield from self._setuptools()
        elif self.backend == "hatchling":
            table = "tool.hatch.build.targets.wheel"
            target = {
                **at(self.settings, "tool.hatch.build"),
                **at(self.settings, table),
            }
            keys = ("include", "packages", "only-include")
            chosen = next((target[key] for key in keys if target.get(key)), [])
            if self._selected(chosen) and self._excluded(target):
                yield self._excluding(table, target)
        elif self.backend == "pdm":
            chosen = at(self.settings, "tool.pdm.build.includes")
            looks = not chosen and not (self.folder / "src").is_dir()
            if looks or self._selected(chosen or []):
                text = f"includes = {listed(self._own_packages())}"
                yield f"in pyproject.toml, set below [tool.pdm.build]: {text}"

    def _selected(self, patterns: list[str]) -> bool:
        """Whether patterns like those of .gitignore select files of the new folders."""
        for pattern in patterns:
            first, slash, _ = pattern.strip("/").partition("/")
            if not slash and fnmatchcase("server.py", first):  # in any folder
                return True
            if first in (".", "**") or any(
                fnmatchcase(one, first) for one in self.ours
            ):
                return True
        return False

    def _excluded(self, target: dict[str, Any]) -> list[str]:
        """Return the new folders that a target of hatchling would still pack."""
        firsts = [one.strip("/").split("/")[0] for one in target.get("exclude", [])]
        return [
            one
            for one in self.ours
            if not any(fnmatchcase(one, first) for first in firsts)
        ]

    def _excluding(self, table: str, target: dict[str, Any]) -> str:
        ours = [f"/{one}" for one in self._excluded(target)]
        text = f"exclude = {listed([*target.get('exclude', []), *ours])}"
        return f"in pyproject.toml, set below [{table}]: {text}"

    def _own_packages(self) -> list[str]:
        """Return the top-level packages that the repository had before."""
        names = {path.parent.name for path in self.folder.glob("*/__init__.py")}
        return sorted(
            name for name in names - set(self.ours) if not RESERVED.fullmatch(name)
        )

    def _finds(self, where: Any, include: Any, exclude: Any, plain: bool) -> bool:
        """Whether setuptools' find takes in a new folder, or one below it.

        plain: only folders with an __init__.py.
        """
        folders = [
            one
            for one in self.ours
            if not plain or (self.folder / one / "__init__.py").is_file()
        ]
        return any(one in ("", ".") for one in where) and any(
            any(fnmatchcase(name, one) for one in include)
            and not any(fnmatchcase(name, one) for one in exclude)
            for folder in folders
            for name in (folder, f"{folder}.tests")
        )

    def _without(self, exclude: Iterable[str]) -> list[str]:
        """Return setuptools' patterns, with those that leave out the new folders."""
        found = list(exclude)
        return found + [
            f"{name}*"
            for name in self.ours
            if not any(fnmatchcase(f"{name}.tests", one) for one in found)
        ]

    def _setuptools(self) -> Iterator[str]:
        tool = at(self.settings, "tool.setuptools")
        packages = tool.get("packages")
        if isinstance(packages, dict):
            find = packages.get("find", {})
            where, include = find.get("where", ["."]), find.get("include", ["*"])
            exclude = find.get("exclude", [])
            if self._finds(where, include, exclude, not find.get("namespaces", True)):
                text = f"exclude = {listed(self._without(exclude))}"
                yield (
                    "in pyproject.toml, set below [tool.setuptools.packages.find]: "
                    f"{text}"
                )
        if packages is not None:
            return
        config = read_ini(self.folder / "setup.cfg")
        options = config.get("options", {})
        if packages := options.get("packages", "").strip():
            section = "options.packages.find"
            where, include, exclude = (
                re.split(r"[\s,]+", config.get(section, {}).get(key, default).strip())
                for key, default in [("where", "."), ("include", "*"), ("exclude", "")]
            )
            if packages.startswith("find") and self._finds(
                where, include, exclude, packages == "find:"
            ):
                text = f"exclude = {', '.join(self._without(filter(None, exclude)))}"
                yield f"in setup.cfg, set below [{section}]: {text}"
            return
        calls = self._calls(self.folder / "setup.py")
        for name, given in calls.items():
            where, exclude, include = (
                given.get(key) or given.get(position) or default
                for position, (key, default) in enumerate(
                    [("where", "."), ("exclude", ()), ("include", ("*",))]
                )
            )
            if name != "setup" and self._finds(
                [where], include, exclude, name == "find_packages"
            ):
                text = f"exclude={listed(self._without(exclude))}"
                yield f"in setup.py, set in {name}(): {text}"
        declared = calls.get("setup", {}).keys() & {
            "packages",
            "py_modules",
            "ext_modules",
        }
        looks = not (
            declared
            or options.get("py_modules")
            or tool.get("py-modules")
            or tool.get("package-dir")
            or (self.folder / "src").is_dir()
        )
        own = self._own_packages()
        modules = sorted(
            path.stem
            for path in self.folder.glob("*.py")
            if path.name not in ("setup.py", "conftest.py")
        )
        if looks and own:  # setuptools itself looks for packages
            names = [name for one in own for name in (one, f"{one}.*")]
            yield (
                "in pyproject.toml, write the lines [tool.setuptools.packages.find] and "
                f"include = {listed(names)}"
            )
        elif looks and modules:
            yield (
                "in pyproject.toml, write the lines [tool.setuptools] and py-modules = "
                f"{listed(modules)}"
            )

    @staticmethod
    def _calls(script: Path) -> dict[str, dict[str | int | None, Any]]:
        """The arguments of setup() and find_packages() in a setup.py.

        By function, and by keyword or position; None for what is not a literal.
        """
        try:
            tree = ast.parse(script.read_text(encoding="utf-8"))
        except (OSError, ValueError, SyntaxError):
            return {}

        def literal(node: ast.expr) -> Any:
            try:
                return ast.literal_eval(node)
            except ValueError:
                return None

        found: dict[str, dict[str | int | None, Any]] = {}
        names = {
            alias.asname: alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                name = names.get(name, name)
                if name in ("setup", "find_packages", "find_namespace_packages"):
                    found[name] = {n: literal(one) for n, one in enumerate(node.args)}
                    found[name] |= {
                        one.arg: literal(one.value) for one in node.keywords
                    }
        return found

    def _sdist(self) -> Iterator[str]:
        """Yield a note if an sdist would hold all files in git, and so the rows' answers."""
        cure = ""
        if self.backend == "hatchling":
            table = "tool.hatch.build.targets.sdist"
            target = {
                **at(self.settings, "tool.hatch.build"),
                **at(self.settings, table),
            }
            keys = ("only-include", "packages", "include")
            chosen = next((target[key] for key in keys if target.get(key)), ["."])
            if self._selected(chosen) and self._excluded(target):
                cure = self._excluding(table, target)
        elif "setuptools_scm" in str(at(self.settings, "build-system")).replace(
            "-", "_"
        ):
            manifest = self.folder / "MANIFEST.in"
            text = manifest.read_text(encoding="utf-8") if manifest.is_file() else ""
            lines = [f"prune {one}" for one in self.ours if f"prune {one}" not in text]
            cure = f"in MANIFEST.in, write: {'; '.join(lines)}" if lines else ""
        if cure:
            yield f"an sdist of this repository would hold the rows and their answers: {cure}"

    def _compiled(self) -> Iterator[str]:
        """Yield a note if an edit of the installed package may need another build."""
        system = at(self.settings, "build-system")
        requires = " ".join(system.get("requires", [])).lower()
        setup = self._calls(self.folder / "setup.py").get("setup", {})
        declared = [*setup, *at(self.settings, "tool.setuptools")]
        if system and (
            COMPILERS.search(f"{requires} {self.backend}")
            or {"ext_modules", "ext-modules"} & {*declared}
        ):
            name = at(self.settings, "project.name") or self.folder.name
            yield (
                "this repository's package has compiled modules: after an edit of their "
                f"sources, run `uv sync --reinstall-package {name}` in {self.ours[0]}/"
            )

    def _checkers(self) -> Iterator[str]:
        """Yield a note for each tool that would check the new folders, too."""
        pytest = at(self.settings, "tool.pytest.ini_options")
        options = str(pytest.get("addopts", ""))
        everywhere = "--doctest-modules" in options and not pytest.get("testpaths")
        if everywhere and self.ours[0] not in options:
            ignored = " ".join(f"--ignore={one}" for one in self.ours)
            yield (
                f"pytest with --doctest-modules imports {', '.join(self.ours)}, too: "
                f"add to addopts of [tool.pytest.ini_options]: {ignored}"
            )
        config = read_ini(*(self.folder / one for one in ("mypy.ini", "setup.cfg")))
        words = {"either": "|".join(self.ours), "names": listed(self.ours)[1:-1]}
        for name, (table, folders, line) in CHECKERS.items():
            settings, place = at(self.settings, f"tool.{table}"), f"[tool.{table}]"
            if not settings and name == "mypy" and "mypy" in config:
                settings, place = config["mypy"], "[mypy]"
                line = line.replace('"', "")
            chosen = [settings[key] for key in folders if settings.get(key)]
            chosen = [
                one
                for each in chosen
                for one in ([each] if isinstance(each, str) else each)
            ]
            chosen = chosen and not self._selected(
                [one.strip("./") or "." for one in chosen]
            )
            if settings and not chosen and self.ours[0] not in str(settings):
                yield (
                    f"{name} checks {', '.join(self.ours)}, too, if it checks the whole "
                    f"repository: to leave that out, write below {place}: "
                    f"{line.format(**words)}"
                )
