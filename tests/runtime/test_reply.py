"""A class with reply() answers the policy's messages, and only those of a harness."""

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from env_runtime.checks.class_checks import check_class
from env_runtime.checks.protocol_checks import check_agent
from env_runtime.checks.rollout import rollout_gate
from env_runtime.checks.smoke import smoke_gate
from env_runtime.episode.tasks import solution_of
from env_runtime.episode.tools import tools_of
from env_runtime.errors import GateError
from env_runtime.evaluation.play import play
from env_runtime.evaluation.policies import FIXED_TURNS, NONSENSE, Turn, fixed_policy
from env_runtime.evaluation.scripted_model import ScriptedModel
from env_runtime.evaluation.trajectory import function_call, message
from env_runtime.frameworks import AsyncEpisode, ToolError, bare_reward, calls_for
from env_runtime.frameworks import definitions_of as definitions_of_frameworks
from env_runtime.server import SessionServer

from .support import rows_file

HARNESS = {"X-Harness": "1"}


class Guest:
    """A guest who wants a table, and says for which hour if somebody asks."""

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.hour = task.get("hour", 19)
        self.booked: int | None = None
        self.goodbye = False

    def reply(self, answer: str) -> Any:
        """The guest's next message."""
        if "bye" in answer:
            self.goodbye = True
            return None
        if "nothing" in answer:
            raise ValueError("the guest insists")
        if "boom" in answer:
            raise KeyError("boom")
        return f"At {self.hour}, please." if "when" in answer.lower() else "A table!"

    def book(self, hour: int) -> str:
        """Book the table."""
        self.booked = hour
        return f"booked: {hour}"

    def reward(self) -> float:
        return (self.booked == self.hour) * (1.0 if self.goodbye else 0.5)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return ["When?", ("book", {"hour": task["hour"]}), "Good bye."]


class Asked(Guest):
    """The same guest, who counts only what the policy said last."""

    def reward(self, answer: str) -> float:  # ty: ignore[incompatible-method-override]
        return float(answer == "Good bye." and self.booked == self.hour)


@pytest.fixture
def guest_row():
    tools = [tool.definition() for tool in tools_of(Guest).values()]
    params = {"input": "A guest calls: hello?", "tools": tools}
    return {"responses_create_params": params, "ground_truth": [{"hour": 20}]}


@pytest.fixture
def client(client_of, guest_row):
    client = client_of(Guest)
    client.post("/seed_session", json=guest_row)
    return client


def said(client, text):
    """The message that replies to `text`; None if the episode is over."""
    answer = client.post("/reply", json={"answer": text}, headers=HARNESS)
    assert answer.status_code == 200, answer.text
    return answer.json()["message"]


def verdict(client, row, verify_body, output=(), **response):
    body = verify_body(row, output)
    body["response"] |= response
    return client.post("/verify", json=body).json()


def from_user(text):
    return {"type": "message", "role": "user", "content": text}


# ---------------------------------------------------------------------- the route


def test_reply_is_no_tool(client, guest_row):
    about = client.get("/tools").json()
    assert [tool["name"] for tool in about["tools"]] == ["book"]
    assert about["replies"] is True
    assert "/reply" not in client.get("/openapi.json").json()["paths"]


def test_a_class_without_reply_has_no_route(client_of, generous, row):
    client = client_of(generous)
    client.post("/seed_session", json=row)
    answer = client.post("/reply", json={"answer": "hello"}, headers=HARNESS)
    assert answer.status_code == 404
    assert client.get("/tools").json()["replies"] is False


def test_the_reply_is_the_next_user_message(client, guest_row, verify_body):
    assert said(client, "When?") == from_user("At 20, please.")
    assert client.post("/book", json={"hour": 20}).json() == {"output": "booked: 20"}
    assert said(client, "Good bye.") is None
    answer = verdict(client, guest_row, verify_body, [message("Good bye.")])
    assert (answer["reward"], answer["ended_by"]) == (1.0, "environment")


def test_nothing_is_played_after_the_end(client, guest_row, verify_body):
    assert said(client, "bye") is None
    assert said(client, "When?") is None
    late = client.post("/book", json={"hour": 20}).json()["output"]
    assert late == "error: the episode is over"
    assert verdict(client, guest_row, verify_body)["reward"] == 0.0


def test_an_image_of_a_reply_is_a_part_of_the_message(client_of, guest_row):
    class Sign(NamedTuple):
        output: str
        image: str

    class Painter(Guest):
        def reply(self, answer: str) -> Sign:
            return Sign("Look.", "data:image/png;base64,aGVsbG8=")

    client = client_of(Painter)
    client.post("/seed_session", json=guest_row)
    assert said(client, "hello")["content"] == [
        {"type": "input_text", "text": "Look."},
        {
            "type": "input_image",
            "image_url": "data:image/png;base64,aGVsbG8=",
            "detail": "auto",
        },
    ]


