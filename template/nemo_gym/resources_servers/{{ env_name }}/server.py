"""Where the NeMo Gym command line looks for the server: nemo_gym/server.py, by path."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location(
    "environment_server", Path(__file__).resolve().parents[2] / "server.py"
)
assert _spec and _spec.loader
_server = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = _server
_spec.loader.exec_module(_server)
globals().update({k: v for k, v in vars(_server).items() if not k.startswith("_")})


def __getattr__(name: str) -> object:
    """What `gym env test` asks for, imported only then: it needs httpx. And the app, for
    one of several worker processes."""
    if name == "VERIFIER_FIXTURE":
        from verifier import fixture

        return fixture(_server.main.__self__)
    if name == "app":
        return _server.main()
    raise AttributeError(name)


if __name__ == "__main__":
    _server.main()
