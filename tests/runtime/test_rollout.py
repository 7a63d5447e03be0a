"""rollout.py plays the real server with a scripted model, over both APIs."""

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from nemo_gym.openai_utils import NeMoGymResponse

import rollout
from plumbing import records
from plumbing.client import Client, ClientSession
from plumbing.policies import NoOracle, fixed_policy, sample_arguments, solve

Call = tuple[str, str]  # a tool and its arguments, which need not be JSON
Answer = list[Call] | str | int | dict[str, Any]


class ScriptedModel(ThreadingHTTPServer):
    """An OpenAI-compatible endpoint on loopback, as strict as OpenAI's own.

    `script` holds its answers in order: a list of calls, a text, the status of an
    error, or a body as it is. After the last one it says goodbye. `asked` holds the
    requests' bodies.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.script: list[Answer] = []
        self.asked: list[dict[str, Any]] = []
        self.together: threading.Barrier | None = None

    def next_answer(self, request: dict[str, Any]) -> Answer:
        self.asked.append(request)
        if not follows_the_protocol(request):
            return 400
        if self.together:
            try:
                self.together.wait(10)
            except threading.BrokenBarrierError:
                return 400
        return self.script.pop(0) if self.script else "Goodbye."


class Handler(BaseHTTPRequestHandler):
    server: ScriptedModel

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.server.next_answer(json.loads(body))
        make = {
            "/v1/responses": as_response,
            "/v1/chat/completions": as_completion,
        }[self.path]
        if isinstance(answer, dict):
            status, content = 200, answer
        elif isinstance(answer, int):
            status, content = answer, {"error": {"message": "scripted failure"}}
        else:
            status, content = 200, make(answer)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def log_message(self, *args: Any) -> None:
        """No log."""


def follows_the_protocol(request: dict[str, Any]) -> bool:
    """Whether every call has its result, in a chat directly after it, and no reasoning
    has a status.
    """
    waiting: list[str] = []
    for item in request.get("input") or request["messages"]:
        kind = item.get("type") or item["role"]
        if kind in ("function_call_output", "tool"):
            waiting.remove(item.get("call_id") or item["tool_call_id"])
        elif (waiting and "messages" in request) or (
            kind == "reasoning" and "status" in item
        ):
            return False
        if kind == "function_call":
            waiting.append(item["call_id"])
        waiting += [call["id"] for call in item.get("tool_calls", [])]
    return not waiting


def as_response(answer: list[Call] | str) -> dict[str, Any]:
    output = [{"type": "reasoning", "id": "rs_1", "summary": [], "status": "completed"}]
    if isinstance(answer, str):
        text = {"type": "output_text", "text": answer, "annotations": []}
        message = {"type": "message", "id": "msg_1", "role": "assistant"}
        output.append({**message, "status": "completed", "content": [text]})
    else:
        output += [
            {
                "type": "function_call",
                "id": f"fc_{uuid.uuid4().hex}",
                "call_id": f"call_{uuid.uuid4().hex}",
                "name": tool,
                "arguments": arguments,
                "status": "completed",
            }
            for tool, arguments in answer
        ]
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "scripted",
        "status": "completed",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 11,
        },
    }


def as_completion(answer: list[Call] | str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "I will call a tool."}
    if isinstance(answer, str):
        message["content"] = answer
    else:
        message["tool_calls"] = [
            {
                "id": f"call_{uuid.uuid4().hex}",
                "type": "function",
                "function": {"name": tool, "arguments": arguments},
            }
            for tool, arguments in answer
        ]
    return {
        "id": "chatcmpl_1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }


def results(request: dict[str, Any]) -> list[str]:
    """The results of tool calls that a request shows to the model."""
    return [
        item.get("output") or item["content"]
        for item in request.get("input") or request["messages"]
        if item.get("type") == "function_call_output" or item.get("role") == "tool"
    ]


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def play(url, model, monkeypatch, capsys) -> Callable[..., tuple[int, list[str], str]]:
    """Runs rollout.py's command. Returns its exit status, output lines and errors.

    Without the indented lines, which are the table.
    """
    monkeypatch.setenv("ENV_URL", url)
    monkeypatch.setenv("MODEL", "scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", model.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("MAX_TURNS", "500")

    def run(*arguments: str) -> tuple[int, list[str], str]:
        status = rollout.main(list(arguments))
        printed = capsys.readouterr()
        lines = printed.out.splitlines()
        run.table = [line.split(maxsplit=1) for line in lines if line[:2] == "  "]
        return status, [line for line in lines if line[:2] != "  "], printed.err

    return run


@pytest.fixture(params=["responses", "chat"])
def api(request) -> list[str]:
    """The arguments that choose an API."""
    return ["--api", request.param]


@pytest.fixture(scope="module")
def solution(tools) -> Callable[[dict[str, Any]], list[Call]]:
    """The calls that solve a row; skips the test if there is no oracle."""

    def calls(row: dict[str, Any]) -> list[Call]:
        try:
            solved = solve(row, tools)
        except NoOracle as why:
            pytest.skip(str(why))
        return [(tool, json.dumps(arguments)) for tool, arguments in solved]

    return calls


@pytest.fixture(scope="module")
def a_call(tools) -> Call:
    return tools[0]["name"], json.dumps(sample_arguments(tools[0]))


@pytest.fixture
def paths(monkeypatch) -> list[str]:
    """The paths that are requested of the environment's server."""
    asked = []
    request = ClientSession.request

    def recorded(self, method, path, json=None):
        asked.append(path)
        return request(self, method, path, json)

    monkeypatch.setattr(ClientSession, "request", recorded)
    return asked


