"""An MCP server as an environment: its tools are the policy's.

    class Memory(McpEpisode):
        command = "npx -y @modelcontextprotocol/server-memory"
        env = {"MEMORY_FILE_PATH": "{folder}/memory.json"}

Each episode has a server of its own, in a folder of its own.
"""

import atexit
import base64
import functools
import itertools
import json
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from mcp import types

from ..episode.answers import clipped
from ..episode.schema import function_definition, plain_schema
from ..episode.types import Definitions
from ..facts import SERVER_PATHS
from ..graders import Text
from ..workspace import WorkspaceError, bubblewrap
from ..workspace.folder import steps
from .connection import FOLDER, Connection, Process, ServerLostError
from .programs import (
    ProgramError,
    needs_of,
    program_of,
    with_all_secrets,
    with_secrets,
)
from .state import State, answered, holds, json_of, reset_of, text_of

__all__ = ["FOLDER", "McpEpisode", "Observation", "ServerLostError", "State"]


class Observation(NamedTuple):
    """The answer to a call: its text, and its first image as a data: URL."""

    output: str
    image: str | None = None


class McpEpisode:
    """One episode with an MCP server. Derive from it, and say which `command`.

    A task is a dict, and every key is optional:

    files            {path: text}, put into the server's folder before it starts
    reset            calls as [tool, arguments], made before the episode: for a server that
                     all episodes share, such as one behind a URL
    expected_state   calls and what they must answer after the episode, and files of the
                     folder: see State
    expected_answer  the text that the last message must have in a box: see graders.Text

    In `command`, `env` and `headers`, `{env:NAME}` stands for a variable of this process,
    such as a token. A class may set these, beside `command`:

    env              variables of the server, beside PATH and HOME
    headers          of requests to a URL
    files            {path: text} of every task
    tools            the server's names of the tools that a policy may call; (): all
    shared           whether all episodes have one server, which keeps nothing
    network          whether the server may use the network
    readable         further files and folders that the sandbox shows to the server
    start_seconds    40: until it answers
    call_seconds     15: of a call
    most_characters  20,000: of an answer, whose middle is left out

    A server that has answered, and then ends or hangs in a call, is lost by that call: the
    policy reads an error, and the state cannot hold any more. If in doubt, a second server
    is started. Only if that one does not answer either, `infrastructure_failure` has the
    reason, as it has for a server that does not start, and the episode does not count.
    """

    command: ClassVar[str]  # over stdio, or the http(s) URL of a server
    env: ClassVar[Mapping[str, str]] = {}  # beside PATH and HOME, all that it gets
    headers: ClassVar[Mapping[str, str]] = {}  # of requests to a URL, such as a token
    files: ClassVar[Mapping[str, str]] = {}  # of every task, as its own `files` are
    tools: ClassVar[tuple[str, ...]] = ()  # those that a policy may call; (): all
    # One server for all episodes: for servers that keep nothing. A URL is always shared.
    shared: ClassVar[bool] = False
    network: ClassVar[bool] = False  # whether the server may use the network
    readable: ClassVar[tuple[str, ...]] = ()  # shown beside the program
    # Together they must be less than TOOL_SECONDS, after which the policy is to blame.
    start_seconds: ClassVar[float] = 40
    call_seconds: ClassVar[float] = 15
    most_characters: ClassVar[int] = 20_000  # of an answer; the middle is left out

    unmet: str = ""  # what the last reward() found wrong, for the gates' messages

    # The server of this class needs an API_TOKEN if other machines can reach it.
    runs_commands = True

    def __init__(self, task: dict) -> None:
        self.infrastructure_failure: str | None = None
        self.task = task
        self._files: dict[str, str] = task.get("files") or {}
        self._reset = reset_of(task.get("reset") or [])
        self._state = State(task.get("expected_state") or [])
        answer = task.get("expected_answer")
        self._answer = None if answer is None else Text(answer)
        self._connection: Connection | None = None
        self._lost_by_policy = False
        if not isinstance(self._files, dict):
            problem = f"files must be a dict of texts by path, got {self._files!r:.80}"
            raise ValueError(problem)  # noqa: TRY004
        for path, text in self._files.items():
            steps(path)
            if not isinstance(text, str):
                problem = f"files: {path!r} must be text, got {text!r:.80}"
                raise ValueError(problem)  # noqa: TRY004
        if (self._files or self._state.files) and self._is_shared():
            raise ValueError(
                "files: the server is shared, so no task has files of its own"
            )

    def call_row_tool(self, name: str, arguments: dict) -> Observation:
        """Return the server's answer to a call of the policy. Raises ValueError if it fails.

        The policy knows a tool by a name of policy_names().
        """
        name = self._names().get(name, name)
        if self.tools and name not in self.tools:
            ours = {its: own for own, its in self._names().items()}
            known = ", ".join(ours.get(its, its) for its in self.tools)
            raise ValueError(f"there is no tool {name!r}; there are {known}")
        result = self._call(name, arguments)
        text = clipped(text_of(result), self.most_characters)
        if result.isError:
            raise ValueError(text or f"{name} failed")
        return Observation(text, _image_of(result))

    def ask(self, tool: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Return the server's answer to a grader: JSON if it is that, else text.

        The grader may call tools that the policy may not. Raises ValueError if the call
        fails, and ServerLostError.
        """
        result = self._call(tool, arguments or {})
        if result.isError:
            raise ValueError(text_of(result))
        return json_of(text_of(result))

    def reward(self, answer: str) -> float:
        """Return 1.0 if the last message and the server's state are the expected ones, else 0.0.

        Raises ValueError for a task that expects neither.
        """
        state = [*self._state.calls, *self._state.files]
        if not state and self._answer is None:
            raise ValueError("the task has neither expected_state nor expected_answer")
        if self._answer and not self._answer.reward(answer):
            self.unmet = f"the last message is not {self._answer.solution()!r:.200}"
            return 0.0
        return float(self.state_holds())

    def state_holds(self) -> bool:
        """Check whether the task's `expected_state` holds: its calls, and then its files.

        If there are files, the server has ended before they are read.
        """
        for number, (tool, arguments, expected) in enumerate(self._state.calls, 1):
            try:
                result = self._call(tool, arguments)
            except (ServerLostError, WorkspaceError):  # the episode does not count
                return False
            except ValueError as error:  # the server refuses the call
                said = f"{str(error)!r:.400}"
            else:
                if holds(expected, result):
                    continue
                said = answered(result)
            wanted = repr(expected)
            if not isinstance(expected, str):
                wanted = json.dumps(expected, ensure_ascii=False)
            self.unmet = (
                f"expected_state {number}: {tool} answered {said}, not {wanted:.400}"
            )
            return False
        return not self._state.files or self._files_hold()

    def _files_hold(self) -> bool:
        try:
            home = self._ask(Connection.end_server)
        except (ServerLostError, WorkspaceError):  # the episode does not count
            return False
        except ValueError as error:  # a call lost the server: what is left counts
            connection = self._connection
            home = connection.end_server() if connection else ""
            self.unmet = str(error)
        for file in self._state.files:
            if problem := file.problem(home):
                self.unmet = f"expected_state: {problem}"
                return False
        return True

    def shown(self) -> Any:
        """Return the server's answers to the grader's calls, for the gates.

        If the task expects no state, these are five calls that only read.
        """
        calls = [(tool, arguments) for tool, arguments, _ in self._state.calls]
        found: dict[str, Any] = {}
        with suppress(ServerLostError, ValueError):
            tools = (
                [] if calls else self._ask(lambda connection: connection.list_tools())
            )
            calls += [(tool.name, {}) for tool in tools if _only_reads(tool)][:5]
        for tool, arguments in calls:
            try:
                found[f"{tool} {json.dumps(arguments)}"] = self.ask(tool, arguments)
            except (ServerLostError, ValueError) as error:
                found[f"{tool} {json.dumps(arguments)}"] = str(error)
        # Whole answers may differ by themselves, such as in a date.
        found["whether expected_state holds"] = bool(calls) and self.state_holds()
        return found

    def close(self) -> None:
        """End the episode's server, and remove its folder."""
        if self._connection and not self._is_shared():
            self._connection.close()

    @classmethod
    def row_tools(cls) -> Definitions:
        """Return the tools that rows list: those that the server lists now.

        Raises ValueError if the server cannot be asked, or lacks one of `tools`.
        """
        return _listed(cls)

    @classmethod
    def renamed_tools(cls) -> dict[str, str]:
        """Return the tools that a policy knows by other names than the server's, by these.

        Raises ValueError if the server cannot be asked.
        """
        names = {tool["name"] for tool in cls.row_tools()}
        return {
            own: its
            for own, its in _policy_names[cls].items()
            if own != its and own in names
        }

    @classmethod
    def missing_requirement(cls) -> str | None:
        """Say why the server cannot be started on this machine; None if it can."""
        try:
            for text in (cls.command, *cls.env.values(), *cls.headers.values()):
                with_secrets(text)
            if not _is_url(cls):
                program_of(cls.command)
        except ProgramError as error:
            return str(error)
        return None

    @classmethod
    def refuse_to_serve(cls) -> str | None:
        """Say why not to serve untrusted policies on this machine; None if it is safe."""
        return None if _is_url(cls) else bubblewrap.refusal()

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        return self._ask(lambda connection: connection.call(tool, arguments))

    def _names(self) -> dict[str, str]:
        """Return the server's names of its tools by those of the policy."""
        kind = type(self)
        if kind not in _policy_names:
            listed = self._ask(lambda connection: connection.list_tools())
            _policy_names[kind] = policy_names(tool.name for tool in listed)
        return _policy_names[kind]

    def _ask[T](self, request: Callable[[Connection], T]) -> T:
        try:
            # Whoever lost a shared server, the others get a new one.
            gone = self._is_shared() and self._connection and self._connection.problem
            if self._connection is None or gone:
                self._connection = self._connected()
            if self._connection.process:
                self._connection.process.check_quota()
            return request(self._connection)
        except (ServerLostError, WorkspaceError, ProgramError) as error:
            if self._is_policys():
                raise ValueError(str(error)) from error
            self.infrastructure_failure = self.infrastructure_failure or str(error)
            raise ServerLostError(self.infrastructure_failure) from error

    def _is_policys(self) -> bool:
        """Whether a call lost the server: a mask would spare the policy a bad grade.

        If a second server does not answer from the same beginning, the machine is to
        blame.
        """
        if not self._connection or not self._connection.answered:
            return False
        if not self._lost_by_policy and not self.infrastructure_failure:
            self._lost_by_policy = _answers(type(self), self._files)
        return self._lost_by_policy

    def _connected(self) -> Connection:
        if self._is_shared():
            connection = _shared_connection(type(self))
        else:
            connection = _start(type(self), self._files)
        for tool, arguments in self._reset:
            result = connection.call(tool, arguments)
            if result.isError:
                raise ServerLostError(f"reset: {tool} failed: {text_of(result):.300}")
        self._reset = []  # a new connection goes on with the episode
        return connection

    def _is_shared(self) -> bool:
        return self.shared or _is_url(type(self))


def _is_url(kind: type[McpEpisode]) -> bool:
    return kind.command.startswith(("http://", "https://"))


def _start(
    kind: type[McpEpisode], files: Mapping[str, str], isolated: bool | None = None
) -> Connection:
    given = kind.start_seconds, kind.call_seconds, with_all_secrets(kind.headers)
    if _is_url(kind):
        return Connection(with_secrets(kind.command), *given)
    program, env = program_of(kind.command), with_all_secrets(kind.env)
    shown = [Path(path) for path in kind.readable]
    more = [*shown, *(each for path in shown for each in needs_of(path))]
    program = program._replace(
        words=[with_secrets(word) for word in program.words],
        readable=[*program.readable, *more],
        variables=with_all_secrets(program.variables),
    )
    process = Process(program, env, network=kind.network, isolated=isolated)
    try:
        for path, text in {**kind.files, **files}.items():
            process.write(path, text)
        return Connection(process, *given)
    except BaseException:
        process.close()
        raise


def _answers(kind: type[McpEpisode], files: Mapping[str, str]) -> bool:
    """Whether a server of its own answers on this machine now."""
    try:
        connection = _start(kind, files)
        try:
            connection.list_tools()
        finally:
            connection.close()
    except (ServerLostError, WorkspaceError, ProgramError):
        return False
    return True


# The longest name that APIs take
MOST_CHARACTERS = 64

# The server's names of a class's tools by those of the policy
_policy_names: dict[type, dict[str, str]] = {}


def policy_names(names: Iterable[str]) -> dict[str, str]:
    """Return the names of tools by those that a policy calls them by.

    APIs refuse other characters than letters, digits, _ and -, and a call of `verify` would
    reach the server's path of that name: `a/b` becomes a_b, and `verify` verify_. If that
    is another tool's name, a number follows.
    """
    names = sorted({*names})
    ours = {name: name for name in names if _is_usable(name)}
    for name in names:
        if name in ours:
            continue
        own = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MOST_CHARACTERS]
        if not re.match(r"\w", own):
            own = f"_{own}"[:MOST_CHARACTERS]
        tries = (f"{own[: MOST_CHARACTERS - 3]}_{n or ''}" for n in itertools.count())
        free = (one for one in itertools.chain([own], tries) if one not in ours)
        ours[next(filter(_is_usable, free))] = name
    return ours


