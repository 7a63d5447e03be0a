"""A shard: the server of one process, which accepts only requests of proxies."""

import asyncio
import faulthandler
import hmac
import importlib
import os
import secrets
import sys
import time
import urllib.parse
from pathlib import Path
from typing import Any, TypedDict

import uvicorn
from fastapi.responses import JSONResponse
from omegaconf import OmegaConf
from starlette.types import ASGIApp, Receive, Scope, Send

from ..gym_series import BaseServerConfig, ServerClient
from ..project import find
from ..resources_server import over_mcp
from ..resources_server.connections import BoundedProtocol
from ..resources_server.launch import log_to_file
from ..settings import Limits, ShardSettings

KEY_HEADER = "x-shard-key"
ABOUT_PATH = "/_shard"  # answered with the shard's prefix and health


class ShardSpec(TypedDict):
    """Everything that another process needs to serve one shard, as plain JSON."""

    number: int
    secret: str  # SESSION_SECRET, the same in all proxies and shards
    file: str  # where the server's class is
    class_name: str
    config: dict[str, Any]
    head_server: dict[str, Any]
    gym_config: Any
    limits: dict[str, Any]
    variables: dict[str, str]  # for a machine that does not set them


def key_of(secret: str) -> str:
    """The value of KEY_HEADER in requests of proxies, for one SESSION_SECRET."""
    return hmac.digest(secret.encode(), b"shards", "sha256").hex()


class ShardAuth:
    """Refuses requests without the key, and answers ABOUT_PATH.

    It ends this process, with a traceback, after SHARD_SECONDS without progress. The
    thread that does so needs no lock of Python's. A shard that is only busy lives on.
    """

    def __init__(self, app: ASGIApp, server: Any, key: str) -> None:
        self.app, self.server = app, server
        self._key = key.encode()
        self._seconds = ShardSettings.read().shard_seconds
        self._pause = min(self._seconds / 10, 1)
        self._reported = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            ticking = asyncio.create_task(self._tick())
            await self.app(scope, receive, send)
            ticking.cancel()
            faulthandler.cancel_dump_traceback_later()
            return
        self._report_progress()
        key = dict(scope["headers"]).get(KEY_HEADER.encode(), b"")
        if not hmac.compare_digest(key, self._key):
            detail = {"detail": "a shard accepts only proxy requests"}
            refusal = JSONResponse(detail, 403, {"connection": "close"})
            await refusal(scope, receive, send)
        elif scope["path"] == ABOUT_PATH:
            name = urllib.parse.unquote(scope["query_string"].decode())
            about = {
                "prefix": self.server._id_prefix,
                "knows": self.server._store.knows(name),
            }
            answer = JSONResponse({**about, "health": await self.server.health()})
            await answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)
        self._report_progress()

    async def _tick(self) -> None:
        while True:
            self._report_progress()
            await asyncio.sleep(self._pause)

    def _report_progress(self) -> None:
        if time.monotonic() >= self._reported + self._pause:
            self._reported = time.monotonic()
            seconds = self._seconds + self._pause
            faulthandler.dump_traceback_later(seconds, exit=True)


def make_server(spec: ShardSpec, **place: Any) -> uvicorn.Server:
    """The HTTP server of a shard, at a `uds`, or at a `host` and a `port`."""
    os.environ |= {**spec["variables"], **os.environ}
    log_to_file(find(spec["file"], Path.cwd()), f".shard-{spec['number']}")
    # Like Python, import the script from its folder.
    path = Path(spec["file"])
    sys.path.insert(0, str(path.parent))
    server_class = getattr(importlib.import_module(path.stem), spec["class_name"])
    config = server_class.model_fields["config"].annotation
    server = server_class(
        config=config.model_validate(spec["config"]),
        server_client=ServerClient(
            head_server_config=BaseServerConfig(**spec["head_server"]),
            global_config_dict=OmegaConf.create(spec["gym_config"]),
        ),
        limits=Limits(**spec["limits"]),
    )
    server._secret = spec["secret"]
    server._id_prefix = f"{spec['number']}-{secrets.token_hex(4)}-"
    app = server.setup_webserver()
    over_mcp.expose(server, app)
    return uvicorn.Server(
        uvicorn.Config(
            ShardAuth(app, server, key_of(spec["secret"])),
            **place,
            http=BoundedProtocol,
            lifespan="on",
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            # A shard does not close a connection on which a proxy may send a call.
            timeout_keep_alive=1 << 30,
            timeout_graceful_shutdown=1,
        )
    )