def test_a_model_that_solves_the_rows(play, api, model, rows, tools, solution):
    first, second = solution(rows[0]), solution(rows[1])
    model.script = [*([call] for call in first), "Done.", second, "Done."]
    status, printed, errors = play(*api, "--limit", "2")
    assert printed == ["row 1: reward 1.0", "row 2: reward 1.0", "mean reward: 1.0"]
    assert (status, errors) == (0, "")
    names = [tool.get("function", tool)["name"] for tool in model.asked[0]["tools"]]
    assert names == [tool["name"] for tool in tools]
    [prompt] = model.asked[0].get("input") or model.asked[0]["messages"]
    assert prompt == rows[0]["responses_create_params"]["input"][0]
    assert len(results(model.asked[len(first)])) == len(first)


def test_a_row_may_set_parameters(play, api, model, rows, monkeypatch):
    given = {"input": "Hello.", "instructions": "Be brief.", "max_output_tokens": 99}
    row = {**rows[0], "responses_create_params": {**given, "temperature": 0.5}}
    monkeypatch.setattr(rollout, "load_rows", lambda path: [row])
    assert play(*api)[0] == 0
    [asked] = model.asked
    assert (asked["model"], asked["temperature"]) == ("scripted", 0.5)
    if api[1] == "chat":
        said = [(message["role"], message["content"]) for message in asked["messages"]]
        assert said == [("system", "Be brief."), ("user", "Hello.")]
        assert asked["max_completion_tokens"] == 99
    else:
        assert asked["input"][0]["content"] == "Hello."
        assert (asked["instructions"], asked["max_output_tokens"]) == ("Be brief.", 99)


def test_mistakes_are_told_to_the_model(play, api, model, rows, tools, a_call, paths):
    tool, _ = a_call
    mistakes = [
        *((name, "{}") for name in ("no_such_tool", "", "verify", "seed_session")),
        *((name, "{}") for name in (f"x/../{tool}", f"/{tool}", "openapi.json")),
        *((tool, text) for text in ("{", "[]", '{"x": NaN}', '{"x": 1e999}')),
        (tool, "[" * 100_000),
        (tool, json.dumps({"x": "x" * (1 << 20)})),
    ]
    for each in tools:  # no parameter of a tool takes an object
        for name in list(each["parameters"]["properties"])[:1]:
            mistakes.append((each["name"], json.dumps({name: {}})))
    model.script = [mistakes, [a_call]]
    status, printed, _ = play(*api, "--limit", "1")
    assert (status, printed) == (0, ["row 1: reward 0.0", "mean reward: 0.0"])
    *refused, accepted = results(model.asked[-1])
    assert len(refused) == len(mistakes)
    for mistake, result in zip(mistakes, refused, strict=True):
        assert json.loads(result)["output"].startswith("error: "), mistake
    assert "output" in json.loads(accepted)
    assert paths.count("/seed_session") == paths.count("/verify") == 1
    assert set(paths) <= {
        *("/tools", "/seed_session", "/verify"),
        *(f"/{each['name']}" for each in tools),
    }


