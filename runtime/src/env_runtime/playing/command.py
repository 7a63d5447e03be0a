"""The command line of nemo_gym/play.py."""

import contextlib
import secrets
import signal
import socket
import webbrowser
from pathlib import Path

import uvicorn

from ..checks.server import starting_server, url_of
from ..command_line import exit_status, new_parser
from ..evaluation.client import Client
from ..evaluation.command import only_writer
from ..evaluation.rows import read_rows, shown
from ..project import here
from .game import Game
from .page_server import app_of

# People think longer than models: a session may wait for a day.
A_DAY = "86400"


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
            game = Game(client, rows, options.rows, output, options.player)
            serve(game, browser=not options.no_browser)
            game.close()
            if game.rollouts:
                print(f"\n{shown(output)}: {game.figures()}")
        return 0

    return exit_status("play.py", run)


def serve(game: Game, browser: bool = True) -> None:
    """Serve the page on a free port of this machine until Ctrl-C, and print its link."""
    token = secrets.token_urlsafe(24)
    config = uvicorn.Config(
        app_of(game, token),
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
