"""The observations that the server sends: of reset(), and of each step()."""

from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.env_server.types import Observation


class ResetObservation(Observation):
    """The start of an episode. `reward` is the grade of doing nothing."""

    prompt: str  # the messages as one text: the row's, and what the class shows first
    messages: list[dict[str, str]]  # the same, with roles
    image: str | None = None  # the last one in them, a data: URL


class ToolObservation(CallToolObservation):
    """A tool's answer. `reward` is the episode's grade so far.

    `result` repeats `data` and `image` for MCPToolClient, which knows no other field.
    """

    data: str  # the answer's text, which MCPToolClient.call_tool() returns
    image: str | None = None  # a data: URL
