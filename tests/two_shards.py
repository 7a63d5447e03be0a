"""A pytest plugin: gives every server of a test two shards, in the test's own process.

Routes, cookies and ids are the real ones. Connections are not.

    pytest -p two_shards tests/runtime/test_seeding.py
"""

import asyncio
import collections
import contextlib
import secrets
from typing import Any

import pytest


class DirectClient:
    """A client that calls a shard's app."""

    up = True

    def __init__(self, number: int, server: Any) -> None:
        self.number, self.server, self.prefix = number, server, server._id_prefix
        self.app = server.setup_webserver()

    async def watch(self) -> None:
        await asyncio.get_running_loop().create_future()

    async def about(self, seconds: float, session: str = "") -> dict[str, Any]:
        health, knows = await self.server.health(), self.server._store.knows(session)
        return {"prefix": self.prefix, "health": health, "knows": knows}

    async def send(
        self, method: str, target: bytes, headers: list, body: bytes, seconds: float
    ) -> Any:
        from env_runtime.scale.proxy import ShardAnswer

        path, _, query = target.partition(b"?")
        scope: dict[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
        }
        scope |= {"scheme": "http", "root_path": "", "client": None, "state": {}}
        scope |= {"path": path.decode(), "raw_path": path, "query_string": query}
        scope |= {"headers": headers, "server": ("shard", 80)}
        request = [{"type": "http.request", "body": body, "more_body": False}]
        answer = []

        async def receive():
            if request:
                return request.pop()
            return await asyncio.get_running_loop().create_future()

        async def send(message):
            answer.append(message)

        with contextlib.suppress(Exception):  # it is answered with 500 already
            await self.app(scope, receive, send)
        start, *parts = answer
        content = b"".join(part.get("body", b"") for part in parts)
        return ShardAnswer(start["status"], list(start["headers"]), content)


def pytest_collection_finish(session: pytest.Session) -> None:
    from env_runtime.resources_server import over_mcp
    from env_runtime.server import SessionServer

    setup = SessionServer.setup_webserver

    def client_of(proxy: Any, number: int) -> DirectClient:
        most = -(-proxy.limits.max_sessions // 2)
        limits = proxy.limits.model_copy(update={"max_sessions": most})
        client = proxy.server_client
        server = type(proxy)(config=proxy.config, server_client=client, limits=limits)
        server._secret = proxy._secret
        server._id_prefix = f"{number}-{secrets.token_hex(4)}-"
        shard = DirectClient(number, server)
        over_mcp.expose(server, shard.app)
        return shard

    def setup_with_shards(self: Any) -> Any:
        if self._id_prefix or self._shards:
            return setup(self)
        shards = self._shards = [client_of(self, 0), client_of(self, 1)]
        stores = [shard.server._store for shard in shards]
        own = [self._store.sessions] if self._store.sessions else []
        # A ChainMap lists its last map first: sessions in the order of their turns
        opened = [store.sessions for store in reversed(stores)]
        self._store.sessions = collections.ChainMap(*own, *opened)
        self._store.ended = collections.ChainMap(*(store.ended for store in stores))
        app = setup(self)
        lifespan = app.router.lifespan_context

        @contextlib.asynccontextmanager
        async def all_of_them(app):
            async with contextlib.AsyncExitStack() as stack:
                for shard in shards:
                    own_lifespan = shard.app.router.lifespan_context(shard.app)
                    await stack.enter_async_context(own_lifespan)
                yield await stack.enter_async_context(lifespan(app))

        app.router.lifespan_context = all_of_them
        return app

    SessionServer.setup_webserver = setup_with_shards
