"""Episodes over MCP servers at the same time: seconds, memory, and what is left.

    uv run python benchmarks/mcp_servers.py [EPISODES] [COMMAND]

COMMAND is that of server-memory if none is given. Linux only.
"""

import os
import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from env_runtime.mcp import McpEpisode, ServerLostError

EPISODES = int(sys.argv[1]) if len(sys.argv) > 1 else 200
CALLS = 5


class Server(McpEpisode):
    command = (
        sys.argv[2]
        if len(sys.argv) > 2
        else "npx -y @modelcontextprotocol/server-memory"
    )
    start_seconds = 300


def processes() -> set[int]:
    """The processes that descend from this one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(path.parent.name)] = int(
                path.read_text().rpartition(")")[2].split()[1]
            )
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def mebibytes(pids: set[int]) -> float:
    """The memory of processes; what several share counts for each in part."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(
                int(line.split()[1]) for line in lines if line.startswith("Pss:")
            )
    return total / 1024


def main() -> None:
    tool = Server.row_tools()[-1]["name"]
    barrier = threading.Barrier(EPISODES + 1)
    calls: list[float] = []
    problems: list[str] = []

    def call(episode: Server) -> None:
        began = time.monotonic()
        with suppress(ValueError):  # nonsense, which the server refuses
            episode.call_row_tool(tool, {})
        calls.append(time.monotonic() - began)

    def play() -> None:
        episode = Server({})
        try:
            call(episode)
        except ServerLostError as error:
            problems.append(str(error))
        barrier.wait()  # all servers are there
        barrier.wait()  # they are counted
        with suppress(ServerLostError):
            for _ in range(CALLS):
                call(episode)
        barrier.wait()
        episode.close()

    began = time.monotonic()
    with ThreadPoolExecutor(EPISODES) as pool:
        for _ in range(EPISODES):
            pool.submit(play)
        barrier.wait()
        print(f"{EPISODES} servers: started in {time.monotonic() - began:.1f} s")
        print(
            f"{mebibytes(processes()) / EPISODES:.1f} MiB each, {len(processes())} processes"
        )
        started = {str(pid) for pid in processes()}
        calls.clear()
        barrier.wait()
        barrier.wait()
        began = time.monotonic()
    print(f"a call: {statistics.median(calls):.3f} s, the slowest {max(calls):.3f} s")
    print(f"ended in {time.monotonic() - began:.1f} s")
    while started & {path.name for path in Path("/proc").iterdir()}:
        time.sleep(0.05)
    print(
        f"no process of {len(started)} is left after {time.monotonic() - began:.1f} s"
    )
    print(f"{len(problems)} servers were lost: {problems[:3]}")


if __name__ == "__main__":
    main()
