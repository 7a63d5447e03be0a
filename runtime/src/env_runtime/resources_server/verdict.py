"""/verify: one verdict for each episode, which never changes.

The row's task must be the session's. With REVERIFY=1, a trajectory without a session is
played again.
"""

import contextlib
import functools
import inspect
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import groupby
from string import whitespace
from typing import Any

import yarl
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from nemo_gym.base_resources_server import BaseVerifyRequest
from nemo_gym.server_utils import SESSION_ID_KEY
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..episode.declaration import declared
from ..episode.episode import Episode
from ..episode.names import session_name
from ..episode.session import Session
from ..episode.tools import SAY, posted
from ..episode.types import HARNESS, REPLY, by_model, last_message
from ..settings import ServerSettings
from .cookies import SEEDED
from .endpoints import route_of
from .messages import VerifyRequest, VerifyResponse, same_task
from .store import IDLE, SessionStore, lost_because

log = logging.getLogger(__name__)

# The parts of the request that the answer repeats.
REPEATED = {"responses_create_params", "response"}
# How many calls reached the episode. A harness may record calls that it never made.
RECEIVED = "tool_calls_received"
# The texts of models, which the memory of an ended session leaves out.
TEXTS = {"model_calls"}
SEEDED_BY_POLICY = "the policy called seed_session, so its episode does not count"


def verdict(
    store: SessionStore, request: Request, body: VerifyRequest, reward: float
) -> VerifyResponse:
    """The answer of /verify, with the session's metrics.

    If the environment failed rather than the policy, or if the session was lost, the
    sample is masked and `failure_reason` says why, with the session's name, which is
    in the log, too. It also says why an episode has the lowest reward in place of a
    grade. A policy can post a row, too. So nothing of the episode is in the answer unless
    the row has the session's own task.
    """
    name = request.session[SESSION_ID_KEY]
    session, ended = store.sessions.get(name), store.ended.get(name)
    episode = session.episode if session and _is_own(session, body) else None
    failure = episode.failure if episode else None
    problem = episode.grade_problem if episode else None
    if policy_seeds(body):
        problem = SEEDED_BY_POLICY
    if ended is not None and ended.reason.startswith(IDLE):
        failure = f"the session was lost: {ended.reason}"
    elif ended is None and session is None and request.session.get(SEEDED):
        failure = f"the session was lost: {lost_because(request.scope)}"
    fields = VerifyResponse.model_fields
    metrics = session.metrics if session and episode else {}
    extra: dict[str, Any] = {k: v for k, v in metrics.items() if k not in fields}
    if episode and store.counts_calls:
        extra[RECEIVED] = episode.received
    models = episode.models if episode else None
    if models and (calls := models.trace()):
        extra["model_calls"] = calls
    if models and models.failure:
        failure = models.failure
    reason = failure or problem
    if episode or reason is not None:
        extra["session_name"] = session_name(name)
    if reason is not None:
        # The episode itself has logged what its reward() did, with a traceback.
        if not reason.startswith(f"{store.domain_class.__name__}.reward()"):
            log.warning("%s: %s", store.label(name), reason)
        reason = f"{reason} (session {extra['session_name']})"
    if models and models.failure:
        extra |= judge_failed(str(reason))
    if episode and episode.outside_range is not None:
        extra["reward_outside_range"] = episode.outside_range
    if episode and declared(store.domain_class).replies:
        extra["ended_by"] = _ended_by(episode, failure, body)
    return VerifyResponse.model_construct(
        None,
        **extra,
        responses_create_params=body.responses_create_params,
        response=body.response,
        reward=float(reward),
        mask_sample=failure is not None,
        failure_reason=reason,
    )


def _ended_by(episode: Episode, failure: str | None, body: VerifyRequest) -> str:
    """What ended a conversation: "failure" of the environment, "environment", "policy"
    (it said nothing, or was cut off), or "max_turns".
    """
    if failure is not None:
        return "failure"
    if episode.over:
        return "environment"
    output = body.response.output
    answered = bool(output) and not by_model(output[-1].model_dump())
    cut_off = body.response.incomplete_details is not None
    return "max_turns" if answered and not cut_off else "policy"


def judge_failed(reason: str) -> dict[str, str]:
    """The keys by which NeMo Gym puts a sample into its file of failures.

    On 0.7, `gym eval reverify --judge-failed-only` grades the samples in that file.
    """
    return {
        "failure_kind": "judge_failed",
        "_ng_failure_class": "judge_failed",
        "_ng_failure_judge_error": reason[:2000],
    }


def _is_own(session: Session, body: VerifyRequest) -> bool:
    return session.seeded and same_task(session.task, body)


def policy_seeds(body: BaseVerifyRequest) -> bool:
    """Whether the policy of a trajectory posted to /seed_session."""
    calls = [item for item in body.response.output if item.type == "function_call"]
    paths = [url_of(call.name).path for call in calls]
    return "seed_session" in [path.strip(f"/{whitespace}") for path in paths]


