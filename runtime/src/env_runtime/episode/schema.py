"""JSON Schemas as the Responses API takes them."""

from typing import Any
from urllib.parse import unquote


def function_definition(
    name: str, description: str, schema: dict[str, Any]
) -> dict[str, Any]:
    """A tool of the Responses API, with the plain JSON Schema of its arguments."""
    return {
        "type": "function",
        "name": name,
        "description": " ".join(description.split()),
        "parameters": {
            "type": "object",
            "properties": schema.get("properties", {}),
            "required": schema.get("required", []),
        },
        "strict": False,
    }


# A type that contains itself is written out so often, and a schema has so many parts.
TIMES = 2
MOST_PARTS = 5_000
# The values of these keys are data. A key `title` in data is kept.
DATA = ("default", "enum", "const", "examples")


def plain_schema(schema: Any, document: Any = None) -> Any:
    """A JSON Schema with every local reference replaced by what it refers to.

    References are pointers into `document`, by default the schema itself, such as
    `#/$defs/Item` and `#/properties/start`. Titles are removed, and so are defaults of
    null, as FastAPI does. A type that contains itself is written out twice. From there
    on, only its type is left.
    """
    parts = 0
    root = schema if document is None else document

    def plain(value: Any, followed: tuple[str, ...]) -> Any:
        nonlocal parts
        parts += 1
        if isinstance(value, list):
            return [plain(item, followed) for item in value]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            target = _target(root, reference)
            if followed.count(reference) >= TIMES or parts > MOST_PARTS:
                return {key: target[key] for key in ("type",) if key in target}
            beside = {key: item for key, item in value.items() if key != "$ref"}
            return plain({**target, **beside}, (*followed, reference))
        found = {}
        for key, item in value.items():
            if key in ("properties", "patternProperties") and isinstance(item, dict):
                # A parameter may itself be called title.
                found[key] = {
                    name: plain(each, followed) for name, each in item.items()
                }
            elif key in DATA:
                found |= {} if (key, item) == ("default", None) else {key: item}
            elif key not in ("title", "$defs", "definitions"):
                found[key] = plain(item, followed)
        return found

    return plain(schema, ())


def _target(document: Any, reference: str) -> dict[str, Any]:
    """The schema at a JSON pointer (RFC 6901), {} if there is none in this document."""
    found = document
    for part in reference.removeprefix("#").split("/")[1:]:
        part = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = (
                found[int(part)] if part.isdigit() and int(part) < len(found) else {}
            )
        else:
            found = found.get(part, {}) if isinstance(found, dict) else {}
    return found if isinstance(found, dict) and reference.startswith("#") else {}
