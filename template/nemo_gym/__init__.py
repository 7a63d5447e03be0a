"""Makes `import nemo_gym` import the installed package.

This folder has the package's name. If the folder above comes first on sys.path, as with
`python -m pytest` there, Python would otherwise import this folder. Another environment
in the same virtual environment has such a folder, too.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_spec = PathFinder.find_spec(
    __name__,
    [entry for entry in sys.path if not Path(entry, __name__, "gates.py").is_file()],
)
if _spec and _spec.loader and _spec.origin:
    __spec__, __file__ = _spec, _spec.origin
    __path__ = _spec.submodule_search_locations or []
    _spec.loader.exec_module(sys.modules[__name__])
# `pytest --import-mode=importlib` in the folder above imports this folder, too.
elif "pytest" not in sys.modules:
    # So does `python -m unittest`.
    unittest = sys.modules.get("unittest")
    kinds = (ModuleNotFoundError, *([unittest.SkipTest] if unittest else []))
    raise type("NotInstalledError", kinds, {})(
        "The package nemo_gym is not installed. Run `uv sync` in the folder "
        f"{Path(__file__).parent}, and Python through `uv run`.",
        name=__name__,
    )