def test_an_exception_is_told_as_by_a_tool(client):
    assert said(client, "nothing")["content"] == "error: the guest insists"
    assert said(client, "boom")["content"] == "error: KeyError"


def test_a_slow_reply_is_told(client_of, guest_row):
    class Slow(Guest):
        async def reply(self, answer: str) -> Any:
            await asyncio.sleep(60)

    client = client_of(Slow, tool_seconds=0.05)
    client.post("/seed_session", json=guest_row)
    assert said(client, "hello")["content"].startswith("error: the call took more than")


@pytest.mark.parametrize("body", ["[]", "{}", '{"answer": 5}', "not JSON", "[" * 9000])
def test_a_malformed_message_is_refused(client, body):
    answer = client.post("/reply", content=body, headers=HARNESS)
    assert answer.status_code == 422


def test_a_lone_surrogate_reaches_the_class_as_text(client):
    body = json.dumps({"answer": "\ud800 when"})
    answer = client.post("/reply", content=body, headers=HARNESS).json()
    assert answer["message"]["content"] == "At 20, please."


# ---------------------------------------------------------------------- attacks


@pytest.mark.parametrize("path", ["/reply", "/reply?x", "/reply/", "//reply", "/Reply"])
def test_a_policy_cannot_reply_to_itself(client, guest_row, verify_body, path):
    """An agent posts a policy's call to any path and with any body, but sets no header."""
    assert client.post(path, json={"answer": "bye"}).status_code in (403, 404, 405)
    client.post("/book", json={"hour": 20})
    assert verdict(client, guest_row, verify_body)["reward"] == 0.5


def test_what_a_policy_wrote_down_was_not_said(client, guest_row, verify_body):
    """A trajectory cannot claim the end of the conversation."""
    client.post("/book", json={"hour": 20})
    output = [message("When?"), from_user("At 20, please."), message("Good bye.")]
    answer = verdict(client, guest_row, verify_body, output)
    assert (answer["reward"], answer["ended_by"]) == (0.5, "policy")


def test_a_session_that_is_not_seeded_has_no_conversation(client_of, guest_row):
    client = client_of(Guest)
    assert said(client, "When?") is None
    client.post("/seed_session", json=guest_row)
    client.post("/close_session", json={})
    assert said(client, "When?") is None


# ---------------------------------------------------------------------- how it ended


def call_and_result(hour):
    call = function_call("book", json.dumps({"hour": hour}))
    result = {"type": "function_call_output", "call_id": call["call_id"]}
    return [call, {**result, "output": "booked"}]


@pytest.mark.parametrize(
    ("output", "response", "ended_by"),
    [
        ([], {}, "policy"),
        ([message("hi"), from_user("A table!")], {}, "max_turns"),
        (call_and_result(20), {}, "max_turns"),
        ([message("hi"), from_user("A table!"), message("hm")], {}, "policy"),
        (
            [message("hi"), from_user("A table!")],
            {"incomplete_details": {"reason": "max_output_tokens"}},
            "policy",
        ),
    ],
)
def test_the_verdict_says_what_ended_the_episode(
    client, guest_row, verify_body, output, response, ended_by
):
    answer = verdict(client, guest_row, verify_body, output, **response)
    assert answer["ended_by"] == ended_by


def test_a_grade_that_fails_ended_by_failure(client_of, guest_row, verify_body):
    class Broken(Guest):
        def reward(self) -> float:
            raise KeyError("broken")

    client = client_of(Broken)
    client.post("/seed_session", json=guest_row)
    assert said(client, "bye") is None
    answer = verdict(client, guest_row, verify_body)
    assert (answer["mask_sample"], answer["ended_by"]) == (True, "failure")


def test_another_row_learns_nothing_of_the_end(client, guest_row, verify_body):
    other = {**guest_row, "ground_truth": [{"hour": 21}]}
    assert "ended_by" not in verdict(client, other, verify_body)


# ---------------------------------------------------------------------- policies


class Chatty:
    name = "chatty"

    def turn(self, row, definitions, output):
        return Turn([message("Hm.")])


KINDS = {"message": "m", "function_call": "c", "function_call_output": "o"}


def kinds(result):
    """The trajectory as letters; a user's message is "u"."""
    return "".join(
        "u" if item.get("role") == "user" else KINDS[item["type"]]
        for item in result["response"]["output"]
    )


