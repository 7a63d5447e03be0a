"""The rollout gate writes the golds of a dataset as people do, and tries other answers."""

import pytest
from env_runtime.checks.written import check_written
from env_runtime.errors import GateError
from env_runtime.graders import Choice, Number

NUMBERS = [{"expected_answer": str(n)} for n in (3, 14, 15, 92)]
CHOICES = [{"expected_answer": "B", "options": ["Lima", "Rome"]}] * 2


def grader(task):
    values = [
        task["expected_answer"],
        *([task["options"]] if "options" in task else []),
    ]
    return (Choice if "options" in task else Number)(*values)


def check(tasks, reward=lambda task, text: grader(task).reward(text), lists=9):
    asked = (
        "" if "options" not in tasks[0] else Choice.listed(tasks[0]["options"][:lists])
    )
    params = {"input": [{"role": "user", "content": f"Which one?\n{asked}"}]}
    rows = [
        {"responses_create_params": params, "ground_truth": [task]} for task in tasks
    ]
    solutions = {n: grader(task).solution() for n, task in enumerate(tasks)}
    return check_written(rows, solutions, lambda n, text: reward(tasks[n], text) == 1.0)


@pytest.mark.parametrize(("tasks", "others"), [(NUMBERS, 12), (CHOICES, 2)])
def test_honest_grades_pass(tasks, others):
    count = f"{others} other answers in {len(tasks)} rows"
    assert check(tasks) == f"\ngolds earn as people write them; {count} looked at"


def test_what_is_wrong_is_told():
    def strict(task, text):
        return float(text == grader(task).solution())

    with pytest.raises(
        GateError, match=r"row 1: the gold, written '.*answer is .*earns less"
    ):
        check(NUMBERS, strict)
    with pytest.raises(
        GateError, match="row 1: the gold of another row, '14', earns as much"
    ):
        check(NUMBERS, lambda task, text: 1.0)
    with pytest.raises(
        GateError, match="row 1: another option, 'A', earns as much as 'B'"
    ):
        check(CHOICES, lambda task, text: 1.0)


def test_a_prompt_without_an_option_is_told():
    with pytest.raises(
        GateError, match="row 1: the prompt does not have the option 'Rome'"
    ):
        check(CHOICES, lists=1)


def test_other_rows_are_left_alone():
    rows = [{"responses_create_params": {}, "ground_truth": [{"word": "x"}]}]
    assert check_written(rows, {0: "\\boxed{x}"}, lambda n, text: False) == ""
    tasks = [{"responses_create_params": {"input": []}, "ground_truth": [NUMBERS[0]]}]
    assert check_written(tasks, {0: "three"}, lambda n, text: False) == ""
