"""Large bodies: some are refused without parsing, and the others are parsed in turns.

The time to parse JSON depends on its structure, not on its bytes: 30 MB of text take
0.05 s, 30 MB of `{},{},` ten seconds. Python parses a body in one piece, and no other
thread runs meanwhile. So the structure is counted while the body arrives, and a body
with too much of it is not kept.
"""

import asyncio

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from nemo_gym.server_utils import SESSION_ID_KEY
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .cookies import SEEDED, cookie_refused
from .replay import replays
from .store import SessionStore, lost_because, remember
from .verdict import lowest_verdict

LARGE_BYTES = 1 << 16  # a shorter body is read immediately

# A separator is a comma or a bracket; a colon counts as ten. 1,000,000 take 0.1 to 0.3 s.
MANY_SEPARATORS = 20_000  # bodies with more are parsed in turns
BYTES_PER_SEPARATOR = 50  # so many bytes of text take as long as one
MAX_SEPARATORS = 500_000
MAX_TRAJECTORY_SEPARATORS = 2_000_000  # a trainer also posts the ids of tokens

MAX_VERDICTS = 100  # large bodies that one session may post to /verify


class LargeBodies:
    """The layer between the cookies and the app."""

    def __init__(self, app: ASGIApp, store: SessionStore) -> None:
        self.app, self.store = app, store
        self._turn = asyncio.Lock()
        self._turns: set[asyncio.Task] = set()
        self._large_posts: dict[str, int] = {}  # large posts to /verify, by session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        large = not length or int(length) > LARGE_BYTES
        answer = self._refusal(scope, large)
        if answer is None and large:
            try:
                body, separators = await read_body(receive, scope["path"])
            except ClientDisconnect:
                return
            except HTTPException as error:
                answer = refusal(error)
            except ComplicatedError as error:
                answer = too_complicated(error, scope["path"], self.store.lowest_reward)
            else:
                receive = received(body, receive)
                if separators + len(body) // BYTES_PER_SEPARATOR > MANY_SEPARATORS:
                    await self._in_turn(scope, receive, send)
                    return
        await (answer or self.app)(scope, receive, send)

    def _refusal(self, scope: Scope, large: bool) -> JSONResponse | None:
        """The answer to a request that is refused whatever its body; else None."""
        path, cookie = scope["path"], scope["session"]
        name = cookie[SESSION_ID_KEY]
        session = self.store.sessions.get(name)
        # A harness that names its sessions may repeat a seed.
        named = session is not None and session.owner is not None
        refused = cookie_refused(path, cookie)
        if refused and not (named and path == "/seed_session"):
            return refusal(refused)
        if path == "/verify" and large:
            if session is None and name not in self.store.ended:
                return self._without_session(scope)
            posted = self._large_posts.get(name, 0)
            remember(self._large_posts, name, 0, 10 * self.store.limits.max_sessions)
            self._large_posts[name] = posted + 1
            if posted >= MAX_VERDICTS:
                return self._lowest(
                    f"over {MAX_VERDICTS} large bodies were posted to /verify"
                )
        return None

    def _without_session(self, scope: Scope) -> JSONResponse | None:
        if scope["session"].get(SEEDED):
            reason = lost_because(scope)
            return self._lowest(f"the session was lost: {reason}", mask=True)
        if replays(self.store.domain_class):
            return None
        return self._lowest("no session was seeded")

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app once no other large body is parsed."""
        now = asyncio.get_running_loop().time
        await self._turn.acquire()
        taken = asyncio.get_running_loop().create_future()
        ending = asyncio.create_task(self._end_turn(taken))
        self._turns.add(ending)
        ending.add_done_callback(self._turns.discard)

        async def take() -> Message:
            if not taken.done():
                taken.set_result(now())
            return await receive()

        try:
            await self.app(scope, take, send)
        finally:
            if not taken.done():  # refused unread
                taken.set_result(now())

    async def _end_turn(self, taken: asyncio.Future[float]) -> None:
        """End the turn once the body is parsed, after an equal pause for other work.

        FastAPI parses a body, and checks it, before it waits for anything else. So this
        goes on once it has.
        """
        started = await taken
        await asyncio.sleep(asyncio.get_running_loop().time() - started)
        self._turn.release()

    def _lowest(self, reason: str, mask: bool = False) -> JSONResponse:
        return lowest_verdict(reason, self.store.lowest_reward, mask)


def refusal(error: HTTPException) -> JSONResponse:
    """The answer to a request, outside of FastAPI's own stack."""
    return JSONResponse({"detail": error.detail}, error.status_code, error.headers)


class ComplicatedError(Exception):
    """A body has too many commas and brackets."""


def too_complicated(
    error: ComplicatedError, path: str, lowest_reward: float
) -> JSONResponse:
    """The answer to a body with too much structure. A trajectory earns the lowest."""
    if path == "/verify":
        return lowest_verdict(str(error), lowest_reward)
    return JSONResponse({"detail": str(error)}, 413)


async def read_body(receive: Receive, path: str) -> tuple[bytes, int]:
    """A request's body, and the number of its separators.

    Raises ClientDisconnect if the client leaves before the end, and ComplicatedError if
    there are too many separators. The rest of such a body is received, and not kept.
    """
    most = _most_separators(path)
    separators, parts = 0, list[bytes]()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        if separators <= most:
            separators += count_separators(part, most - separators)
            parts.append(part)
        if separators > most:
            parts.clear()
        if not message.get("more_body"):
            break
    if separators > most:
        raise ComplicatedError(f"the body has over {most} commas and brackets")
    return b"".join(parts), separators


def _most_separators(path: str) -> float:
    match path:
        case "/aggregate_metrics":  # only a trainer posts here, all rows at once
            return float("inf")
        case "/verify":
            return MAX_TRAJECTORY_SEPARATORS
        case _:
            return MAX_SEPARATORS


def count_separators(text: bytes, most: float) -> int:
    """The number of separators in a JSON text: commas, brackets, and ten for each colon.

    Counting stops above `most`.
    """
    separators = 0
    for start in range(0, len(text), LARGE_BYTES):
        part = text[start : start + LARGE_BYTES]
        separators += part.count(b",") + part.count(b"[") + part.count(b"{")
        separators += 10 * part.count(b":")
        if separators > most:
            break
    return separators


def received(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives a body already read, and then what `receive` gives."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
