"""Calls of tools, past FastAPI's routing and dependencies: these take longer than most tools."""

import json

from fastapi import FastAPI, HTTPException, Request
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from .endpoints import post_routes
from .http import received


class ToolCalls(BaseRoute):
    """The route before all others. It takes each call that FastAPI would take as it is.

    Every other request goes to the route that it would have without this one: so do calls
    whose body FastAPI refuses, and its answer is the only one that there is.
    """

    def __init__(self, app: FastAPI) -> None:
        self._routes = {
            route.path: route
            for route in post_routes(app)
            if hasattr(route.endpoint, "tool")
            and not route.dependencies
            and _first(app, route.path) is route
        }

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        if route is None or scope["method"] != "POST" or scope.get("root_path"):
            return Match.NONE, {}
        types = (value for name, value in scope["headers"] if name == b"content-type")
        if next(types, b"") != b"application/json":
            return Match.NONE, {}
        return Match.FULL, {
            "endpoint": route.endpoint,
            "path_params": {},
            "route": route,
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, parts, more = scope["route"], list[bytes](), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":  # nobody reads the answer
                raise HTTPException(400, "There was an error parsing the body")
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        text = b"".join(parts)
        try:
            body = route.endpoint.tool.arguments.model_validate(json.loads(text))
        except (ValueError, RecursionError):
            await route.handle(scope, received(text, receive), send)
            return
        response = await route.endpoint(Request(scope, receive), body)
        await response(scope, receive, send)


def _first(app: FastAPI, path: str) -> BaseRoute | None:
    """The route that answers a POST to a path."""
    scope = {"type": "http", "method": "POST", "path": path, "root_path": ""}
    scope |= {"headers": [], "query_string": b""}
    found = (route for route in app.routes if route.matches(scope)[0] == Match.FULL)
    return next(found, None)
