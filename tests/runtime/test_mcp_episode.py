"""Environments over an MCP server: tests/plain_notes_server.py, and how it can break."""

import copy
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import ClassVar

import pytest
from env_runtime.checks.class_checks import check_class
from env_runtime.checks.smoke import smoke_gate
from env_runtime.episode.declaration import declared
from env_runtime.episode.tools import tools_in
from env_runtime.errors import GateError, ToolError
from env_runtime.evaluation.rows import with_tools
from env_runtime.frameworks.episodes import definitions_of as definitions_of_frameworks
from env_runtime.mcp import McpEpisode, ServerLostError, State, policy_names
from env_runtime.mcp.programs import program_of
from env_runtime.workspace.local import isolation

from .support import outcome, rollout_gate, rows_file

SERVER = Path(__file__).parents[1] / "plain_notes_server.py"


class Notes(McpEpisode):
    command = f"python {SERVER}"
    env: ClassVar = {"NOTES": "{folder}"}
    start_seconds = 120
    call_seconds = 60


class WithSdk(Notes):
    """The same with the SDK, which takes a second to start."""

    command = f"python {SERVER.with_name('notes_server.py')}"


class Shelf(Notes):
    tools = ("add", "remove")


class Kept(Notes):
    shared = True


NOTE = {"title": "a", "text": "buy ink"}
TASK = {
    "files": {"b": "old"},
    "expected_state": [["read_all", {}, {"notes": [NOTE | {"changed": "*"}]}]],
}
SOLUTION = [["remove", {"title": "b"}], ["add", NOTE]]
ROW = {
    "responses_create_params": {"input": [{"role": "user", "content": "Tidy up."}]},
    "ground_truth": [TASK],
    "oracle": SOLUTION,
}


@pytest.fixture(params=["bubblewrap", "none"])
def isolated(request, monkeypatch) -> bool:
    """Whether the servers of a test run under bubblewrap."""
    if request.param == "bubblewrap" and isolation() != "bubblewrap":
        pytest.skip(isolation())
    monkeypatch.setenv("SANDBOX_ISOLATION", request.param)
    return request.param == "bubblewrap"


@pytest.fixture
def start():
    """Starts episodes, which end with the test."""
    episodes = []

    def start(task=None, kind=Notes, **members):
        # A class of its own for each test, as for each project
        episodes.append(type("Own", (kind,), members)(task or {}))
        return episodes[-1]

    yield start
    for episode in episodes:
        episode.close()


