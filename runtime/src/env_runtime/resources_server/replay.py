"""REVERIFY=1: a trajectory without a session is played again, and gets a verdict."""

import contextlib
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response

from ..episode.tools import SAY, posted
from ..episode.types import HARNESS, REPLY, by_model, last_message
from .messages import url_of
from .store import SessionStore


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
        says = store.replies
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
