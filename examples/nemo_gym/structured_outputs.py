"""NeMo Gym's structured_outputs: a last message in JSON, YAML, XML, TOML or CSV."""

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
    """`schema_str` is an OpenAPI schema in JSON. All its fields count as required."""

    schema_str: str
    schema_type: Literal["json", "yaml", "xml", "toml", "csv"] = "json"
    response_mode: Literal["text"] = "text"


class StructuredOutputs:
    """One document, in the row's prompt."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def reward(self, answer: str) -> float:
        """1.0 if the answer has the format and the schema, else 0.0."""
        kind, schema = SchemaType(self._task.schema_type), self._task.schema_str
        return GRADER.evaluate_structured_output_response(kind, schema, answer)[0]
