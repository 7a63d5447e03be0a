"""Real MCP servers of npm and PyPI as environments: their tools, states, and attacks."""

import shutil
from typing import Any, NamedTuple

import pytest
from env_runtime.mcp import McpEpisode
from env_runtime.workspace.local import isolation

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (shutil.which("npx") and shutil.which("uvx")), reason="needs npx and uvx"
    ),
]

REPOSITORY = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n[user]\n\tname = A\n\temail = a@b.c\n",
    ".git/objects/info/packs": "",
    ".git/refs/heads/.keep": "",
    "a.txt": "hello\n",
}


class Played(NamedTuple):
    """A server, the tools that it must have, calls that solve a task, and an attack."""

    command: str
    variables: dict[str, str]
    tools: set[str]
    files: dict[str, str]
    task: dict[str, Any]
    oracle: list[tuple[str, dict[str, Any]]]
    attack: tuple[str, dict[str, Any]]  # what must be refused or answer nothing
    refused: str


SERVERS = {
    "memory": Played(
        "npx -y @modelcontextprotocol/server-memory",
        {"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
        {"create_entities", "read_graph"},
        {},
        {
            "expected_state": [
                [
                    "read_graph",
                    {},
                    {
                        "entities": [
                            {"name": "Ada", "entityType": "p", "observations": ["x"]}
                        ],
                        "relations": [],
                    },
                ]
            ]
        },
        [
            (
                "create_entities",
                {
                    "entities": [
                        {"name": "Ada", "entityType": "p", "observations": ["x"]}
                    ]
                },
            )
        ],
        ("create_entities", {"entities": "Ada"}),
        "expected array",
    ),
    "filesystem": Played(
        "npx -y @modelcontextprotocol/server-filesystem {folder}",
        {},
        {"read_text_file", "write_file"},
        {},
        {"expected_state": [["read_text_file", {"path": "/workspace/a"}, "hi"]]},
        [("write_file", {"path": "/workspace/a", "content": "hi"})],
        ("read_text_file", {"path": "/etc/passwd"}),
        "outside allowed directories",
    ),
    "everything": Played(
        "npx -y @modelcontextprotocol/server-everything",
        {},
        {"echo"},
        {},
        {"expected_state": [["echo", {"message": "a"}, "Echo: a"]]},
        [],
        ("echo", {}),
        "message",
    ),
    "git": Played(
        "uvx mcp-server-git --repository {folder}",
        {},
        {"git_add", "git_commit", "git_status"},
        REPOSITORY,
        {
            "expected_state": [
                [
                    "git_status",
                    {"repo_path": "/workspace"},
                    "Repository status:\nOn branch main\nnothing to commit, working tree clean",
                ]
            ],
        },
        [
            ("git_add", {"repo_path": "/workspace", "files": ["a.txt"]}),
            ("git_commit", {"repo_path": "/workspace", "message": "a"}),
        ],
        ("git_log", {"repo_path": "/"}),
        "outside",
    ),
    "time": Played(
        "uvx mcp-server-time --local-timezone=UTC",
        {},
        {"get_current_time", "convert_time"},
        {},
        {
            "expected_state": [
                [
                    "convert_time",
                    {
                        "source_timezone": "UTC",
                        "time": "12:00",
                        "target_timezone": "Asia/Tokyo",
                    },
                    {"source": "*", "target": "*", "time_difference": "+9.0h"},
                ]
            ]
        },
        [],
        ("get_current_time", {"timezone": "../../etc/passwd"}),
        "Invalid timezone",
    ),
    "sqlite": Played(
        "uvx --with mcp<2 mcp-server-sqlite --db-path {folder}/notes.db",
        {},
        {"create_table", "write_query", "read_query"},
        {},
        {
            "expected_state": [
                ["read_query", {"query": "SELECT n FROM notes"}, "[{'n': 7}]"]
            ]
        },
        [
            ("create_table", {"query": "CREATE TABLE notes (n INTEGER)"}),
            ("write_query", {"query": "INSERT INTO notes VALUES (7)"}),
        ],
        ("read_query", {"query": "DROP TABLE notes"}),
        "Only SELECT queries",
    ),
}


@pytest.fixture(params=SERVERS)
def server(request) -> Played:
    return SERVERS[request.param]


@pytest.fixture
def start(server):
    """Starts episodes of the server, which end with the test."""
    episodes = []
    members = {"command": server.command, "env": server.variables}
    members |= {"files": server.files}
    kind = type("Own", (McpEpisode,), members)

    def start():
        episodes.append(kind(server.task))
        return episodes[-1]

    yield start
    for episode in episodes:
        episode.close()


@pytest.mark.parametrize("wanted", ["bubblewrap", "none"])
def test_a_real_server_is_an_environment(server, start, monkeypatch, wanted):
    if wanted == "bubblewrap" and isolation() != "bubblewrap":
        pytest.skip(isolation())
    monkeypatch.setenv("SANDBOX_ISOLATION", wanted)
    one, other = start(), start()
    assert server.tools <= {tool["name"] for tool in type(one).row_tools()}
    for tool, arguments in server.oracle:
        one.call_row_tool(tool, arguments)
    assert one.reward("") == 1.0
    assert other.reward("") == float(not server.oracle), "episodes share their state"
    tool, arguments = server.attack
    try:
        said = other.call_row_tool(tool, arguments).output
    except ValueError as error:
        said = str(error)
    assert server.refused in said
    assert one.infrastructure_failure is other.infrastructure_failure is None