def family(ancestor: int) -> set[int]:
    """A process and all that descend from it, without those that have ended."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[int(path.parent.name)] = int(parent)
    found = {ancestor} & parents.keys()
    while more := {pid for pid in parents.keys() - found if parents[pid] in found}:
        found |= more
    return found


@contextmanager
def all_ending(pids: set[int]) -> Generator[None]:
    """Fail if one of these processes is still there ten seconds after the block."""
    ends = []
    for pid in pids:
        with suppress(ProcessLookupError):  # it has ended already
            ends.append(os.pidfd_open(pid))
    yield
    for end in ends:  # a pidfd can be read once its process has ended
        assert select.select([end], [], [], 10)[0]
        os.close(end)


# ------------------------------------------------------------------------- calls


def test_calls_reach_a_server_of_the_episodes_own(start, isolated):
    one, other = start(kind=WithSdk), start(kind=WithSdk)
    assert one.call_row_tool("add", NOTE) == ("added a", None)
    assert one.ask("read_all")["notes"][0].items() > NOTE.items()
    assert other.ask("read_all") == {"notes": []}


def test_the_folder_has_one_name_on_every_machine(start, isolated):
    episode = start({"files": {"a": "x", "below/b": "y"}})
    assert episode.ask("where") == "/workspace"
    assert episode.ask("read_file", {"path": "/workspace/below/b"}) == "y"


def test_files_of_the_class_are_those_of_every_task(start):
    task = {"files": {"b": "of the task"}}
    episode = start(task, files={"a": "of the class", "b": "of the class"})
    texts = {note["title"]: note["text"] for note in episode.ask("read_all")["notes"]}
    assert texts == {"a": "of the class", "b": "of the task"}


def test_a_server_gets_nothing_of_this_environment(start, isolated, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    variables = start().ask("variables")
    assert variables["HOME"] == variables["NOTES"] == "/workspace"
    assert not {"OPENAI_API_KEY", "USER", "SSH_AUTH_SOCK"} & variables.keys()


def test_with_bubblewrap_a_server_reads_no_other_folder(start, isolated, tmp_path):
    if not isolated:
        pytest.skip("only bubblewrap keeps a server from files")
    other = start({"files": {"a": "secret"}})
    other.ask("where")
    folder = other._connection.process.real_home
    assert Path(folder, "a").read_text() == "secret"
    diary = tmp_path / "diary.txt"
    diary.write_text("secret")
    for path in (f"{folder}/a", f"{diary}", "/etc/shadow"):
        with pytest.raises(ValueError, match="No such file"):
            start().call_row_tool("read_file", {"path": path})


@pytest.mark.parametrize("network", [False, True])
def test_with_bubblewrap_a_server_has_a_network_if_the_class_says_so(start, network):
    if isolation() != "bubblewrap":
        pytest.skip(isolation())
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answer = start(network=network).call_row_tool("reaches", {"port": port})
    assert answer.output == str(network).lower()


def test_an_error_of_a_tool_is_told_to_the_policy(start):
    episode = start({"files": {"a": "x"}})
    with pytest.raises(ValueError, match="there is a note 'a' already"):
        episode.call_row_tool("add", NOTE)
    with pytest.raises(ValueError, match="text"):
        episode.call_row_tool("add", {"title": "b"})
    with pytest.raises(ValueError, match="Unknown tool"):
        episode.call_row_tool("fly", {})
    assert episode.infrastructure_failure is None


def test_a_policy_has_the_tools_that_the_class_names(start):
    episode = start(kind=Shelf)
    with pytest.raises(ValueError, match="no tool 'read_all'; there are add, remove"):
        episode.call_row_tool("read_all", {})
    assert episode.ask("read_all") == {"notes": []}
    assert [tool["name"] for tool in Shelf.row_tools()] == ["add", "remove"]


def test_names_that_a_policy_cannot_call_are_mapped():
    """Whatever the order in which the server lists its tools."""
    names = [
        "a/b",
        "a.b",
        "a_b",
        "verify",
        "verify_",
        "x",
        "-y",
        "\xe9 \xe9",
        "n" * 99,
        "",
    ]
    expected = {
        "a_b": "a_b",
        "a_b_": "a.b",
        "a_b_1": "a/b",
        "verify_": "verify_",
        "verify_1": "verify",
        "x": "x",
        "_-y": "-y",
        "___": "\xe9 \xe9",
        "n" * 64: "n" * 99,
        "_": "",
    }
    assert policy_names(names) == policy_names(reversed(names)) == expected


class Odd(Notes):
    env: ClassVar = {**Notes.env, "NAMES": "a/b a.b a_b verify reply x"}


class FewOdd(Odd):
    tools = ("a/b", "x")


def test_a_server_gets_calls_by_its_own_names(isolated, start):
    episode = start(kind=Odd)
    calls = {"a_b": "a_b", "a_b_": "a.b", "a_b_1": "a/b", "verify_": "verify", "x": "x"}
    for name, its in calls.items():
        assert episode.call_row_tool(name, {}).output == its
    assert episode.ask("a/b") == "a/b"
    listed = [tool["name"] for tool in Odd.row_tools()]
    assert {*calls, "reply_", "add"} <= {*listed}
    assert not {"a/b", "a.b", "verify", "reply"} & {*listed}
    few = start(kind=FewOdd)
    assert few.call_row_tool("a_b_1", {}).output == "a/b"
    with pytest.raises(ValueError, match="no tool 'verify'; there are a_b_1, x"):
        few.call_row_tool("verify_", {})


def test_the_gates_say_which_tools_have_other_names(gate_client, check, tmp_path):
    line = check(Odd)
    assert "the policy calls 'a.b' as a_b_, 'a/b' as a_b_1, 'reply' as reply_" in line
    assert "'verify' as verify_" in line
    client = gate_client(Odd)
    row = with_tools(ROW, tools_in(Odd, ROW, []))
    assert "the tools of each row" in smoke_gate(client, Odd, rows_file(tmp_path, row))
    assert "the policy calls" not in check(Notes)


def test_a_long_answer_loses_its_middle(start):
    output, _ = start(most_characters=100).call_row_tool("write_much", {"count": 5000})
    note = "\n[truncated: 4900 of 5000 characters left out]\n"
    assert output == "x" * 50 + note + "x" * 50


def test_an_image_is_shown(start):
    output, image = start(kind=WithSdk).call_row_tool("draw", {})
    assert (output, image[:32]) == ("", "data:image/png;base64,iVBORw0KGg")


# ------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    "mode, reason",
    [
        ("dies", "has ended: no ink"),
        ("slow", "did not start within 1 s"),
        ("says hello", r"has ended: b'Hello!\\n' is no MCP message"),
    ],
)
def test_a_server_that_does_not_start_masks_the_episode(start, mode, reason):
    seconds = 1 if mode == "slow" else 20
    variables = {**Notes.env, "MODE": mode}
    episode = start(TASK, env=variables, start_seconds=seconds)
    with pytest.raises(ServerLostError, match=reason):
        episode.call_row_tool("read_all", {})
    assert "the MCP server" in episode.infrastructure_failure
    assert episode.reward("") == 0.0


LOSSES = [
    ("die", {}, "has ended: out of ink"),
    ("hang", {}, "did not answer within 1 s"),
    ("write_much", {"count": 9 << 20}, "sent a message of more than 8 MiB"),
]


@pytest.mark.parametrize("first", [True, False], ids=["first call", "later"])
@pytest.mark.parametrize("tool, arguments, reason", LOSSES)
def test_a_policy_that_loses_its_server_earns_nothing(
    start, tool, arguments, reason, first
):
    """A mask would spare it a bad grade: a second server answers, so it is to blame."""
    episode = start(TASK, call_seconds=1 if tool == "hang" else 10)
    if not first:
        episode.ask("where")
    for name, sent in [(tool, arguments), ("where", {})]:
        with pytest.raises(ValueError, match=reason):
            episode.call_row_tool(name, sent)
    assert episode.reward("") == 0.0
    assert reason in episode.unmet
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize("tool, arguments, reason", LOSSES)
def test_a_server_that_cannot_be_started_again_masks_the_episode(
    start, tool, arguments, reason
):
    episode = start(TASK, call_seconds=1 if tool == "hang" else 10)
    episode.ask("where")
    type(episode).env = {**Notes.env, "MODE": "dies"}
    for name, sent in [(tool, arguments), ("where", {})]:
        with pytest.raises(ServerLostError, match=reason):
            episode.call_row_tool(name, sent)
    assert episode.reward("") == 0.0
    assert reason in episode.infrastructure_failure


def test_a_grade_that_asks_a_lost_server_is_the_policys_fault(start, begin):
    """The class's own reward() raises, which earns the lowest reward, unmasked."""

    class Asks(Notes):
        def reward(self, answer: str) -> float:
            return float(self.ask("read_all") == {"notes": []})

    client = begin(Asks)
    assert client.call("die").startswith("error: the MCP server has ended")
    verdict = client.verdict()
    assert outcome(verdict) == (0.0, False)
    assert "Asks.reward() raised ValueError" in verdict["failure_reason"]


