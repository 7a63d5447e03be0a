r"""Tests of the grader of the word problems, and of their rows."""

import time

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
    "expected, boxed",
    [
        ("42", "42"),
        ("42", " 42.0 "),
        ("42", r"42\text{ km}"),
        ("42", r"42\%"),
        ("-42", "-42"),
        ("-42", "\N{MINUS SIGN}42"),
        ("1250", "1,250"),
        ("1250", "1{,}250"),
        ("1250", r"1\,250"),
        ("1250.75", "1,250.75"),
        ("12.50", "12.5"),
        ("12.50", r"\$12.50"),
        ("12.50", "25/2"),
        ("3/4", "0.75"),
        ("3/4", r"\frac{3}{4}"),
        ("3/4", r"\dfrac{6}{8}"),
        ("3/4", r"\frac34"),
        ("-3/4", r"-\frac{3}{4}"),
        ("-3/4", r"\frac{-3}{4}"),
        ("5/2", r"2\frac{1}{2}"),
        ("1/3", "0.333333"),
        ("123456789012", "123,456,789,012"),
    ],
)
def test_the_expected_number_earns_one(expected, boxed):
    answer = "First 7, then 8.\n\nSo it is $\\boxed{" + boxed + "}$."
    assert reward(answer, expected) == 1.0


@pytest.mark.parametrize("boxed", ["7", "0.7", "0.7501", "3", r"\frac{4}{3}", "34"])
def test_another_number_earns_the_credit_for_the_format(boxed):
    assert reward("\\boxed{" + boxed + "}") == FORMAT_CREDIT


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "nonsense text",
        "3/4",
        "The answer is 3/4.",
        "$0.75$",
        r"Use \boxed{} only once.",
        r"\boxed{ }",
        r"\boxed{3/4",
        r"\boxed 3/4",
        r"\boxed{the answer is 3/4}",
        r"\boxed{3/4, 7}",
        r"\boxed{3/4 \text{ or } 7}",
        r"\boxed{3/4 or 4/3}",
        r"\boxed{[0, 1]}",
        r"\boxed{x = 3/4}",
        r"\boxed{1 - 1/4}",
        r"\boxed{\frac{1}{4} + \frac{1}{2}}",
        r"\boxed{3/0}",
        r"\boxed{\boxed{3/4}}",
        r"\boxed{\infty}",
    ],
)
def test_anything_but_one_number_in_a_box_earns_nothing(answer):
    assert reward(answer) == 0.0


def test_a_list_of_candidates_earns_nothing():
    boxes = ["\\boxed{" + f"{number}/4" + "}" for number in range(1, 10)]
    for candidates in (boxes, boxes[::-1], boxes[:3]):
        assert reward(" ".join(candidates)) == 0.0
    assert reward(r"\boxed{3/4} \boxed{x}") == 0.0
    assert reward(r"\boxed{3/4} \boxed{7") == 0.0
    assert reward(r"It is \boxed{3/4}, as said: \boxed{3/4}") == 1.0


@pytest.mark.parametrize(
    "hostile",
    [
        "10**10**10",
        "10^{10^{10}}",
        "9^{9^{9^{9^9}}}",
        "99999999!!!!",
        r"\sum_{n=1}^{10^{12}} \frac{1}{n}",
        r"\int_0^1 x^{x^{x}} dx",
        "(" * 10_000,
        "{" * 100_000,
        "9" * 1_000_000,
        "1," * 500_000,
        r"\frac{1}{" * 10_000,
        r"\boxed{" * 50_000,
        r"\boxed{\text{a}" * 50_000,
        "1 " * 500_000,
        "-" + " " * 500_000 + "1x",
        "1" + " " * 500_000 + "1",
    ],
)
def test_hostile_answers_cost_no_time(hostile):
    start = time.process_time()
    for answer in (hostile, "\\boxed{" + hostile, "\\boxed{" + hostile + "}"):
        assert reward(answer) == 0.0
    assert time.process_time() - start < 5


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


def test_the_oracle_solves_every_row(rows):
    for row in rows:
        task = row["ground_truth"][0]
        assert EnvironmentClass(task).reward(EnvironmentClass.oracle(task)) == 1.0


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
