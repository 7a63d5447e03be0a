"""Who may use a server: tokens, other sites' web pages, and classes that run commands.

A browser on this machine sends the requests of a page wherever the page says: also to a
server that listens on 127.0.0.1 only. A page's owner may even point a name to 127.0.0.1,
so that the page and the server seem to be one site (DNS rebinding).
"""

import contextlib
import hmac
import ipaddress
import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .episode.declaration import declared
from .errors import SettingError
from .settings import ServerSettings

HOST = re.compile(r"\[?([^\[\]]*?)\]?(?::\d*)?")  # a name or an address, and a port


def origin_problem(scope: Mapping[str, Any], settings: ServerSettings) -> str | None:
    """Why a request without API_TOKEN gets no answer; None if it may have one.

    Its Origin, which browsers send, must be the server's own. Its Host must be this
    machine, or HOST, unless `settings` say that anybody may use the server.
    """
    headers = dict(scope.get("headers", ()))
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        return "this server answers no pages of other sites"
    found = HOST.fullmatch(host.decode("latin-1"))
    name = found[1].lower() if found else ""
    # The address at which the request arrived: a rebound name would not be equal to it.
    address, _ = scope.get("server") or ("", 0)
    address = address.removeprefix("::ffff:")  # of IPv4, if HOST is an IPv6 address
    own = name in ("localhost", settings.host.lower(), address)
    with contextlib.suppress(ValueError):
        own = own or ipaddress.ip_address(name).is_loopback
    if own or settings.any_host:
        return None
    return (
        "without API_TOKEN or ALLOW_ANYBODY=1, this server answers requests to its own "
        "address only: the Host header names another machine"
    )


def access_problem(
    scope: Mapping[str, Any], settings: ServerSettings, *headers: bytes
) -> tuple[int, str] | None:
    """The status and the reason if a request gets no answer.

    API_TOKEN, if it is set, is in Authorization, or alone in one of further `headers`.
    /health is open then.
    """
    if not settings.api_token:
        reason = origin_problem(scope, settings)
        return (403, reason) if reason else None
    given, token = dict(scope.get("headers", ())), settings.api_token.encode()
    bearer = given.get(b"authorization", b"")
    accepted = hmac.compare_digest(bearer, b"Bearer " + token)
    for name in headers:
        accepted |= hmac.compare_digest(given.get(name, b""), token)
    if accepted or scope["path"] == "/health":
        return None
    return 401, "this server needs Authorization: Bearer <API_TOKEN>"


def serving_problem(domain_class: type, host: str | None = None) -> str | None:
    """Why the class must not be served on `host`, by default HOST; None if it may.

    TRUSTED_POLICY=1 allows everything. Raises SettingError.
    """
    settings = ServerSettings.read()
    if host is not None:
        settings = settings.model_copy(update={"host": host})
    if settings.trusted_policy == "1":
        return None
    if reason := declared(domain_class).refuse_to_serve():
        return reason
    if declared(domain_class).runs_commands and not settings.anybody_may_play:
        return (
            f"on HOST={settings.host} anybody who reaches this port could run "
            "commands: set API_TOKEN, which clients then send, or ALLOW_ANYBODY=1"
        )
    return None


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