def make_final(store: SessionStore, app: FastAPI) -> None:
    """Wrap the app's /verify, which calls `verify(request, body)` of server.py.

    A verdict ends the session, and the same request gets the same verdict again. That
    goes for another row's verdict, too: a policy could try rows until one fits.
    """
    route = route_of(app, "/verify")
    app.routes.remove(route)
    grade: Callable[..., Any] = route.endpoint

    @functools.wraps(grade)
    async def verify(request: Request, body: VerifyRequest) -> Any:
        name = request.session[SESSION_ID_KEY]
        session = store.sessions.get(name)
        lock = session.verifying if session else contextlib.nullcontext()
        async with lock:
            # A client that saw no answer asks again.
            ended = store.ended.get(name)
            if ended and ended.verdict is not None and ended.task.fits(body):
                return _as_json(_repeated(ended.verdict, body, store.lowest_reward))
            unknown = session is None and ended is None
            seeded = request.session.get(SEEDED)
            if unknown and not seeded and replays(store.domain_class):
                return await replay(store, app, request)
            response = grade(request=request, body=body)
            if inspect.isawaitable(response):
                response = await response
            if isinstance(response, VerifyResponse):
                store.count(response)
            if isinstance(response, BaseModel) and session is not None:
                reason = "verified with another task"
                values: dict[str, Any] = {"reward": store.lowest_reward}
                if same_task(session.task, body):
                    kept = REPEATED | TEXTS
                    reason = "verified"
                    values = {k: v for k, v in response if k not in kept}
                store.end(name, reason, values)
        return _as_json(response)

    app.post("/verify")(verify)


def _repeated(
    values: dict[str, Any], body: VerifyRequest, lowest: float
) -> VerifyResponse:
    """The verdict that an episode already has. A policy that seeds earns `lowest`."""
    response = VerifyResponse.model_construct(
        None,
        responses_create_params=body.responses_create_params,
        response=body.response,
        **values,
    )
    if policy_seeds(body):
        response.reward = lowest
        response.failure_reason = response.failure_reason or SEEDED_BY_POLICY
    return response


def _as_json(response: Any) -> Any:
    """The answer of /verify as JSON, which repeats the request.

    A policy may have written text that JSON cannot hold: lone surrogates, or very deep
    nesting. The verdict then leaves the request out.
    """
    if not isinstance(response, BaseModel):
        return response
    try:
        text = response.model_dump_json(by_alias=True, warnings=False)
    except (PydanticSerializationError, UnicodeError, RecursionError):
        values = {name: value for name, value in response if name not in REPEATED}
        text = json.dumps(to_jsonable_python(values))
    return Response(text, media_type="application/json")


def lowest_verdict(reason: str, lowest: float, mask: bool = False) -> JSONResponse:
    """The verdict on a trajectory that is not read: the lowest reward.

    A trajectory that is too long is graded instead of rejected: a policy controls the
    length, and could avoid a grade.
    """
    response = {
        "id": f"resp_{uuid.uuid4().hex}",
        "created_at": time.time(),
        "model": "",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return JSONResponse(
        {
            "responses_create_params": {"input": []},
            "response": response,
            "reward": lowest,
            "mask_sample": mask,
            "failure_reason": reason,
        }
    )


LONGEST_URL = 65_536  # httpx refuses a longer one


def replays(domain_class: type) -> bool:
    """Whether /verify grades an episode that is over by playing it once more."""
    return (
        declared(domain_class).deterministic and ServerSettings.read().reverify == "1"
    )


def url_of(tool: str) -> yarl.URL:
    """The URL to which an agent posts a call of `tool`, which may be any name.

    The root, which answers no call, if the name makes no URL that can be posted to.
    """
    root = yarl.URL("http://agent/")
    try:
        url = yarl.URL(f"{root}{tool}")
    except ValueError:  # not a URL
        return root
    return url if len(str(url)) <= LONGEST_URL else root


def _steps(response: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    """The calls in a trajectory that an agent has posted: a tool, and the body.

    A turn without a call is a message that a class may reply to: the tool is None.
    """
    output = response["output"]
    turns = [list(items) for is_turn, items in groupby(output, by_model) if is_turn]
    if response.get("incomplete_details") and output and by_model(output[-1]):
        turns.pop()  # it was cut off, and no agent acts upon it
    for turn in turns:
        calls = [item for item in turn if item.get("type") == "function_call"]
        for call in calls:
            with contextlib.suppress(ValueError):
                yield call["name"], posted(call["arguments"])
        if not calls and (text := last_message(turn)):
            yield None, {"answer": text}


async def replay(store: SessionStore, app: FastAPI, request: Request) -> Response:
    """The verdict on a fresh episode, after what the request's trajectory did.

    The recorded outputs are not read: a policy may have written them.
    """
    import httpx  # only here: its import takes a moment

    body: dict[str, Any] = await request.json()
    token = request.headers.get("authorization")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url=str(url_of("")),
        headers={"authorization": token} if token else {},
        timeout=None,
    ) as client:
        client.headers["content-type"] = "application/json"
        row = {key: value for key, value in body.items() if key != "response"}
        # httpx cannot write the lone surrogates that a trajectory may have.
        answer = await client.post("/seed_session", content=json.dumps(row))
        says = declared(store.domain_class).replies
        for tool, sent in _steps(body["response"]):
            if not answer.is_success:
                break
            headers = {}
            # Over MCP, what the policy says to the environment is a call.
            if says and tool == SAY and isinstance(sent, dict):
                tool, sent = None, {"answer": sent.get("text", "")}
            if tool is None:
                tool, headers = REPLY, {HARNESS: "1"}
            content = json.dumps(sent)
            await client.post(str(url_of(tool)), content=content, headers=headers)
        if answer.is_success:
            answer = await client.post("/verify", content=json.dumps(body))
    return Response(answer.content, answer.status_code, media_type="application/json")
