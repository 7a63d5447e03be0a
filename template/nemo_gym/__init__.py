"""Makes `import nemo_gym` import the installed package.

This folder has the package's name. If the folder above comes first on sys.path, as with
`python -m pytest` there, Python would otherwise import this folder.
"""

import sys
from importlib.machinery import PathFinder
from pathlib import Path

_above = Path(__file__).resolve().parents[1]
_spec = PathFinder.find_spec(
    __name__, [entry for entry in sys.path if Path(entry or ".").resolve() != _above]
)
if _spec is None or _spec.loader is None:
    raise ModuleNotFoundError(
        "The package nemo_gym is not installed. Run `uv sync` in the folder "
        f"{Path(__file__).parent}, and Python through `uv run`.",
        name=__name__,
    )
__spec__, __file__ = _spec, _spec.origin
__path__ = _spec.submodule_search_locations or []
_spec.loader.exec_module(sys.modules[__name__])
