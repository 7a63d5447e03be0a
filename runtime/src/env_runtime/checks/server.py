"""The server of the gates: the app of server.py, and its process."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

from ..episode.declaration import declared, public_methods
from ..episode.tools import SERVER_PATHS, not_a_name
from ..errors import GateError, ToolError
from ..files import raised
from ..project import here, of_class


def served_app(server: Any = None) -> Any:
    """The FastAPI app of a server class, by default server.py's.

    Raises GateError if it cannot be imported or set up.
    """
    try:
        if server is None:
            server = here().load_server()
        app = server.build().setup_webserver()
        _check_paths(app)
        return app
    except GateError:
        raise
    except ToolError as error:
        raise GateError(str(error)) from error
    except Exception as error:
        raise GateError(_import_problem(error)) from error


def _check_paths(app: Any) -> None:
    """Raise GateError if two lines serve the same path: only the first one counts."""
    paths = [
        route.path for route in app.routes if "POST" in getattr(route, "methods", ())
    ]
    for path in paths:
        if paths.count(path) > 1:
            if path.removeprefix("/") in SERVER_PATHS:
                raise GateError(f"server.py: {not_a_name(path.removeprefix('/'))}")
            raise GateError(
                f"server.py serves {path} twice: remove one of the two lines"
            )


def _import_problem(error: Exception) -> str:
    text = f"server.py cannot be imported: {raised(error)}"
    if isinstance(error, AttributeError) and isinstance(error.obj, type):
        text += ". Write the method, or remove its line from server.py"
        served = of_class(error.obj).served_tools()
        methods = [name for name, _ in public_methods(error.obj) if name not in served]
        if methods:
            text += (
                f". These public methods are not served: {', '.join(methods)}. To serve "
                f"one as a tool, add its line: {lines_for(error.obj, methods)}"
            )
        elif declared(error.obj).takes_answer:
            text += ". For a class without tools, copy again with --overwrite -d tools="
    return text


def lines_for(domain_class: type, names: Iterable[str]) -> str:
    """The lines of setup_webserver() that serve these tools of the class."""
    owner = domain_class.__name__
    return "; ".join(
        f'app.post("/{name}")(self.tool({owner}.{name}))' for name in names
    )


START_SECONDS = 120

# The gates play the user's own code, so the server need not refuse to serve it. Models
# that are not set are played by the class's stand_in().
TRUSTED = {"TRUSTED_POLICY": "1", "STAND_IN": "1"}


@contextlib.contextmanager
def starting_server(
    command: list[str] | None = None, folder: Path | None = None, **variables: str
) -> Generator[subprocess.Popen[str], None, None]:
    """A server that starts in the with block, and ends with it.

    `command` runs in `folder`, by default nemo_gym/server.py. `variables` are set in
    its environment.
    """
    process = subprocess.Popen(
        command or [sys.executable, str(here().gym / "server.py")],
        cwd=folder or here().gym,
        env={**os.environ, **TRUSTED, "HOST": "127.0.0.1", "PORT": "0", **variables},
        stdin=subprocess.DEVNULL,  # an input() in the class must not wait for a terminal
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def url_of(process: subprocess.Popen[str]) -> str:
    """The URL of a server, as soon as it prints `running on URL`.

    Raises GateError, with what the server printed, if it ends or is silent for two
    minutes.
    """
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.kill)
    watchdog.start()
    printed = []
    url = None
    for line in process.stdout:
        printed.append(line)
        if match := re.search(r"running on (http://\S+)", line):
            url = match[1]
            break
    watchdog.cancel()
    # Read on, so that the server never waits for a full pipe.
    threading.Thread(target=process.stdout.read, daemon=True).start()
    if url is None:
        raise GateError("the server did not start:\n" + "".join(printed[-20:]))
    return url
