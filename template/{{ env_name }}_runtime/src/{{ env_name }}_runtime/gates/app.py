"""The app of server.py, and the reason if it cannot be imported."""

import traceback
from collections.abc import Iterable
from typing import Any

from .. import project
from ..episode.tasks import takes_answer
from ..episode.tools import tools_of
from ..errors import GateError, ToolError
from ..files import source_name


def served_app(server: Any = None) -> Any:
    """The FastAPI app of a server class, by default server.py's.

    Raises GateError if it cannot be imported or set up.
    """
    try:
        if server is None:
            server = project.load_server()
        return server.build().setup_webserver()
    except GateError:
        raise
    except ToolError as error:
        raise GateError(str(error)) from error
    except Exception as error:
        raise GateError(_import_problem(error)) from error


def _import_problem(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        place = f"{source_name(error.filename or '?')}, line {error.lineno}"
        return f"server.py cannot be imported ({place}): SyntaxError: {error.msg}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{source_name(frame.filename)}, line {frame.lineno}"
    text = f"server.py cannot be imported ({place}): {type(error).__name__}: {error}"
    if isinstance(error, AttributeError) and isinstance(error.obj, type):
        tools = tools_of(error.obj)
        text += (
            f". Tools are public methods that are annotated `-> str`; {error.obj.__name__}"
            f" has: {', '.join(tools) or 'none'}. Write the method, or remove its line from"
            " server.py"
        )
        if tools:
            text += f" and add {lines_for(error.obj, tools)}"
        elif takes_answer(error.obj):
            text += ". For a class without tools, copy again with --overwrite -d tools="
    return text


def lines_for(domain_class: type, names: Iterable[str]) -> str:
    """The lines of setup_webserver() that serve these tools of the class."""
    owner = domain_class.__name__
    return "; ".join(
        f'app.post("/{name}")(self.tool({owner}.{name}))' for name in names
    )