@pytest.mark.parametrize("code", [-32000, 408, -32602])
def test_an_error_of_a_living_server_is_told_to_the_policy(start, code):
    episode = start(kind=WithSdk)
    with pytest.raises(ValueError, match="no such page"):
        episode.call_row_tool("refuse", {"code": code})
    assert episode.ask("read_all") == {"notes": []}
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize("odd", ["\\ud800", "\\xff"])
def test_text_that_is_no_unicode_is_replaced(start, odd):
    """Half of an emoji, and bytes that are no UTF-8, as a careless server repeats them."""
    episode = start(kind=WithSdk)
    output, _ = episode.call_row_tool("say_raw", {"escaped": odd})
    assert output.strip("\N{REPLACEMENT CHARACTER}?") == ""
    assert output
    assert episode.ask("read_all") == {"notes": []}


def test_lines_that_are_no_messages_are_skipped(start):
    """A banner when the server starts, and a log in the middle of a call."""
    episode = start(env={**Notes.env, "MODE": "banner"})
    assert episode.call_row_tool("babble", {}).output == "done"
    assert episode.ask("read_all") == {"notes": []}


def test_others_go_on_with_a_shared_server_that_one_has_lost(start):
    type_of_all = type("All", (Kept,), {})
    one, other = type_of_all({}), type_of_all({})
    other.ask("where")
    with pytest.raises(ValueError, match="has ended: out of ink"):
        one.call_row_tool("die", {})
    assert other.ask("read_all") == {"notes": []}
    assert one.infrastructure_failure is other.infrastructure_failure is None


