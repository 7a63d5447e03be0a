"""A call that takes the short way to its tool is answered as FastAPI's own route does."""

import pytest
from env_runtime.resources_server.http import ToolCalls
from fastapi.routing import APIRoute
from starlette.routing import Match

JSON = "application/json"
DEEP = "[" * 5000
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
