"""Harbor's tasks: `tasks` writes a folder for each row, and `serve` plays its episode.

A task has two containers. The agent's knows nothing of the environment. The other is the
project's image with the row, and plays one episode: the task's MCP server is there.
"""

from ..episode.declaration import declared
from ..project import Project

ANSWER = "/answer/answer.txt"  # in both containers


def has_tools(project: Project) -> bool:
    """Whether an agent can do more than write an answer."""
    own = declared(project.load_class())
    return bool(project.served_tools() or own.has_row_tools or own.replies)
