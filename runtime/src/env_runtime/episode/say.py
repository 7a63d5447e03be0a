"""The tool `say`, by which a policy talks to a class with reply().

The episodes of other frameworks and of TRL end at the first message without a call.
"""

from .tools import make_tool

SAY = "say"
# `say` returns this once the environment has ended the episode.
OVER = "The episode is over."


def say(self, text: str) -> str:
    """Say something to the other side of the conversation. Returns its reply.

    Args:
        text: The message.
    """
    raise NotImplementedError("an episode calls reply() itself")


SAY_TOOL = make_tool(say)
