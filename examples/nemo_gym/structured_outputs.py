"""NeMo Gym's structured_outputs: JSON, YAML, XML, TOML or CSV, or a call's arguments."""

from typing import Any, Literal

from pydantic import BaseModel
from resources_servers.structured_outputs.app import (
    SchemaType,
    StructuredOutputsResourcesServer,
    StructuredOutputsResourcesServerConfig,
)

# The server's own grader. It needs no configuration but this.
CONFIG = StructuredOutputsResourcesServerConfig.model_construct(xml_coerce_types=True)
GRADER: Any = StructuredOutputsResourcesServer.model_construct(config=CONFIG)


class Task(BaseModel):
    """`schema_str` is an OpenAPI schema in JSON. All its fields count as required.

    With the `response_mode` tool_call, the document is the argument `tool_payload_key`
    of a call of `tool_name`, or all its arguments.
    """

    schema_str: str
    schema_type: Literal["json", "yaml", "xml", "toml", "csv"] = "json"
    response_mode: Literal["text", "tool_call"] = "text"
    tool_name: str | None = None
    tool_payload_key: str | None = None


class StructuredOutputs:
    """One document, in the row's prompt. In some rows it is the argument of a call."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call, which nobody executes."""
        self._made.append((name, arguments))
        return "noted"

    def reward(self, answer: str) -> float:
        """1.0 if the answer has the format and the schema, else 0.0."""
        kind, schema = SchemaType(self._task.schema_type), self._task.schema_str
        if self._task.response_mode == "text":
            return GRADER.evaluate_structured_output_response(kind, schema, answer)[0]
        if len(self._made) != 1:
            return 0.0
        [(name, arguments)] = self._made
        key = self._task.tool_payload_key
        if name != (self._task.tool_name or name) or (key and key not in arguments):
            return 0.0
        document = arguments[key] if key else arguments
        return GRADER.evaluate_structured_object_response(schema, document)[0]
