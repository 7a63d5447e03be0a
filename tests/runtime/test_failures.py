"""Exceptions of a class, and requests that no endpoint takes."""

import json
import re
import time

import httpx
import pytest
from env_runtime.episode.session import Session
from env_runtime.errors import GateError

from .support import (
    MESSAGE,
    ROW,
    Mover,
    Player,
    app_of,
    outcome,
    server_script,
    serving,
)


class Mistake(Exception):
    """An exception that the class raises on purpose."""


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    ("raised", "output", "fault"),
    [
        (ValueError("You cannot."), "error: You cannot.", None),
        (Mistake("You cannot."), "error: You cannot.", None),
        (TimeoutError("Too slow."), "error: Too slow.", None),
        (KeyError("secret"), "error: KeyError", "raised KeyError"),
        (RuntimeError("secret"), "error: RuntimeError", "raised RuntimeError"),
        (SystemExit("secret"), "error: SystemExit", "raised SystemExit"),
        (SystemExit(0), "error: SystemExit", "raised SystemExit"),
    ],
)
def test_an_exception_in_a_tool(server_of, run, raised, output, fault, on_loop):
    class Failing(Mover):
        blocking = not on_loop

        def fail(self) -> str:
            """Fail."""
            raise raised

    connect = run(server_of(Failing))
    client = connect().seed()
    answer = client.post("/fail", json={})
    assert (answer.status_code, answer.json()) == (200, {"output": output})
    header = answer.headers.get("X-Tool-Error", "")
    place = f"{fault} (runtime/test_failures.py, line "
    assert header.startswith(place) if fault else header == ""
    assert "secret" not in header
    after = client.post("/move", json={})
    assert after.json() == {"output": "moved"}
    assert "X-Tool-Error" not in after.headers
    connect().seed()


@pytest.mark.parametrize("on_loop", [False, True])
@pytest.mark.parametrize(
    ("raised", "detail"),
    [
        (ValueError("task needs `x`"), "Refusing(task): task needs `x`"),
        (KeyError("x"), "Refusing(task): KeyError: 'x'"),
        (SystemExit("over"), "Refusing(task): SystemExit: over"),
    ],
)
def test_an_exception_in_a_constructor(server_of, run, raised, detail, on_loop):
    class Refusing(Mover):
        blocking = not on_loop

        def __init__(self, task):
            raise raised

    server = server_of(Refusing)
    client = run(server)()
    answer = client.post("/seed_session", json=ROW)
    assert (answer.status_code, answer.json()) == (422, {"detail": detail})
    assert client.call("move").startswith("error: this session was not seeded")
    assert not server.sessions


# ------------------------------------------------------- the machine, or the policy


class Remote(Mover):
    """It needs a service that fails with `error`, in its constructor, tool or grade."""

    error: Exception = ConnectionResetError("reset")
    where = "reward"

    def __init__(self, task):
        self.fail("constructor")

    def fail(self, where: str) -> float:
        if where == self.where:
            raise self.error
        return 1.0

    def move(self) -> str:
        """Move."""
        self.fail("tool")
        return "moved"

    def reward(self) -> float:
        return self.fail("reward")


class Down(Exception):
    """The service of the class is down."""


@pytest.mark.parametrize(
    ("listed", "error", "masked"),
    [
        (None, ConnectionError("down"), True),
        (None, ConnectionRefusedError("down"), True),
        (None, BrokenPipeError("the policy ended the process"), False),
        (None, TimeoutError("slow"), False),
        (None, Down("down"), False),
        ((), ConnectionError("down"), False),
        ((Down,), Down("down"), True),
        ((Down,), ConnectionError("down"), False),
        ((OSError,), BrokenPipeError("down"), True),
        (None, ValueError("invalid literal for int(): 'six'"), False),
        (None, OverflowError("int too large to convert to float"), False),
    ],
)
@pytest.mark.parametrize("where", ["tool", "reward"])
def test_only_what_the_class_lists_masks_the_sample(
    begin, where, listed, error, masked
):
    given = {} if listed is None else {"infrastructure_errors": listed}
    kind = type("Remote", (Remote,), {"error": error, "where": where, **given})
    client = begin(kind)
    expected = where == "tool" and not masked and isinstance(error, ValueError | Down)
    text = (
        str(error)
        if expected or isinstance(error, TimeoutError)
        else type(error).__name__
    )
    assert client.call("move") == (f"error: {text}" if where == "tool" else "moved")
    verdict = client.verdict()
    graded = 1.0 if where == "tool" else 0.0
    assert outcome(verdict) == (graded, masked)
    reason = f"Remote.{'move' if where == 'tool' else 'reward'}() raised "
    if masked or where == "reward":
        assert verdict["failure_reason"].startswith(reason + type(error).__name__)
    else:
        assert verdict["failure_reason"] is None


def test_a_constructor_that_finds_no_service_is_asked_again_later(client_of):
    kind = type("Remote", (Remote,), {"where": "constructor"})
    refused = client_of(kind).post("/seed_session", json=ROW)
    assert refused.status_code == 503
    assert refused.json()["detail"].startswith(
        "Remote(task) raised ConnectionResetError (runtime/test_failures.py, line "
    )


@pytest.mark.parametrize(
    "listed", ["ConnectionError", (int,), ValueError, [KeyError()]]
)
def test_infrastructure_errors_that_are_none(check, listed):
    kind = type("Remote", (Remote,), {"infrastructure_errors": listed})
    message = (
        r"infrastructure_errors must be a tuple of exception classes, such as \(Conn"
    )
    with pytest.raises(GateError, match=message):
        check(kind)


