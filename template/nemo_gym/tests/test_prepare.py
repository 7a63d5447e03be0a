"""Training data: the splits, and rows that no trainer could use."""

import json

import pytest

import prepare


def numbered(count):
    return [{"number": number} for number in range(count)]


def test_held_out_rows_are_not_trained_on():
    train, validation = prepare.hold_out(numbered(50), 0.2)
    assert len(validation) == 10
    assert sorted(row["number"] for row in train + validation) == list(range(50))
    assert [row["number"] for row in validation] != list(range(10)), "not the first"
    assert prepare.hold_out(numbered(50), 0.2) == (train, validation)


def test_at_least_one_row_is_held_out():
    assert [len(split) for split in prepare.hold_out(numbered(3), 0.1)] == [2, 1]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"ground_truth": []}, "ground_truth: List should have at least 1 item"),
        ({"ground_truth": ["Solved."]}, "ground_truth.0: Input should be an object"),
        (
            {"responses_create_params": {}},
            "responses_create_params.input: Field required",
        ),
        ({"responses_create_params": {"input": [], "tool": 1}}, "tool"),
    ],
)
def test_a_row_that_is_no_task_is_named(rows, tmp_path, capsys, change, complaint):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(rows[0]) + "\n\n" + json.dumps({**rows[0], **change}))
    assert prepare.main([str(path)]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"prepare.py: {path}, line 3: ")
    assert complaint in printed
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize("line", ["", "{}", "[1]", "{"])
def test_too_little_is_an_error(tmp_path, capsys, line):
    path = tmp_path / "rows.jsonl"
    path.write_text(line)
    assert prepare.main([str(path)]) == 1
    assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize("share", ["0", "1", "x", "-1"])
def test_a_share_lies_between_0_and_1(capsys, share):
    with pytest.raises(SystemExit):
        prepare.main([f"--hold-out={share}"])
    assert f"{share!r} is no number between 0 and 1" in capsys.readouterr().err
