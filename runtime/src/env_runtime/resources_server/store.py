"""Sessions: open ones, ended ones, the turns of their calls, and room for one more."""

import asyncio
import contextlib
import functools
import logging
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi import HTTPException, Request
from starlette.types import Scope

from ..episode.answers import Answer
from ..episode.declaration import declared
from ..episode.episode import Episode
from ..episode.names import session_name, shown_call
from ..episode.session import EpisodeThreads, Session
from ..episode.types import Task
from ..errors import (
    BusyThreadError,
    NoThreadError,
    TaskRefusedError,
    loop_hint,
    shortage,
)
from ..files import fault_of
from ..gym_series import SESSION_ID_KEY
from ..settings import Limits, ServerSettings
from .cookies import READ, SEEDED
from .messages import TaskDigest

log = logging.getLogger(__name__)

# A header of 503 answers: there is no room for a session. Another shard may have room.
FULL = "x-no-room"
IDLE = "idle for more than"  # how the reason begins if a session was lost while idle


@dataclass(frozen=True)
class Ended:
    """The part of an ended session that the server keeps."""

    reason: str
    task: TaskDigest
    # The answer of /verify, without the trajectory that it repeats.
    verdict: dict[str, Any] | None = None


class SessionStore:
    """The sessions of one server by id.

    Sessions end at `/verify`, `/close_session`, the idle limit and the server's exit.
    """

    def __init__(
        self, domain_class: type, limits: Limits, keeps_calls: bool, models: Any
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self.models = models
        self.parameters: dict[str, Any] | None = None  # given to each episode
        self.played_with: dict[str, Any] = {}  # all of the environment's, as JSON
        self.domain_class = domain_class
        self.limits = limits
        self.keeps_calls = keeps_calls
        self.counts_calls = False  # whether a verdict says how many calls it got
        # Whether /verify grades an episode that is over by playing it once more
        self.replays = (
            declared(domain_class).deterministic
            and ServerSettings.read().reverify == "1"
        )
        self._tool_seconds = declared(domain_class).tool_seconds
        self.replies = declared(domain_class).replies
        self.remembered = limits.remembered  # ended sessions
        # Ids that ended, oldest first: a late call must not bring an episode back.
        self.ended: dict[str, Ended] = {}
        # Ids that a harness closed before it seeded them. They are kept apart: any client
        # can close made-up ids, which must not push real sessions out of `ended`.
        self.unseeded: dict[str, None] = {}
        # Verdicts without a grade: masked ones, and others
        self.masked = self.not_graded = 0
        self._closing: set[asyncio.Task] = set()
        # Of open sessions, and of ended sessions whose calls still run
        self._threads = EpisodeThreads(limits.threads or most_threads())
        # Why the files or the memory allow no session, and when that was looked up
        self._lack, self._looked = "", -LOOK_SECONDS

    @property
    def lowest_reward(self) -> float:
        """The reward of episodes that do not count: the lowest, so that none avoids a loss."""
        return declared(self.domain_class).lowest_reward

    # -------------------------------------------------------------- begin

    async def open(
        self,
        name: str,
        task: Task,
        owner: Any = None,
        label: str = "",
    ) -> Session:
        """Start an episode under the id `name`. `label` names it in the log.

        Raises TaskRefusedError if the class refuses the task, ValueError if the session
        ended meanwhile, and HTTPException (503) if there is no room for it, or if a
        model that the constructor asks does not answer.
        """
        self._make_room()
        try:
            session = Session.of(
                self.domain_class, task, owner, self._threads, self.limits
            )
        except NoThreadError as error:
            raise self._full(str(error)) from error
        self.sessions[name], session.name = session, session_name(name)
        label = label or f"not seeded, session {session.name}"
        models = self.models and self.models.of_episode(label)
        options: Any = {"keeps_calls": self.keeps_calls, "parameters": self.parameters}
        options["limits"] = self.limits

        def make() -> Episode:
            return Episode(
                self.domain_class, task, label=label, models=models, **options
            )

        try:
            await session.start(make)
        except (Exception, SystemExit) as error:
            if self.sessions.pop(name, None) is session:
                self._close_later(session)
            if models and models.failure:
                raise HTTPException(503, models.failure) from error
            if isinstance(error, BusyThreadError):
                raise self._full(str(error)) from error
            lack = shortage(error)
            if not lack and declared(self.domain_class).is_infrastructure(error):
                lack = f"{self.domain_class.__name__}(task) {fault_of(error)}"
            if lack:
                log.error("%s: no session: %s", label, lack, exc_info=error)
                raise self._full(lack) from error
            raise TaskRefusedError(self._class_problem(error, label)) from error
        if self.sessions.get(name) is not session:
            raise ValueError("this session ended while it started")
        return session

    def _class_problem(self, error: BaseException, label: str) -> str:
        """Why the constructor failed, in one line."""
        name = f"{self.domain_class.__name__}(task)"
        if isinstance(error, TimeoutError) and not str(error):
            seconds = self.limits.tool_seconds
            return f"{name} took more than {seconds:g} s (TOOL_SECONDS)"
        if isinstance(error, ValueError):
            return f"{name}: {error}"
        log.error("%s: %s %s", label, name, fault_of(error), exc_info=error)
        return f"{name}: {type(error).__name__}: {error}{loop_hint(error)}"

    def _make_room(self) -> None:
        """Raise HTTPException if all sessions are in use, or something else is.

        A session whose call hangs takes no room. Idle sessions end, and unseeded ones
        are evicted, only to make room. So is the one that has been idle for longest, if
        no model takes that long for an answer: a harness has given it up.
        """
        limits = self.limits
        if reason := self._busy() or self._system_problem():
            raise self._full(reason)
        if len(self.sessions) < limits.max_sessions:
            return
        self.end_idle()
        if len(self.sessions) < limits.max_sessions:
            return
        for name, session in self.sessions.items():
            if not session.seeded and not session.busy:
                self.end(name, "evicted: MAX_SESSIONS reached")
                return
        hung = sum(session.hangs() for session in self.sessions.values())
        if len(self.sessions) - hung < limits.max_sessions:
            return
        reason = f"all {limits.max_sessions} sessions (MAX_SESSIONS) are in use"
        for name, _ in self._abandoned()[:1]:
            seconds = limits.model_answer_seconds
            self.end(name, f"{IDLE} {seconds:g} s (MODEL_ANSWER_SECONDS), and {reason}")
            return
        raise self._full(reason)

    def _abandoned(self) -> list[tuple[str, Session]]:
        """The sessions that no harness seems to play any more, the longest idle first."""
        oldest = time.monotonic() - self.limits.model_answer_seconds
        idle = [
            (name, session)
            for name, session in self.sessions.items()
            if session.used < oldest and not session.busy
        ]
        return sorted(idle, key=lambda each: each[1].used)

    def _busy(self) -> str:
        most = self.limits.max_hung_calls
        hung = self.hung_calls() >= most
        return f"{most} calls hang (MAX_HUNG_CALLS)" if hung else ""

    def _full(self, reason: str) -> HTTPException:
        """The refusal of a session, after which a client may try another server."""
        seconds = int(min(self.limits.session_idle_seconds, 60)) or 1
        return HTTPException(503, reason, {"Retry-After": str(seconds), FULL: "1"})

    def problem(self) -> str:
        """Why the server starts no session as things are, or ""."""
        return self._busy() or self._threads.problem or self._system_problem()

    def _system_problem(self) -> str:
        """Look, every LOOK_SECONDS at most, what the process lacks for another session."""
        now = time.monotonic()
        if now >= self._looked + LOOK_SECONDS:
            self._lack, self._looked = _files() or _memory(), now
        return self._lack

    def counts(self) -> dict[str, Any]:
        """The figures of /health. Those that say that something is wrong are left out if 0."""
        abandoned, now = self._abandoned(), time.monotonic()
        more = {
            "masked": self.masked,
            "not_graded": self.not_graded,
            "idle_sessions": len(abandoned),
            "longest_idle": [
                f"{session.label}: {now - session.used:.0f} s"
                for _, session in abandoned[:5]
            ],
        }
        return {
            "sessions": len(self.sessions),
            "hung_calls": self.hung_calls(),
            **{name: value for name, value in more.items() if value},
        }

    def hung_calls(self) -> int:
        """The number of calls in threads that run for longer than they may."""
        return self._threads.hung_calls()

    def longest_call(self) -> float:
        """The seconds within which every call is answered.

        A call may wait for a thread as long as the slowest tool takes, and then take as
        long itself.
        """
        return 2 * declared(self.domain_class).longest_call(self.limits.tool_seconds)

    def knows(self, name: str) -> bool:
        """Whether a session of that id is open, or has ended here."""
        return name in self.sessions or name in self.ended or name in self.unseeded

    # -------------------------------------------------------------- turns

    async def call(
        self,
        request: Request,
        name: str,
        sent: dict[str, Any],
        method: Callable[..., Any],
        *given: Any,
        on_loop: bool = False,
    ) -> Any:
        """The result of `method(episode, *given)` on the session's episode, in its turn.

        It takes at most the `tool_seconds` of the tool `name`, else TOOL_SECONDS. If the
        call cannot be made, the result is an Answer that reports the reason. `sent` are
        the arguments for the log.
        """
        own, usual = self._tool_seconds.get(name), self.limits.tool_seconds
        seconds = own or usual
        try:
            session = await self._session_of(request)
            job = functools.partial(session.on_episode, method, *given)
            return await session.perform(job, seconds, on_loop=on_loop)
        except BusyThreadError as error:
            reason = str(error)
        except TimeoutError:
            limit = "tool_seconds" if own else "TOOL_SECONDS"
            took = f"took more than {seconds:g} s ({limit})"
            reason = f"the call {took}"
            label = self.label(request.session[SESSION_ID_KEY])
            log.warning("%s: %s %s", label, shown_call(name, sent), took)
        except TaskRefusedError:
            reason = (
                "this session was not seeded, and no episode can start without a task"
            )
        except ValueError as error:
            reason = str(error)
        return Answer(f"error: {reason}", error="expected")

    def label(self, name: str) -> str:
        """The name in the log of the session with the id `name`, open or not."""
        session = self.sessions.get(name)
        if session is not None and session.episode is not None:
            return session.label
        return f"session {session_name(name)}"

    async def _session_of(self, request: Request) -> Session:
        """The request's open session; a default episode if the id is new.

        Raises ValueError if the session ended.
        """
        name = request.session[SESSION_ID_KEY]
        if ended := self.ended.get(name):
            raise ValueError(
                f"this session has ended ({ended.reason}); "
                "POST /seed_session with a new cookie starts another"
            )
        if (session := self.sessions.get(name)) is not None:
            return session
        # NeMo Gym's MCP calls have no cookie. Their tokens name only seeded sessions.
        if request.session.get(SEEDED) or READ not in request.scope:
            raise ValueError(f"this episode was lost: {lost_because(request.scope)}")
        return await self.open(name, {})

    # -------------------------------------------------------------- end

    def end(
        self, name: str, reason: str, verdict: dict[str, Any] | None = None
    ) -> None:
        """Remove the session now. Close its episode in the background."""
        session = self.sessions.pop(name, None)
        if session is not None:
            ended = Ended(reason, TaskDigest.of(session.task), verdict)
            remember(self.ended, name, ended, self.remembered)
            if reason.startswith(IDLE):
                log.warning("%s: the session was %s", session.label, reason)
            self._close_later(session)

    def close_unseeded(self, name: str) -> None:
        """Remember that an id was closed, so that a late seed cannot use it."""
        remember(self.unseeded, name, None, self.remembered)

    def end_idle(self) -> None:
        """End the sessions that were idle for SESSION_IDLE_SECONDS."""
        seconds = self.limits.session_idle_seconds
        oldest = time.monotonic() - seconds
        for name, session in list(self.sessions.items()):
            if session.used < oldest and not session.busy:
                self.end(name, f"{IDLE} {seconds:g} s")

    async def _watch(self) -> None:
        """End idle sessions until the task is cancelled."""
        while True:
            await asyncio.sleep(min(self.limits.session_idle_seconds / 2, 30))
            self.end_idle()

    def _close_later(self, session: Session) -> None:
        task = asyncio.ensure_future(self._close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, session: Session) -> None:
        try:
            await session.close()
        except TimeoutError:
            label = session.label
            name, seconds = self.domain_class.__name__, self.limits.close_seconds
            took = f"took more than {seconds:g} s (CLOSE_SECONDS)"
            log.warning("%s: %s.close() %s", label, name, took)

    @contextlib.asynccontextmanager
    async def serving(self) -> Any:
        """Watch for idle sessions in the with block, and end all of them after it.

        Waits CLOSE_SECONDS for their episodes to close.
        """
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            for name in list(self.sessions):
                self.end(name, "the server's exit")
            if self._closing:
                await asyncio.wait(self._closing, timeout=self.limits.close_seconds)


def lost_because(scope: Scope) -> str:
    """Why the request's session is unknown. A proxy of shards may know more."""
    return scope.get("lost", "this server does not know it")


def remember(memory: dict[str, Any], name: str, value: Any, most: int) -> None:
    """Keep `value` under `name`. Forget the oldest entries above `most`."""
    memory.setdefault(name, value)
    while len(memory) > most:
        del memory[next(iter(memory))]


NEAR = 0.9  # the part of a limit above which no session starts
LOOK_SECONDS = 1.0  # the pause between two looks at the files and the memory
GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
KERNEL = Path("/proc/sys")
FILES = Path("/dev/fd")


def most_threads() -> int:
    """Half of the threads that this process, its user or its container may have.

    The other half is for the server's own threads, and for what a class starts.
    """
    limits = [resource.getrlimit(resource.RLIMIT_NPROC)[0]]
    limits += [_number(KERNEL / "kernel/pid_max")]
    limits += [_number(KERNEL / "vm/max_map_count") // 2]  # a stack and its guard
    limits += [_number(folder / "pids.max") for folder in _groups("pids")]
    found = [limit for limit in limits if limit >= 0]  # -1 means unlimited
    return max(1, min(found, default=sys.maxsize) // 2)


def _files() -> str:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        used = len(os.listdir(FILES))
    except OSError as error:
        return shortage(error)
    if 0 <= most * NEAR <= used:
        return f"{used} of {most} open files are in use (ulimit -n)"
    return ""


def _memory() -> str:
    for folder in _groups("memory"):
        limit = _number(folder / "memory.max", folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.current", folder / "memory.usage_in_bytes")
        if 0 <= limit * NEAR <= used:
            # The kernel gives back the memory of files that nobody uses.
            used -= _inactive(folder)
            if limit * NEAR <= used:
                return f"{used >> 20} of the container's {limit >> 20} MiB are in use"
    return ""


def _inactive(folder: Path) -> int:
    """The bytes of files in memory that are not in use."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    found = dict(line.split(maxsplit=1) for line in lines)
    return int(found.get("total_inactive_file") or found.get("inactive_file") or 0)


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's control groups, and of the groups around them.

    In a container, the own group is the root of what is mounted.
    """
    try:
        lines = OWN_GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = GROUPS / controller if controllers else GROUPS
        own = root / path.lstrip("/")
        yield from (each for each in (own, *own.parents) if each.is_relative_to(root))


def _number(*paths: Path) -> int:
    """The number in the first file that is there, -1 if it is "max", or none is."""
    for path in paths:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        return int(text) if text.isdecimal() else -1
    return -1
