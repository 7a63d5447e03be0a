"""Many episodes of an MCP server, one after the other and at once: nothing is left."""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from env_runtime.mcp import McpEpisode
from env_runtime.workspace.local import isolation

from .test_mcp_episode import all_ending, family

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc"),
]

# The protocol without its SDK, which takes a second to import
COUNTER = """
import json, subprocess, sys
subprocess.Popen(["sleep", "3600"])
tool = {"name": "count", "inputSchema": {"type": "object"}}
info = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "n", "version": "1"}}
count = 0
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    count += asked["method"] == "tools/call"
    answer = {"content": [{"type": "text", "text": str(count)}]}
    results = {"initialize": info, "tools/list": {"tools": [tool]}, "tools/call": answer}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}), flush=True)
"""


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.parametrize("wanted", ["bubblewrap", "none"])
def test_nothing_is_left_of_many_episodes(tmp_path, monkeypatch, wanted):
    if wanted == "bubblewrap" and isolation() != "bubblewrap":
        pytest.skip(isolation())
    monkeypatch.setenv("SANDBOX_ISOLATION", wanted)
    server = tmp_path / "server/counter.py"
    server.parent.mkdir()
    server.write_text(COUNTER)
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folders))
    counter = type("Counter", (McpEpisode,), {"command": f"python {server}"})

    def play(_: object = None) -> None:
        episode = counter({})
        assert [episode.ask("count") for _ in range(2)] == [1, 2]
        episode.close()

    with ThreadPoolExecutor(20) as pool:
        [*pool.map(play, range(20))]  # event loop, threads and caches stay
        before, running = descriptors(), family(os.getpid())
        began = time.monotonic()
        for _ in range(100):
            play()
        after_another = time.monotonic()
        [*pool.map(play, range(100))]
        at_once = time.monotonic()
    with all_ending(family(os.getpid()) - running):
        pass
    assert not [*folders.glob("sandbox-*")]
    assert descriptors() <= before
    seconds = (after_another - began) / 100, (at_once - after_another) / 100
    print(f"{seconds[0]:.3f} s an episode, {seconds[1]:.3f} s with 20 at once")
