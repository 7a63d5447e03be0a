"""A class that starts child processes."""

import subprocess
import sys
from pathlib import Path

POOL_SERVER = Path(__file__).with_name("pool_server.py")


def test_children_start_as_in_any_process(start):
    """A child of forkserver would import server.py and NeMo Gym first, for seconds."""
    code = "import multiprocessing as m; print(m.get_start_method())"
    usual = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
    client = start(POOL_SERVER).session().seed(0)
    assert client.output("method") == usual
    assert client.output("double", number=21) == "42"
