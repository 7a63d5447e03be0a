"""Seeds per second, the time of calls and the memory with many open sessions.

    cd my_env/nemo_gym && uv run python TEMPLATE/benchmarks/sessions.py 1000 10000
        [--servers NAME,...] [--openenv PYTHON] [--verifiers PYTHON] [--seconds S]

The servers take turns: this template's on the event loop, in threads and in shards, and
NeMo Gym's own example. With interpreters that have the packages openenv and verifiers,
theirs, too. 32 clients open the sessions while another one calls tools; then they call
tools for 10 s, each time of another session. Compare the ratios within one run.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import psutil
from fastapi import FastAPI

from server import SessionServer

CLIENTS = 32
ROW = {"responses_create_params": {"input": "Go."}, "ground_truth": [{"id": 1}]}


class Blocking:
    """The tool takes a microsecond, but the server cannot know that it never blocks."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.count = 0

    def micro(self) -> str:
        self.count += 1
        return str(self.count)

    def reward(self) -> float:
        return 0.0


class NonBlocking(Blocking):
    blocking = False


class InThreads(SessionServer):
    domain_class = Blocking
    keeps_calls = False

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/micro")(self.tool(self.domain_class.micro))
        return app


class OnLoop(InThreads):
    domain_class = NonBlocking


class Case(NamedTuple):
    label: str
    serve: list[str]  # arguments of this script, or of session_servers.py
    variables: dict[str, str]


SHARDED = {"SHARDS": "2", "SHARDS_ON": "processes"}
CASES = {
    "loop": Case("on the event loop", ["OnLoop"], {}),
    "threads": Case("a thread each", ["InThreads"], {"THREADS": "60000"}),
    "256": Case("256 threads", ["InThreads"], {"THREADS": "256"}),
    "loop-2": Case("on the event loop, 2 shards", ["OnLoop"], SHARDED),
    "256-2": Case(
        "256 threads in 2 shards", ["InThreads"], {"THREADS": "256", **SHARDED}
    ),
    "gym": Case("NeMo Gym's example", ["gym"], {}),
    "openenv": Case("OpenEnv", ["openenv"], {}),
    "verifiers": Case("verifiers' tool server", ["verifiers"], {}),
}


class Http:
    """A connection that posts JSON: a client library would take longer than the server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, body: Any, headers: str = "") -> tuple[str, bytes]:
        """The head and the body of the answer. Raises ValueError if it is not 200."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port)
        reader, writer = self.streams
        text = json.dumps(body)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"{headers}Content-Length: {len(text)}\r\n\r\n{text}".encode()
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?i)content-length: (\d+)", head)
        answer = await reader.readexactly(int(length[1]))
        if " 200 " not in head.partition("\r\n")[0]:
            raise ValueError(f"{head}{answer.decode()}")
        return head, answer


class Cookies:
    """Sessions by cookies: this template's servers and NeMo Gym's."""

    def __init__(self, port: int, seed: Any, path: str, body: Any) -> None:
        self.port, self.seed, self.path, self.body = port, seed, path, body

    async def open(self, http: Http) -> str:
        head, _ = await http.post("/seed_session", self.seed)
        return re.search(r"(?i)set-cookie: ([^;]+)", head)[1]

    async def call(self, http: Http, session: Any) -> None:
        await http.post(self.path, self.body, f"Cookie: {session}\r\n")


