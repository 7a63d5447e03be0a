"""The page's own server: it binds to this machine, and answers its own page only.

Whoever knows the link may use it. The link holds a random token, the Host must be this
machine, and the Origin, which a browser sends with every POST, this server.
"""

import hmac
import json
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import auth
from ..errors import RolloutError
from ..evaluation.report import digest, read_page
from ..settings import ServerSettings
from .game import Game

TEMPLATE = Path(__file__).with_name("page.html")
MAX_BYTES = 1 << 22  # of a request

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the link has the token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def app_of(game: Game, token: str) -> ASGIApp:
    """The page's app: /TOKEN/ is the page, and /TOKEN/ACTION an action of the game."""
    page = read_page(TEMPLATE)
    # Only the page's own script and style count, and it reaches only this server.
    policy = (
        f"default-src 'none'; script-src '{digest(page, 'script')}'; "
        f"style-src '{digest(page, 'style')}'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )

    async def show(request: Request) -> Response:
        return HTMLResponse(page, headers={"Content-Security-Policy": policy})

    async def act(request: Request) -> Response:
        action = game.actions.get(request.path_params["action"])
        if action is None:
            return JSONResponse({"problem": "unknown action"}, 404)
        if "origin" not in request.headers:
            return JSONResponse({"problem": "only the page posts here"}, 403)
        if int(request.headers.get("content-length") or MAX_BYTES + 1) > MAX_BYTES:
            return JSONResponse({"problem": f"more than {MAX_BYTES} bytes"}, 413)
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            asked = None
        if not isinstance(asked, dict):
            return JSONResponse({"problem": "the body must be a JSON object"}, 422)
        try:
            answer = await run_in_threadpool(action, asked)
        except (RolloutError, OSError) as error:
            return JSONResponse({"problem": str(error)}, 409)
        return JSONResponse(answer)

    routes = [
        Route("/{token}/", show, methods=["GET"]),
        Route("/{token}/{action}", act, methods=["POST"]),
    ]
    return _Guard(Starlette(routes=routes), token)


class _Guard:
    """Refuses requests from elsewhere, and those without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token.encode()
        # Not read: the variables of the environment's own server open this one to nobody.
        self.settings = ServerSettings.model_construct()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = scope["path"].split("/")[1].encode()
            refusal = None
            if reason := auth.origin_problem(scope, self.settings):
                refusal = PlainTextResponse(reason, 403)
            elif not hmac.compare_digest(given, self.token):
                refusal = PlainTextResponse("open the link that play.py printed", 403)
            if refusal:
                await refusal(scope, receive, send)
                return
            send = _with_headers(send)
        await self.app(scope, receive, send)


def _with_headers(send: Send) -> Send:
    async def answer(message):
        if message["type"] == "http.response.start":
            extra = [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return answer
