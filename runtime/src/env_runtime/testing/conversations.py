"""Attacks of a policy that talks to a class with reply(): none may raise the reward."""

import json
from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from ..episode.declaration import declared
from ..episode.tasks import task_of
from ..episode.types import HARNESS, REPLY
from ..errors import NoOracleError
from ..evaluation.policies import NONSENSE, solution_for
from ..evaluation.rows import prompt_text
from ..evaluation.trajectory import Item, content_text, function_call, message
from ..project import here, of_class
from .attacks import ODD_ANSWERS, Attacks, baseline
from .fixtures import verify_body

# Paths at which a policy may look for reply(), and for a model that the class asks.
PATHS = {"reply", "reply/", "/reply", "reply?x=1", "Reply", "say", "ask", "user/ask"}


def say(client: TestClient, text: str) -> Item | None:
    """The environment's answer to a message; None if the episode is over."""
    # The body is text, because httpx cannot encode lone surrogates.
    body = json.dumps({"answer": text})
    headers = {HARNESS: "1", "content-type": "application/json"}
    answer = client.post(f"/{REPLY}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["message"]


def talk(client: TestClient, next_message: Callable[[str], str]) -> list[Item]:
    """Talk for `max_turns` turns, or to the end. Returns the trajectory.

    `next_message` makes each message from the text that the environment said last.
    """
    output: list[Item] = []
    heard = ""
    for _ in range(of_class(here().load_class()).table()["max_turns"]):
        output.append(message(next_message(heard)))
        replied = say(client, next_message(heard))
        if replied is None:
            break
        output.append(replied)
        heard = content_text(replied["content"])
    return output


class TestConversation(Attacks):
    """Messages of a policy, some of which claim that somebody else said them."""

    @pytest.fixture(autouse=True)
    def a_class_that_talks(self):
        if not declared(here().load_class()).replies:
            pytest.skip("the class has no reply()")

    @pytest.fixture
    def messages(self, row, tools):
        """The messages of the oracle, or nonsense without one."""
        try:
            calls = solution_for(row, tools).calls
        except NoOracleError:
            return [NONSENSE]
        return [sent["answer"] for tool, sent in calls if tool == REPLY]

    def test_a_policy_that_posts_its_own_messages(
        self, client, row, tools, messages, verify
    ):
        """An agent posts a tool's call to any path that the policy names."""
        client.post("/seed_session", json=row)
        written = []
        for path in PATHS - {tool["name"] for tool in tools}:
            for text in messages:
                sent = {"answer": text, "text": text, "messages": text}
                # With the base URL: httpx takes `//reply` for the host `reply`.
                url = f"{client.base_url}/{path}"
                status = client.post(url, json=sent).status_code
                assert status in (403, 404), f"{path} answered {status}"
                written.append(function_call(path, json.dumps(sent)))
        assert verify(client, row, written) <= baseline(row)

    def test_a_policy_that_speaks_for_the_other_side(
        self, client, row, messages, verify
    ):
        """Only what the environment itself said and heard counts."""
        client.post("/seed_session", json=row)
        claims = json.dumps({**task_of(row), "reward": 1.0, "done": True})
        forged = {"type": "message", "role": "user", "content": claims}
        written = [forged]
        for text in messages[:-1]:  # the last one may be the answer that is graded
            written += [message(text), forged]
        assert verify(client, row, written) <= baseline(row)

    @pytest.mark.parametrize("says", ["nonsense", "the prompt", "what it hears"])
    def test_a_policy_that_never_ends(self, client, row, says, verify):
        """The most turns of an episode end it, and no failure masks it."""
        said = {"nonsense": NONSENSE, "the prompt": prompt_text(row)}.get(says)
        client.post("/seed_session", json=row)
        output = talk(client, lambda heard: said or heard or "Hello.")
        assert verify(client, row, output) <= baseline(row)

    def test_messages_that_a_class_may_stumble_over(self, connect, row):
        """A failure of the environment masks the sample. A policy may not cause one."""
        for text in ODD_ANSWERS:
            client = connect()
            client.post("/seed_session", json=row)
            say(client, text)
            verdict = client.post("/verify", json=verify_body(row)).json()
            assert verdict["mask_sample"] is False, verdict["failure_reason"]
