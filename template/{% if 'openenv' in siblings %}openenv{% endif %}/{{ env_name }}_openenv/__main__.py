"""Starts the server in the folder above: `uv run server`."""

import sys
from pathlib import Path


def main() -> None:
    # Not installed with this package: another environment's may be called `server`, too.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from server.app import main as serve

    serve()


if __name__ == "__main__":
    main()