class Mcp:
    """Sessions by an argument of the tools: verifiers' server has none."""

    accepts = "Accept: application/json, text/event-stream\r\n"
    names = itertools.count()

    async def open(self, http: Http) -> str:
        name = str(next(self.names))
        await self._call(http, "seed", name)
        return name

    async def call(self, http: Http, session: Any) -> None:
        await self._call(http, "micro", session)

    async def _call(self, http: Http, tool: str, name: str) -> None:
        params = {"name": tool, "arguments": {"name": name}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        _, answer = await http.post("/mcp", body, self.accepts)
        assert b'"isError":true' not in answer and b'"result"' in answer, answer


class Websockets:
    """A websocket for each session: OpenEnv's."""

    def __init__(self, client: aiohttp.ClientSession, port: int) -> None:
        self.client, self.url = client, f"http://127.0.0.1:{port}/ws"

    async def open(self, http: Http) -> Any:
        socket = await self.client.ws_connect(self.url, max_msg_size=0)
        await self._ask(socket, {"type": "reset", "data": {}})
        return socket

    async def call(self, http: Http, session: Any) -> None:
        await self._ask(session, {"type": "step", "data": {"name": "micro"}})

    async def _ask(self, socket: Any, message: Any) -> None:
        await socket.send_json(message)
        answer = await socket.receive_json()
        assert answer["type"] == "observation", answer


@contextlib.contextmanager
def serving(case: Case, python: str) -> Generator[tuple[psutil.Process, int]]:
    """A server: its process and its port."""
    others = str(Path(__file__).with_name("session_servers.py"))
    own = case.serve[0] in globals()
    command = [python, __file__, "--serve"] if own else [python, others]
    unlimited = {"PORT": "0", "MAX_SESSIONS": "200000", "SESSION_LOG": os.devnull}
    process = subprocess.Popen(
        [*command, *case.serve],
        env={**os.environ, **unlimited, **case.variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = []
        for line in process.stdout or ():
            said.append(line)
            if found := re.search(r"running on (?:port |http://\S+:)(\d+)", line):
                # A server that logs each request must not wait for a full pipe.
                threading.Thread(target=process.stdout.read, daemon=True).start()
                yield psutil.Process(process.pid), int(found[1])
                return
        raise RuntimeError("".join(said))
    finally:
        process.terminate()
        process.wait(60)


@contextlib.asynccontextmanager
async def player(name: str, port: int) -> AsyncGenerator[Any]:
    if name == "openenv":
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:
            yield Websockets(client, port)
    elif name == "verifiers":
        yield Mcp()
    elif name == "gym":
        yield Cookies(port, {"initial_count": 0}, "/increment_counter", {"count": 1})
    else:
        yield Cookies(port, ROW, "/micro", {})


def usage(process: psutil.Process) -> tuple[float, int]:
    """The memory in MiB that is a server's own, with all its processes, and its threads."""
    all_of_it = [process, *process.children(recursive=True)]
    memory = sum(each.memory_full_info().uss for each in all_of_it)
    return memory / (1 << 20), sum(each.num_threads() for each in all_of_it)


def slow(times: list[float]) -> str:
    """The 99th percentile in milliseconds."""
    return f"{sorted(times)[int(len(times) * 0.99)] * 1000:.0f}" if times else "-"


async def measure(name: str, python: str, count: int, seconds: float) -> str:
    """A row of the table: one server with `count` open sessions."""
    case = CASES[name]
    with serving(case, python) as (process, port):
        async with player(name, port) as play:
            before = await ready(process, play, port)
            sessions: list[Any] = []
            seeds: list[float] = []
            meanwhile: list[float] = []
            after: list[float] = []
            left = iter(range(count))

            async def timed(times: list[float], work: Awaitable[Any]) -> Any:
                started = time.perf_counter()
                result = await work
                times.append(time.perf_counter() - started)
                return result

            async def seed() -> None:
                http = Http(port)
                for _ in left:
                    sessions.append(await timed(seeds, play.open(http)))

            async def call(times: list[float], goes_on: Callable[[], bool]) -> None:
                http, free = Http(port), sessions
                while goes_on():
                    if not free:
                        await asyncio.sleep(0.01)
                        continue
                    at = random.randrange(len(free))
                    free[at], free[-1] = free[-1], free[at]
                    session = free.pop()  # a session has one call at a time
                    await timed(times, play.call(http, session))
                    free.append(session)

            started = time.perf_counter()
            other = asyncio.create_task(call(meanwhile, lambda: len(seeds) < count))
            await asyncio.gather(*(seed() for _ in range(CLIENTS)))
            took = time.perf_counter() - started
            await other
            until = time.perf_counter() + seconds
            calls = (
                call(after, lambda: time.perf_counter() < until) for _ in range(CLIENTS)
            )
            await asyncio.gather(*calls)
            memory, threads = usage(process)
            kib = (memory - before) * 1024 / count
    return (
        f"| {case.label} | {count} | {count / took:.0f} | {slow(meanwhile)} "
        f"| {len(after) / seconds:.0f} | {slow(after)} | {memory:.0f} | {kib:.1f} | {threads} |"
    )


async def ready(process: psutil.Process, play: Any, port: int) -> float:
    """The memory of the server once it has answered its first calls."""
    for _ in range(600):
        with contextlib.suppress(
            OSError, aiohttp.ClientError, asyncio.IncompleteReadError
        ):
            http = Http(port)
            session = await play.open(http)
            for _ in range(20):
                await play.call(http, session)
            return usage(process)[0]
        await asyncio.sleep(0.1)
    raise RuntimeError("the server does not answer")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("counts", nargs="+", type=int)
    parser.add_argument("--servers", default=",".join(CASES))
    parser.add_argument("--openenv")
    parser.add_argument("--verifiers")
    parser.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    pythons = {"openenv": options.openenv, "verifiers": options.verifiers}
    print(
        "| server | sessions | seeds/s | p99 ms meanwhile | calls/s | p99 ms | MiB | KiB per session | threads |"
    )
    print("| --- " * 9 + "|")
    for count in options.counts:
        for name in options.servers.split(","):
            python = pythons.get(name, sys.executable)
            if python is None:
                continue
            try:
                print(
                    asyncio.run(measure(name, python, count, options.seconds)),
                    flush=True,
                )
            except (
                OSError,
                ValueError,
                RuntimeError,
                asyncio.IncompleteReadError,
            ) as error:
                print(
                    f"| {CASES[name].label} | {count} | failed: {str(error)[:300]!r} |",
                    flush=True,
                )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        globals()[sys.argv[2]].main()
    else:
        main()
