"""The tools over MCP: `expose_tools_over_mcp: true`, for agents with a loop of their own.

NeMo Gym 0.7 serves an app's POST routes at /mcp. The token in the answer of
/seed_session names the session. 0.4 has no MCP, and ignores the setting.
"""

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import itsdangerous
from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Scope

from .. import gym_series
from ..episode.answers import Answer, without_thinking
from ..episode.declaration import declared
from ..episode.episode import Episode
from ..episode.schema import function_definition, plain_schema
from ..episode.tools import EMPTY, OVER, SAY, SAY_TOOL
from ..episode.types import REPLY
from ..errors import SettingError
from .endpoints import as_response, call_row_tool
from .store import SessionStore


def serves_mcp(server: Any) -> bool:
    """Whether configs/<env>.yaml says `expose_tools_over_mcp: true`, and NeMo Gym can."""
    return gym_series.HAS_MCP and bool(
        getattr(server.config, "expose_tools_over_mcp", False)
    )


def expose(server: Any, app: FastAPI) -> None:
    """Serve the tools over MCP, too, if the configuration says so."""
    if serves_mcp(server):
        gym_series.maybe_auto_expose(server, app)


def unplayable(domain_class: type) -> str | None:
    """Why the class cannot be played over MCP; None if it can."""
    declaration = declared(domain_class)
    if declaration.has_row_tools and declaration.row_tools is None:
        return (
            f"{declaration.name} cannot be played over MCP, because it has call_row_tool() "
            "without row_tools(): MCP lists the same tools in every session"
        )
    return None


def listed_tools(store: SessionStore, harvested: list[Any]) -> list[Any]:
    """The tools that MCP lists: NeMo Gym's `harvested` routes, and the class's others.

    The others are the tools of row_tools(), and `say` for a class with reply(). Every
    tool has the schema and the description that rows list, and annotations: without
    them, Codex cancels each call. Raises SettingError.
    """
    from mcp.types import Tool, ToolAnnotations

    from ..gym_series import DirectBinding, MCPTool

    kind = store.domain_class
    # An environment of RL is closed, and nothing in it outlives the episode.
    harmless = ToolAnnotations(
        readOnlyHint=False, destructiveHint=False, openWorldHint=False
    )

    def own(definition: dict[str, Any], endpoint: Callable[..., Any], **body: Any):
        binding = DirectBinding(
            endpoint,
            f"/{definition['name']}",
            request_params=("request",),
            body_param="body",
            is_coroutine=True,
            **body,
        )
        return MCPTool(definition["name"], described(definition), binding)

    def described(definition: dict[str, Any]) -> Tool:
        return Tool(
            name=definition["name"],
            description=definition["description"],
            inputSchema=definition["parameters"],
            annotations=harmless,
        )

    for each in harvested:
        schema = each.tool.inputSchema
        plain = plain_schema(schema)
        about = each.tool.description or each.name
        each.tool = described(function_definition(each.name, about, plain))
    listed = list(harvested)
    names = {each.name for each in harvested}
    if declared(kind).replies:
        if SAY in names:
            raise SettingError(
                f"{kind.__name__} has reply(), so over MCP the tool {SAY!r} takes the "
                "policy's messages: rename the class's own tool"
            )
        model = SAY_TOOL.arguments
        listed.append(own(SAY_TOOL.definition(), _say(store), body_model=model))
    if every_row := declared(kind).row_tools:
        try:
            definitions = every_row()
        except ValueError as error:
            raise SettingError(f"{kind.__name__}.row_tools(): {error}") from error
        for definition in definitions:
            if definition["name"] not in names:
                endpoint = _row_tool(store, definition["name"])
                listed.append(own(definition, endpoint, body_is_dict=True))
    return listed


def _say(store: SessionStore) -> Callable[..., Any]:
    async def endpoint(request: Request, body: BaseModel) -> Response:
        text = SAY_TOOL.keywords(body)["text"]
        if not without_thinking(text):
            return as_response(Answer(EMPTY, error="expected"))
        said = {"answer": text}
        answer = await store.call(request, REPLY, said, Episode.reply, text)
        return as_response(answer or Answer(OVER))

    return endpoint


def _row_tool(store: SessionStore, name: str) -> Callable[..., Any]:
    async def endpoint(request: Request, body: dict[str, Any]) -> Response:
        return await call_row_tool(store, request, name, body)

    return endpoint


def show_images() -> None:
    """Have NeMo Gym answer MCP calls with images as images, and not as base64 text."""
    mcp: Any = gym_series.module_of("maybe_auto_expose")
    if not isinstance(mcp._to_result, functools.partial):
        setattr(mcp, "_to_result", functools.partial(_with_image, mcp._to_result))  # noqa: B010


def _with_image(as_text: Any, payload: Any) -> Any:
    """The content of an MCP answer: a tool's output as text, then its image."""
    image = payload.get("image") if isinstance(payload, dict) else None
    found = re.fullmatch(r"data:(image/[^,;]+)[^,]*;base64,(.*)", str(image), re.DOTALL)
    if found is None:
        return as_text(payload)
    from mcp.types import ImageContent

    rest = {key: value for key, value in payload.items() if key != "image"}
    # Without structured content, which some clients show instead of the images.
    content, _ = as_text(rest)
    return [*content, ImageContent(type="image", mimeType=found[1], data=found[2])]


def session_of(server: Any, scope: Scope) -> str | None:
    """The id of the session in an MCP request's token, if there is one."""
    if not serves_mcp(server):
        return None
    mcp: Any = gym_series.module_of("maybe_auto_expose")
    token = dict(scope["headers"]).get(mcp.TOKEN_HEADER.lower().encode(), b"")
    key = server.get_session_middleware_key()
    signer = itsdangerous.URLSafeSerializer(key, salt=mcp._MCP_TOKEN_SALT)
    with contextlib.suppress(itsdangerous.BadSignature, KeyError, TypeError):
        return str(signer.loads(token.decode("latin-1"))["sid"])
    return None
