"""An MCP server as an environment: its tools are the policy's, its state is graded."""

from typing import ClassVar

from env_runtime.mcp import McpEpisode


class DomainClass(McpEpisode):
    """One episode, with a server in a folder of its own. Its task may have these keys:

    files            {path: text}, put into the folder before the server starts
    expected_state   [tool, arguments, answer] each, asked after the episode
    expected_answer  the text that the last message must have in a box

    For another grade, write `reward(self, answer)`: `self.ask(tool, arguments)` asks the
    server, and `self.state_holds()` compares `expected_state`.
    """

    command = "{{ (mcp_server | to_json)[1:-1] }}"
    # The server's variables beside PATH and HOME; {folder} is the episode's folder.
    env: ClassVar = {{ "{}" if parts.variant else '{"MEMORY_FILE_PATH": "{folder}/memory.jsonl"}' }}
    tools = ({{ server_tools(tools) }})  # the names of those that the policy may call; (): all
    shared = False  # True: one server for all episodes, if it keeps nothing
    network = False  # whether the server may use the network
