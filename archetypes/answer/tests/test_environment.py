r"""Tests of the grader of the word problems, and of their rows."""

import pytest

from my_env import MyEnv as EnvironmentClass

FORMAT_CREDIT = EnvironmentClass.format_credit


def reward(answer, expected="3/4"):
    episode = EnvironmentClass({"expected_answer": expected})
    return episode.reward(answer)


def message(text):
    """A last message of the policy, as a trajectory has it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}
    return [{**item, "content": content}]


# ---------------------------------------------------------------------- the grader


@pytest.mark.parametrize(
    "boxed, earned",
    [
        ("3/4", 1.0),
        ("0.75", 1.0),
        (r"\frac{6}{8}", 1.0),
        ("0.7501", FORMAT_CREDIT),
        ("3", FORMAT_CREDIT),
        ("", 0.0),
        ("3/4, 7", 0.0),
        ("the answer is 3/4", 0.0),
    ],
)
def test_the_number_in_the_box_counts(boxed, earned):
    assert reward("First 7.\n\nSo it is $\\boxed{" + boxed + "}$.") == earned


def test_a_number_outside_of_a_box_earns_nothing():
    assert reward("The answer is 3/4.") == reward("") == 0.0


def test_a_list_of_candidates_earns_nothing():
    boxes = ["\\boxed{" + f"{number}/4" + "}" for number in range(1, 10)]
    assert reward(" ".join(boxes)) == reward(" ".join(boxes[::-1])) == 0.0
    assert reward(r"It is \boxed{3/4}, as said: \boxed{3/4}") == 1.0


@pytest.mark.parametrize("expected", ["", "x", "2^10", None])
def test_a_task_needs_a_number(expected):
    with pytest.raises(ValueError, match="a number such as 42"):
        EnvironmentClass({"expected_answer": expected})


def test_the_metric_is_whether_the_answer_has_the_format():
    episode = EnvironmentClass({"expected_answer": "3/4"})
    assert episode.metrics() == {"boxed": 0.0}
    episode.reward(r"\boxed{7}")
    assert episode.metrics() == {"boxed": 1.0}


# ---------------------------------------------------------------------- the server


def test_the_last_message_counts(connect, rows, verify):
    row = rows[0]
    right = EnvironmentClass.oracle(row["ground_truth"][0])
    for texts, expected in [
        (["Let me think.", right], 1.0),
        ([right, "That is it."], 0.0),
        ([], 0.0),
    ]:
        client = connect()
        client.post("/seed_session", json=row)
        output = [item for text in texts for item in message(text)]
        assert verify(client, row, output) == expected


def test_what_a_tool_returned_does_not_count(client, rows, verify):
    row = rows[0]
    right = EnvironmentClass.oracle(row["ground_truth"][0])
    client.post("/seed_session", json=row)
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": right}
    assert verify(client, row, [call, result]) == 0.0


# ---------------------------------------------------------------------- the rows


def test_an_answer_that_repeats_the_prompt_earns_nothing(rows):
    for row in rows:
        [prompt] = row["responses_create_params"]["input"]
        assert EnvironmentClass(row["ground_truth"][0]).reward(prompt["content"]) == 0.0


def test_no_number_of_a_prompt_is_its_answer(rows):
    for row in rows:
        [prompt] = row["responses_create_params"]["input"]
        for word in prompt["content"].replace("$", " ").replace("%", " ").split():
            answer = "\\boxed{" + word.strip(".,?") + "}"
            earned = EnvironmentClass(row["ground_truth"][0]).reward(answer)
            assert earned <= FORMAT_CREDIT, answer