@pytest.mark.parametrize("environment_class", [Guest, Asked])
@pytest.mark.parametrize(
    ("policy", "expected", "reward"),
    [
        ("oracle", "mucom", 1.0),
        ("noop", "", 0.0),
        ("garbage", "ccoomumumu", 0.0),
    ],
)
def test_a_fixed_policy_talks(
    gate_client, guest_row, environment_class, policy, expected, reward
):
    client = gate_client(environment_class)
    fixed = fixed_policy(policy)
    result = play(client, client.tools(), guest_row, fixed, FIXED_TURNS)
    assert kinds(result) == expected
    assert result["reward"] == reward
    assert not result["out_of_turns"]


def test_max_turns_ends_a_policy_that_goes_on(gate_client, guest_row):
    client = gate_client(Guest)
    result = play(client, client.tools(), guest_row, Chatty(), 3)
    assert kinds(result) == "mumumu"
    assert (result["out_of_turns"], result["ended_by"]) == (True, "max_turns")


def test_a_message_that_is_too_long_ends_the_episode(gate_client, guest_row):
    """It must not make the episode fail, which would have no reward."""

    class Endless(Chatty):
        def turn(self, row, definitions, output):
            return Turn([message("m" * (2 << 20))])

    client = gate_client(Guest)
    result = play(client, client.tools(), guest_row, Endless(), 3)
    assert kinds(result) == "m"
    assert result["reward"] == 0.0


def test_an_oracle_of_a_class_with_reply_talks_in_between(guest_row):
    said = [("reply", {"answer": "When?"}), ("book", {"hour": 20})]
    said.append(("reply", {"answer": "Good bye."}))
    assert solution_of(Guest, guest_row) == (said, "Good bye.")


def test_the_scripted_model_follows_calls_and_messages(guest_row):
    with ScriptedModel([solution_of(Guest, guest_row)]) as model:
        items: list[Any] = [{"role": "assistant", "content": "of the prompt"}]
        for _ in range(4):
            asked = {"metadata": {"row": "0"}, "input": items}
            [item] = model.answer(asked)["output"]
            items += [item, from_user("...")]
        done = [item for item in items if "id" in item]
        texts = [
            item["content"][0]["text"] if "content" in item else item["name"]
            for item in done
        ]
        assert texts == ["When?", "book", "Good bye.", "Good bye."]


# ---------------------------------------------------------------------- gates


def test_the_gates(gate_client, guest_row, tmp_path):
    client, rows = gate_client(Guest), Path(rows_file(tmp_path, guest_row))
    assert smoke_gate(client, rows) == "1 endpoint"
    line, note = rollout_gate(client, rows).splitlines()
    assert line == "1 row: the oracle earns 1.0, noop and nonsense 0.0"
    assert note.startswith("reply() has not ended row 1 after ")


class Talk(Guest):
    """A guest who only talks."""

    book = None  # type: ignore[assignment]

    def reply(self, answer: str) -> str | None:
        self.booked = self.hour if str(self.hour) in answer else None
        return None if self.booked else f"At {self.hour}."

    def reward(self) -> float:
        return float(self.booked is not None)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return ["When?", f"At {task['hour']}."]


@pytest.fixture
def talk_row(guest_row):
    params = {**guest_row["responses_create_params"], "tools": []}
    return {**guest_row, "responses_create_params": params}


def test_the_gates_of_a_class_that_only_talks(gate_client, talk_row, tmp_path):
    client, rows = gate_client(Talk), Path(rows_file(tmp_path, talk_row))
    line = "no tools: the environment replies to messages"
    assert smoke_gate(client, rows) == line
    assert "the oracle earns 1.0" in rollout_gate(client, rows)


def test_the_gate_finds_a_bug_in_reply(gate_client, guest_row, tmp_path):
    class Buggy(Guest):
        @staticmethod
        def oracle(task: dict[str, Any]) -> Any:
            return "boom"

    client, rows = gate_client(Buggy), Path(rows_file(tmp_path, guest_row))
    with pytest.raises(GateError, match=r"reply\(\) raised KeyError"):
        smoke_gate(client, rows)


def test_the_gate_compares_replies(gate_client, guest_row, tmp_path):
    replies = iter(range(1000))

    class Moody(Guest):
        def reply(self, answer: str) -> str:
            return str(next(replies))

    client, rows = gate_client(Moody), Path(rows_file(tmp_path, guest_row))
    with pytest.raises(GateError, match="the same calls of the policy 'garbage' were"):
        rollout_gate(client, rows)