def _is_usable(name: str) -> bool:
    fits = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]*", name) is not None
    return fits and len(name) <= MOST_CHARACTERS and name not in SERVER_PATHS


_shared: dict[type, Connection] = {}
_one_at_a_time = threading.Lock()


def _shared_connection(kind: type[McpEpisode]) -> Connection:
    """Return the server of all episodes of a class; a new one if the last one is lost."""
    with _one_at_a_time:
        found = _shared.get(kind)
        if found is None or found.problem:
            if found:
                found.close()
            _shared[kind] = found = _start(kind, {})
            atexit.register(found.close)
        return found


@functools.cache
def _listed(kind: type[McpEpisode]) -> Definitions:
    try:
        connection = _start(kind, {})
        try:
            listed = {tool.name: tool for tool in connection.list_tools()}
        finally:
            connection.close()
    except ProgramError:
        raise
    except (ServerLostError, WorkspaceError, ValueError) as error:
        text = f"{kind.__name__}: its tools are not known: {error}{_hint(kind, error)}"
        raise ValueError(text) from error
    if unknown := set(kind.tools) - listed.keys():
        raise ValueError(
            f"{kind.__name__}.tools has {', '.join(sorted(unknown))}, which the server "
            f"lacks; it has {', '.join(listed)}"
        )
    _policy_names[kind] = policy_names(listed)
    ours = {its: own for own, its in _policy_names[kind].items()}
    return [
        function_definition(
            ours[name],
            listed[name].description or name,
            plain_schema(listed[name].inputSchema),
        )
        for name in kind.tools or listed
    ]


