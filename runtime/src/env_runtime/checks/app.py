"""The app of server.py, and the reason if it cannot be imported."""

from collections.abc import Iterable
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
