"""The signatures in the answers of a project, beside those of the class's tools."""

import ast
import inspect
import typing
from typing import Any

from ..episode.declaration import where
from ..episode.tools import Tool
from ..errors import GateError


def check_signature(tools: dict[str, Tool], signature: dict[str, Any]) -> None:
    """Raise GateError if a method differs from its signature in the answers."""
    name = signature["name"]
    if name not in tools or not signature["given"]:
        return
    method: Any = tools[name].method
    expected, actual = [*map(_answered, signature["parameters"])], _parameters(method)
    if expected != actual:
        raise GateError(
            f"{where(method)}: {method.__qualname__} takes "
            f"({', '.join(map(str, actual))}), but the answer to `tools` was "
            f"({', '.join(map(str, expected))}): correct the method, or copy again with "
            f"-d tools='{name}'"
        )


def _answered(code: str) -> inspect.Parameter:
    """A parameter of a signature in the answers, which copier.yml checked.

    Nothing is evaluated: other code than `size: int = 3` raises ValueError.
    """
    [node] = ast.parse(code).body
    assert isinstance(node, ast.AnnAssign)
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        ast.unparse(node.target),
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=empty if node.value is None else ast.literal_eval(node.value),
        annotation=_type_of(node.annotation),
    )


_TYPES: dict[str, Any] = {"Literal": typing.Literal, "list": list}
_TYPES |= {kind.__name__: kind for kind in (str, int, float, bool)}


def _type_of(node: ast.expr) -> Any:
    """The type that an annotation in the answers names: those of extensions/tools.jinja."""
    match node:
        case ast.Name(name) if name in _TYPES:
            return _TYPES[name]
        case ast.Subscript(ast.Name("Literal") as kind, values):
            return _type_of(kind)[ast.literal_eval(values)]
        case ast.Subscript(ast.Name("list") as kind, item):
            return _type_of(kind)[_type_of(item)]
        case ast.BinOp(kind, ast.BitOr(), ast.Constant(None)):
            return _type_of(kind) | None
    raise ValueError(f"no parameter has the type {ast.unparse(node)}")


def _parameters(function: Any) -> list[inspect.Parameter]:
    """The parameters of a method, all of one kind: calls name them."""
    hints = typing.get_type_hints(function)
    _, *parameters = inspect.signature(function).parameters.values()
    return [
        parameter.replace(
            kind=parameter.POSITIONAL_OR_KEYWORD,
            annotation=hints.get(parameter.name, parameter.empty),
        )
        for parameter in parameters
    ]