def test_a_full_folder_takes_no_more_calls(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_DISK_MB", "0.01")
    episode = start({"files": {"a": "x" * 20_000}})
    with pytest.raises(ValueError, match="more than 0.01 MiB"):
        episode.call_row_tool("where", {})


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_nothing_of_an_episode_is_left(start, isolated, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    episode = start()
    episode.ask("where")
    [folder] = tmp_path.glob("sandbox-*")
    without = family(episode._connection.process._pid)
    episode.call_row_tool("leave_behind", {})
    own = family(episode._connection.process._pid)
    assert own > without
    with all_ending(own):
        episode.close()
        assert not folder.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_nothing_is_left_of_a_server_that_was_about_to_start(
    start, isolated, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for milliseconds in range(20):
        episode = start(start_seconds=milliseconds / 1000)
        with pytest.raises(ServerLostError, match="did not start within"):
            episode.ask("where")
        episode.close()
    left = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(tmp_path).encode() in path.read_bytes():
                left.add(int(path.parent.name))
    with all_ending(left):
        pass
    assert not [*tmp_path.glob("sandbox-*")]


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no /proc")
def test_servers_end_with_the_process_that_started_them(isolated, tmp_path):
    code = f"""
import sys
from env_runtime.mcp import McpEpisode
class Notes(McpEpisode):
    command, env = {Notes.command!r}, {dict(Notes.env)}
episode = Notes({{}})
episode.ask("where")
print(episode._connection.process._pid, flush=True)
sys.stdin.read()
"""
    with (
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"TMPDIR": str(tmp_path)},
        ) as process,
        all_ending(family(int(process.stdout.readline()))),
    ):
        process.kill()


def test_a_command_that_is_not_installed_is_said_before_an_episode():
    class Missing(McpEpisode):
        command = "no-such-server --stdio"

    reason = "no-such-server is not installed"
    assert reason in str(declared(Missing).missing_requirement())
    assert declared(Notes).missing_requirement() is None
    with pytest.raises(ValueError, match="write `npx -y PACKAGE"):
        program_of("npx --help")


def test_strangers_are_refused_without_isolation(monkeypatch):
    monkeypatch.setattr(
        "env_runtime.workspace.bubblewrap.problem", lambda: "bwrap is not installed"
    )
    assert declared(Notes).runs_commands
    assert "bwrap is not installed" in str(declared(Notes).refuse_to_serve())


# ------------------------------------------------------------------------- sharing


def test_a_shared_server_starts_once_and_again_once_it_is_lost():
    class Shared(Notes):
        shared = True
        env: ClassVar = {"NOTES": "{folder}"}

    start = threading.Barrier(4)

    def connection(_):
        start.wait()
        episode = Shared({})
        episode.ask("where")
        episode.close()
        return episode._connection

    with ThreadPoolExecutor(4) as pool:
        [first] = {*pool.map(connection, range(4))}
    episode = Shared({})
    with pytest.raises(ValueError, match="has ended"):
        episode.call_row_tool("die", {})
    assert Shared({}).ask("where") == "/workspace"
    with pytest.raises(ValueError, match="the server is shared"):
        Shared({"files": {"a": "x"}})
    assert first.problem


@contextmanager
def served(notes: Path) -> Generator[str]:
    """The URL of a server that keeps its notes in this folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        f"import sys; sys.path.insert(0, {str(SERVER.parent)!r}); import notes_server as n;"
        f"n.server.settings.port = {port}; n.server.settings.log_level = 'INFO'; n.server.run('streamable-http')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"NOTES": str(notes)},
        stderr=subprocess.PIPE,
    )
    try:
        while b"running on" not in (line := process.stderr.readline()):
            assert line, "the server has not started"
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.communicate()


def test_a_server_behind_a_url_is_shared(tmp_path):
    with served(tmp_path) as url:

        class Remote(McpEpisode):
            command = url
            headers: ClassVar = {"Authorization": "Bearer secret"}
            call_seconds = 5

        episode = Remote({"expected_state": [["where", {}, str(tmp_path)]]})
        assert episode.call_row_tool("add", NOTE).output == "added a"
        assert Remote({}).ask("read_all")["notes"][0]["title"] == "a"
        assert episode.reward("") == 1.0
        assert episode.ask("token") == "Bearer secret"
        assert declared(Remote).refuse_to_serve() is None
    with pytest.raises(ServerLostError):
        episode.call_row_tool("where", {})


# ------------------------------------------------------------------------- grades


def played(start, *calls, task=None):
    episode = start(task or TASK)
    for tool, arguments in calls:
        episode.call_row_tool(tool, arguments)
    return episode.reward("")


def test_the_state_after_the_episode_is_graded(start):
    assert played(start, *SOLUTION) == 1.0
    assert played(start) == 0.0
    assert played(start, SOLUTION[1]) == 0.0, "the old note is still there"
    sprayed = [["add", {"title": str(n), "text": "buy ink"}] for n in range(3)]
    assert played(start, *SOLUTION, *sprayed) == 0.0


def test_the_last_message_is_graded_beside_the_state(start):
    task = TASK | {"expected_answer": "ink"}
    episode = start(task)
    for tool, arguments in SOLUTION:
        episode.call_row_tool(tool, arguments)
    assert episode.reward("\\boxed{Ink}") == 1.0
    assert episode.reward("ink") == 0.0
    assert start({"expected_answer": "ink"}).reward("\\boxed{ink}") == 1.0
    with pytest.raises(ValueError, match="neither expected_state nor expected_answer"):
        start({"id": 1}).reward("")


@pytest.mark.parametrize(
    "expected, answer, holds",
    [
        ("x", "x", 1),
        ("x", "y", 0),
        ("x ", "x\n", 1),
        ("x", "x and y", 0),
        (1, "1", 1),
        (1, "1.0", 1),
        (1, "true", 0),
        (True, "1", 0),
        (None, "null", 1),
        (None, "0", 0),
        ([], "{}", 0),
        ({"a": 1}, '{"a": 1}', 1),
        ({"a": 1}, '{"a": 1, "b": 2}', 0),
        ({"a": 1, "b": "*"}, '{"a": 1, "b": 2}', 1),
        ({"a": 1, "b": "*"}, '{"a": 1}', 0),
        ({"a": 1, "b": "*"}, '{"a": 1, "b": null}', 0),
        ([1, 2], "[2, 1]", 1),
        ([1, 2], "[1, 2, 3]", 0),
        ([1, 1], "[1, 2]", 0),
        ([{"a": "*"}, {"a": 1}], '[{"a": 1}, {"a": 2}]', 1),
        ([{"a": "*"}, {"a": 1}], '[{"a": 2}, {"a": 3}]', 0),
        ({"*ordered": [1, 2]}, "[1, 2]", 1),
        ({"*ordered": [1, 2]}, "[2, 1]", 0),
        ({"*ordered": [1, 2]}, "[1]", 0),
        ({"a": {"*ordered": ["*"]}}, '{"a": [3]}', 1),
        ({"*ordered": [1]}, '{"*ordered": [1]}', 0),
        ([{"a": 1}], "no JSON", 0),
        ([{"a": 1}], "[" * 100_000, 0),
    ],
)
def test_what_an_answer_must_be(expected, answer, holds):
    path = {"path": "/workspace/a"}
    episode = Kept({"expected_state": [["read_file", path, expected]]})
    episode.ask("add", {"title": "a", "text": answer})
    try:
        assert episode.reward("") == holds
    finally:
        episode.ask("remove", {"title": "a"})


def test_an_answer_that_is_an_error_is_never_right(start):
    text = "Error executing tool read_file: [Errno 2] No such file or directory: 'a'"
    call = ["read_file", {"path": "a"}, text]
    assert start({"expected_state": [call]}).reward("") == 0.0


@pytest.mark.parametrize(
    "task, message",
    [
        ({"files": ["a"]}, "files must be"),
        ({"files": {"../a": "x"}}, "'../a' must name a file"),
        ({"files": {"a": 1}}, "'a' must be text, got 1"),
        ({"expected_state": [["read_all", {}]]}, "expected_state must be a list of"),
        (
            {"expected_state": [["read_all", {}, "*"]]},
            "expected_state must be a list of",
        ),
        ({"expected_state": [["read_all", {}, {"*ordered": 1}]]}, "must be a list"),
        ({"expected_state": "all"}, "expected_state must be a list of calls"),
        ({"expected_answer": ""}, "expected texts that are not empty"),
    ],
)
def test_a_task_that_could_not_be_graded_is_refused(task, message):
    with pytest.raises(ValueError, match=message):
        Notes(task)


def test_a_state_can_be_graded_by_hand(start):
    class Own(Notes):
        def reward(self, answer: str) -> float:
            return 0.5 * self.state_holds() + 0.5 * (answer == "done")

    episode = start(TASK, Own)
    assert episode.reward("done") == 0.5
    assert State([]).calls == []


class Answers(Notes):
    command = f"python {Path(__file__).parents[1] / 'answers_server.py'}"
    shared = True


# What a tool returns, by its name in answers_server.py, and what is not that
VALUES = [
    ("words", ["owl", "bee"], ["owl"]),
    ("words", ["bee", "owl"], ["owl", "bee", "ant"]),
    ("words", {"*ordered": ["owl", "bee"]}, {"*ordered": ["bee", "owl"]}),
    ("words", {"result": ["owl", "bee"]}, {"result": []}),
    ("words", "owl\nbee", "owl"),
    ("one_word", ["owl"], []),
    ("no_words", [], None),
    ("no_words", {"result": []}, ["*"]),
    ("nothing", None, []),
    ("nothing", "", "null"),
    ("nothing", {"result": None}, {}),
    ("no_text", "", None),
    ("digits", ["1", "true"], [1, True]),
    ("numbers", [2, 1], [2]),
    ("number", 3, [3]),
    ("number", "3", "4"),
    ("pairs", [[1, 2], [3]], [1, 2, 3]),
    ("quoted", "owl", "bee"),
    ("plain_words", ["owl", "bee"], ["owl"]),
    ("plain_digits", [1, True], [1]),
    ("plain_digits", ["1", "true"], ["1"]),
    ("plain_nothing", None, 0),
    ("plain_nothing", "", "null"),
    ("plain_nothing", [], ["*"]),
    ("plain_text", "owl", None),
    ("of_json", {"a": 1}, {"result": {"a": 1}}),
    ("only_json", {"a": 1}, ""),
]


def test_the_value_that_a_tool_returns_is_the_answer():
    """Python's SDK wraps what is no object, and says nothing of None and of no items."""
    state = [[tool, {}, value] for tool, value, _ in VALUES]
    episode = Answers({"expected_state": state})
    assert episode.state_holds(), episode.unmet
    for tool, _, value in VALUES:
        other = Answers({"expected_state": [[tool, {}, value]]})
        assert not other.state_holds(), (tool, value)


def test_a_difference_shows_what_was_compared():
    for tool, expected, said in [
        ("words", ["ant"], '\'owl\\nbee\' with the JSON {"result": ["owl", "bee"]}, not ["ant"]'),
        ("nothing", [], '\'{"result": null}\', not []'),
        ("plain_text", None, "'owl', not null"),
        ("plain_text", "bee", "'owl', not 'bee'"),
    ]:  # fmt: skip
        episode = Answers({"expected_state": [[tool, {}, expected]]})
        assert not episode.state_holds()
        assert episode.unmet == f"expected_state 1: {tool} answered {said}"


# ------------------------------------------------------------------------- rows, gates


def test_the_gates_play_the_rows(gate_client, server_of, tmp_path):
    client = gate_client(Shelf)
    path = rows_file(tmp_path, with_tools(ROW, Shelf.row_tools()))
    assert "call_row_tool()" in check_class(Shelf, server_of(Shelf))
    assert smoke_gate(client, Shelf, path) == "0 endpoints, and the tools of each row"
    says = rollout_gate(client, Shelf, path)
    assert says.startswith("1 row: the oracle earns 1.0, noop and nonsense 0.0")
    assert "others: they are about a reward() of the class's own" in says


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"expected_state": [["read_all", {}, {"notes": [1]}]]}, 'expected_state 1: read_all answered \'{\\n  "notes": [\\n    {\\n      "title": "a"'),
        ({"expected_state": [["read_everything", {}, "x"]]}, "expected_state 1: read_everything answered 'Unknown tool: read_everything', not 'x'"),
        ({"expected_answer": "7"}, "the last message is not"),
    ],
)  # fmt: skip
def test_the_gates_say_what_a_solution_lacks(gate_client, tmp_path, task, said):
    row = {**ROW, "ground_truth": [task], "oracle": [["add", NOTE]]}
    path = rows_file(tmp_path, with_tools(row, Shelf.row_tools()))
    with pytest.raises(GateError, match="the policy 'oracle' earns 0.0") as caught:
        rollout_gate(gate_client(Shelf), Shelf, path)
    assert said in str(caught.value)


