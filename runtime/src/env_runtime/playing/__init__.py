"""The page of play.py, on which a person plays rows: its command line and its server.

The server binds to this machine, and answers its own page only. Whoever knows the link
may use it. The link holds a random token, the Host must be this machine, and the Origin,
which a browser sends with every POST, this server.
"""

import contextlib
import hmac
import json
import secrets
import signal
import socket
import webbrowser
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from .. import auth
from ..checks.server import starting_server, url_of
from ..command_line import exit_status, new_parser
from ..errors import RolloutError
from ..evaluation.client import Client
from ..evaluation.command import only_writer
from ..evaluation.report import digest, read_page
from ..evaluation.rows import read_rows, shown
from ..project import here
from ..settings import ServerSettings
from .session import PlaySession

# People think longer than models: a session may wait for a day.
A_DAY = "86400"
TEMPLATE = Path(__file__).with_name("page.html")
MAX_BYTES = 1 << 22  # of a request

HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the link has the token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def main(description: str | None, arguments: list[str] | None = None) -> int:
    """Serve the page until Ctrl-C. Returns the exit status."""
    parser = new_parser(description)
    add = parser.add_argument
    add(
        "--rows",
        type=Path,
        default=here().rows,
        metavar="FILE",
        help="data/example.jsonl",
    )
    add("--url", help="play against the server that runs there")
    text = "who plays; the rollouts name it as their model (human)"
    add("--player", default="human", metavar="NAME", help=text)
    text = "add the rollouts to this .jsonl (results/NAME.jsonl)"
    add("--output", type=Path, metavar="FILE", help=text)
    add("--no-browser", action="store_true", help="only print the page's link")
    options = parser.parse_args(arguments)
    if not options.player.replace("-", "").isidentifier() and options.output is None:
        parser.error("--player names a file, too: use letters and digits, or --output")
    output = options.output or here().gym / "results" / f"{options.player}.jsonl"

    def run() -> int:
        rows = read_rows(here().load_class(), options.rows)
        with contextlib.ExitStack() as stack:
            stack.enter_context(only_writer(output))
            url = options.url
            if url is None:
                server = starting_server(SESSION_IDLE_SECONDS=A_DAY)
                url = url_of(stack.enter_context(server))
            client = Client(url)
            client.tools()  # a clear error if nothing answers
            played = PlaySession(client, rows, options.rows, output, options.player)
            serve(played, browser=not options.no_browser)
            played.close()
            if played.rollouts:
                print(f"\n{shown(output)}: {played.figures()}")
        return 0

    return exit_status("play.py", run)


def serve(played: PlaySession, browser: bool = True) -> None:
    """Serve the page on a free port of this machine until Ctrl-C, and print its link."""
    token = secrets.token_urlsafe(24)
    config = uvicorn.Config(
        app_of(played, token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        link = f"http://127.0.0.1:{listening.getsockname()[1]}/{token}/"
        print(f"play at {link}\nCtrl-C ends it", flush=True)
        if browser:
            _open(link)
        # Both end the environment's server, too.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listening])


def _open(link: str) -> None:
    """Open a browser, but none that would take over this terminal."""
    with contextlib.suppress(webbrowser.Error):
        found = webbrowser.get()
        text = isinstance(found, webbrowser.GenericBrowser)
        if not text or isinstance(found, webbrowser.BackgroundBrowser):
            found.open(link)


def app_of(played: PlaySession, token: str) -> ASGIApp:
    """The page's app: /TOKEN/ is the page, and /TOKEN/ACTION one of its actions."""
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
        action = played.actions.get(request.path_params["action"])
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