def test_arguments_may_be_empty(play, api, model, tools):
    for tool in tools:
        if not tool["parameters"]["required"]:
            model.script = [[(tool["name"], "")]]
            assert play(*api, "--limit", "1")[0] == 0
            assert "not JSON" not in results(model.asked[-1])[0]
            return
    pytest.skip("every tool has an argument that it needs")


def test_max_turns(play, api, model, a_call, paths, monkeypatch):
    monkeypatch.setenv("MAX_TURNS", "2")
    model.script = [[a_call]] * 9
    status, printed, _ = play(*api, "--limit", "1")
    assert (status, printed[0]) == (0, "row 1: reward 0.0 (out of turns: 2)")
    assert len(model.asked) == 2
    assert paths[-2:] == [f"/{a_call[0]}", "/verify"]


def test_max_turns_of_the_project(play, model, a_call, monkeypatch):
    monkeypatch.delenv("MAX_TURNS")
    turns = records.settings()["max_turns"]
    model.script = [[a_call]] * (turns + 1)
    _, printed, _ = play("--limit", "1")
    assert printed[0].endswith(f" (out of turns: {turns})")
    assert len(model.asked) == turns


@pytest.mark.parametrize(("turns", "out"), [(1, True), (2, False)])
def test_play_says_whether_the_turns_ran_out(url, rows, tools, turns, out):
    policy = fixed_policy("garbage")  # all calls in the first turn, none in the next
    result = rollout.play(Client(url), tools, rows[0], policy, turns)
    assert (result["reward"], result["out_of_turns"]) == (0.0, out)
    calls = [item["type"] for item in result["response"]["output"]]
    assert calls.count("function_call_output") == 2 * len(tools)


@pytest.mark.parametrize("text", ["0", "six", "-1"])
def test_a_bad_max_turns_is_one_line(play, text, monkeypatch):
    monkeypatch.setenv("MAX_TURNS", text)
    status, printed, errors = play()
    assert (status, printed) == (1, [])
    message = f"MAX_TURNS must be a positive integer, got {text!r}"
    assert errors == f"rollout.py: {message}\n"


def test_a_failing_endpoint_fails_its_row(play, api, model, a_call, paths):
    model.script = [[a_call], 400]
    status, printed, errors = play(*api, "--limit", "2")
    assert (status, printed) == (1, ["row 2: reward 0.0", "mean reward: 0.0"])
    first, last = errors.splitlines()
    assert first.startswith(f"row 1: failed: scripted at {model.url}/: BadRequestError")
    assert last == "rollout.py: 1 of 2 rows failed"
    assert paths.count("/close_session") == paths.count("/verify") == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"error": {"message": "out of order"}},
        {"output": [{"name": "x"}], "choices": []},
        {"output": None, "choices": None},
        {"output": [], "status": "failed", "choices": [{"message": "?"}]},
    ],
)
def test_an_answer_of_another_shape_fails_its_row(play, api, model, answer):
    model.script = [answer]
    status, printed, errors = play(*api, "--limit", "1")
    assert (status, printed) == (1, [])
    assert errors.startswith(f"row 1: failed: scripted at {model.url}/: ")
    assert errors.count("\n") == 2


def test_a_model_that_is_cut_off_calls_no_tool(play, api, model, a_call, paths):
    answer = as_completion([a_call]) if api[1] == "chat" else as_response([a_call])
    answer["incomplete_details"] = {"reason": "max_output_tokens"}
    for choice in answer.get("choices", []):
        choice["finish_reason"] = "length"
    model.script = [answer]
    assert play(*api, "--limit", "1")[0] == 0
    assert len(model.asked) == 1
    assert f"/{a_call[0]}" not in paths