def test_the_gates_find_rows_with_other_tools_than_the_server_has(
    gate_client, tmp_path
):
    drifted = copy.deepcopy(Shelf.row_tools())
    drifted[0]["description"] = "Add something else."
    for tools in (drifted, drifted[1:], []):
        path = rows_file(tmp_path, with_tools(ROW, tools))
        with pytest.raises(GateError, match="does not have the tools of the server"):
            smoke_gate(gate_client(Shelf), Shelf, path)


@pytest.mark.parametrize(
    "kept", ["behind a URL", "by a shared server", "outside of the folder"]
)
def test_the_gates_find_episodes_that_see_one_another(
    gate_client, tmp_path, monkeypatch, kept
):
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")
    notes = tmp_path / "notes"
    notes.mkdir()
    with served(notes) if kept == "behind a URL" else nullcontext(Shelf.command) as its:

        class Together(Shelf):
            command = its
            shared = kept == "by a shared server"
            env: ClassVar = Notes.env if shared else {"NOTES": f"{notes}"}

        task = {"expected_state": TASK["expected_state"]}
        row = {**ROW, "ground_truth": [task], "oracle": [["add", NOTE]]}
        path = rows_file(tmp_path, with_tools(row, Together.row_tools()))
        problem = (
            "row 1: a new episode sees what another one has done: read_all .*`reset`"
        )
        with pytest.raises(GateError, match=problem):
            smoke_gate(gate_client(Together), Together, path)
        row = {**row, "ground_truth": [task | {"reset": [["clear", {}]]}]}
        path = rows_file(tmp_path, with_tools(row, Together.row_tools()))
        assert "the tools of each row" in smoke_gate(
            gate_client(Together), Together, path
        )
        assert rollout_gate(gate_client(Together), Together, path).startswith(
            "1 row: the oracle"
        )


