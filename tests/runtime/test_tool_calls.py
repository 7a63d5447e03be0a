"""A call that takes the short way to its tool is answered as FastAPI's own route does."""

import functools
import json
from typing import Any

import pytest
from env_runtime.resources_server.http import LARGE_BYTES, ToolCalls
from fastapi import HTTPException, Request
from fastapi.routing import APIRoute
from starlette.routing import Match

from .support import server_class

JSON = "application/json"
DEEP = "[" * 5000
WORDS = "/repeat"
BODIES = {
    "a call": ('{"word": "crane", "times": 2}', JSON),
    "a default": ('{"word": "crane"}', JSON),
    "a number as text": ('{"word": "crane", "times": "2"}', JSON),
    "another key": ('{"word": "crane", "other": 1}', JSON),
    "a lone surrogate": ('{"word": "\\ud800"}', JSON),
    "a wrong type": ('{"word": 3}', JSON),
    "no argument": ("{}", JSON),
    "a list": ("[1]", JSON),
    "null": ("null", JSON),
    "NaN": ('{"word": "crane", "times": NaN}', JSON),
    "no JSON": ('{"word": ', JSON),
    "bytes": (b'{"word": "\xff"}', JSON),
    "brackets": (DEEP, JSON),
    "nothing": ("", JSON),
    "a charset": ('{"word": "crane"}', f"{JSON}; charset=utf-8"),
    "another JSON": ('{"word": "crane"}', "application/vnd.api+json"),
    "a form": ("word=crane", "application/x-www-form-urlencoded"),
    "no type": ('{"word": "crane"}', ""),
}


class Repeater:
    """Repeats words."""

    def __init__(self, task: dict) -> None:
        self.count = 0

    def repeat(self, word: str, times: int = 1) -> str:
        """Repeat a word."""
        self.count += 1
        if word == "crane" and self.count > 4:
            raise KeyError(word)
        return f"{self.count}: {word * times}"

    def reward(self) -> float:
        return 0.0


def answers(begin) -> dict[str, tuple[int, list[tuple[str, str]], bytes]]:
    client, seen = begin(Repeater), {}
    for name, (body, kind) in BODIES.items():
        headers = {"content-type": kind} if kind else {}
        answer = client.post("/repeat", content=body, headers=headers)
        # The cookies of two servers differ, and the cookie is the same in all answers.
        kept = [(k, v) for k, v in answer.headers.multi_items() if k != "set-cookie"]
        seen[name] = answer.status_code, kept, answer.content
        assert "set-cookie" in answer.headers
    for method in ("GET", "PUT"):
        answer = client.request(method, "/repeat", json={"word": "crane"})
        seen[method] = answer.status_code, [], answer.content
    client.post("/close_session", json={})
    ended = client.post("/repeat", json={"word": "crane"})
    seen["ended"] = ended.status_code, [], ended.content.partition(b"(")[0]
    return seen


def test_the_answers_are_those_of_fastapis_route(begin, monkeypatch):
    short = answers(begin)
    monkeypatch.setattr(ToolCalls, "matches", lambda self, scope: (Match.NONE, {}))
    assert answers(begin) == short
    assert short["a call"][0] == 200
    assert short["a wrong type"][0] == 422


@pytest.mark.parametrize("name", ["a call", "a wrong type"])
def test_only_a_call_that_fastapi_would_take_goes_past_it(begin, monkeypatch, name):
    routed, handle = [], APIRoute.handle

    async def record(self, *arguments):
        routed.append(self.path)
        await handle(self, *arguments)

    client = begin(Repeater)
    monkeypatch.setattr(APIRoute, "handle", record)
    client.post("/repeat", content=BODIES[name][0], headers={"content-type": JSON})
    assert routed == ([] if name == "a call" else ["/repeat"])


def test_a_large_body_is_parsed_once_though_it_is_refused(begin, monkeypatch):
    client, parsed, loads = begin(Repeater), [], json.loads
    text = f'{{"word": ["{"x" * LARGE_BYTES}"]}}'

    def count(given, **options):
        parsed.append(len(given))
        return loads(given, **options)

    monkeypatch.setattr(json, "loads", count)
    headers = {"content-type": JSON}
    assert client.post(WORDS, content=text, headers=headers).status_code == 422
    assert parsed.count(len(text)) == 1


def keywords_only(endpoint):
    @functools.wraps(endpoint)
    async def wrapped(**arguments: Any) -> Any:
        await endpoint(**arguments)
        return {"output": "changed"}

    return wrapped


class Refusing(APIRoute):
    def get_route_handler(self) -> Any:
        async def refuse(request: Request) -> Any:
            raise HTTPException(418, "not now")

        return refuse


@pytest.mark.parametrize("what", ["decorator", "kind of route", "limit"])
def test_what_server_py_puts_around_a_tool_takes_each_call(run, what):
    whole: Any = server_class(Repeater)

    class Server(whole):
        def setup_webserver(self) -> Any:
            app = super().setup_webserver()
            [route] = (one for one in app.routes if getattr(one, "path", "") == WORDS)
            app.routes.remove(route)
            endpoint, limit = route.endpoint, {}
            if what == "decorator":
                endpoint = keywords_only(endpoint)
            elif what == "kind of route":
                app.router.route_class = Refusing
            elif not hasattr(route, "max_body_size"):
                pytest.skip("this release of FastAPI has no such limit")
            else:
                limit = {"max_body_size": 1}
            app.post(WORDS, **limit)(endpoint)
            return app

    answer = run(Server.build())().seed().post(WORDS, json={"word": "crane"})
    if what == "decorator":
        assert answer.json() == {"output": "changed"}
    else:
        assert answer.status_code == (418 if what == "kind of route" else 413)


def test_routes_still_have_addresses(run):
    whole: Any = server_class(Repeater)

    class Server(whole):
        def setup_webserver(self) -> Any:
            app = super().setup_webserver()
            app.get("/where")(self.where)
            return app

        async def where(self, request: Request) -> str:
            return request.url_for("where").path

    assert run(Server.build())().get("/where").json() == "/where"
