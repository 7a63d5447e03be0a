"""Requests at the edges of the server's OpenAPI: none may be answered with a 5xx.

    cd my_wordle/nemo_gym
    uv run --with schemathesis python TEMPLATE/benchmarks/fuzz.py [EXAMPLES]

schemathesis makes some 20,000 requests of the schemas' edges (its coverage phase), and
EXAMPLES (100) random ones for each route. Exit status: 1 if one was answered with 5xx.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from environment import module

starting = module("gates.starting")


def main() -> int:
    examples = sys.argv[1] if len(sys.argv) > 1 else "100"
    # Sessions that the requests seed are no reason for a 503.
    limits = {"MAX_SESSIONS": "1000000", "TOOL_SECONDS": "5"}
    with tempfile.TemporaryDirectory() as folder:
        log = str(Path(folder, "session.log"))
        with starting.starting_server(SESSION_LOG=log, **limits) as process:
            url = starting.url_of(process)
            command = ["schemathesis", "run", f"{url}/openapi.json"]
            command += ["--checks", "not_a_server_error", "--continue-on-failure"]
            command += ["--phases", "coverage,fuzzing", "--max-examples", examples]
            command += ["--suppress-health-check", "all"]
            command += ["--generation-database", "none"]
            return subprocess.run(command, cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
