"""Load from wrk: 32 connections, each with a cookie of its own."""

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

CONNECTIONS = 32

_SCRIPT = """
local cookies = {%s}
local next_one = 0
wrk.method = "POST"
wrk.body = [[%s]]
wrk.headers["Content-Type"] = "application/json"
function request()
  next_one = next_one %% #cookies + 1
  if cookies[next_one] ~= "" then wrk.headers["Cookie"] = cookies[next_one] end
  return wrk.format()
end
"""


def wrk(url: str, cookies: list[str], body: Any, seconds: int) -> tuple[float, float]:
    """Requests per second, and the 99th percentile of their time in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "post.lua")
        listed = ", ".join(map(json.dumps, cookies))
        script.write_text(_SCRIPT % (listed, json.dumps(body)))
        command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency"]
        command += ["--timeout", "10s", "-s", str(script), url]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Non-2xx" not in done.stdout, done.stdout
    rate = re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)
    slow = re.search(r"99%\s+([\d.]+)(us|ms|s)", done.stdout)
    assert rate and slow, done.stdout
    return float(rate[1]), float(slow[1]) * {"us": 0.001, "ms": 1, "s": 1000}[slow[2]]
