"""Endpoints: tools, routes that a user writes by hand, /seed_session, /close_session."""

import asyncio
import functools
import inspect
import json
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.types import ASGIApp, Receive, Scope, Send

from ..episode.answers import Answer, as_answer
from ..episode.declaration import where
from ..episode.episode import Episode
from ..episode.names import episode_name, numbers_in, session_name
from ..episode.schema import function_definition, plain_schema
from ..episode.session import Session
from ..episode.tasks import check_task, task_place
from ..episode.tools import Tool, named, not_a_name
from ..episode.types import HARNESS, REPLY, Definitions
from ..errors import ToolError
from ..facts import SERVER_PATHS
from ..gym_series import (
    SESSION_ID_KEY,
    ResourcesCloseSessionResponse,
    ResourcesSeedSessionResponse,
)
from .cookies import MAX_ID_CHARACTERS, SEEDED, used_cookie
from .messages import (
    CloseSessionRequest,
    SeedSessionRequest,
    SessionResponse,
    ToolResponse,
    user_message,
)
from .store import SessionStore

# The server's own routes. Every other POST route is a tool.
OWN_ROUTES = ["/seed_session", "/close_session", "/verify", "/aggregate_metrics"]

REPLY_ROUTE = f"/{REPLY}"

# A header that tells a gate, but not a policy, that a tool failed unexpectedly.
FAULT = "X-Tool-Error"


def tool_endpoint(store: SessionStore, tool: Tool) -> Callable[..., Any]:
    """The endpoint of a tool: it plays the session's episode.

    Raises ToolError if calls by the tool's name do not reach the class.
    """
    if tool.name in SERVER_PATHS:
        _, name = named(tool.method)
        raise ToolError(f"{where(tool.method)}: {name}: {not_a_name(tool.name)}")

    async def endpoint(request: Request, body: BaseModel) -> Any:
        sent = tool.keywords(body)
        answer = await store.call(request, tool.name, sent, Episode.call, tool, sent)
        return as_response(answer)

    # FastAPI and NeMo Gym's MCP exposure read the types of body and answer from these.
    endpoint.__annotations__ |= {"body": tool.arguments, "return": ToolResponse}
    endpoint.__name__ = endpoint.__qualname__ = tool.name
    endpoint.__doc__ = tool.description
    setattr(endpoint, "tool", tool)  # noqa: B010 - functions take any attribute
    return endpoint


def written_endpoint(
    store: SessionStore, function: Callable[..., Any]
) -> Callable[..., Any]:
    """The endpoint of a user's `function(request, body)`, in the session's turn.

    A plain `def` runs in the episode's thread, an `async def` on the event loop. Raises
    ToolError if `function` has no parameter `request`.
    """
    if "request" not in inspect.signature(function).parameters:
        raise ToolError(
            f"the endpoint {named(function)[1]} has no parameter `request: Request`"
        )
    name, on_loop = named(function)[0], inspect.iscoroutinefunction(function)

    @functools.wraps(function)
    async def endpoint(**arguments: Any) -> Any:
        body, request = arguments.get("body"), arguments["request"]
        sent = body.model_dump(mode="json") if isinstance(body, BaseModel) else {}
        given = name, sent, functools.partial(function, **arguments)
        response = await store.call(
            request, name, sent, _written_call, *given, on_loop=on_loop
        )
        return as_response(response) if isinstance(response, Answer) else response

    return endpoint


async def _written_call(
    episode: Episode, name: str, sent: dict[str, Any], function: Callable[[], Any]
) -> Any:
    try:
        response = function()
        if inspect.isawaitable(response):
            response = await response
        answer = as_answer(str(getattr(response, "output", "")))
    except HTTPException:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it is reported
        response = answer = episode.problem(name, sent, error)
    episode.keep(name, sent, answer)
    return response


