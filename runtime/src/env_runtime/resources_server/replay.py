"""/verify without a session: the trajectory's calls and messages are played once more.

This is for `gym eval reverify`, with REVERIFY=1. In training, an episode without a
session is lost, and its trajectory is only text that the policy wrote.
"""

import contextlib
import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import yarl
from fastapi import FastAPI, Request
from fastapi.responses import Response

from ..episode.declaration import declared
from ..episode.tools import posted
from ..episode.types import HARNESS, REPLY, by_model
from ..settings import ServerSettings

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
        if not calls and (text := _text(turn)):
            yield None, {"answer": text}


def _text(turn: list[dict[str, Any]]) -> str:
    """The text of a turn's last message, "" if there is none."""
    for item in reversed(turn):
        if item.get("type") == "message":
            content = item["content"]
            if isinstance(content, str):
                return content
            return "".join(part.get("text") or "" for part in content)
    return ""


async def replay(app: FastAPI, request: Request) -> Response:
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
        for tool, sent in _steps(body["response"]):
            if not answer.is_success:
                break
            headers = {}
            if tool is None:
                tool, headers = REPLY, {HARNESS: "1"}
            content = json.dumps(sent)
            await client.post(str(url_of(tool)), content=content, headers=headers)
        if answer.is_success:
            answer = await client.post("/verify", content=json.dumps(body))
    return Response(answer.content, answer.status_code, media_type="application/json")