def test_without_responses_api_the_other_one_is_named(play, model):
    model.script = [404]
    status, printed, errors = play("--limit", "1")
    assert (status, printed) == (1, [])
    assert "--api chat" in errors


@pytest.mark.parametrize("missing", ["MODEL", "OPENAI_API_KEY"])
def test_a_missing_setting_is_one_line(missing):
    settings = {"MODEL": "scripted", "OPENAI_API_KEY": "none", "ENV_URL": "http://x.y"}
    process = subprocess.run(
        [sys.executable, rollout.__file__],
        env={**os.environ, **settings, missing: ""},
        capture_output=True,
        check=False,
        text=True,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith(f"rollout.py: --policy llm needs {missing} in ")
    assert process.stderr.count("\n") == 1


def test_the_model_sees_images(play, api, model, url, tools, tmp_path):
    for tool in tools:
        session = Client(url).session()
        arguments = sample_arguments(tool)
        if image := session.post(f"/{tool['name']}", arguments).get("image"):
            break
    else:
        pytest.skip("no tool answers with an image")
    call = tool["name"], json.dumps(arguments)
    model.script = [[call, call]]
    path = tmp_path / "rollouts.jsonl"
    assert play(*api, "--limit", "1", "--output", str(path))[0] == 0

    request = model.asked[-1]
    *_, one, two, message = request.get("input") or request["messages"]
    for result in (one, two):  # the calls' results come first, without the images
        assert "data:image" not in json.dumps(result)
    assert len(results(request)) == 2
    assert message["role"] == "user"
    images = [part for part in message["content"] if "image" in part["type"]]
    assert len(images) == 2
    for part in images:
        if api[1] == "chat":
            assert part["type"] == "image_url"
            part = part["image_url"]
        else:
            assert part["type"] == "input_image"
        assert part.get("image_url", part.get("url")).startswith(
            "data:image/png;base64"
        )
    assert image.startswith("data:image/png;base64")

    [line] = path.read_text().splitlines()
    response = json.loads(line)["response"]
    graded = json.dumps([item.get("content") for item in response["output"]])
    assert graded.count('"input_image"') == 2


def test_too_many_images_are_not_verified(monkeypatch, play, model, a_call, tmp_path):
    monkeypatch.setattr(records, "IMAGE_BYTES", 10)
    model.script = [[a_call]]
    path = tmp_path / "rollouts.jsonl"
    assert play("--limit", "1", "--output", str(path))[0] == 0
    [line] = path.read_text().splitlines()
    output = json.loads(line)["response"]["output"]
    assert not any(item.get("role") == "user" for item in output)
    assert "function_call_output" in {item["type"] for item in output}


def test_output_is_what_nemo_gym_writes(play, api, model, rows, a_call, tmp_path):
    path = tmp_path / "new folder" / "rollouts.jsonl"
    model.script = [[a_call], "I give up."]
    assert play(*api, "--limit", "1", "--output", str(path))[0] == 0
    [line] = path.read_text().splitlines()
    written = json.loads(line)
    assert rows[0].items() <= written.items()
    assert (written["_ng_task_index"], written["_ng_rollout_index"]) == (0, 0)
    assert (written["reward"], written["agent_ref"]["name"]) == (0.0, "rollout.py")
    response = NeMoGymResponse.model_validate(written["response"])
    said = [
        getattr(item, "role", item.type)
        for item in response.output
        if item.type != "reasoning" and getattr(item, "role", "") != "user"
    ]
    if api[1] == "chat":
        assert said.pop(0) == "assistant"  # beside the call
    assert said == ["function_call", "function_call_output", "assistant"]
    assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 2)
    # The call as the model made it, and what it was told.
    assert results({"input": written["response"]["output"]}) == results(model.asked[-1])