def test_tools_that_a_server_lacks_are_named():
    class Wrong(Notes):
        tools = ("add", "fly")

    with pytest.raises(ValueError, match="Wrong.tools has fly, which the server lacks"):
        Wrong.row_tools()


def test_a_server_that_does_not_list_its_tools_is_named():
    """Such as one that asks a service for them, without a network."""

    class Offline(WithSdk):
        env: ClassVar = {**Notes.env, "MODE": "offline"}

    with pytest.raises(
        ValueError, match="Offline: its tools are not known: fetch fail"
    ):
        Offline.row_tools()


def test_a_server_that_cannot_be_asked_is_an_error_of_the_gates():
    class Lost(Notes):
        command = "no-such-program"

    problem = r"Lost.row_tools\(\): .*no-such-program is not installed"
    with pytest.raises(ToolError, match=problem):
        tools_in(Lost, ROW, [])


def test_uvx_is_the_one_beside_uv(monkeypatch, tmp_path):
    """A shim of pyenv on PATH may not work in this folder."""
    for folder, says in (("shims", "exit 1"), ("bin", "echo /env; echo /base")):
        (tmp_path / folder).mkdir()
        script = tmp_path / folder / "uvx"
        script.write_text(f"#!/bin/sh\n{says}\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"), prepend=os.pathsep)
    monkeypatch.delenv("UV", raising=False)
    with pytest.raises(ValueError, match="'uvx shelf' cannot be installed"):
        program_of("uvx shelf")
    monkeypatch.setenv("UV", str(tmp_path / "bin/uv"))
    assert program_of("uvx shelf").words == ["/env/bin/shelf"]


def test_a_program_that_was_found_once_needs_no_installer(monkeypatch, tmp_path):
    """An image's build finds it, and the image has neither uvx nor a network."""
    uvx = tmp_path / "uvx"
    uvx.write_text("#!/bin/sh\necho /env; echo /base\n")
    uvx.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("UV", raising=False)
    monkeypatch.setenv("MCP_PROGRAMS", str(tmp_path / "opt/programs.json"))
    found = program_of.__wrapped__("uvx kept --all")
    uvx.unlink()
    assert program_of.__wrapped__("uvx kept --all") == found
    assert found.words == ["/env/bin/kept", "--all"]


def test_other_frameworks_refuse_it():
    with pytest.raises(GateError, match="only NeMo Gym can play it"):
        definitions_of_frameworks(Shelf)
