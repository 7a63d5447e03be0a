"""The files that rollout.py writes and resumes."""

import json

import pytest
from env_runtime.evaluation.command import only_writer
from env_runtime.evaluation.rows import load_rows
from nemo_gym.openai_utils import NeMoGymResponse

from .strict_model import results
from .support import rows_file


@pytest.fixture
def path(tmp_path):
    """The file of rollouts."""
    return tmp_path / "new folder" / "rollouts.jsonl"


def test_output_is_what_nemo_gym_writes(play, api, model, rows, a_call, path):
    model.script = [[a_call], "I give up."]
    assert play(*api, "--limit", "1", "--output", path)[0] == 0
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


def test_output_is_resumed(play, model, rows, path):
    arguments = ["--output", path]
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
    assert play("--limit", "2", *arguments)[:2] == (0, ["mean reward: 0.25"])
    assert len(model.requests) == 1


def test_repeats_are_resumed(play, model, path):
    arguments = ["--limit", "2", "--output", path]
    assert play(*arguments)[0] == 0
    model.requests.clear()
    status, printed, errors = play(*arguments, "--repeats", "3")
    note = "no attempt at rows 1, 2 differs: none passes, and GRPO learns nothing"
    assert status == 0
    assert errors == f"2 of 6 episodes are in {path}\nnote: {note}\n"
    assert printed == [
        *(f"row {row}, repeat {n}: reward 0.0" for row in (1, 2) for n in (2, 3)),
        "mean reward: 0.0",
    ]
    assert len(model.requests) == 4
    written = load_rows(path)
    ids = [(one["_ng_task_index"], one["_ng_rollout_index"]) for one in written]
    assert ids == [(0, 0), (1, 0), (0, 1), (0, 2), (1, 1), (1, 2)]
    figures = {"episodes": "6", "rows": "2"}
    figures |= {f"pass@{attempts}": "0.000" for attempts in (1, 2, 3)}
    assert figures.items() <= play.table.items()
    # Fewer repeats than the file has.
    resumed = f"2 of 2 rows are in {path}\n"
    assert play(*arguments)[1:] == (["mean reward: 0.0"], resumed)


def test_the_table_before_the_mean(play, model, path, monkeypatch):
    monkeypatch.setenv("MAX_TURNS", "2")
    mistake = ("no_such_tool", "{}")
    model.script = [[mistake, mistake], [mistake], "I give up."]
    arguments = ["--limit", "2", "--output", path]
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


def test_output_of_another_run_is_refused(play, rows, tmp_path, path):
    once = ["--limit", "1", "--output", path]
    play("--policy", "noop", *once)
    written = path.read_bytes()
    for arguments in (once, ["--policy", "oracle", *once]):
        assert f"{path}, line 1, is not a rollout of " in play.refused(*arguments)
    changed = {**rows[0], "ground_truth": rows[1]["ground_truth"]}
    play.refused("--policy", "noop", *once, "--rows", rows_file(tmp_path, changed))
    assert path.read_bytes() == written


def test_an_episode_is_written_once(play, path):
    """Two runs would play the episodes that the other has not written yet."""
    arguments = ["--policy", "noop", "--limit", "1", "--output", path]
    with only_writer(path):
        other = f"another rollout.py or play.py writes to {path}"
        assert other in play.refused(*arguments)
    assert not [*path.parent.iterdir()]  # nothing was played
    assert play(*arguments)[0] == 0
    assert [*path.parent.iterdir()] == [path]
    path.write_text(2 * path.read_text())
    second = f"{path}, line 2, is a second rollout of row 1, repeat 1"
    assert second in play.refused(*arguments)


@pytest.mark.parametrize("content", ["notes", "notes\n", '{"a": 1}', '{"a": 1}\n'])
def test_a_file_of_something_else_is_left_alone(play, path, content):
    path.parent.mkdir()
    path.write_text(content)
    assert f"{path}" in play.refused("--output", path)
    assert path.read_text() == content


def test_a_run_is_compared_with_an_earlier_one(play, path, tmp_path, rows):
    play("--policy=noop", "--output", path)
    status, lines, errors = play("--policy=oracle", "--against", path)
    assert (status, errors) == (0, "")
    assert f"changes from {path}:" in lines
    assert play.table[f"reward on {len(rows)} common rows"].startswith("+1.000 ± 0.000")
    numbers = ", ".join(str(n + 1) for n in range(len(rows))[:20])
    assert play.table["rows that pass now"].startswith(numbers)
    other = rows_file(tmp_path, {"reward": 1.0, "_ng_task_index": 10**6})
    assert (
        "has no rewards of these rows" in play("--policy=oracle", "--against", other)[2]
    )
