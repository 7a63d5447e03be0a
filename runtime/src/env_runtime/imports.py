"""The modules that the user's class imports, and the packages that have them.

A module that is installed may still be missing elsewhere: it may be there only because
another package needs it. An image leaves out such packages.
"""

import ast
import functools
import importlib.metadata
import importlib.util
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .errors import GateError
from .files import file_of

RUNTIME = "nemo-gym-env-runtime"

# These make an import optional if an `except` names them.
IMPORT_ERRORS = {"ImportError", "ModuleNotFoundError", "Exception"}


def imported_modules(root: Path, module: str) -> list[str]:
    """The top-level modules outside `root` that `module` imports.

    It may import them through modules in `root`. Imports that may fail do not count:
    imports in a `try` that handles an ImportError, and imports for type checkers only.
    """
    names: set[str] = set()
    pending, seen = _with_packages(module), set[str]()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if file := file_of(root, name):
            for imported in _imports(root, file):
                pending += _with_packages(imported)
        elif "." not in name:
            names.add(name)
    return sorted(names - {module.partition(".")[0], *sys.stdlib_module_names})


def own_files(root: Path, module: str) -> list[Path]:
    """The files of `module`, and of the modules in `root` that it imports.

    `module` is at the top level. Of a package, these are all modules.
    """
    files: list[Path] = []
    pending, seen = [module], {module}
    while pending:
        for file in _files(root, pending.pop()):
            files.append(file)
            new = {name.partition(".")[0] for name in _imports(root, file)} - seen
            seen |= new
            pending += sorted(new)
    return files


def missing_modules(root: Path, module: str) -> list[str]:
    """The modules of imported_modules() that are not installed."""
    names = imported_modules(root, module)
    return [name for name in names if importlib.util.find_spec(name) is None]


def undeclared_packages(root: Path, module: str, project: Path) -> dict[str, str]:
    """Modules that are installed only by accident, each with its package.

    Neither the pyproject.toml of the folder `project` nor this runtime names such a
    package, and no package of the user's needs it. {} if `project` is not installed.
    """
    settings = project / "pyproject.toml"
    if not settings.is_file():
        return {}
    table = tomllib.loads(settings.read_text(encoding="utf-8"))
    # openenv/ has the packages of its server in a group, which no metadata lists.
    group = table.get("dependency-groups", {}).get("server", [])
    served = [one for one in group if isinstance(one, str)]
    declared = _declared(table["project"]["name"], *served)
    if not declared:
        return {}
    packages = importlib.metadata.packages_distributions()
    undeclared = {}
    for name in imported_modules(root, module):
        owners = sorted(map(_normalized, packages.get(name, [])))
        if owners and not declared.intersection(owners):
            undeclared[name] = owners[0]
    return undeclared


def check_imports(project: Any, folder: Path | None = None) -> None:
    """Raise GateError if a project's class imports a package that `folder` does not declare.

    `folder` has a pyproject.toml; the default is nemo_gym/.
    """
    folder = folder or project.gym
    undeclared = undeclared_packages(project.sources(), project.module, folder)
    if undeclared:
        modules, packages = ", ".join(undeclared), " ".join(undeclared.values())
        raise GateError(
            f"{project.module} imports {modules}, which is installed only because another "
            "package needs it, and may be missing from an image. Declare it: `uv add "
            f"--directory {folder} {packages}`"
        )


def packages_from_paths(project: Path) -> dict[str, str]:
    """The packages that the folder `project` installs from paths, each with its path.

    Wheels in its folder vendor/ do not count: an image installs all of them.
    """
    table = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    sources = table.get("tool", {}).get("uv", {}).get("sources", {})
    paths = {
        name: one["path"]
        for name, source in sources.items()
        for one in (source if isinstance(source, list) else [source])
        if "path" in one
    }
    for requirement in table["project"].get("dependencies", []):
        if found := re.match(r"([\w.-]+).*@\s*file:(?://)?([^\s;]+)", requirement):
            paths[found[1]] = found[2]
    return {
        name: path
        for name, path in paths.items()
        if not re.fullmatch(r"(\./)?vendor/[^/]+\.whl", path)
    }


