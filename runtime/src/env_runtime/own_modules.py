"""The user's modules under names that are their environment's alone.

Several environments in one process may each have a module `world`. The first one that is
loaded keeps the name. In each later one, such as `my_env`, the module is `my_env:world`
for as long as the process lives, so that types and pickles find it whenever they look it
up. Its own `import world` finds it, too, and so does an import of a module beside it.
"""

import builtins
import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple


class OwnModules(NamedTuple):
    """Imports modules of `folder` under names with a prefix. Python's finder for them."""

    prefix: str
    folder: Path
    package: str  # the package, or module, of the class

    def load(self, name: str) -> ModuleType:
        """Import a module, by its name without the prefix."""
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        return importlib.import_module(self.prefix + name)

    def find_spec(
        self, name: str, path: Any = None, target: Any = None
    ) -> ModuleSpec | None:
        if not name.startswith(self.prefix):
            return None
        if "." in name:  # a module of a package, which is known as `path`
            spec = PathFinder.find_spec(name, path)
        else:
            plain = name.removeprefix(self.prefix)
            spec = PathFinder.find_spec(plain, [str(self.folder)])
        if spec is None:
            return None
        spec.name = name
        if spec.submodule_search_locations:
            # A list: Python would search for a folder without __init__.py again.
            spec.submodule_search_locations = list(spec.submodule_search_locations)
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = self.loader(name, spec.loader.path)
        return spec

    def loader(self, name: str, path: str) -> SourceFileLoader:
        """Loads a file whose imports find these modules."""
        return _Loader(name, path, self)

    def import_(
        self,
        name: str,
        variables: Any = None,
        local_variables: Any = None,
        names: Any = (),
        level: int = 0,
    ) -> ModuleType:
        """Import like __import__, which Python calls for each import statement."""
        if not level and self._has(name.partition(".")[0]):
            name = self.prefix + name
        return builtins.__import__(name, variables, local_variables, names, level)

    def _has(self, top: str) -> bool:
        if top == self.package:
            return True
        if top in sys.stdlib_module_names or is_installed(top):
            return False
        beside = PathFinder.find_spec(top, [str(self.folder)])
        return beside is not None and beside.has_location


class _Loader(SourceFileLoader):
    def __init__(self, name: str, path: str, modules: OwnModules) -> None:
        super().__init__(name, path)
        self.modules = modules

    def exec_module(self, module: ModuleType) -> None:
        # A module's import statements look up __import__ here.
        own = {**vars(builtins), "__import__": self.modules.import_}
        vars(module)["__builtins__"] = own
        super().exec_module(module)


def is_installed(name: str) -> bool:
    """Whether an installed package has this name: it hides the user's module."""
    spec = PathFinder.find_spec(name)
    place = Path(spec.origin) if spec and spec.origin else Path()
    folder = place.parents[1] if place.name == "__init__.py" else place.parent
    return folder.name in ("site-packages", "dist-packages")
