"""The cost of a tool call in the server, in plain FastAPI and in NeMo Gym's own layers.

    cd my_wordle/nemo_gym && uv run python TEMPLATE/benchmarks/calls.py

Calls the ASGI apps in process, without a network. Prints microseconds per call, the
median of seven rounds, and the ratio to plain FastAPI in this run. Compare only ratios.
Time is the processor's, of all threads: other work on the machine adds little to it.
"""

import asyncio
import json
import statistics
import time
from typing import Any

from env_runtime.server import SessionServer, ToolResponse
from fastapi import FastAPI, Request
from nemo_gym.base_resources_server import SimpleResourcesServer
from pydantic import BaseModel

CALLS = 300
ROUNDS = 7


class EchoRequest(BaseModel):
    text: str


class Blocking:
    def __init__(self, task):
        pass

    def echo(self, text: str) -> str:
        return text


class NonBlocking(Blocking):
    blocking = False


class Ours(SessionServer):
    domain_class = Blocking

    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/echo")(self.tool(Blocking.echo))
        return app


class OursOnLoop(Ours):
    domain_class = NonBlocking


class Theirs(SimpleResourcesServer):
    def setup_webserver(self):
        app = super().setup_webserver()
        app.post("/echo")(self.echo)
        return app

    async def echo(self, request: Request, body: EchoRequest) -> ToolResponse:
        return ToolResponse(output=body.text)

    async def verify(self, request: Request, body: Any) -> Any:  # type: ignore
        return ToolResponse(output="")


def plain() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    async def echo(request: Request, body: EchoRequest) -> ToolResponse:
        return ToolResponse(output=body.text)

    return app


def plain_def() -> FastAPI:
    app = FastAPI()

    @app.post("/echo")
    def echo(request: Request, body: EchoRequest) -> ToolResponse:
        return ToolResponse(output=body.text)

    return app


async def post(app, path: str, cookie: bytes = b"") -> bytes:
    """Send one POST. Returns the cookie of the answer."""
    body = json.dumps({"text": "hello"}).encode()
    headers = [(b"content-type", b"application/json"), (b"host", b"bench")]
    headers += [(b"content-length", str(len(body)).encode())]
    headers += [(b"cookie", cookie)] if cookie else []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("bench", 80),
    }
    sent = []
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive():
        # No further message: the client stays connected.
        return next(messages, None) or await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    assert sent[0]["status"] == 200, sent
    cookies = [value for name, value in sent[0]["headers"] if name == b"set-cookie"]
    return cookies[0].split(b";")[0] if cookies else b""


async def measure(app, path: str) -> float:
    """The microseconds per call within one session."""
    cookie = await post(app, path)
    started = time.process_time()
    for _ in range(CALLS):
        await post(app, path, cookie)
    return (time.process_time() - started) / CALLS * 1e6


async def main() -> None:
    settings = Ours.build()
    theirs = Theirs(config=settings.config, server_client=settings.server_client)
    cases = {
        "plain FastAPI": (plain(), "/echo"),
        "plain FastAPI, def": (plain_def(), "/echo"),
        "NeMo Gym's setup_webserver()": (theirs.setup_webserver(), "/echo"),
        "SessionServer, blocking = False": (
            OursOnLoop.build().setup_webserver(),
            "/echo",
        ),
        "SessionServer, in a thread": (Ours.build().setup_webserver(), "/echo"),
    }
    rounds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            rounds[name].append(await measure(*case))
    medians = {name: statistics.median(times) for name, times in rounds.items()}
    base = medians["plain FastAPI"]
    for name, median in medians.items():
        print(f"{name:34} {median:7.0f} us  {median / base:5.2f}")


if __name__ == "__main__":
    asyncio.run(main())
