"""The observations that the server sends for reset() and for each step()."""

from openenv.core.env_server.mcp_types import CallToolObservation
from openenv.core.env_server.types import Observation


class ResetObservation(Observation):
    """The start of an episode. `reward` is the grade of doing nothing.

    `metadata["metrics"]`, here and in each step, has the class's metrics().
    """

    prompt: str  # the row's messages and the first observation, as one text
    messages: list[dict[str, str]]  # the same, with roles
    image: str | None = None  # the last image in the messages, a data: URL


class ToolObservation(CallToolObservation):
    """A tool's answer. `reward` is the episode's grade so far.

    `result` repeats `data` and `image` for MCPToolClient, which reads no other field.
    It is None if the call failed: `error` has the reason then.
    """

    data: str  # the text for the policy; it begins with "error: " if the call failed
    image: str | None = None  # a data: URL
