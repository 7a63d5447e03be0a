"""The import gate: everything that can be wrong with a class, with file and line."""

import asyncio
import inspect
import typing
from typing import Any

from ..episode.docstrings import read_docstring
from ..episode.episode import Episode
from ..episode.tools import Tool, tools_of, where
from ..errors import GateError, ToolError
from ..files import source_name
from ..server.endpoints import OWN_ROUTES
from .app import lines_for, served_app


def check_class(
    domain_class: type, server: Any = None, asked: list[dict[str, Any]] | None = None
) -> str:
    """Check the class against its protocol, its server class and `asked`.

    `server` is by default the class of server.py. `asked` are the signatures that were
    given when the project was generated: {"name", "given", "parameters"}.

    Returns one line for the user. Raises GateError.
    """
    app = served_app(server)
    try:
        tools = tools_of(domain_class)
    except ToolError as error:
        raise GateError(str(error)) from error
    _check_protocol(domain_class)
    served = _check_lines(domain_class, app, tools)
    for signature in asked or []:
        _check_signature(tools, signature)
    note = _construct(domain_class, tools)
    name = f"{domain_class.__module__}.{domain_class.__name__}"
    notes = [*_unserved(domain_class, tools, served), *_misdescribed(tools)]
    return "; ".join([f"{name} has {', '.join(served)}{note}", *notes])


def _check_protocol(domain_class: type) -> None:
    """Raise GateError if the constructor or a hook cannot be called as it will be."""
    place = _place(domain_class)
    try:
        inspect.signature(domain_class).bind({})
    except TypeError as error:
        raise GateError(
            f"{place} must be made of one argument, the task: {error}. Write "
            "`def __init__(self, task: dict)`, or a subclass that does"
        ) from error
    for hook in ("oracle", "missing_requirement", "notice", "refuse_to_serve"):
        if inspect.iscoroutinefunction(getattr(domain_class, hook, None)):
            raise GateError(f"{place}.{hook} is never awaited: make it a plain `def`")
        static = inspect.getattr_static(domain_class, hook, None)
        if inspect.isfunction(static):
            raise GateError(
                f"{where(static)}: {static.__qualname__} is called without an "
                "object: put @staticmethod above it"
            )
    for hook in ("reward", "metrics", "close"):
        method = inspect.getattr_static(domain_class, hook, None)
        if inspect.isfunction(method):
            try:
                inspect.signature(method).bind(None)
            except TypeError as error:
                raise GateError(
                    f"{where(method)}: {method.__qualname__} is called without "
                    f"arguments: {error}"
                ) from error
    for member in vars(domain_class).values():
        if inspect.isfunction(member) and not member.__name__.startswith("_"):
            _check_awaitable(member)


def _place(domain_class: type) -> str:
    _, first = inspect.getsourcelines(domain_class)
    file = inspect.getsourcefile(domain_class) or "?"
    return f"{source_name(file)}, line {first}: {domain_class.__name__}"


def _check_awaitable(method: Any) -> None:
    """Raise GateError if a method is annotated to return a coroutine."""
    returned = typing.get_type_hints(method).get("return")
    origin = typing.get_origin(returned) or returned
    if isinstance(origin, type) and hasattr(origin, "__await__"):
        raise GateError(
            f"{where(method)}: {method.__qualname__} returns a coroutine: make it "
            "`async def`, and annotate what it returns in the end"
        )


def _check_lines(domain_class: type, app: Any, tools: dict[str, Tool]) -> list[str]:
    """The names of the tools that the app serves.

    Raises GateError if it serves none, or a method that is not a tool.
    """
    lines: dict[str, Tool] = {}
    by_hand = set()
    for route in app.routes:
        if "POST" in getattr(route, "methods", ()) and route.path not in OWN_ROUTES:
            tool = getattr(route.endpoint, "tool", None)
            if tool:
                lines[route.path] = tool
            else:
                by_hand.add(route.path)
    if not lines and not by_hand:
        raise GateError(
            "server.py serves no tool: add to setup_webserver() "
            f"{lines_for(domain_class, tools)}"
            if tools
            else f"{_place(domain_class)} has no tool: a tool is a public method that is "
            "annotated to return text, `-> str`"
        )
    for path, tool in lines.items():
        if path != f"/{tool.name}":
            raise GateError(
                f"server.py serves {tool.name} as {path}: call the route /{tool.name}"
            )
        if tool.name not in tools:
            method: Any = tool.method
            raise GateError(
                f"{where(method)}: {method.__qualname__} is a tool in "
                "server.py, but it is not annotated to return text: write `-> str`, or "
                "remove its line from server.py"
            )
    return [path.removeprefix("/") for path in [*lines, *by_hand]]


def _unserved(
    domain_class: type, tools: dict[str, Tool], served: list[str]
) -> list[str]:
    """A note on the tools of the class that server.py has no line for."""
    names = [name for name in tools if name not in served]
    if not names:
        return []
    lines = lines_for(domain_class, names)
    return [f"not served: {', '.join(names)} (to serve it, add {lines})"]


def _misdescribed(tools: dict[str, Tool]) -> list[str]:
    """Notes on parameters that a docstring describes, and the method does not have."""
    notes = []
    for name, tool in tools.items():
        _, described = read_docstring(inspect.getdoc(tool.method) or "")
        parameters = inspect.signature(tool.method).parameters
        notes += [
            f"{where(tool.method)}: the docstring of {name} describes "
            f"{parameter!r}, which it does not take"
            for parameter in described
            if parameter not in parameters
        ]
    return notes


def _check_signature(tools: dict[str, Tool], signature: dict[str, Any]) -> None:
    """Raise GateError if a method is not as its signature in the answers."""
    name = signature["name"]
    if name not in tools or not signature["given"]:
        return
    method: Any = tools[name].method
    code = f"def {name}(self, {', '.join(signature['parameters'])}) -> str: ..."
    scope: dict[str, Any] = {"Literal": typing.Literal}
    exec(code, scope)  # noqa: S102 - the template has checked it, letter by letter
    expected, actual = _parameters(scope[name]), _parameters(method)
    if expected != actual:
        raise GateError(
            f"{where(method)}: {method.__qualname__} takes "
            f"({', '.join(actual)}), but the answer to `tools` was "
            f"({', '.join(expected)}): correct the method, or copy again with "
            f"-d tools='{name}'"
        )


def _parameters(function: Any) -> list[str]:
    hints = typing.get_type_hints(function)
    _, *parameters = inspect.signature(function).parameters.values()
    return [
        str(parameter.replace(annotation=hints.get(parameter.name, parameter.empty)))
        for parameter in parameters
    ]


def _construct(domain_class: type, tools: dict[str, Tool]) -> str:
    """Make an object of {}, and call nothing. Returns a note for the gate's line.

    Raises GateError if an attribute of the object hides a tool.
    """

    async def check() -> str:
        try:
            episode = Episode(domain_class)
        except Exception as error:  # noqa: BLE001 - a class may need a task
            text = " ".join(f"{type(error).__name__}: {error}".split())[:100]
            return f" (needs a task: an empty one raises {text})"
        try:
            for name, tool in tools.items():
                if name in getattr(episode.environment, "__dict__", {}):
                    raise GateError(
                        f"{where(tool.method)}: the tool {name} is hidden by "
                        f"an attribute that the object sets: rename self.{name}"
                    )
        finally:
            await episode.close()
        return ""

    return asyncio.run(check())