def _hint(kind: type[McpEpisode], error: Exception) -> str:
    """Say what the sandbox has to do with a server that does not start; "" if nothing."""
    if _is_url(kind) or bubblewrap.isolation() != "bubblewrap":
        return ""
    program = program_of(kind.command)
    shown = [*program.readable, Path("/usr"), Path("/etc"), Path("/proc"), Path("/dev")]
    for word in re.findall(r"/[\w.+@%/-]*\w", str(error)):
        path = Path(word)
        if path.exists() and not any(path.is_relative_to(each) for each in shown):
            return (
                f". The sandbox does not show {path} to the server: add it to the class, "
                f'`readable = ("{path}",)`'
            )
    try:
        connection = _start(kind, {}, isolated=False)
        try:
            connection.list_tools()
        finally:
            connection.close()
    except (ServerLostError, WorkspaceError, ValueError):
        return ". It does not start without the sandbox either"
    return (
        ". It starts without the sandbox, which shows it its program and the packages "
        "around that only: name what else it reads in the class, `readable = (...)`, or "
        "let it use the network, `network = True`"
    )


def _only_reads(tool: types.Tool) -> bool:
    """Whether a tool says that it changes nothing, and needs no arguments."""
    hints = tool.annotations
    return bool(hints and hints.readOnlyHint) and not tool.inputSchema.get("required")


def _image_of(result: types.CallToolResult) -> str | None:
    """Return the first image of an answer, as a data: URL."""
    for item in result.content:
        if isinstance(item, types.ImageContent):
            data = base64.b64encode(base64.b64decode(item.data)).decode()
            return f"data:{item.mimeType};base64,{data}"
    return None
