"""Verdicts: one grade for each episode, and nothing that a policy posts changes it."""

import asyncio
import contextlib
import time

import pytest
from env_runtime.errors import NoOracleError
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.trajectory import function_call, message

from .support import Riddle, at_once


@pytest.fixture
def riddle(row):
    return {**row, "ground_truth": [{"word": "slate"}]}


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
    server_of, run, riddle, verify_body, posts, unseeded
):
    connect = run(server_of(Riddle))
    client = connect()
    if unseeded:  # the seed gives such a client another cookie
        client.post("/guess", json={"word": "x"})
    client.seed(riddle)
    seeded = dict(client.cookies)
    assert "it was slate" in client.post("/guess", json={"word": "crane"}).text
    for post in posts:
        task = dict(riddle["ground_truth"][0], **({"x": 1} if " " in post else {}))
        body = verify_body({**riddle, "ground_truth": [task]})
        client.post(post.rpartition(" ")[2], json=body)
    client.post("/guess", json={"word": "slate"})
    trainer = connect()  # with the cookie of the seed, and with the last one
    trainer.cookies.update(seeded)
    assert trainer.reward(riddle) == 0.0
    assert client.reward(riddle) == 0.0


def test_a_repeated_verify_answers_the_same(server_of, run, riddle, verify_body):
    server = server_of(Riddle)
    client = run(server)()
    client.seed(riddle)
    client.post("/guess", json={"word": "slate"})
    body = verify_body(riddle)
    first, second = (client.post("/verify", json=body).json() for _ in range(2))
    assert first["reward"] == 1.0
    assert first == second
    other = verify_body({**riddle, "ground_truth": [{"word": "crane"}]})
    assert client.post("/verify", json=other).json()["reward"] == 0.0
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
    server_of, run, riddle, verify_body, monkeypatch, guess, unseeded
):
    """A policy may call a tool named `verify`, also with a guess in the trajectory."""
    monkeypatch.setenv("STAND_IN", "1")
    client = run(server_of(Customer))()
    if not unseeded:
        client.seed(riddle)
    assert client.post("/say", json={"text": "Hello"}).status_code == 200
    guessed = verify_body({**riddle, "ground_truth": guess}, [message("slate")])
    answer = client.post("/verify", json=guessed)
    told = {key for key, value in answer.json().items() if value is not None}
    assert told == {"responses_create_params", "response", "reward", "mask_sample"}
    assert answer.json()["reward"] == 0.0
    assert answer.json()["mask_sample"] is False
    # The first verdict is final, so that a policy cannot try rows until one fits.
    own = verify_body(riddle, [message("slate")])
    assert client.post("/verify", json=own).json()["reward"] == 0.0


def test_verifying_at_once_answers_the_same(server_of, row, verify_body):
    graded = []

    class Once:
        def __init__(self, task):
            pass

        def move(self) -> str:
            """Move."""
            return "moved"

        def reward(self):
            graded.append(self)
            time.sleep(0.01)
            return 1.0

    async def play(client):
        await client.post("/seed_session", json=row)
        body = verify_body(row)
        answers = (client.post("/verify", json=body) for _ in range(5))
        return [answer.json()["reward"] for answer in await asyncio.gather(*answers)]

    assert at_once(server_of(Once), [play]) == [[1.0] * 5]
    assert len(graded) == 1


@pytest.mark.parametrize(
    "seed",
    [{}, {"ground_truth": []}, {"ground_truth": [{}]}, None],
    ids=["{}", "[]", "[{}]", "never"],
)
def test_an_episode_without_a_task_earns_nothing(server_of, run, riddle, seed):
    client = run(server_of(Riddle))()
    if seed is not None:
        answer = client.post("/seed_session", json=seed)
        assert answer.status_code == 200, answer.text
    assert client.call("guess", word="crane") == "Right."
    for task in ({}, {"word": "crane"}, riddle["ground_truth"][0]):
        assert client.reward({**riddle, "ground_truth": [task]}) == 0.0


@pytest.mark.parametrize(
    "seed", [None, {}, {"ground_truth": []}, {"ground_truth": [{}]}]
)
def test_an_episode_without_a_task_earns_nothing_on_any_row(
    server_of, run, row, generous, seed
):
    """That holds even on a row with an empty task, and a class that always pays."""
    client = run(server_of(generous))()
    if seed is not None:
        client.seed(seed)
    client.post("/look", json={})
    for truth in ([{}], row["ground_truth"]):
        assert client.reward({**row, "ground_truth": truth}) == 0.0


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
def test_an_episode_that_the_policy_seeded_earns_nothing(
    server_of, run, verify, generous, name
):
    """NeMo Gym's agents put a tool's name into a URL, and may have lost the cookie."""
    connect = run(server_of(generous))
    for tool, reward in ((name, 0.0), ("seed", 1.0)):
        client = connect()
        client.seed()
        assert client.reward(output=[function_call(tool, "{}")]) == reward
        # The policy must not post to /verify first, either, with a made-up trajectory.
        assert client.reward(output=[function_call(name, "{}")]) == 0.0


def test_a_path_with_a_line_break_is_not_found(server_of, run, row, generous):
    """Starlette's routes match a line break at their end."""
    client = run(server_of(generous))()
    assert client.post("/seed_session%0A", json=row).status_code == 404
    client.seed()


class Ungraded:
    """Has no reward(): the calls are its grade."""

    def __init__(self, task):
        pass

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
    client = run(server)()
    client.seed()
    client.post("/guess", json={"word": "x"})
    [session] = server.sessions.values()
    if kept:
        assert [call.tool for call in session.calls] == ["guess"]
    else:
        with pytest.raises(RuntimeError, match="keeps_calls = True"):
            _ = session.calls


def test_200_concurrent_episodes(server, rows, tools, verify_body):
    """The oracle plays as many as it can in 1,000 calls; the others do nothing."""
    plans, expected, calls = [], [], 0
    for n in range(200):
        row = rows[n % len(rows)]
        plan = []
        if calls < 1000:
            with contextlib.suppress(NoOracleError):
                plan = solve(row, tools)
        calls += len(plan)
        plans.append((row, plan))
        expected.append(1.0 if plan else 0.0)

    def playing(row, plan):
        async def play(client):
            await client.post("/seed_session", json=row)
            for tool, arguments in plan:
                answer = await client.post(f"/{tool}", json=arguments)
                assert answer.status_code == 200, answer.text
            answer = await client.post("/verify", json=verify_body(row))
            return answer.json()["reward"]

        return play

    assert at_once(server, [playing(*plan) for plan in plans]) == expected
    assert not server.sessions
