"""Who may use a server: requests of other sites' web pages, and classes that run commands.

A browser on this machine sends the requests of a page wherever the page says: also to a
server that listens on 127.0.0.1 only. A page's owner may even point a name to 127.0.0.1,
so that the page and the server seem to be one site (DNS rebinding).
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from .settings import ServerSettings

HOST = re.compile(r"\[?([^\[\]]*?)\]?(?::\d*)?")  # a name or an address, and a port


def problem(scope: Mapping[str, Any], settings: ServerSettings) -> str | None:
    """Why a request without API_TOKEN gets no answer; None if it may have one.

    Its Origin, which browsers send, must be the server's own. Its Host must be this
    machine, or HOST, unless `settings` say that anybody may use the server.
    """
    headers = dict(scope.get("headers", ()))
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    if origin is not None and origin.partition(b"://")[2] != host:
        return "this server answers no pages of other sites"
    if settings.any_host or _is_own(host.decode("latin-1"), scope, settings):
        return None
    return (
        "without API_TOKEN or ALLOW_ANYBODY=1, this server answers requests to its own "
        "address only: the Host header names another machine"
    )


def _is_own(host: str, scope: Mapping[str, Any], settings: ServerSettings) -> bool:
    found = HOST.fullmatch(host)
    name = found[1].lower() if found else ""
    # The address at which the request arrived: a rebound name would not be equal to it.
    address, _ = scope.get("server") or ("", 0)
    address = address.removeprefix("::ffff:")  # of IPv4, if HOST is an IPv6 address
    if name in ("localhost", settings.host.lower(), address):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def serving_problem(domain_class: type, host: str | None = None) -> str | None:
    """Why the class must not be served on `host`, by default HOST; None if it may.

    TRUSTED_POLICY=1 allows everything. Raises SettingError.
    """
    settings = ServerSettings.read()
    if host is not None:
        settings = settings.model_copy(update={"host": host})
    if settings.trusted_policy == "1":
        return None
    refuse = getattr(domain_class, "refuse_to_serve", lambda: None)
    if reason := refuse():
        return reason
    if getattr(domain_class, "runs_commands", False) and not settings.anybody_may_play:
        return (
            f"on HOST={settings.host} anybody who reaches this port could run "
            "commands: set API_TOKEN, which clients then send, or ALLOW_ANYBODY=1"
        )
    return None
