"""Tool calls per second over HTTP, here, in plain FastAPI and in NeMo Gym's own server.

    cd my_wordle/nemo_gym && uv run python TEMPLATE/benchmarks/throughput.py [SECONDS]

Needs wrk. Uses 32 connections with a session each, one server at a time, and the best
of three rounds. On a quiet machine, compare the ratios within one run, not the figures.
"""

import os
import re
import subprocess
import sys
import time

import requests
import uvicorn
from calls import Ours, OursOnLoop, Theirs, plain
from fastapi import FastAPI
from load import CONNECTIONS, wrk


def theirs() -> FastAPI:
    settings = Ours.build()
    server = Theirs(config=settings.config, server_client=settings.server_client)
    return server.setup_webserver()


SERVERS = {
    "plain FastAPI": lambda: uvicorn.run(plain(), port=0, access_log=False),
    "NeMo Gym's setup_webserver()": (
        lambda: uvicorn.run(theirs(), port=0, access_log=False)
    ),
    "SessionServer, blocking = False": OursOnLoop.main,
    "SessionServer, in a thread": Ours.main,
}


def measure(name: str, seconds: int) -> tuple[float, float]:
    """Calls per second, and the 99th percentile of their time in milliseconds."""
    process = subprocess.Popen(
        [sys.executable, __file__, "--serve", name],
        env={**os.environ, "PORT": "0"},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if found := re.search(r"running on (http://\S+)", line):
                break
        url = f"{found[1]}/echo"
        cookies = []
        for _ in range(CONNECTIONS):
            answer = requests.post(url, json={"text": "x"}, timeout=60)
            cookies.append(answer.headers.get("set-cookie", "").split(";")[0])
        return wrk(url, cookies, {"text": "hello"}, seconds)
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    best: dict[str, tuple[float, float]] = {}
    for _ in range(3):
        for name in SERVERS:
            best[name] = max(best.get(name, (0.0, 0.0)), measure(name, seconds))
            time.sleep(0.5)  # the last server may still have work to do
    base, layers = best["plain FastAPI"][0], best["NeMo Gym's setup_webserver()"][0]
    for name, (rate, slow) in best.items():
        print(
            f"{name:34} {rate:7.0f}/s  p99 {slow:6.1f} ms"
            f"  {rate / base:5.2f} of plain  {rate / layers:5.2f} of NeMo Gym's"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        SERVERS[sys.argv[2]]()
    else:
        main()
