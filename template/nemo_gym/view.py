"""Look at rollouts: one HTML page with the figures and every trajectory.

    uv run python view.py results/llm.jsonl [OTHER.jsonl ...] [--output FILE]

Reads what rollout.py and NeMo Gym write, and prints the page's path: results/llm.html,
or FILE. The page needs no server and no network. Of two or more files it shows the
figures and each row's episodes side by side, as before and after training. Lines that
hold no rollout are named and left out. Exit status: 1 if a file cannot be read, or
holds no rollouts.
"""

import sys

from plumbing.page import main

if __name__ == "__main__":
    sys.exit(main(__doc__))
