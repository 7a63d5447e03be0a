"""Who may use a server: tokens, other sites' web pages, and classes that run commands.

A browser on this machine sends the requests of a page wherever the page says: also to a
server that listens on 127.0.0.1 only. A page's owner may even point a name to 127.0.0.1,
so that the page and the server seem to be one site (DNS rebinding).
"""

import contextlib
import hmac
import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from .episode.declaration import declared
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
