"""The files that rollout.py writes and resumes."""

import json

import pytest
from env_runtime.evaluation.results import only_writer
from env_runtime.evaluation.rows import load_rows
from nemo_gym.openai_utils import NeMoGymResponse

from .strict_model import results
from .support import rows_file


def test_output_is_what_nemo_gym_writes(play, api, model, rows, a_call, tmp_path):
    path = tmp_path / "new folder" / "rollouts.jsonl"
    model.script = [[a_call], "I give up."]
    assert play(*api, "--limit", "1", "--output", str(path))[0] == 0
    [written] = load_rows(path)
    assert rows[0].items() <= written.items()
    assert (written["_ng_task_index"], written["_ng_rollout_index"]) == (0, 0)
    assert (written["reward"], written["agent_ref"]["name"]) == (0.0, "rollout.py")
    response = NeMoGymResponse.model_validate(written["response"])
    items = [
        getattr(item, "role", item.type)
        for item in response.output
        if item.type != "reasoning" and getattr(item, "role", "") != "user"
    ]
    if api[1] == "chat":
        assert items.pop(0) == "assistant"  # beside the call
    assert items == ["function_call", "function_call_output", "assistant"]
    assert (response.usage.input_tokens, response.usage.output_tokens) == (20, 2)
    # The results are those that the model read.
    seen = results(model.requests[-1])
    assert results({"input": written["response"]["output"]}) == seen


def test_output_is_resumed(play, model, rows, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--output", str(path)]
    play("--limit", "1", *arguments)
    first = path.read_text()
    better = {**json.loads(first), "reward": 0.5}
    path.write_text(json.dumps(better) + "\n" + first[:99])
    model.requests.clear()
    status, printed, errors = play("--limit", "2", *arguments)
    assert (status, printed) == (0, ["row 2: reward 0.0", "mean reward: 0.25"])
    assert errors == f"1 of 2 rows are in {path}\n"
    assert len(model.requests) == 1
    assert path.read_text().endswith("\n")
    assert [written["_ng_task_index"] for written in load_rows(path)] == [0, 1]
    model.requests.clear()
    assert play("--limit", "2", *arguments)[:2] == (0, ["mean reward: 0.25"])
    assert model.requests == []


def test_repeats_are_resumed(play, model, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--limit", "2", "--output", str(path)]
    assert play(*arguments)[0] == 0
    model.requests.clear()
    status, printed, errors = play(*arguments, "--repeats", "3")
    assert (status, errors) == (0, f"2 of 6 episodes are in {path}\n")
    assert printed == [
        *(f"row {row}, repeat {n}: reward 0.0" for row in (1, 2) for n in (2, 3)),
        "mean reward: 0.0",
    ]
    assert len(model.requests) == 4
    ids = [
        (written["_ng_task_index"], written["_ng_rollout_index"])
        for written in load_rows(path)
    ]
    assert ids == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    table = play.table
    assert (table["episodes"], table["rows"]) == ("6", "2")
    assert (table["pass@1"], table["pass@2"], table["pass@3"]) == ("0.000",) * 3
    # Fewer repeats than the file has.
    assert play(*arguments)[1:] == (
        ["mean reward: 0.0"],
        f"2 of 2 rows are in {path}\n",
    )


def test_the_table_before_the_mean(play, model, tmp_path, monkeypatch):
    monkeypatch.setenv("MAX_TURNS", "2")
    mistake = ("no_such_tool", "{}")
    model.script = [[mistake, mistake], [mistake], "I give up."]
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--limit", "2", "--output", str(path)]
    assert play(*arguments)[1] == [
        "row 1: reward 0.0 (out of turns: 2)",
        "row 2: reward 0.0",
        "mean reward: 0.0",
    ]
    table = play.table
    assert table == {
        "episodes": "2",
        "reward": "0.000 ± 0.000",
        "turns": "1.50",
        "tool calls": "1.50",
        "tool errors": "1.50",
        "out of turns": "1 (50%)",
        "input tokens": "15",
        "output tokens": "2",
    }
    assert [written["out_of_turns"] for written in load_rows(path)] == [True, False]
    # The same figures when nothing is left to play.
    assert play(*arguments)[1] == ["mean reward: 0.0"]
    assert play.table == table


def test_output_of_another_run_is_refused(play, rows, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    noop = ["--policy", "noop", "--limit", "1", "--output", str(path)]
    play(*noop)
    written = path.read_bytes()
    for arguments in (noop[2:], ["--policy", "oracle", *noop[2:]]):
        status, printed, errors = play(*arguments)
        assert (status, printed) == (1, [])
        assert f"{path}, line 1, is not a rollout of " in errors
        assert errors.count("\n") == 1
    changed = {**rows[0], "ground_truth": rows[1]["ground_truth"]}
    assert play(*noop, "--rows", rows_file(tmp_path, changed))[0] == 1
    assert path.read_bytes() == written


def test_two_runs_on_one_output(play, model, tmp_path):
    """Both would play the episodes that the other has not written yet."""
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--policy", "noop", "--limit", "1", "--output", str(path)]
    with only_writer(path):
        status, printed, errors = play(*arguments)
    assert (status, printed) == (1, [])
    assert f"another rollout.py or play.py writes to {path}" in errors
    assert play(*arguments)[0] == 0


def test_a_second_rollout_of_an_episode_is_refused(play, tmp_path):
    path = tmp_path / "rollouts.jsonl"
    arguments = ["--policy", "noop", "--limit", "1", "--output", str(path)]
    assert play(*arguments)[0] == 0
    path.write_text(2 * path.read_text())
    status, _, errors = play(*arguments)
    assert status == 1
    assert f"{path}, line 2, is a second rollout of row 1, repeat 1" in errors


@pytest.mark.parametrize("content", ["notes", "notes\n", '{"a": 1}', '{"a": 1}\n'])
def test_a_file_of_something_else_is_left_alone(play, tmp_path, content):
    path = tmp_path / "notes"
    path.write_text(content)
    status, printed, errors = play("--output", str(path))
    assert (status, printed) == (1, [])
    assert f"{path}" in errors
    assert path.read_text() == content