def not_in_image(project: Path, root: Path) -> list[str]:
    """A note on each package that an image of `project` does not get.

    The image is built in the folder `root`.
    """
    dockerfile = project / "Dockerfile"
    text = dockerfile.read_text(encoding="utf-8") if dockerfile.is_file() else ""
    return [
        lacking(name, path)
        for name, path in packages_from_paths(project).items()
        if "--no-emit-local" in text
        or not (project / path).resolve().is_relative_to(root.resolve())
    ]


def lacking(name: str, path: str) -> str:
    """A note on a package that is installed from a path, which an image lacks."""
    wheel = f"./vendor/{_normalized(name).replace('-', '_')}-*.whl"
    return (
        f"{name} is installed from {path}, which an image does not get: install it "
        "from an index or from git (`uv add git+https://...`), or as a wheel: `uv build "
        f"--wheel --no-create-gitignore --out-dir vendor {path} && uv add "
        f"--upgrade-package {name} {wheel}` in nemo_gym/"
    )


def _with_packages(module: str) -> list[str]:
    """A module after the packages that it is in: `a`, `a.b`, `a.b.c`."""
    parts = module.split(".")
    return [".".join(parts[: end + 1]) for end in range(len(parts))]


def _files(root: Path, module: str) -> list[Path]:
    """The files of a module or package in `root`; none if it is elsewhere."""
    if (root / module / "__init__.py").is_file():
        return sorted((root / module).rglob("*.py"))
    file = root / f"{module}.py"
    return [file] if file.is_file() else []


def _imports(root: Path, file: Path) -> Iterator[str]:
    """The modules, and the names in modules, that a file in `root` imports."""
    package = file.parent.relative_to(root).parts
    tree = ast.parse(file.read_text(encoding="utf-8"), file)
    return _needed(tree.body, package)


def _needed(nodes: Iterable[ast.AST], package: tuple[str, ...]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level <= len(package):
                above = package[: len(package) - node.level + 1] if node.level else ()
                parts = [*above, *([node.module] if node.module else [])]
                yield from (".".join([*parts, alias.name]) for alias in node.names)
        elif isinstance(node, ast.Try) and _handles_import_errors(node):
            rest = [*node.handlers, *node.orelse, *node.finalbody]
            yield from _needed(rest, package)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _needed(node.orelse, package)
        else:
            yield from _needed(ast.iter_child_nodes(node), package)


def _handles_import_errors(node: ast.Try) -> bool:
    for handler in node.handlers:
        if handler.type is None:
            return True
        names = {n.id for n in ast.walk(handler.type) if isinstance(n, ast.Name)}
        if names & IMPORT_ERRORS:
            return True
    return False


@functools.cache
def _declared(project: str, *group: str) -> frozenset[str]:
    """The packages that a project names, and all packages that they need.

    `group` are further requirements of an installed project. For this runtime, only the
    packages that it names itself count: NeMo Gym needs many that an image leaves out.
    """
    named: set[tuple[str, str]] = set()
    pending = [(project, "")]
    if _requirements(project, ""):
        named |= (grouped := set(map(_requirement, group)))
        pending += grouped
    while pending:
        distribution, extras = pending.pop()
        new = _requirements(distribution, extras) - named
        named |= new
        own = {one for one in new if one[0] == RUNTIME}  # an extra made of others
        pending += new if distribution != RUNTIME else own
    return frozenset(name for name, _ in named)


def _requirements(distribution: str, extras: str) -> set[tuple[str, str]]:
    """The packages that a distribution requires, each with its extras."""
    try:
        required = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return set()  # it may be for another platform, for instance
    found = set()
    for requirement in required:
        only = re.search(r"""extra == ["']([^"']+)""", requirement)
        if only and _normalized(only[1]) not in extras.split(","):
            continue
        found.add(_requirement(requirement))
    return found


def _requirement(requirement: str) -> tuple[str, str]:
    """A requirement's package and extras."""
    match = re.match(r"([\w.-]+)\s*(?:\[([^]]*)])?", requirement)
    assert match, requirement
    return _normalized(match[1]), _normalized((match[2] or "").replace(" ", ""))


def _normalized(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()
