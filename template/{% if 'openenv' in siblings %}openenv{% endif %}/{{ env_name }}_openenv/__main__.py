"""Start the server in the folder above: `uv run server`."""

import sys
from pathlib import Path


def main() -> None:
    # This package does not install server/: another environment may have one, too.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from server.app import main as serve

    serve()


if __name__ == "__main__":
    main()
