"""Values that fit a JSON Schema, for calls that mean nothing."""

from typing import Any

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

CHOICES = 12  # a parameter with more values has no choice that is tried


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


def choices_of(schema: dict[str, Any]) -> list[Any]:
    """The values of a parameter with few of them; [] for any other."""
    if "enum" in schema:
        return schema["enum"] if len(schema["enum"]) <= CHOICES else []
    if schema.get("type") == "boolean":
        return [False, True]
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("type") == "integer" and low is not None and high is not None:
        return [*range(low, high + 1)] if high - low < CHOICES else []
    return []
