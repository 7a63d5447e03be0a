"""MCP servers of npm and PyPI in the sandbox: their tools, and a graded row of each.

    uv run python benchmarks/mcp_packages.py [PART OF A COMMAND]...

It installs the packages, so it needs both registries, npx, uvx and bubblewrap. It prints
the table of docs/internals/measured.md. The exit status is 1 if a server fails. A server
without a row needs a service or a key: it must list its tools without them.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from env_runtime.mcp import McpEpisode
from env_runtime.mcp.programs import program_of
from env_runtime.workspace.local import isolation

Call = tuple[str, dict[str, Any]]


class Row(NamedTuple):
    """A task: what must hold after the calls, and not before them if they change any."""

    expected_state: list[Any]
    calls: Sequence[Call] = ()
    files: Mapping[str, str] = MappingProxyType({})


ADA = {"name": "Ada", "entityType": "person", "observations": ["likes tea"]}
THOUGHT = {"thought": "x", "thoughtNumber": 1, "totalThoughts": 1}
THOUGHT |= {"nextThoughtNeeded": False}
NOON = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
REPOSITORY = {
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\trepositoryformatversion = 0\n[user]\n\tname = A\n\temail = a@b.c\n",
    ".git/objects/info/packs": "",
    ".git/refs/heads/.keep": "",
    "a.txt": "hello\n",
}
NOTES = {"query": "select n from notes", "table": [["7"]]}
DOCUMENT = {"filename": "/workspace/a.docx"}
SLIDES = {"file_path": "/workspace/a.pptx"}
INK = {"contents": "# Ink", "input_format": "markdown", "output_format": "html"}
CONVERTED = """Following are the converted contents in html format.
Ask user if they expect to save this file. If so, provide the output_file parameter with complete path.
Converted Contents:

