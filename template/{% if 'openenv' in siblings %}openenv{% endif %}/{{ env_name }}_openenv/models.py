"""The observations that the server sends for reset() and for each step()."""

from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.env_server.types import Observation


class ResetObservation(Observation):
    """The start of an episode. `reward` is the grade of doing nothing."""

    prompt: str  # the row's messages and the first observation, as one text
    messages: list[dict[str, str]]  # the same, with roles
    image: str | None = None  # the last image in the messages, a data: URL


class ToolObservation(CallToolObservation):
    """A tool's answer. `reward` is the episode's grade so far.

    `result` repeats `data` and `image` for MCPToolClient, which reads no other field.
    """

    data: str  # the answer's text, which MCPToolClient.call_tool() returns
    image: str | None = None  # a data: URL