class Slow(Mover):
    def reward(self) -> float:
        time.sleep(0.3)  # what a policy wrote takes as long
        return 1.0


def test_a_grade_that_takes_too_long_masks_nothing(begin, monkeypatch):
    monkeypatch.setattr(Session.reward, "__defaults__", ("", 0.1))
    verdict = begin(Slow).verdict()
    assert outcome(verdict) == (0.0, False)
    assert verdict["failure_reason"] == "the grade took more than 0.1 s"


def test_health_counts_the_verdicts_that_are_no_grades(server_of, run):
    kind = type("Remote", (Remote,), {"error": ValueError("six")})
    connect = run(server_of(kind))
    client = connect().seed()
    assert client.health() == {"status": "ok", "sessions": 1, "hung_calls": 0}
    assert outcome(client.verdict()) == outcome(client.verdict())  # it asks again
    setattr(kind, "infrastructure_errors", (ValueError,))  # noqa: B010
    connect().seed().verdict()
    counted = {"sessions": 0, "hung_calls": 0, "masked": 1, "not_graded": 1}
    assert client.health() == {"status": "ok", **counted}


def test_an_exception_is_answered_as_json(server, rows, monkeypatch, verify_body):
    def fail(_, request, body, reward):
        raise RuntimeError(f"{body.task} of {request.headers}")

    monkeypatch.setattr(type(server), "verify_response", fail)
    client = Player(app_of(server), raise_server_exceptions=False)
    answer = client.post("/verify", json=verify_body(rows[0]))
    assert answer.status_code == 500
    # The text of an error may hold the row.
    detail = "the server failed: RuntimeError; its log says more"
    assert answer.json() == {"detail": detail}


def test_requests_that_no_endpoint_takes(serve, client, tools):
    path = f"/{tools[0]['name']}"
    assert client.post("/no_such_tool", json={}).status_code == 404
    assert client.post(path, json=[]).status_code == 422
    assert client.post(path, content=b"{").status_code == 422
    assert client.post("/verify", json={}).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/seed_session", {"ground_truth": [0] * 100_000}),
        ("/verify", {"ground_truth": [0] * 100_000}),
        ("/aggregate_metrics", {"verify_responses": [0] * 100_000}),
        ("/add", {"numbers": ["one"] * 100_000}),
    ],
)
def test_many_problems_have_a_short_answer(server_of, run, path, body):
    """A list of all problems would be megabytes, and hold up all other clients."""

    class Adder:
        def __init__(self, task): ...

        def add(self, numbers: list[int]) -> str:
            return str(sum(numbers))

    client = run(server_of(Adder))()
    if path == "/verify":  # without a session it would not be read
        client.seed({"ground_truth": [{"expected_output": "x"}]})
    answer = client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert len(answer.content) < 5000


@pytest.fixture
def lenient(serve):
    """A client that gets an answer where the server fails."""
    return Player(app_of(serve()), raise_server_exceptions=False)


DEEP = json.loads("[" * 300 + "]" * 300)


@pytest.mark.parametrize("odd", ["\ud800", DEEP])
def test_a_trajectory_that_is_not_json_is_graded(lenient, rows, verify_body, odd):
    lenient.seed(rows[0])
    body = verify_body(rows[0])
    body["response"]["odd"] = odd
    answer = lenient.post("/verify", content=json.dumps(body))
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert answer.json()["reward"] == 0.0


def test_what_nemo_gym_cannot_read_is_refused(lenient, rows, verify_body):
    body = verify_body(rows[0])
    odd = {**MESSAGE, "content": [], "role": {}, "prompt_token_ids": [1]}
    body["response"]["output"] = [odd]
    assert lenient.post("/verify", json=body).status_code == 422
    metrics = lenient.post("/aggregate_metrics", json={"verify_responses": [{}]})
    assert metrics.status_code in (200, 422)


FAILING = """
class Domain:
    def __init__(self, task: dict): pass
    def move(self) -> str: raise KeyError("a secret")
    def reward(self) -> float: return 0.0
"""


CRASHING = """
import os
class Domain:
    def __init__(self, task: dict): pass
    def move(self) -> str: os.abort()
    def reward(self) -> float: return 0.0
"""


def test_a_crash_of_the_process_leaves_the_line_that_caused_it():
    with serving("-c", server_script(CRASHING)) as (process, url):
        with httpx.Client(base_url=url, trust_env=False) as client:
            client.post("/seed_session", json=ROW)
            with pytest.raises(httpx.RemoteProtocolError):
                client.post("/move", json={})
        process.wait()
        printed = process.stderr.read()
    assert "Fatal Python error: Aborted" in printed
    assert re.search(r'File "<string>", line \d+ in move', printed)


def test_session_log_has_the_traceback_and_the_row(tmp_path):
    log = tmp_path / "session.log"
    script = server_script(FAILING)
    with serving("-c", script, SESSION_LOG=str(log)) as (process, url):
        with httpx.Client(base_url=url, trust_env=False) as client:
            client.post("/seed_session", json={**ROW, "_ng_task_index": 7})
            answer = client.post("/move", json={})
        process.terminate()
        printed = process.stderr.read()
    assert answer.json() == {"output": "error: KeyError"}
    written = log.read_text()
    assert "_ng_task_index 7: the tool 'move' failed" in written
    assert "KeyError: 'a secret'" in written
    assert "KeyError: 'a secret'" in printed
