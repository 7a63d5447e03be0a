"""Tests of rollout.py with a model, over both APIs: its questions and its answers."""

import json
import os
import subprocess
import sys

import pytest
from env_runtime.episode import types
from env_runtime.evaluation.rows import load_rows

import rollout

from .strict_model import as_completion, as_response, results
from .support import PNG, ROW, Camera, Plain, rows_file


def test_a_model_that_solves_the_rows(play, api, model, rows, tools, solution):
    first, second = solution(rows[0]), solution(rows[1])
    model.script = [*([call] for call in first), "Done.", second, "Done."]
    status, printed, errors = play(*api, "--limit", "2")
    assert printed == ["row 1: reward 1.0", "row 2: reward 1.0", "mean reward: 1.0"]
    assert (status, errors) == (0, "")
    names = [tool.get("function", tool)["name"] for tool in model.requests[0]["tools"]]
    assert names == [tool["name"] for tool in tools]
    [prompt] = model.requests[0].get("input") or model.requests[0]["messages"]
    assert prompt == rows[0]["responses_create_params"]["input"][0]
    assert len(results(model.requests[len(first)])) == len(first)


def test_a_row_may_set_parameters(play, api, model, rows, tmp_path):
    given = {"input": "Hello.", "instructions": "Be brief.", "max_output_tokens": 99}
    row = {**rows[0], "responses_create_params": {**given, "temperature": 0.5}}
    assert play(*api, "--rows", rows_file(tmp_path, row))[0] == 0
    [request] = model.requests
    assert (request["model"], request["temperature"]) == ("scripted", 0.5)
    if api[1] == "chat":
        messages = [(said["role"], said["content"]) for said in request["messages"]]
        assert messages == [("system", "Be brief."), ("user", "Hello.")]
        limit = request["max_completion_tokens"]
    else:
        [message] = request["input"]
        said = (request["instructions"], message["content"])
        assert said == ("Be brief.", "Hello.")
        limit = request["max_output_tokens"]
    assert limit == 99


def test_the_model_reads_its_mistakes(play, api, model, rows, tools, a_call, paths):
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
    why = "the policy called seed_session, so its episode does not count"
    row = f"row 1: reward 0.0, without a grade: {why} (session "
    assert (status, printed[1:]) == (0, ["mean reward: 0.0"])
    assert printed[0].startswith(row)
    *refused, accepted = results(model.requests[-1])
    assert len(refused) == len(mistakes)
    for mistake, result in zip(mistakes, refused, strict=True):
        assert json.loads(result)["output"].startswith("error: "), mistake
    assert "output" in json.loads(accepted)
    assert paths.count("/seed_session") == paths.count("/verify") == 1
    assert set(paths) <= {
        *("/tools", "/seed_session", "/verify"),
        *(f"/{each['name']}" for each in tools),
    }


@pytest.mark.parametrize("sent", ["", None, "left out", {}])
def test_arguments_may_be_empty(
    play, api, model, url_of, tmp_path, client_of, monkeypatch, sent
):
    """They are written down as {}, so that a replay plays the call, too."""

    class Lamp(Plain):
        on = False

        def switch(self) -> str:
            """Switch the lamp."""
            self.on = not self.on
            return "on" if self.on else "off"

        def reward(self):
            return float(self.on)

    answer = (as_completion if api[1] == "chat" else as_response)([("switch", "x")])
    _replace_arguments(answer, sent)
    model.script = [answer]
    monkeypatch.setenv("ENV_URL", url_of(Lamp))
    rows, output = rows_file(tmp_path, ROW), tmp_path / "rollouts.jsonl"
    status, printed, _ = play(*api, "--rows", rows, "--output", output)
    assert (status, printed[0]) == (0, "row 1: reward 1.0")
    [rollout] = load_rows(output)
    monkeypatch.setenv("REVERIFY", "1")
    assert client_of(Lamp).reward(ROW, rollout["response"]["output"]) == 1.0


def _replace_arguments(answer, sent):
    """Write `sent` as the arguments of all calls in a model's answer, or no arguments."""
    if isinstance(answer, list):
        for part in answer:
            _replace_arguments(part, sent)
    elif isinstance(answer, dict):
        if "arguments" in answer:
            answer["arguments"] = sent
        if sent == "left out":
            answer.pop("arguments", None)
        for part in answer.values():
            _replace_arguments(part, sent)


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
        {"output": None, "choices": [{"message": {"tool_calls": [{"function": {}}]}}]},
    ],
)
def test_an_answer_of_another_shape_fails_its_row(play, api, model, answer):
    model.script = [answer]
    status, printed, errors = play(*api, "--limit", "1")
    assert (status, printed) == (1, [])
    assert errors.startswith(f"row 1: failed: scripted at {model.url}/: ")
    assert errors.count("\n") == 2
    assert "validation error" not in errors