def reply_endpoint(store: SessionStore) -> Callable[[Request], Any]:
    """The endpoint that takes a message of the policy, and returns the class's reply.

    The body is {"answer": text}. The answer is {"message": item}, an item of the
    Responses API with the next user message, or null if the episode is over: the class
    ended it, or the policy said nothing beside its thinking.
    """

    async def endpoint(request: Request) -> Response:
        if HARNESS not in request.headers:
            detail = f"only a harness posts here, with the header {HARNESS}"
            return JSONResponse({"detail": detail}, 403)
        try:
            text = (await request.json())["answer"]
        except (ValueError, RecursionError, LookupError, TypeError):
            text = None
        if not isinstance(text, str):
            return JSONResponse({"detail": 'the body must be {"answer": text}'}, 422)
        if request.session[SESSION_ID_KEY] not in store.sessions:
            return JSONResponse({"message": None})
        said = {"answer": text}
        answer = await store.call(request, REPLY, said, Episode.reply, text)
        return as_response(answer, {"message": answer and user_message(answer)})

    return endpoint


def with_row_tools(store: SessionStore, otherwise: ASGIApp) -> ASGIApp:
    """The app behind all routes: it plays calls of tools that only the session's row has.

    Everything but a POST in a seeded session goes to `otherwise`, which answers 404. So
    does a call by the name of a server's path, such as /reply without a reply().
    """

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        post = scope["type"] == "http" and scope["method"] == "POST"
        name = scope["path"].removeprefix("/")
        is_tool = bool(name) and name not in SERVER_PATHS
        if not (post and is_tool and scope["session"].get(SEEDED)):
            await otherwise(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            arguments = await request.json()
            to_json(arguments)  # raises ValueError for what would break a grader
        except (ValueError, RecursionError):
            arguments = None
        if isinstance(arguments, dict):
            response = await call_row_tool(store, request, name, arguments)
        else:
            detail = "the arguments must be an object of JSON, and not nested deeply"
            response = JSONResponse({"detail": detail}, 422)
        await response(scope, receive, send)

    return app


async def call_row_tool(
    store: SessionStore, request: Request, name: str, arguments: dict[str, Any]
) -> Response:
    """The answer to a call of a tool that only the session's row has."""
    method = Episode.call_row_tool
    answer = await store.call(request, name, arguments, method, name, arguments)
    return as_response(answer)


def as_response(
    answer: Answer | None, values: dict[str, Any] | None = None
) -> Response:
    """A tool's answer over HTTP: always 200, because the policy is to read it."""
    if values is None:
        assert answer is not None
        values = {"output": answer.output, **answer.extra}
    text = json.dumps(values, ensure_ascii=False)
    body = text.encode("utf-8", "replace")  # replaces lone surrogates
    unexpected = answer is not None and answer.error == "unexpected"
    headers = {FAULT: answer.fault} if answer and unexpected else None
    return Response(body, headers=headers, media_type="application/json")


# ---------------------------------------------------------------------- definitions


def tool_definitions(app: FastAPI) -> Definitions:
    """An app's tools for the Responses API: its POST routes except the server's own."""
    definitions = []
    for route in post_routes(app):
        if route.path not in OWN_ROUTES:
            tool = getattr(route.endpoint, "tool", None)
            definitions.append(
                tool.definition() if tool else _definition_of(app, route.path)
            )
    return definitions


def post_routes(app: FastAPI) -> list[APIRoute]:
    """An app's POST routes."""
    return [
        route
        for route in app.routes
        if isinstance(route, APIRoute) and "POST" in (route.methods or ())
    ]


def route_of(app: FastAPI, path: str) -> Any:
    """An app's first route with this path; None if there is none."""
    return next((one for one in app.routes if getattr(one, "path", "") == path), None)


def describe_off_loop(app: FastAPI) -> None:
    """Have GET /openapi.json answered from a thread: the first one takes a second."""
    if route := route_of(app, app.openapi_url or ""):
        app.routes.remove(route)

    async def openapi(request: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(app.openapi))

    app.add_route(app.openapi_url or "/openapi.json", openapi, include_in_schema=False)


def _definition_of(app: FastAPI, path: str) -> dict[str, Any]:
    """The definition of a tool whose endpoint is written by hand."""
    openapi = app.openapi()
    operation = openapi["paths"][path]["post"]
    content = operation.get("requestBody", {}).get("content", {})
    body = content.get("application/json", {}).get("schema", {})
    schema = plain_schema(body, openapi)
    return function_definition(
        path.removeprefix("/"), operation.get("description", ""), schema
    )


class Seeding:
    """Starts and closes sessions. `new_id` makes the id of a session."""

    def __init__(self, store: SessionStore, new_id: Callable[[], str]) -> None:
        self.store, self._new_id = store, new_id

    async def seed(self, request: Request, body: Any) -> Any:
        """Start an episode of the row's task. Raises HTTPException (409) if seeded."""
        if not isinstance(body, SeedSessionRequest):
            return await self._seed_by_name(request, body)
        name = request.session[SESSION_ID_KEY]
        session = self.store.sessions.get(name)
        if request.session.get(SEEDED) or (session is not None and session.seeded):
            raise used_cookie()
        if session is not None or name in self.store.ended:
            self.store.end(name, "a seed")
            name = request.session[SESSION_ID_KEY] = self._new_id()
        await self._start(name, body)
        request.session[SEEDED] = True
        return SessionResponse()

    async def _seed_by_name(self, request: Request, body: Any) -> Any:
        """Start a session that NeMo Gym 0.7 names itself. It may repeat a seed."""
        name = _checked_id(body.resources_session_id)
        cookie, session = request.session, self.store.sessions.get(name)
        if cookie.get(SEEDED) and (session is None or cookie[SESSION_ID_KEY] != name):
            raise used_cookie()
        if name in self.store.ended or name in self.store.unseeded:
            raise HTTPException(409, "this session has ended")
        _check_owner(session, body)
        row = SeedSessionRequest.model_validate(body.task_data)
        if session is not None and session.task != row.task:
            detail = "this session has another row's task: name another session for it"
            raise HTTPException(409, detail)
        if session is None:
            # The task lacks NeMo Gym's own keys.
            numbers = numbers_in(body.episode_id.rollout_id)
            await self._start(name, row, body.episode_id, numbers)
        request.session[SESSION_ID_KEY] = name
        request.session[SEEDED] = True
        return ResourcesSeedSessionResponse(resources_session_id=name)

    async def close(self, request: Request, body: Any) -> Any:
        """End the session. Closing a session that is not open is not an error."""
        if isinstance(body, CloseSessionRequest):
            self.store.end(request.session[SESSION_ID_KEY], "closed")
            return SessionResponse()
        name = _checked_id(body.resources_session_id)
        session = self.store.sessions.get(name)
        _check_owner(session, body)
        if session is None and name not in self.store.ended:
            self.store.close_unseeded(name)
        self.store.end(name, "closed")
        return ResourcesCloseSessionResponse(resources_session_id=name)

    async def _start(
        self,
        name: str,
        row: SeedSessionRequest,
        owner: Any = None,
        numbers: dict[str, int] | None = None,
    ) -> None:
        task = row.task
        try:
            if task:
                place = task_place({"ground_truth": row.ground_truth})
                check_task(self.store.domain_class, task, place)
            keys = {**(row.model_extra or {}), **(numbers or {})}
            label = episode_name(keys, task, session_name(name))
            await self.store.open(name, task, owner, label)
        except ValueError as error:
            raise HTTPException(422, str(error)) from error


def _check_owner(session: Session | None, body: Any) -> None:
    """Raise HTTPException if a session is another episode's."""
    if session is not None and session.owner != body.episode_id:
        raise HTTPException(409, "this session is another episode's")


def _checked_id(name: str) -> str:
    """The id that a harness gave a session. Raises HTTPException if it is too long."""
    if len(name) > MAX_ID_CHARACTERS:
        detail = f"a session's id has {MAX_ID_CHARACTERS} characters at most"
        raise HTTPException(422, detail)
    return name
