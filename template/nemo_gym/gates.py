"""The validation gates: is this environment fit for use?

    uv run python gates.py [import|server|smoke|rollout ...] [--url URL] [--json]
                           [--rows FILE] [--under-gym] [--write-tools]

import   server.py imports, and serves exactly the tools that the class has
server   the server starts and answers /health
smoke    every tool answers a fitting call with text and refuses a malformed one; all
         rows have the server's tools
rollout  over all rows, several at a time: the oracle earns 1.0, or the `oracle_reward`
         that its row names; doing nothing and calling tools with nonsense earn 0.0

The rows are those of data/example.jsonl, or of FILE. The last three gates run against a
server of their own on a free port, or against the one at --url. Exit status: 1 if a
gate fails.
"""

import sys

from plumbing.gates import main

if __name__ == "__main__":
    sys.exit(main(__doc__))
