"""Forms of tools, for people: the page of play.py.

A form is made from a tool's JSON Schema, and is JSON itself: the page gets it as it is.
"""

from typing import Any

from ..episode.types import Definitions

Field = dict[str, Any]

# JSON Schema's types that have an input of their own
KINDS = {"string": "text", "integer": "integer", "number": "number"}
DEEPEST = 6  # fields below this depth are typed as JSON


def forms_of(definitions: Definitions) -> list[dict[str, Any]]:
    """A form for each tool: its `name`, its `description`, and its `fields`."""
    return [
        {
            "name": tool["name"],
            "description": tool.get("description") or "",
            "fields": fields_of(tool.get("parameters") or {}),
        }
        for tool in definitions
    ]


def fields_of(schema: dict[str, Any], depth: int = 0) -> list[Field]:
    """The fields of an object's properties: `name`, `required`, and what field_of says."""
    required = schema.get("required") or []
    return [
        {"name": name, "required": name in required, **field_of(part, depth)}
        for name, part in (schema.get("properties") or {}).items()
    ]


def field_of(schema: Any, depth: int = 0) -> Field:
    """The field of a value.

    `kind` is "text", "integer", "number", "choice" with its `choices`, "list" with the
    field of each `item`, "object" with its `fields`, or "json" for everything else.
    `nullable` says whether null is a value, `note` what the schema says in words and
    numbers; `default` is there only if the schema has one.
    """
    schema = schema if isinstance(schema, dict) else {}
    plain, nullable = _without_null(schema)
    about: Field = {"nullable": nullable, "note": _note({**plain, **schema})}
    if "default" in schema:
        about["default"] = schema["default"]
    kind = plain.get("type")
    choices = [plain["const"]] if "const" in plain else plain.get("enum")
    if kind == "boolean":
        choices = [True, False]
    if choices:
        choices = [one for one in choices if one is not None]
        return {**about, "kind": "choice", "choices": choices}
    if kind == "array" and isinstance(plain.get("items"), dict) and depth < DEEPEST:
        return {**about, "kind": "list", "item": field_of(plain["items"], depth + 1)}
    if kind == "object" and plain.get("properties") and depth < DEEPEST:
        return {**about, "kind": "object", "fields": fields_of(plain, depth + 1)}
    return {**about, "kind": KINDS.get(str(kind), "json")}


def _without_null(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """A schema without null among its types, and whether it had it."""
    if isinstance(kinds := schema.get("type"), list):
        rest = [kind for kind in kinds if kind != "null"]
        plain = {**schema, "type": rest[0] if len(rest) == 1 else None}
        return plain, len(rest) < len(kinds)
    parts = schema.get("anyOf") or schema.get("oneOf")
    if not isinstance(parts, list):
        return schema, schema.get("type") == "null" or None in schema.get("enum", [])
    rest = [part for part in parts if part.get("type") != "null"]
    return rest[0] if len(rest) == 1 else {}, len(rest) < len(parts)


def _note(schema: dict[str, Any]) -> str:
    """A schema's description and its bounds."""
    words = {"minimum": "at least", "exclusiveMinimum": "more than"}
    words |= {"maximum": "at most", "exclusiveMaximum": "less than"}
    bounds = [f"{text} {schema[key]:g}" for key, text in words.items() if key in schema]
    described = str(schema.get("description") or "")
    return f"{described} ({', '.join(bounds)})".lstrip() if bounds else described
