"""Calls per second and p99 with sessions in one process and in shards.

    cd my_wordle/nemo_gym && uv run python TEMPLATE/benchmarks/shards.py [SECONDS] [ROUNDS]

Needs wrk. Uses 32 connections with a session each, one server at a time, and the best
of the rounds. SHARDS_ON is `processes` unless it is set. On a quiet machine, compare the
ratios within one run, not the figures. The CPU figures are per call, for the proxy and
for all shards.
"""

import os
import re
import subprocess
import sys
import time
from typing import Any, NamedTuple

import psutil
import requests
from fastapi import FastAPI
from load import CONNECTIONS, wrk

from server import SessionServer


class Image(NamedTuple):
    output: str
    image: str


class Tools:
    """Tools that take a microsecond, 20 ms of CPU, 50 ms of sleep, or a 100 kB image."""

    IMAGE = "data:image/png;base64," + "A" * 100_000

    def __init__(self, task: dict[str, Any]) -> None:
        pass

    def micro(self) -> str:
        return "done"

    def cpu(self) -> str:
        until = time.thread_time() + 0.02
        count = 0
        while time.thread_time() < until:
            count += sum(range(100))
        return str(count)

    def sleep(self) -> str:
        time.sleep(0.05)
        return "done"

    def image(self) -> Image:
        return Image("done", self.IMAGE)

    def reward(self) -> float:
        return 0.0


class Server(SessionServer):
    domain_class = Tools
    keeps_calls = False

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        for tool in (Tools.micro, Tools.cpu, Tools.sleep, Tools.image):
            app.post(f"/{tool.__name__}")(self.tool(tool))
        return app


class Run(NamedTuple):
    rate: float  # calls per second
    slow: float  # the 99th percentile, in milliseconds
    proxy: float  # microseconds of CPU per call
    shards: float


def cpu_seconds(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def measure(shards: int, seconds: int) -> tuple[dict[str, Run], str]:
    """A run of each tool, and a line about the start and the memory."""
    variables = {"SHARDS_ON": "processes", **os.environ, "PORT": "0"}
    variables |= {"SHARDS": str(shards) if shards else "", "MAX_SESSIONS": "10000"}
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve"],
        env=variables,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr or ():
            if found := re.search(r"running on (http://\S+)", line):
                break
        url = found[1]
        requests.get(f"{url}/health", timeout=60).raise_for_status()
        first = time.monotonic() - started
        proxy = psutil.Process(process.pid)
        others = [
            one
            for one in proxy.children(recursive=True)
            if re.search(
                r"^shard-\d+|ShardActor", " ".join([one.name(), *one.cmdline()])
            )
        ]
        cookies = []
        while len(cookies) < CONNECTIONS:
            answer = requests.post(
                f"{url}/seed_session", json={"ground_truth": [{"id": 1}]}, timeout=60
            )
            cookies.append(answer.headers["set-cookie"].split(";")[0])
        runs = {}
        for tool in ("micro", "cpu", "sleep", "image"):
            before = cpu_seconds([proxy]), cpu_seconds(others)
            rate, slow = wrk(f"{url}/{tool}", cookies, {}, seconds)
            calls = rate * seconds / 1e6
            runs[tool] = Run(
                rate,
                slow,
                (cpu_seconds([proxy]) - before[0]) / calls,
                (cpu_seconds(others) - before[1]) / calls,
            )
        memory = [one.memory_full_info() for one in (proxy, *others)]
        sizes = ", ".join(f"{one.rss >> 20} ({one.uss >> 20})" for one in memory)
        return runs, f"first answer {first:.1f} s, RSS (unique) in MiB: {sizes}"
    finally:
        process.terminate()
        process.wait()
        assert process.stderr
        process.stderr.close()


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    best: dict[tuple[int, str], Run] = {}
    said = {}
    for _ in range(rounds):
        for shards in (0, 1, 2, 4):
            runs, said[shards] = measure(shards, seconds)
            for tool, run in runs.items():
                key = shards, tool
                best[key] = max(best.get(key, run), run)
            time.sleep(1)
    for shards in (0, 1, 2, 4):
        print(f"{shards} shards: {said[shards]}" if shards else f"alone: {said[0]}")
        for tool in ("micro", "cpu", "sleep", "image"):
            run, alone = best[shards, tool], best[0, tool]
            print(
                f"  {tool:6} {run.rate:7.1f}/s  p99 {run.slow:7.1f} ms"
                f"  {run.rate / alone.rate:5.2f} of one process"
                f"  CPU us: proxy {run.proxy:.0f}, shards {run.shards:.0f}"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        Server.main()
    else:
        main()
