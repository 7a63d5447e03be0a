"""/verify without a session: the trajectory's calls are played once more.

This is for `gym eval reverify`, with REVERIFY=1. In training, an episode without a
session is lost, and its trajectory is only text that the policy wrote.
"""

import json
from typing import Any

import yarl
from fastapi import FastAPI, Request
from fastapi.responses import Response

from ..episode.tasks import is_deterministic
from ..settings import ServerSettings


def replays(domain_class: type) -> bool:
    """Whether /verify grades an episode that is over by playing it once more."""
    return is_deterministic(domain_class) and ServerSettings.read().reverify == "1"


def url_of(tool: str) -> yarl.URL:
    """The URL to which an agent posts a call of `tool`, which may be any name."""
    try:
        return yarl.URL(f"http://agent/{tool}")
    except ValueError:  # not a URL
        return yarl.URL("http://agent/")


async def replay(app: FastAPI, request: Request) -> Response:
    """The verdict on a fresh episode, after the calls of the request's trajectory.

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
        for item in body["response"]["output"]:
            if answer.is_success and item.get("type") == "function_call":
                url = str(url_of(item["name"]))
                arguments = item["arguments"].encode("utf-8", "replace")
                await client.post(url, content=arguments)
        if answer.is_success:
            answer = await client.post("/verify", content=json.dumps(body))
    return Response(answer.content, answer.status_code, media_type="application/json")