def test_a_model_that_is_cut_off_calls_no_tool(play, api, model, a_call, paths):
    answer = as_completion([a_call]) if api[1] == "chat" else as_response([a_call])
    answer["incomplete_details"] = {"reason": "max_output_tokens"}
    for choice in answer.get("choices", []):
        choice["finish_reason"] = "length"
    model.script = [answer]
    assert play(*api, "--limit", "1")[0] == 0
    assert len(model.requests) == 1
    assert f"/{a_call[0]}" not in paths


def test_without_responses_api_the_other_one_is_named(play, model):
    model.script = [404]
    status, printed, errors = play("--limit", "1")
    assert (status, printed) == (1, []) and "--api chat" in errors


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


@pytest.fixture
def camera(play, url_of, tmp_path, monkeypatch):
    """The arguments that play a class that answers with images, and the output file."""
    monkeypatch.setenv("ENV_URL", url_of(Camera))
    output = tmp_path / "rollouts.jsonl"
    return ["--rows", rows_file(tmp_path, ROW), "--output", str(output)], output


def test_the_model_sees_images(play, api, model, camera):
    arguments, output = camera
    model.script = [[("look", "{}"), ("look", "{}")]]
    assert play(*api, *arguments)[0] == 0

    request = model.requests[-1]
    *_, first, second, message = request.get("input") or request["messages"]
    for result in (first, second):  # the results come first, without the images
        assert "data:image" not in json.dumps(result)
    assert len(results(request)) == 2
    assert message["role"] == "user"
    images = [part for part in message["content"] if "image" in part["type"]]
    if api[1] == "chat":
        assert [image["image_url"]["url"] for image in images] == [PNG, PNG]
    else:
        shown = {"type": "input_image", "image_url": PNG, "detail": "auto"}
        assert images == [shown] * 2

    [episode] = load_rows(output)
    graded = [item.get("content") for item in episode["response"]["output"]]
    assert json.dumps(graded).count('"input_image"') == 2


def test_images_beyond_the_limit_are_not_verified(play, model, camera, monkeypatch):
    monkeypatch.setattr(types, "IMAGE_BYTES", 10)
    arguments, output = camera
    model.script = [[("look", "{}")]]
    assert play(*arguments)[0] == 0
    [episode] = load_rows(output)
    items = episode["response"]["output"]
    assert not any(item.get("role") == "user" for item in items)
    assert "function_call_output" in {item["type"] for item in items}


def test_the_temperature_is_the_users(play, api, model, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = [*api, "--limit", "1", "--output", path]
    assert play(*arguments, "--temperature", "0.25")[0] == 0
    assert model.requests[0]["temperature"] == 0.25
    [episode] = load_rows(path)
    assert episode["responses_create_params"]["temperature"] == 0.25
    status, printed, errors = play(*arguments, "--temperature", "1")
    assert (status, printed) == (1, [])
    assert "on these rows, temperature and seed as they are now" in errors
    assert play(*arguments, "--temperature", "0.25")[1] == ["mean reward: 0.0"]


def test_each_repeat_has_a_seed(play, model, rows, tmp_path):
    given = {
        **rows[0]["responses_create_params"],
        "metadata": {"extra_body": '{"a": 1}'},
    }
    row = {**rows[0], "responses_create_params": given}
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--api", "chat", "--repeats", "2", "--output", path]
    arguments += ["--rows", rows_file(tmp_path, row)]
    assert play(*arguments, "--seed", "7")[0] == 0
    requests = [(request["seed"], request["a"]) for request in model.requests]
    assert requests == [(7, 1), (8, 1)]
    assert not any("metadata" in request for request in model.requests)
    recorded = [
        json.loads(episode["responses_create_params"]["metadata"]["extra_body"])
        for episode in load_rows(path)
    ]
    assert recorded == [{"a": 1, "seed": 7}, {"a": 1, "seed": 8}]
    assert "temperature and seed as they are now" in play(*arguments, "--seed", "8")[2]


def test_a_row_without_a_place_for_a_seed(play, rows, tmp_path):
    given = {**rows[0]["responses_create_params"], "metadata": {"extra_body": "[]"}}
    row = {**rows[0], "responses_create_params": given}
    options = ["--api", "chat", "--seed", "7", "--rows", rows_file(tmp_path, row)]
    status, _, errors = play(*options)
    assert status == 1
    assert "row 1: metadata.extra_body must be a JSON object for --seed, got" in errors
