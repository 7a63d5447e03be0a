"""Verdicts: one grade for each episode, and nothing that a policy posts changes it."""

import asyncio
import time
from typing import Any

import pytest
from env_runtime.episode.tasks import solution_of
from env_runtime.episode.types import function_call, message
from env_runtime.graders import Number

from .support import ROW, Generous, Mover, Plain, Riddle, at_once, outcome, row_of

RIDDLE = row_of(word="slate")


@pytest.mark.parametrize("unseeded", [False, True])
@pytest.mark.parametrize(
    "posts",
    [
        ["/seed_session"],
        ["/close_session", "/seed_session"],
        ["/verify", "/seed_session"],
        ["/close_session"],
        ["/verify"],
        ["another /verify", "/seed_session"],
        ["another /seed_session", "/seed_session"],
        ["/close_session", "/verify", "/seed_session", "/verify"],
    ],
)
def test_a_policy_that_has_seen_the_answer_earns_nothing(
    server_of, run, verify_body, posts, unseeded
):
    connect = run(server_of(Riddle))
    client = connect()
    if unseeded:  # the seed gives such a client another cookie
        client.call("guess", word="x")
    client.seed(RIDDLE)
    seeded = dict(client.cookies)
    assert "it was slate" in client.call("guess", word="crane")
    for post in posts:
        another, _, path = post.rpartition(" ")
        row = row_of(word="slate", x=1) if another else RIDDLE
        client.post(path, json=verify_body(row))
    client.call("guess", word="slate")
    trainer = connect()  # with the cookie of the seed, and with the last one
    trainer.cookies.update(seeded)
    assert trainer.reward(RIDDLE) == client.reward(RIDDLE) == 0.0


def test_a_repeated_verify_answers_the_same(server_of, run, verify_body):
    server = server_of(Riddle)
    client = run(server)().seed(RIDDLE)
    client.call("guess", word="slate")
    body = verify_body(RIDDLE)
    first, second = (client.post("/verify", json=body).json() for _ in range(2))
    assert first["reward"] == 1.0
    assert first == second
    assert client.reward(row_of(word="crane")) == 0.0
    assert not server.sessions


class Customer:
    """Asks a simulated user, whose prompt holds the answer."""

    def __init__(self, task, user):
        self.word, self.user, self.said = task.get("word", "crane"), user, ""

    def say(self, text: str) -> str:
        """Say something to the user."""
        return self.user.ask(f"Your secret word is {self.word}. Answer: {text}")

    def reward(self, answer: str) -> float:
        return float(answer == self.word)

    def metrics(self):
        return {"length": float(len(self.word))}


@pytest.mark.parametrize("unseeded", [False, True])
@pytest.mark.parametrize("guess", [[{"word": "crane"}], [{}], "native"])
def test_a_verdict_on_another_row_tells_nothing_of_the_episode(
    client_of, monkeypatch, guess, unseeded
):
    """A policy may call a tool named `verify`, also with a guess in the trajectory."""
    monkeypatch.setenv("STAND_IN", "1")
    client = client_of(Customer)
    if not unseeded:
        client.seed(RIDDLE)
    client.call("say", text="Hello")
    said = [message("slate")]
    verdict = client.verdict({**RIDDLE, "ground_truth": guess}, said)
    told = {key for key, value in verdict.items() if value is not None}
    assert told == {"responses_create_params", "response", "reward", "mask_sample"}
    assert outcome(verdict) == (0.0, False)
    # The first verdict is final, so that a policy cannot try rows until one fits.
    assert client.reward(RIDDLE, said) == 0.0


def test_verifying_at_once_answers_the_same(server_of, verify_body):
    graded = []

    class Once(Plain):
        def reward(self):
            graded.append(self)
            time.sleep(0.01)
            return 1.0

    async def play(client):
        await client.post("/seed_session", json=ROW)
        body = verify_body(ROW)
        answers = (client.post("/verify", json=body) for _ in range(5))
        return [answer.json()["reward"] for answer in await asyncio.gather(*answers)]

    assert at_once(server_of(Once), [play]) == [[1.0] * 5]
    assert len(graded) == 1


