"""JSON Schemas as the Responses API takes them."""

from typing import Any


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


def plain_schema(schema: Any, definitions: dict[str, Any] | None = None) -> Any:
    """A JSON Schema with every reference replaced by its definition.

    Titles are removed, and so are defaults of null, as FastAPI does. A type that
    contains itself is open ({}) from there on.
    """
    if isinstance(schema, list):
        return [plain_schema(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if definitions is None:
        definitions = schema.get("$defs", {})
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        others = {key: item for key, item in definitions.items() if key != name}
        beside = {key: item for key, item in schema.items() if key != "$ref"}
        return plain_schema({**definitions.get(name, {}), **beside}, others)
    plain = {}
    for key, value in schema.items():
        if key == "properties":  # a parameter may itself be called title
            plain[key] = {
                name: plain_schema(item, definitions) for name, item in value.items()
            }
        elif key not in ("title", "$defs") and (key, value) != ("default", None):
            plain[key] = plain_schema(value, definitions)
    return plain
