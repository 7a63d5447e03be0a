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
# Their values are data, in which a key `title` is no title.
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


# A value of each format that pydantic writes for a text.
FORMATS = {
    "date": "2000-01-01",
    "date-time": "2000-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "duration": "P1D",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "uuid4": "00000000-0000-4000-8000-000000000000",
    "uri": "http://example.com/",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
}


def sample_arguments(tool: dict[str, Any], *, high: bool = False) -> dict[str, Any]:
    """Arguments that fit a tool definition: small values, or large ones if `high`."""
    return sample_of(tool["parameters"], high)


def sample_of(schema: dict[str, Any], high: bool = False) -> Any:
    """A value that fits a JSON Schema without references, its bounds and format included.

    No value is made up for a pattern: the schema's `examples` are taken first.
    """
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][-1 if high else 0]
    if schema.get("examples"):
        return schema["examples"][-1 if high else 0]
    if "default" in schema and not high:
        return schema["default"]
    for choice in ("anyOf", "oneOf", "allOf"):
        if choice in schema:
            return sample_of(schema[choice][0], high)
    kind = schema.get("type")
    if isinstance(kind, list):  # any of several types
        kind = kind[0]
    if kind in ("integer", "number"):
        return _number(schema, high)
    if kind == "string" and schema.get("format") in FORMATS:
        return FORMATS[schema["format"]]
    if kind == "string":
        text = "nonsense" if high else "x"
        return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]
    if kind == "array":
        item = schema.get("prefixItems") or [schema.get("items", {})]
        count = schema.get("minItems", 0) or int(high)
        return [sample_of(item[min(n, len(item) - 1)], high) for n in range(count)]
    if kind == "object" or "properties" in schema:
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        return {
            name: sample_of(item, high)
            for name, item in properties.items()
            # A constant may choose between models, although it has a default.
            if high or name in required or "const" in item
        }
    return {"boolean": high, "null": None}.get(kind, "x")


def _number(schema: dict[str, Any], high: bool) -> int | float:
    """A number within the schema's bounds, near the upper or the lower one."""
    step = schema.get("multipleOf", 1)
    low, top = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + step
    if "exclusiveMaximum" in schema:
        top = schema["exclusiveMaximum"] - step
    if low is not None and top is not None and low > top:  # an open interval below 1
        return (
            schema.get("exclusiveMinimum", low) + schema.get("exclusiveMaximum", top)
        ) / 2
    value = top if high else low
    if value is None:
        usual = 7 if high else 1
        value = max(usual, low) if low is not None else usual
        value = min(value, top) if top is not None else value
    if step != 1:
        value = value // step * step
        if low is not None and value < low:
            value += step
    return int(value) if schema["type"] == "integer" else float(value)