class Greedy(Mover):
    """Takes its task apart."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.left = task.pop("steps")["left"]
        self.left.append("more")

    def reward(self) -> float:
        return 1.0


def test_a_constructor_may_change_its_task(client_of):
    row = row_of(steps={"left": ["one"]})
    assert client_of(Greedy).seed(row).reward(row) == 1.0


def test_an_oracle_may_change_its_task():
    class Solver(Mover):
        @staticmethod
        def oracle(task: dict[str, Any]) -> Any:
            return [("move", {})] * task.pop("steps")

    row = row_of(steps=2)
    assert [len(solution_of(Solver, row).calls) for _ in range(2)] == [2, 2]


without_a_task = pytest.mark.parametrize(
    "seed",
    [{}, {"ground_truth": []}, {"ground_truth": [{}]}, None],
    ids=["{}", "[]", "[{}]", "never"],
)


@without_a_task
def test_an_episode_without_a_task_earns_nothing(client_of, seed):
    client = client_of(Riddle)
    if seed is not None:
        client.seed(seed)
    assert client.call("guess", word="crane") == "Right."
    for task in ({}, {"word": "crane"}, {"word": "slate"}):
        assert client.reward(row_of(**task)) == 0.0


@without_a_task
def test_an_episode_without_a_task_earns_nothing_on_any_row(client_of, seed):
    """That holds even on a row with an empty task, and a class whose reward is always 1.0."""
    client = client_of(Generous)
    if seed is not None:
        client.seed(seed)
    client.call("move")
    assert client.reward(row_of()) == client.reward(ROW) == 0.0


@pytest.mark.parametrize(
    "name",
    [
        "seed_session",
        "./seed_session",
        "seed_session/",  # which is redirected, and the agent follows
        "seed_session%0A",
        " seed_session",
        "seed_session?x",
        "%73eed_session",
        "seed\t_session",
    ],
)
def test_an_episode_that_the_policy_seeded_earns_nothing(server_of, run, verify, name):
    """NeMo Gym's agents put a tool's name into a URL, and may have lost the cookie."""
    connect = run(server_of(Generous))
    for tool, reward in ((name, 0.0), ("seed", 1.0)):
        client = connect().seed()
        assert client.reward(output=[function_call(tool, "{}")]) == reward
        # The policy must not post to /verify first, either, with a made-up trajectory.
        assert client.reward(output=[function_call(name, "{}")]) == 0.0


def test_a_path_with_a_line_break_is_not_found(client_of):
    """Starlette's routes match a line break at their end."""
    client = client_of(Generous)
    assert client.post("/seed_session%0A", json=ROW).status_code == 404
    client.seed()


class Ungraded:
    """Has no reward(): the calls are its grade."""

    def __init__(self, task): ...

    def guess(self, word: str) -> str:
        """Guess."""
        return word


@pytest.mark.parametrize(
    ("domain_class", "keeps", "kept"),
    [(Riddle, None, False), (Riddle, True, True), (Ungraded, None, True)],
)
def test_calls_are_kept_for_a_grader_that_reads_them(
    server_of, run, domain_class, keeps, kept
):
    kind = type(server_of(domain_class))
    kind.keeps_calls = keeps
    server = kind.build()
    client = run(server)().seed(row_of(expected_output="x"))
    client.call("guess", word="x")
    [session] = server.sessions.values()
    if kept:
        assert [call.tool for call in session.calls] == ["guess"]
    else:
        with pytest.raises(RuntimeError, match="keeps_calls = True"):
            _ = session.calls


# ---------------------------------------------------------------------- thinking


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("5", "5"),
        (" 5 ", " 5 "),
        ("<think>3? \\boxed{3}</think>\n\\boxed{5}", "\\boxed{5}"),
        ("3?</think>5", "5"),  # the prompt ends with <think>
        ("<think>3</think>4<think>5</think>6", "6"),
        ("<think>\\boxed{5}", ""),
        ("5 <think>or 6", ""),
        ("<think>5</think>", ""),
    ],
)
def test_an_answer_is_graded_without_the_thinking(begin, said, heard):
    """A box in a thought is no answer, and neither is a thought that was cut off."""

    class Listens(Plain):
        def reward(self, answer: str = "") -> float:
            return float(answer == heard)

    assert begin(Listens).reward(output=[message(said)]) == 1.0


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        (r"<think>\boxed{7}?</think>\boxed{5}", 1.0),
        (r"<think>\boxed{5}</think>\boxed{7}", 0.0),
        (r"<think>\boxed{5}</think>", 0.0),
        (r"<think>\boxed{5}", 0.0),
        (r"\boxed{5}<think>\boxed{5}", 0.0),
        (r"</think>\boxed{5}", 1.0),
        (r"\boxed{5}</think>", 0.0),
    ],
)
def test_a_box_in_a_thought_is_no_answer(begin, said, reward):
    """Neither a grader nor a judge, which is asked in reward(), reads it."""

    class Boxed(Plain):
        async def reward(self, answer: str = "") -> float:
            assert "think" not in answer
            return Number("5").reward(answer)

    assert begin(Boxed).reward(output=[message(said)]) == reward


def test_a_text_that_is_expected_of_a_tool_is_no_message(begin):
    row = row_of(expected_output="5")
    for said in ("5", "<think>5</think>5", "</think>5"):
        assert begin(Ungraded, row).reward(row, [message(said)]) == 0.0