def test_the_gate_shows_what_was_said(gate_client, guest_row, tmp_path):
    class Lenient(Guest):
        def reward(self) -> float:
            return 0.1

    client, rows = gate_client(Lenient), Path(rows_file(tmp_path, guest_row))
    row = {**guest_row, "baseline_reward": 0.1}
    assert rows == Path(rows_file(tmp_path, row))
    with pytest.raises(GateError, match="'oracle' earns 0.1") as caught:
        rollout_gate(client, rows)
    assert "(it called 'When?', book(hour=20), 'Good bye.'; " in str(caught.value)


def test_a_row_whose_conversation_is_too_long(
    gate_client, guest_row, tmp_path, monkeypatch
):
    class Long(Guest):
        @staticmethod
        def oracle(task: dict[str, Any]) -> Any:
            return [*["Hm."] * 300, *Guest.oracle(task)]

    client, rows = gate_client(Long), Path(rows_file(tmp_path, guest_row))
    needed = r"needs 303 turns to solve it \(302 messages and 1 call\)"
    with pytest.raises(GateError, match=needed):
        rollout_gate(client, rows)


def takes_nothing(self) -> None: ...


def takes_two(self, first, second) -> None: ...


def takes_a_number(self, word: int) -> None: ...


@pytest.mark.parametrize(
    ("method", "taken"),
    [
        (takes_nothing, ""),
        (takes_two, "first, second"),
        (takes_a_number, "word: int"),
    ],
)
def test_reply_takes_one_text(method, taken):
    odd = type("Odd", (Guest,), {"reply": method})
    with pytest.raises(GateError, match=r"is called with the text") as caught:
        check_class(odd, server_with(odd))
    assert f"takes `{taken}`" in str(caught.value)


def test_an_agent_that_never_asks_for_a_reply_is_refused():
    """The rendered game has NeMo Gym's simple_agent. Generation runs this gate."""
    with pytest.raises(GateError, match="simple_agent") as caught:
        check_agent(Guest)
    assert "-d talks=true" in str(caught.value)


def server_with(environment_class):
    class Server(SessionServer):
        domain_class = environment_class

    return Server


# ---------------------------------------------------------------------- frameworks


def test_other_frameworks_have_a_tool_to_talk_with(guest_row):
    names = [tool["name"] for tool in definitions_of_frameworks(Guest)]
    assert names == ["book", "say"]

    class Named(Guest):
        def say(self, text: str) -> str:
            return text

    with pytest.raises(ToolError, match="rename the class's own tool"):
        definitions_of_frameworks(Named)


@pytest.mark.parametrize("environment_class", [Guest, Asked])
@pytest.mark.parametrize(("policy", "reward"), [("oracle", 1.0), ("garbage", 0.0)])
def test_an_episode_of_another_framework(
    gate_client, guest_row, environment_class, policy, reward
):
    gate_client(environment_class)
    calls = calls_for(environment_class, guest_row, policy)
    assert ("say", {"text": NONSENSE}) in calls or policy == "oracle"
    assert asyncio.run(bare_reward(environment_class, guest_row, calls)) == reward


def test_an_image_of_a_reply_reaches_another_framework():
    class Sign(NamedTuple):
        output: str
        image: str

    class Painter(Guest):
        def reply(self, answer: str) -> Sign:
            return Sign("Look.", "data:image/png;base64,aGVsbG8=")

    async def look():
        episode = AsyncEpisode(Painter, {"hour": 20})
        await episode.start()
        shown = await episode.call("say", {"text": "Hello."})
        await episode.close()
        return shown

    shown = asyncio.run(look())
    assert shown.output == "Look."
    assert shown.extra == {"image": "data:image/png;base64,aGVsbG8="}


def test_saying_the_last_word_ends_the_episode(guest_row):
    async def talk():
        episode = AsyncEpisode(Guest, {"hour": 20})
        await episode.start()
        replies = [
            (await episode.call("say", {"text": text})).output
            for text in ("When?", "bye", "When?")
        ]
        over, reward = episode.over, await episode.reward()
        await episode.close()
        return replies, over, reward

    replies, over, reward = asyncio.run(talk())
    assert replies == [
        "At 20, please.",
        "The episode is over.",
        "error: the episode is over",
    ]
    assert (over, reward) == (True, 0.0)


# ---------------------------------------------------------------------- grading again


def test_reverify_plays_the_messages_again(
    server_of, run, guest_row, verify_body, monkeypatch
):
    monkeypatch.setenv("REVERIFY", "1")
    client = run(server_of(Guest))()
    output = [message("When?"), from_user("At 20, please."), *call_and_result(20)]
    full = [*output, message("Good bye.")]
    assert verdict(client, guest_row, verify_body, full)["reward"] == 1.0
    client = run(server_of(Guest))()
    assert verdict(client, guest_row, verify_body, output)["reward"] == 0.5
