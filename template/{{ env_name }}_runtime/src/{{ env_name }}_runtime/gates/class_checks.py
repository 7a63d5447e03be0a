"""The import gate: what can be wrong with a class, told with file and line."""

import asyncio
import inspect
import traceback
import typing
from collections.abc import Iterable
from typing import Any

from plumbing.environment import EnvironmentClass, episodes
from plumbing.records import GateError, file_name


def find_server() -> Any:
    """The server class of server.py, a SessionServer."""
    import server

    return server.main.__self__


def served_app() -> Any:
    """server.py's app. Raises GateError if it cannot be imported or set up."""
    try:
        return find_server().build().setup_webserver()
    except episodes.ToolError as error:
        raise GateError(str(error)) from error
    except Exception as error:
        raise GateError(_import_problem(error)) from error


def _import_problem(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{file_name(frame.filename)}, line {frame.lineno}"
    text = f"server.py cannot be imported ({place}): {type(error).__name__}: {error}"
    if isinstance(error, AttributeError) and isinstance(error.obj, type):
        known = episodes.tools_of(error.obj)
        text += (
            f". Tools are public methods that are annotated `-> str`; {error.obj.__name__}"
            f" has: {', '.join(known) or 'none'}. Write the method, or remove its line from"
            " server.py" + (f" and add {_lines(known)}" if known else "")
        )
    return text


def inspect_class(asked: list[dict[str, Any]]) -> str:
    """Check the class against its protocol, server.py and `asked`, the signatures that
    were given when the project was generated.

    Returns one line for the user. Raises GateError.
    """
    app = served_app()
    name = f"{EnvironmentClass.__module__}.{EnvironmentClass.__name__}"
    try:
        tools = episodes.tools_of(EnvironmentClass)
    except episodes.ToolError as error:
        raise GateError(str(error)) from error
    _check_protocol()
    served = _check_lines(app, tools)
    for one in asked:
        _check_asked(tools, one)
    needs = _construct(tools)
    notes = [*_unserved(tools, served), *_misdescribed(tools)]
    return "; ".join([f"{name} has {', '.join(served)}{needs}", *notes])


def _place() -> str:
    _, first = inspect.getsourcelines(EnvironmentClass)
    file = inspect.getsourcefile(EnvironmentClass) or "?"
    return f"{file_name(file)}, line {first}: {EnvironmentClass.__name__}"


def _check_protocol() -> None:
    try:
        inspect.signature(EnvironmentClass).bind({})
    except TypeError as error:
        raise GateError(
            f"{_place()} must be made of one argument, the task: {error}. Write "
            "`def __init__(self, task: dict)`, or a subclass that does"
        ) from error
    for hook in ("oracle", "missing_requirement", "notice", "refuse_to_serve"):
        if inspect.iscoroutinefunction(getattr(EnvironmentClass, hook, None)):
            raise GateError(
                f"{_place()}.{hook} is never awaited: make it a plain `def`"
            )
        static = inspect.getattr_static(EnvironmentClass, hook, None)
        if inspect.isfunction(static):
            raise GateError(
                f"{episodes.where(static)}: {static.__qualname__} is called without an "
                "object: put @staticmethod above it"
            )
    for hook in ("reward", "metrics", "close"):
        method = inspect.getattr_static(EnvironmentClass, hook, None)
        if inspect.isfunction(method):
            try:
                inspect.signature(method).bind(None)
            except TypeError as error:
                raise GateError(
                    f"{episodes.where(method)}: {method.__qualname__} is called without "
                    f"arguments: {error}"
                ) from error
    for member in vars(EnvironmentClass).values():
        if inspect.isfunction(member) and not member.__name__.startswith("_"):
            returned = typing.get_type_hints(member).get("return")
            origin = typing.get_origin(returned) or returned
            if isinstance(origin, type) and hasattr(origin, "__await__"):
                raise GateError(
                    f"{episodes.where(member)}: {member.__qualname__} returns a "
                    "coroutine: make it `async def`, and annotate what it returns in "
                    "the end"
                )


def _check_lines(app: Any, tools: dict[str, Any]) -> list[str]:
    """The names of the tools that server.py serves.

    Raises GateError if it serves none, or what the class does not have as a tool.
    """
    from session_server import OWN_ROUTES

    lines, by_hand = {}, set()
    for route in app.routes:
        if "POST" in getattr(route, "methods", ()) and route.path not in OWN_ROUTES:
            tool = getattr(route.endpoint, "tool", None)
            by_hand |= set() if tool else {route.path}
            lines |= {route.path: tool} if tool else {}
    if not lines and not by_hand:
        raise GateError(
            f"server.py serves no tool: add to setup_webserver() {_lines(tools)}"
            if tools
            else f"{_place()} has no tool: a tool is a public method that is annotated "
            "to return text, `-> str`"
        )
    for path, tool in lines.items():
        place = f"{episodes.where(tool.method)}: {tool.method.__qualname__}"
        if path != f"/{tool.name}":
            raise GateError(
                f"server.py serves {tool.name} as {path}: call the route /{tool.name}"
            )
        if tool.name not in tools:
            raise GateError(
                f"{place} is a tool in server.py, but it is not annotated to return "
                "text: write `-> str`, or remove its line from server.py"
            )
    return [path.removeprefix("/") for path in [*lines, *by_hand]]


def _lines(names: Iterable[str]) -> str:
    name = EnvironmentClass.__name__
    return "; ".join(f'app.post("/{one}")(self.tool({name}.{one}))' for one in names)


def _unserved(tools: dict[str, Any], served: list[str]) -> list[str]:
    """What to do about tools of the class that server.py has no line for."""
    names = [name for name in tools if name not in served]
    if not names:
        return []
    return [f"not served: {', '.join(names)} (to serve it, add {_lines(names)})"]


def _misdescribed(tools: dict[str, Any]) -> list[str]:
    """Parameters that a docstring describes, and the method does not have."""
    notes = []
    for name, tool in tools.items():
        _, described = episodes.read_docstring(inspect.getdoc(tool.method) or "")
        taken = inspect.signature(tool.method).parameters
        notes += [
            f"{episodes.where(tool.method)}: the docstring of {name} describes "
            f"{one!r}, which it does not take"
            for one in described
            if one not in taken
        ]
    return notes


def _check_asked(tools: dict[str, Any], asked: dict[str, Any]) -> None:
    """Raises GateError if a method is not as its signature in the answers."""
    name = asked["name"]
    method = tools[name].method if name in tools else None
    if method is None or not asked["given"]:
        return
    code = f"def {name}(self, {', '.join(asked['parameters'])}) -> str: ..."
    scope: dict[str, Any] = {"Literal": typing.Literal}
    exec(code, scope)  # noqa: S102 - the template has checked it, letter by letter
    wanted, found = _parameters(scope[name]), _parameters(method)
    if wanted != found:
        raise GateError(
            f"{episodes.where(method)}: {method.__qualname__} takes "
            f"({', '.join(found)}), but the answer to `tools` was "
            f"({', '.join(wanted)}): correct the method, or copy again with "
            f"-d tools='{name}'"
        )


def _parameters(function: Any) -> list[str]:
    hints = typing.get_type_hints(function)
    taken = list(inspect.signature(function).parameters.values())[1:]
    return [
        str(one.replace(annotation=hints.get(one.name, one.empty))) for one in taken
    ]


def _construct(tools: dict[str, Any]) -> str:
    """Make an object of {}, call nothing. Returns what to add to the gate's line."""

    async def check() -> str:
        try:
            episode = episodes.Episode(EnvironmentClass)
        except Exception as error:  # noqa: BLE001 - any class may want a task
            said = " ".join(f"{type(error).__name__}: {error}".split())[:100]
            return f" (needs a task: an empty one raises {said})"
        try:
            for name, tool in tools.items():
                if name in getattr(episode.environment, "__dict__", {}):
                    raise GateError(
                        f"{episodes.where(tool.method)}: the tool {name} is hidden by "
                        f"an attribute that the object sets: rename self.{name}"
                    )
        finally:
            await episode.close()
        return ""

    return asyncio.run(check())