<h1 id="ink">Ink</h1>"""
PLAN = {"title": "Buy ink", "description": "Black ink"}

SERVERS: dict[str, Row | None] = {
    "npx -y @modelcontextprotocol/server-everything": Row(
        [["echo", {"message": "a"}, "Echo: a"]]
    ),
    "npx -y @modelcontextprotocol/server-filesystem {folder}": Row(
        [{"file": "a", "text": "hi"}],
        [("write_file", {"path": "/workspace/a", "content": "hi"})],
    ),
    "env MEMORY_FILE_PATH={folder}/m.jsonl npx -y @modelcontextprotocol/server-memory": Row(
        [["read_graph", {}, {"entities": [ADA], "relations": []}]],
        [("create_entities", {"entities": [ADA]})],
    ),
    "npx -y @modelcontextprotocol/server-sequential-thinking": Row(
        [
            [
                "sequentialthinking",
                THOUGHT,
                {
                    **{k: v for k, v in THOUGHT.items() if k != "thought"},
                    "branches": [],
                    "thoughtHistoryLength": 2,
                },
            ]
        ],
        [("sequentialthinking", THOUGHT)],
    ),
    "env TASK_MANAGER_FILE_PATH={folder}/tasks.json npx -y @kazuph/mcp-taskmanager": Row(
        [{"file": "tasks.json", "contains": ["Shop", "Buy ink"]}],
        [("request_planning", {"originalRequest": "Shop", "tasks": [PLAN]})],
    ),
    "npx -y mcp-sqlite {folder}/notes.db": Row(
        [{"file": "notes.db", **NOTES}],
        [
            ("query", {"sql": "create table notes (n text)"}),
            ("create_record", {"table": "notes", "data": {"n": "7"}}),
        ],
    ),
    "npx -y @negokaz/excel-mcp-server": None,
    "env PUPPETEER_SKIP_DOWNLOAD=1 npx -y @wonderwhy-er/desktop-commander": Row(
        [{"file": "a", "text": "hi"}],
        [("write_file", {"path": "/workspace/a", "content": "hi"})],
    ),
    "env PUPPETEER_SKIP_DOWNLOAD=1 npx -y @modelcontextprotocol/server-puppeteer": None,
    "npx -y @playwright/mcp --headless": None,
    "npx -y @executeautomation/playwright-mcp-server": None,
    "npx -y @upstash/context7-mcp": None,
    "env GITHUB_PERSONAL_ACCESS_TOKEN=x npx -y @modelcontextprotocol/server-github": None,
    "env NOTION_TOKEN=ntn_x npx -y @notionhq/notion-mcp-server": None,
    "env SLACK_BOT_TOKEN=xoxb-1 SLACK_TEAM_ID=T1 npx -y @modelcontextprotocol/server-slack": None,
    "env BRAVE_API_KEY=x npx -y @brave/brave-search-mcp-server": None,
    "npx -y @sentry/mcp-server --access-token=x": None,
    "npx -y @openbnb/mcp-server-airbnb": None,
    "npx -y @modelcontextprotocol/server-postgres postgresql://localhost/x": None,
    "npx -y mongodb-mcp-server": None,
    "env ES_URL=http://localhost:9200 ES_API_KEY=x npx -y @elastic/mcp-server-elasticsearch": None,
    "uvx mcp-server-git --repository {folder}": Row(
        [
            [
                "git_status",
                {"repo_path": "/workspace"},
                "Repository status:\nOn branch main\nnothing to commit, working tree clean",
            ]
        ],
        [
            ("git_add", {"repo_path": "/workspace", "files": ["a.txt"]}),
            ("git_commit", {"repo_path": "/workspace", "message": "a"}),
        ],
        REPOSITORY,
    ),
    "uvx mcp-server-time --local-timezone=UTC": Row(
        [["convert_time", NOON, {"source": "*", "target": "*", "time_difference": "+9.0h"}]]
    ),
    "uvx --with mcp<2 mcp-server-sqlite --db-path {folder}/notes.db": Row(
        [{"file": "notes.db", **NOTES}],
        [
            ("create_table", {"query": "CREATE TABLE notes (n TEXT)"}),
            ("write_query", {"query": "INSERT INTO notes VALUES ('7')"}),
        ],
    ),
    "uvx mcp-server-fetch": None,
    "env EXCEL_FILES_PATH={folder} uvx excel-mcp-server stdio": Row(
        [{"file": "a.csv", "table": [["Oslo", 3]]}],
        [
            ("create_workbook", {"path": "a.xlsx"}),
            ("write_range", {"path": "a.xlsx", "sheet": "Sheet1", "at": "A1", "rows": [["Oslo", 3]]}),
            ("export_csv", {"path": "a.xlsx", "sheet": "Sheet1", "csv_path": "a.csv"}),
        ],
    ),
    "uvx --from office-word-mcp-server word_mcp_server": Row(
        [["get_document_text", DOCUMENT, "buy ink"]],
        [
            ("create_document", DOCUMENT),
            ("add_paragraph", {**DOCUMENT, "text": "buy ink"}),
        ],
    ),
    "uvx --with mcp<2 --from office-powerpoint-mcp-server ppt_mcp_server": Row(
        [["open_presentation", {**SLIDES, "id": "q"}, {"presentation_id": "q", "message": "*", "slide_count": 1}]],
        [
            ("create_presentation", {"id": "p"}),
            ("add_slide", {"title": "Ink", "presentation_id": "p"}),
            ("save_presentation", {**SLIDES, "presentation_id": "p"}),
        ],
    ),
    "uvx --with pypandoc_binary mcp-pandoc": Row(
        [["convert-contents", INK, CONVERTED]]
    ),
    "uvx markitdown-mcp": Row(
        [["convert_to_markdown", {"uri": "file:///workspace/a.html"}, "# Ink"]],
        [],
        {"a.html": "<html><body><h1>Ink</h1></body></html>"},
    ),
    "uvx mcp-server-calculator": Row(
        [["calculate", {"expression": "6 * 7"}, "42"]]
    ),
    "uvx mcp-server-motherduck --db-path :memory: --read-write": Row(
        [["execute_query", {"sql": "select n from notes"}, {"success": True, "columns": ["n"], "columnTypes": "*", "rows": [[7]], "rowCount": 1}]],
        [("execute_query", {"sql": "create table notes as select 7 as n"})],
    ),
    "uvx arxiv-mcp-server --storage-path {folder}/papers": Row(
        [["list_papers", {}, {"total_papers": 0, "papers": []}]]
    ),
    "uvx wikipedia-mcp": None,
    "uvx duckduckgo-mcp-server": None,
    "uvx --from redis-mcp-server redis-mcp-server --url redis://localhost:6379/0": None,
    "uvx mcp-atlassian --jira-url=http://localhost --jira-personal-token=x": None,
}  # fmt: skip


def main(parts: list[str]) -> int:
    assert isolation() == "bubblewrap", isolation()
    print("| command | s to install, to list | tools | kB | a row |")
    print("| --- | --- | --- | --- | --- |")
    failed = 0
    for command, row in SERVERS.items():
        if parts and not any(part in command for part in parts):
            continue
        members = {"command": command, "start_seconds": 60, "call_seconds": 30}
        kind = type(
            "Server", (McpEpisode,), members | {"files": row.files if row else {}}
        )
        try:
            began = time.monotonic()
            program_of(command)
            installed = time.monotonic()
            tools = kind.row_tools()
            listed = time.monotonic()
            graded = _graded(kind, row) if row else "lists its tools without a service"
        except (ValueError, RuntimeError, AssertionError) as error:
            failed += 1
            print(f"| `{command}` | | | | failed: {error} |", flush=True)
            continue
        seconds = f"{installed - began:.1f}, {listed - installed:.1f}"
        size = f"{len(json.dumps(tools)) / 1000:.0f}"
        print(
            f"| `{command}` | {seconds} | {len(tools)} | {size} | {graded} |",
            flush=True,
        )
    return 1 if failed else 0


def _graded(kind: type[McpEpisode], row: Row) -> str:
    """Play a row. Returns how long it took. Raises AssertionError for a wrong grade."""
    task = {"expected_state": row.expected_state}
    began = time.monotonic()
    for calls, wanted in ((row.calls, 1.0), ([], float(not row.calls))):
        episode = kind(task)
        try:
            for tool, arguments in calls:
                episode.call_row_tool(tool, arguments)
            reward = episode.reward("")
        finally:
            episode.close()
        assert reward == wanted, f"{len(calls)} calls earn {reward}: {episode.unmet}"
    by = "its files" if isinstance(row.expected_state[0], dict) else "its answers"
    return f"{by}, {(time.monotonic() - began) / 2:.1f} s"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
