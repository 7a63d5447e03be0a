"""Why the user's class cannot be loaded, and what to do: messages of a failing import gate."""

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from .files import raised, source_name
from .imports import missing_modules, own_files


def import_problem(project: Any, error: BaseException) -> str:
    """Why the class cannot be imported, and what to do."""
    if (
        isinstance(error, AttributeError)
        and error.name == project.class_name
        and isinstance(error.obj, ModuleType)
    ):
        return missing_class(project, error.obj)
    if isinstance(error, SyntaxError):
        return raised(error)
    own = own_files(project.sources(), project.top_name())
    for file, loaded in project.others_in_place_of(own):
        return (
            f"{raised(error)}. Python has loaded {loaded.__file__} in place of {file}, "
            "because its folder comes first in sys.path, by PYTHONPATH for instance: rename "
            "one of the two"
        )
    if isinstance(error, ModuleNotFoundError):
        return f"{raised(error)}. {_how_to_install(project, error.name)}"
    if isinstance(error, SystemExit):
        return (
            f"{raised(error)}. The module {project.module} ends the process that imports it: "
            'put what is for its own command line, such as parse_args(), below `if __name__ == "__main__":`'
        )
    return raised(error)


def _how_to_install(project: Any, name: str | None) -> str:
    """The modules that the class imports and that are missing, and what to run.

    `name` is the one that was not found: a package may import it, not the class.
    No package is named: the module `cv2` is in a package of another name.
    """
    here = Path(sys.argv[0]).resolve().parent
    folder = here if (here / "pyproject.toml").is_file() else project.gym
    modules = missing_modules(project.sources(), project.module)
    missing = ", ".join(modules) or name
    gates = "gates.py --write-tools" if folder == project.gym else "gates.py"
    # A class of the user's own package needs what that package declares.
    declaring = project.root if project.is_packaged() else folder
    package = "PACKAGE ..."
    if above := _repository_of(project, (name or "").partition(".")[0]):
        package = f"--editable {os.path.relpath(above, declaring)}"
    return (
        f"Not installed: {missing}. Add the packages that have it: `uv add --directory "
        f"{declaring} {package} && uv run --directory {folder} python {gates}`"
    )


def _repository_of(project: Any, name: str) -> Path | None:
    """The folder above `root` whose package has the module of this name, if any."""
    for folder in project.root.parents:
        places = [folder / name, folder / "src" / name]
        if (folder / "pyproject.toml").is_file() and any(map(Path.is_dir, places)):
            return folder
    return None


def missing_class(project: Any, module: ModuleType) -> str:
    """Why a module lacks the class: another one hides it, or its name is another one."""
    place = getattr(module, "__file__", None) or "?"
    if project.root not in Path(place).parents or "site-packages" in place:
        return (
            f"the package {project.module} in {place} hides your module of the same name: "
            "rename the module"
        )
    lacks = f"{source_name(place)} has no class {project.class_name}"
    classes = [
        (name, value.__module__ == module.__name__)
        for name, value in vars(module).items()
        if isinstance(value, type) and hasattr(value, "reward")
    ]
    own = [name for name, is_own in classes if is_own]
    others = own or [name for name, _ in classes]
    if others:
        return (
            f"{lacks}, but {' and '.join(others)}: "
            f"{project.new_answer(f'domain_class={others[0]}')}, or write "
            f"`{project.class_name} = {others[0]}` at its end"
        )
    return f"{lacks}: write the class there, or import it there"
