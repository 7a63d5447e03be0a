"""The grade of a server's state: calls, and what they must answer after the episode."""

import json
from collections.abc import Mapping
from typing import Any

from mcp import types

from ..graders import matched

ANY = "*"  # stands for any one value in what is expected
ORDERED = "*ordered"  # {"*ordered": [...]} is a list whose order counts


class State:
    """The answers that an MCP server must give after an episode.

    `expected` are calls as [tool, arguments, answer]. An expected text is the whole text
    of the answer, without white space at both ends. Anything else is compared with the
    answer's JSON: objects have the same keys, and lists the same items in any order, so
    a policy earns nothing by adding whatever might be expected. Write a list as
    {"*ordered": [...]} if its order counts, as in what must be sorted. "*" stands for any
    one value, such as a date that the server adds. An answer that is an error is never
    right.
    Raises ValueError if `expected` is not such a list.
    """

    def __init__(self, expected: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any], Any]] = []
        for call in expected if isinstance(expected, list) else [expected]:
            match call:
                case [str(tool), dict(arguments), answer] if answer != ANY:
                    fits(answer, answer)  # raises ValueError
                    self.calls.append((tool, arguments, answer))
                case _:
                    raise ValueError(
                        "expected_state must be a list of calls and their answers, such "
                        'as [["read_graph", {}, {"entities": []}]]; got '
                        f"{call!r:.200}"
                    )


def holds(expected: Any, result: types.CallToolResult) -> bool:
    """Whether a server's answer is the expected one."""
    text = text_of(result)
    if result.isError:
        return False
    if isinstance(expected, str):
        return text.strip() == expected.strip()
    return fits(expected, json_of(text)) or fits(expected, result.structuredContent)


def text_of(result: types.CallToolResult) -> str:
    """The texts of an answer, one below the other."""
    texts = []
    for item in result.content:
        match item:
            case types.TextContent():
                texts.append(item.text)
            case types.EmbeddedResource(resource=types.TextResourceContents() as own):
                texts.append(own.text)
            case types.ResourceLink():
                texts.append(f"{item.name}: {item.uri}")
    return "\n".join(texts)


def json_of(text: str) -> Any:
    """The JSON in a text; the text itself if it has none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _ordered(expected: Any) -> list[Any] | None:
    """The items of a list whose order counts; None for any other value."""
    if not (isinstance(expected, Mapping) and expected.keys() == {ORDERED}):
        return None
    items = expected[ORDERED]
    if not isinstance(items, list):
        raise ValueError(f"{ORDERED!r} must be a list, got {items!r:.100}")  # noqa: TRY004
    return items


def fits(expected: Any, given: Any) -> bool:
    """Whether a value of JSON is the expected one."""
    if expected == ANY:
        return given is not None
    if (items := _ordered(expected)) is not None:
        same = isinstance(given, list) and len(items) == len(given)
        return same and all(map(fits, items, given))
    if isinstance(expected, Mapping):
        return (
            isinstance(given, Mapping)
            and expected.keys() == given.keys()
            and all(fits(value, given[key]) for key, value in expected.items())
        )
    if isinstance(expected, list):
        same = isinstance(given, list) and len(expected) == len(given)
        return same and matched(expected, given, fits) == len(given)
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    return expected == given
