"""The process of a framework that has a server: OpenEnv and ORS."""

import json
import sys
from collections.abc import Callable
from typing import Any

from ..auth import access_problem, serving_problem
from ..errors import SettingError
from ..settings import ServerSettings


def serve(domain_class: type, make_app: Callable[[], Any], default_port: int) -> None:
    """Serve an ASGI app on HOST and PORT until a signal ends the process.

    Exits with a message if the class must not be served there.
    """
    # uvicorn comes with the frameworks that have a server, and not with verifiers.
    import uvicorn

    try:
        settings = ServerSettings.read()
        problem = serving_problem(domain_class)
    except SettingError as error:
        sys.exit(f"server: {error}")
    if problem:
        sys.exit(f"server: {problem}")
    port = default_port if settings.port is None else settings.port
    uvicorn.run(make_app(), host=settings.host, port=port, access_log=False)


def guarded(app: Any) -> Any:
    """An ASGI app that refuses requests without API_TOKEN, if that is set.

    OpenReward's clients send it as X-API-Key, all others as Authorization: Bearer.
    A request without it is answered with 401, a WebSocket with 403; /health is open.
    Without API_TOKEN, requests of other sites' web pages are answered with 403.
    """
    settings = ServerSettings.read()

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        refused = None
        if scope["type"] != "lifespan":
            refused = access_problem(scope, settings, b"x-api-key")
        if refused is None:
            await app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            status, detail = refused
            kind = [(b"content-type", b"application/json")]
            start = {"type": "http.response.start", "status": status, "headers": kind}
            await send(start)
            body = json.dumps({"detail": detail}).encode()
            await send({"type": "http.response.body", "body": body})

    return guard
