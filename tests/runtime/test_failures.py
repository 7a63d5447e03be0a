"""Exceptions of a class, and requests that no endpoint takes."""

import asyncio
import json
import logging
import re
import time

import httpx
import pytest
from env_runtime import gym_series
from env_runtime.episode.session import Session
from env_runtime.errors import GateError
from env_runtime.evaluation.stats import measure
from env_runtime.project import here
from env_runtime.resources_server.launch import log_to_file

from .support import (
    MESSAGE,
    ROW,
    Mover,
    Player,
    app_of,
    outcome,
    seed_by_name,
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


@pytest.mark.parametrize("look", [asyncio.get_event_loop, asyncio.get_running_loop])
def test_a_class_that_looks_for_an_event_loop_reads_what_to_do(client_of, look):
    class Looping(Mover):
        def __init__(self, task: dict):
            self.loop = look()

    answer = client_of(Looping).post("/seed_session", json=ROW)
    assert answer.status_code == 422
    detail = answer.json()["detail"]
    assert detail.startswith("Looping(task): RuntimeError: ")
    assert (
        " (no event loop runs in the thread of an episode: write `async def`" in detail
    )


def test_a_tool_that_looks_for_an_event_loop_is_named_with_what_to_do(begin):
    class Looping(Mover):
        def wait(self) -> str:
            """Wait."""
            return str(asyncio.get_event_loop())

    answer = begin(Looping).post("/wait", json={})
    fault = answer.headers["X-Tool-Error"]
    assert "raised RuntimeError (runtime/test_failures.py, line " in fault
    assert "asyncio.new_event_loop()" in fault


def test_the_verdict_says_what_reward_raised(begin):
    class Wrong(Mover):
        def reward(self) -> float:
            raise KeyError("day of\nthe week")

    reason = begin(Wrong).verdict()["failure_reason"]
    said = r"Wrong.reward\(\) raised KeyError \(\S+, line \d+\): 'day of\\nthe week'"
    assert re.match(said, reason), reason


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
    reason = "the grade took more than 0.1 s (session "
    assert verdict["failure_reason"].startswith(reason)


def test_health_counts_the_verdicts_that_are_no_grades(server_of, run):
    kind = type("Remote", (Remote,), {"error": ValueError("six")})
    connect = run(server_of(kind))
    client = connect().seed()

    def health():
        return {k: v for k, v in client.health().items() if k[:6] != "shards"}

    assert health() == {"status": "ok", "sessions": 1, "hung_calls": 0}
    assert outcome(client.verdict()) == outcome(client.verdict())  # it asks again
    setattr(kind, "infrastructure_errors", (ValueError,))  # noqa: B010
    connect().seed().verdict()
    counted = {"sessions": 0, "hung_calls": 0, "masked": 1, "not_graded": 1}
    assert health() == {"status": "ok", **counted}


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
    [line] = re.findall(r" ERROR (_ng_task_index 7, session \w{12}: move.*)", written)
    assert re.search(r": move\(\) raised KeyError \(/<string>, line \d+\)$", line)
    assert line in printed
    assert "KeyError: 'a secret'" in written
    assert "KeyError: 'a secret'" in printed


class Broken(Mover):
    """Every method raises."""

    def move(self, to: str = "", api_key: str = "", more: dict | None = None) -> str:
        raise KeyError("a secret")

    def reward(self) -> float:
        raise KeyError("a secret")

    def metrics(self) -> dict[str, float]:
        raise KeyError("a secret")


SEEDS = {
    "_ng_task_index 7, _ng_rollout_index 2": {
        "id": "other",
        "_ng_task_index": 7,
        "_ng_rollout_index": 2,
    },
    "id 'a\\nb'": {"id": "a\nb", "uuid": "other"},
    "uuid 'one'": {"uuid": "one"},
    "task a2e8a502c9d1": {},  # of json.dumps(task, sort_keys=True), by sha256sum
}


@pytest.mark.parametrize("row_name", SEEDS)
def test_one_name_leads_from_the_log_to_the_verdict_and_back(
    server_of, run, caplog, row_name
):
    client = run(server_of(Broken))()
    row = {**ROW, "ground_truth": [{"secret": "crane"}], **SEEDS[row_name]}
    client.seed(row)
    client.call("move", to="a\n" + "b" * 1000, api_key="sk-4711", more={"pin": 4711})
    verdict = client.verdict(row)
    session = verdict["session_name"]
    name = f"{row_name}, session {session}"
    at = r"raised KeyError \(runtime/test_failures.py, line \d+\)"
    shown = f"'a\\n{'b' * 38}'..."
    call = f"move(to={shown}, api_key=***, more=<dict of 1>)"
    starts = [
        re.escape(f"{name}: {what} ")
        for what in (call, "Broken.reward()", "Broken.metrics()")
    ]
    messages = [record.getMessage() for record in caplog.records]
    for start in starts:
        assert any(re.fullmatch(start + at, each) for each in messages), (
            start,
            messages,
        )
    assert len(messages) == len(starts), "each is logged once"
    assert f"(session {session})" in verdict["failure_reason"]
    assert not any("4711" in each or "crane" in each for each in messages)
    # The page of view.py shows the name, also if the verdict is in a file.
    if "task" not in row_name.split():
        assert measure({**row, **verdict}).name == name


@pytest.mark.skipif(
    gym_series.ResourcesSeedSessionRequest is None, reason="NeMo Gym 0.4 names none"
)
@pytest.mark.parametrize(
    ("rollout_id", "named"),
    [
        ("286-1", "_ng_task_index 286, _ng_rollout_index 1, session "),
        ("mine-1", "id 5, session "),
    ],
)
def test_a_harness_that_names_sessions_says_which_row(
    server_of, run, caplog, rollout_id, named
):
    """NeMo Gym 0.7 takes its own keys out of the task."""
    body = seed_by_name("one", ROW) | {"episode_id": {"rollout_id": rollout_id}}
    body["task_data"] |= {"id": 5}
    client = run(server_of(Broken))().seed(body)
    client.call("move")
    assert caplog.records[0].getMessage().startswith(named)


def test_a_session_s_name_lets_nobody_play_in_it(server_of, run):
    """It is in rollouts, which people share."""
    server = server_of(Mover)
    connect = run(server)
    client = connect().seed()
    [session_id] = server.sessions
    name = client.verdict()["session_name"]
    assert len(name) == 12 and name not in session_id
    assert name not in "".join(cookie.value or "" for cookie in client.cookies.jar)
    assert name != connect().seed().verdict()["session_name"]


def test_a_call_that_hangs_is_in_the_log(server_of, run, barrier, caplog):
    class Slow(Mover):
        def wait(self, seconds: int) -> str:
            barrier.wait()
            return ""

    client = run(server_of(Slow, tool_seconds=0.1))().seed({**ROW, "id": 5})
    client.call("wait", seconds=9)
    [message] = [record.getMessage() for record in caplog.records]
    assert re.fullmatch(
        r"id 5, session \w{12}: wait\(seconds=9\) took more than 0.1 s \(TOOL_SECONDS\)",
        message,
    )


def test_the_log_is_rotated_and_a_few_older_ones_are_kept(
    tmp_path, monkeypatch, own_loggers
):
    log = tmp_path / "session.log"
    monkeypatch.setenv("SESSION_LOG", str(log))
    monkeypatch.setenv("SESSION_LOG_BYTES", "1000")
    log_to_file(here())
    for number in range(100):
        logging.getLogger("env_runtime").error("%d %s", number, "x" * 90)
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == [
        log.name,
        *(f"{log.name}.{n}" for n in (1, 2, 3)),
    ]
    assert all(each.stat().st_size <= 1000 for each in files)
    assert " 99 x" in log.read_text()


def test_a_masked_sample_is_in_the_log(server_of, run, caplog):
    class Failing(Mover):
        def move(self) -> str:
            self.infrastructure_failure = "the disk is gone"
            return ""

    connect = run(server_of(Failing))
    client = connect().seed({**ROW, "id": 5})
    client.call("move")
    session = client.verdict()["session_name"]
    messages = [record.getMessage() for record in caplog.records]
    assert messages == [f"id 5, session {session}: the disk is gone"]


def test_a_lost_session_is_in_the_log(server_of, run, caplog):
    server = server_of(Mover)
    client = run(server)().seed()
    server._store.ended.clear()
    server.sessions.clear()
    verdict = client.verdict()
    session = verdict["session_name"]
    assert verdict["failure_reason"].endswith(f"(session {session})")
    [message] = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"session {session}: the session was lost: ")
