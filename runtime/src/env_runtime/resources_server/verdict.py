"""/verify: one verdict for each episode, which never changes."""

import contextlib
import functools
import inspect
import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..episode.episode import Episode, adds_up
from ..episode.names import session_name
from ..episode.session import Session
from ..episode.types import by_model
from ..gym_series import SESSION_ID_KEY
from .cookies import SEEDED
from .endpoints import route_of
from .messages import VerifyRequest, VerifyResponse, compared_task, policy_seeds
from .store import IDLE, SessionStore, lost_because

log = logging.getLogger(__name__)

# The parts of the request that the answer repeats.
REPEATED = {"responses_create_params", "response"}
# How many calls reached the episode. A harness may record calls that it never made.
RECEIVED = "tool_calls_received"
# The texts of models, which the memory of an ended session leaves out.
TEXTS = {"model_calls"}
# The key of the scope under which the decision on a request is kept.
DECISION = "env_runtime.decision"
SEEDED_BY_POLICY = "the policy called seed_session, so its episode does not count"


@dataclass
class Decision:
    """Whether an episode counts before it is graded, and why not."""

    body: VerifyRequest
    own: Session | None  # the request's session, if the row has its task
    same_task: bool  # the same for a session that no harness seeded
    lost: str | None  # why the sample is masked
    problem: str | None  # why the episode earns the lowest reward in place of a grade


def decide(store: SessionStore, request: Request, body: VerifyRequest) -> Decision:
    """The one decision on a request to /verify, which is kept in its scope.

    An episode counts if a harness seeded it with exactly the row's task, and if the
    policy did not call `seed_session`: an episode of a task that the policy chose must
    not count. A policy can post a row, too. So nothing of the episode is told unless the
    row has the session's own task.
    """
    decision = request.scope.get(DECISION)
    if decision is not None and decision.body is body:
        return decision
    name = request.session[SESSION_ID_KEY]
    session, ended = store.sessions.get(name), store.ended.get(name)
    same_task = (
        session is not None and compared_task(body, session.task) == session.task
    )
    own = session if same_task and session.seeded and session.episode else None
    lost = None
    if ended is not None and ended.reason.startswith(IDLE):
        lost = f"the session was lost: {ended.reason}"
    elif ended is None and session is None and request.session.get(SEEDED):
        lost = f"the session was lost: {lost_because(request.scope)}"
    problem = SEEDED_BY_POLICY if policy_seeds(body) else None
    decision = Decision(body, own, same_task, lost, problem)
    request.scope[DECISION] = decision
    return decision


def verdict(
    store: SessionStore, request: Request, body: VerifyRequest, reward: float
) -> VerifyResponse:
    """The answer of /verify, with the session's metrics.

    If the environment failed rather than the policy, or if the session was lost, the
    sample is masked and `failure_reason` says why, with the session's name, which is
    in the log, too. It also says why an episode has the lowest reward in place of a
    grade.
    """
    decision, name = decide(store, request, body), request.session[SESSION_ID_KEY]
    session, failure, problem = decision.own, decision.lost, decision.problem
    episode = session.episode if session else None
    extra: dict[str, Any] = {}
    if session and episode:
        fields = VerifyResponse.model_fields
        extra |= {k: v for k, v in session.metrics.items() if k not in fields}
        failure, problem = episode.failure, problem or episode.grade_problem
        if episode.has_components:
            # The reward is not the class's own if the policy seeded, or a verify of the
            # user's own changed it.
            adds = problem is None and adds_up(episode.components, reward)
            extra["reward_components"] = episode.components if adds else {}
        if episode.played_with:
            extra["parameters"] = episode.played_with
        if store.counts_calls:
            extra[RECEIVED] = episode.received
        if episode.models and (calls := episode.models.trace()):
            extra["model_calls"] = calls
    judged = episode.models.failure if episode and episode.models else None
    failure = judged or failure
    reason = failure or problem
    if episode or reason is not None:
        extra["session_name"] = session.name if session else session_name(name)
    if reason is not None:
        # The episode itself has logged what its reward() did, with a traceback.
        if not reason.startswith(f"{store.domain_class.__name__}.reward()"):
            log.warning("%s: %s", store.label(name), reason)
        reason = f"{reason} (session {extra['session_name']})"
    if judged:
        extra |= judge_failed(str(reason))
    if episode and episode.outside_range is not None:
        extra["reward_outside_range"] = episode.outside_range
    if episode and store.replies:
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
    """The end of a conversation: "failure" of the environment, "environment", "policy"
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
            if unknown and not seeded and store.replays:
                from .replay import replay  # few servers need it

                return await replay(store, app, request)
            response = grade(request=request, body=body)
            if inspect.isawaitable(response):
                response = await response
            if isinstance(response, VerifyResponse):  # /health counts these
                not_graded = bool(response.failure_reason) and not response.mask_sample
                store.not_graded += not_graded
                store.masked += response.mask_sample
            if isinstance(response, BaseModel) and session is not None:
                reason, values = "verified", {}
                if decide(store, request, body).same_task:
                    kept = REPEATED | TEXTS
                    values |= {k: v for k, v in response if k not in kept}
                else:
                    reason = "verified with another task"
                    values |= {"reward": store.lowest_reward}
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
        if hasattr(response, "reward_components"):
            response.reward_components = {}
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