def test_output_is_resumed(play, model, rows, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--output", str(path)]
    play("--limit", "1", *arguments)
    first = path.read_text()
    line = json.loads(first)
    path.write_text(json.dumps({**line, "reward": 0.5}) + "\n" + first[:99])
    model.asked.clear()
    status, printed, errors = play("--limit", "2", *arguments)
    assert (status, printed) == (0, ["row 2: reward 0.0", "mean reward: 0.25"])
    assert errors == f"1 of 2 rows are in {path}\n"
    assert len(model.asked) == 1
    tasks = [
        json.loads(line)["_ng_task_index"] for line in path.read_text().split("\n")[:-1]
    ]
    assert tasks == [0, 1]
    model.asked.clear()
    assert play("--limit", "2", *arguments)[:2] == (0, ["mean reward: 0.25"])
    assert model.asked == []


def test_the_table_before_the_mean(play, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MAX_TURNS", "2")
    mistake = ("no_such_tool", "{}")
    model.script = [[mistake, mistake], [mistake], "I give up."]
    path = tmp_path / "rollouts.jsonl"
    assert rollout.main(["--limit", "2", "--output", str(path)]) == 0
    first = capsys.readouterr().out
    assert first.splitlines()[:10] == [
        "row 1: reward 0.0 (out of turns: 2)",
        "row 2: reward 0.0",
        "  episodes       2",
        "  reward         0.000 ± 0.000",
        "  turns          1.50",
        "  tool calls     1.50",
        "  tool errors    1.50",
        "  out of turns   1 (50%)",
        "  input tokens   15",
        "  output tokens  2",
    ]
    assert first.splitlines()[-1] == "mean reward: 0.0"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert [one["out_of_turns"] for one in written] == [True, False]
    # The same figures when nothing is left to play.
    assert rollout.main(["--limit", "2", "--output", str(path)]) == 0
    assert capsys.readouterr().out == "".join(first.splitlines(True)[2:])


def test_repeats_are_resumed(play, model, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--limit", "2", "--output", str(path)]
    assert play(*arguments)[0] == 0
    model.asked.clear()
    status, printed, errors = play(*arguments, "--repeats", "3")
    assert (status, errors) == (0, f"2 of 6 episodes are in {path}\n")
    assert printed == [
        *(f"row {row}, repeat {one}: reward 0.0" for row in (1, 2) for one in (2, 3)),
        "mean reward: 0.0",
    ]
    assert len(model.asked) == 4
    found = [json.loads(line) for line in path.read_text().splitlines()]
    ids = [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in found]
    assert ids == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    table = dict(play.table)
    assert (table["episodes"], table["rows"]) == ("6", "2")
    assert (table["pass@1"], table["pass@2"], table["pass@3"]) == ("0.000",) * 3
    # Fewer repeats than the file has.
    assert play(*arguments)[1:] == (
        ["mean reward: 0.0"],
        f"2 of 2 rows are in {path}\n",
    )


def test_repeats_of_a_row_fail_one_by_one(play, model):
    model.script = [400]
    status, printed, errors = play("--limit", "1", "--repeats", "2")
    assert (status, printed[0]) == (1, "row 1, repeat 2: reward 0.0")
    assert errors.startswith("row 1, repeat 1: failed: ")
    assert errors.endswith("rollout.py: 1 of 2 episodes failed\n")


def test_repeats_of_a_fixed_policy(play):
    status, printed, _ = play("--policy", "noop", "--limit", "1", "--repeats", "2")
    assert (status, len(printed)) == (0, 3)


def test_the_temperature_is_the_users(play, api, model, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = [*api, "--limit", "1", "--output", str(path)]
    assert play(*arguments, "--temperature", "0.25")[0] == 0
    assert model.asked[0]["temperature"] == 0.25
    [line] = path.read_text().splitlines()
    assert json.loads(line)["responses_create_params"]["temperature"] == 0.25
    status, printed, errors = play(*arguments, "--temperature", "1")
    assert (status, printed) == (1, [])
    assert "on these rows, temperature and seed as they are now" in errors
    assert play(*arguments, "--temperature", "0.25")[1] == ["mean reward: 0.0"]


def test_each_repeat_has_a_seed(play, model, rows, tmp_path, monkeypatch):
    given = {
        **rows[0]["responses_create_params"],
        "metadata": {"extra_body": '{"a": 1}'},
    }
    row = {**rows[0], "responses_create_params": given}
    monkeypatch.setattr(rollout, "load_rows", lambda path: [row])
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--api", "chat", "--repeats", "2", "--output", str(path)]
    assert play(*arguments, "--seed", "7")[0] == 0
    assert [(asked["seed"], asked["a"]) for asked in model.asked] == [(7, 1), (8, 1)]
    assert not any("metadata" in asked for asked in model.asked)
    recorded = [
        json.loads(
            json.loads(line)["responses_create_params"]["metadata"]["extra_body"]
        )
        for line in path.read_text().splitlines()
    ]
    assert recorded == [{"a": 1, "seed": 7}, {"a": 1, "seed": 8}]
    assert "temperature and seed as they are now" in play(*arguments, "--seed", "8")[2]


def test_a_row_without_a_place_for_a_seed(play, rows, monkeypatch):
    given = {**rows[0]["responses_create_params"], "metadata": {"extra_body": "[]"}}
    row = {**rows[0], "responses_create_params": given}
    monkeypatch.setattr(rollout, "load_rows", lambda path: [row])
    status, _, errors = play("--api", "chat", "--seed", "7")
    assert status == 1
    assert "row 1: metadata.extra_body must be a JSON object for --seed, got" in errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "7"], "--seed needs --api chat: the Responses API has no seed"),
        (["--policy", "noop", "--seed", "7"], "are for --policy llm"),
        (["--policy", "oracle", "--temperature", "1"], "are for --policy llm"),
        (["--repeats", "0"], "must be a positive integer, got '0'"),
    ],
)
def test_what_cannot_be_asked(play, capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        play(*arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_metrics_are_averaged(play, monkeypatch):
    """What /verify answers for a class with metrics()."""
    steps, play_one = iter([1.0, 2.0]), rollout.play

    def measured(*arguments) -> dict[str, Any]:
        return {**play_one(*arguments), "steps": next(steps), "count": 3}

    monkeypatch.setattr(rollout, "play", measured)
    assert play("--policy", "noop", "--limit", "2")[0] == 0
    assert dict(play.table)["steps"] == "1.500"
    assert "count" not in dict(play.table)  # no float: it is the row's


def test_output_of_another_run_is_refused(play, rows, tmp_path, monkeypatch):
    path = tmp_path / "rollouts.jsonl"
    noop = ["--policy", "noop", "--limit", "1", "--output", str(path)]
    play(*noop)
    written = path.read_bytes()
    for arguments in (noop[2:], ["--policy", "oracle", *noop[2:]]):
        status, printed, errors = play(*arguments)
        assert (status, printed) == (1, [])
        assert f"{path}, line 1, is not a rollout of " in errors
        assert errors.count("\n") == 1
    changed = [{**rows[0], "ground_truth": rows[1]["ground_truth"]}]
    monkeypatch.setattr(rollout, "load_rows", lambda path: changed)
    assert play(*noop)[0] == 1
    assert path.read_bytes() == written


@pytest.mark.parametrize("content", ["notes", "notes\n", '{"a": 1}', '{"a": 1}\n'])
def test_a_file_of_something_else_is_left_alone(play, tmp_path, content):
    path = tmp_path / "notes"
    path.write_text(content)
    status, printed, errors = play("--output", str(path))
    assert (status, printed) == (1, [])
    assert f"{path}" in errors
    assert path.read_text() == content


def test_concurrent_rows(play, api, model):
    model.together = threading.Barrier(2)
    status, printed, _ = play(*api, "--limit", "2", "--concurrency", "2")
    assert status == 0
    assert sorted(printed) == [
        *("mean reward: 0.0", "row 1: reward 0.0", "row 2: reward 0.0")
    ]


def test_concurrent_rows_have_sessions_of_their_own(play, rows, solution):
    for row in rows[:8]:
        solution(row)
    arguments = ["--policy", "oracle", "--limit", "8", "--concurrency", "4"]
    status, printed, _ = play(*arguments)
    assert (status, printed[-1]) == (0, "mean reward: 1.0")


def test_a_server_that_is_not_there_is_one_line(play, monkeypatch):
    with ScriptedModel() as server:
        closed = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("ENV_URL", closed)
    status, printed, errors = play("--policy", "noop")
    assert (status, printed) == (1, [])
    assert errors.startswith(f"rollout.py: no server answers at {closed}")
    assert errors.count("\n") == 1
