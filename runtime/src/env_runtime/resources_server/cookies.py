"""The rules for session cookies, each good for one seeded episode."""

from typing import Any

from fastapi import HTTPException

# The key of a seeded session's cookie. The signed cookie outlives the server's memory: its
# session is never seeded again. If the server does not know it, it is lost.
SEEDED = "seeded"

# The key of the scope under which a request's cookie is kept, once it is read.
READ = "env_runtime.cookie"

# The longest id that a harness may give a session.
MAX_ID_CHARACTERS = 200

# Paths to which the cookie of a seeded session may not post.
NOT_FOR_SESSIONS = ("/seed_session", "/aggregate_metrics")


def cookie_refused(path: str, session: dict[str, Any]) -> HTTPException | None:
    """Why the cookie of a seeded session may not post to `path`; None if it may."""
    if not session.get(SEEDED) or path not in NOT_FOR_SESSIONS:
        return None
    if path == "/seed_session":
        return used_cookie()
    return HTTPException(403, f"session cookies may not call {path}")


def used_cookie() -> HTTPException:
    detail = "this session cookie was already used: take a new cookie for each episode"
    return HTTPException(409, detail)
