"""Public datasets, as they are: each shape is right by one command, or is asked about."""

import contextlib
import json
import re
import runpy
import shlex
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from env_runtime.rows import read, responses_input
from env_runtime.rows.choosing import Chooser
from env_runtime.rows.plan import Unfit

from .shapes import COUNT, SHAPES, Shape
from .test_dataset_projects import written

__all__ = ["written"]
RIGHT = [name for name, shape in SHAPES.items() if not shape.asks]
ASKED = [name for name, shape in SHAPES.items() if shape.asks]


def source_of(shape: Shape) -> str:
    records = [shape.record(n) for n in range(COUNT)]
    path = Path("..", f"data.{shape.kind}")
    if shape.kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(records), path)
    else:
        path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return str(path)


@pytest.mark.parametrize("name", RIGHT)
def test_a_public_shape_is_right_by_one_command(written, name):
    shape = SHAPES[name]
    source = source_of(shape)
    printed = written(source, *shape.options)
    assert not printed.startswith("failed"), printed
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    kind = runpy.run_path("../quiz.py")["Quiz"]
    records = [*read(source)]
    made = [module["example"](record) for record in records]
    rows = [row for row in made if row]
    assert len(rows) >= 0.95 * COUNT
    first = json.dumps(responses_input(rows[0].prompt), ensure_ascii=False)
    text = first.replace("\\n", "\n").replace("\\\\", "\\")
    for part in shape.prompt:
        assert part in text
    for part in shape.without:
        assert part not in text
    if shape.solution:
        assert kind.oracle(rows[0].task) == shape.solution
    check_grades(kind, rows)
    # What the command shows is what the file makes.
    plan = Chooser(records).choose(*chosen(shape.options))
    planned = []
    for record in records:
        planned.append(None)
        with contextlib.suppress(Unfit):
            planned[-1] = plan.apply(record)
    assert planned == made


def chosen(options):
    given = dict(zip(options[::2], options[1::2], strict=True))
    return [given.get(f"--{name}", "") for name in ("prompt", "expected", "grader")]


def check_grades(kind, rows):
    """Each gold earns 1.0 in its row, and the golds of rows that differ earn nothing."""
    solutions = [kind.oracle(row.task) for row in rows]
    for row, solution in zip(rows, solutions, strict=True):
        others = [other for other in solutions if other != solution][:5]
        if isinstance(solution, str):
            assert kind(row.task).reward(solution) == 1.0
            assert not any(kind(row.task).reward(other) for other in others)
            continue
        for calls in [solution, *others]:
            episode = kind(row.task)
            for call in calls:
                episode.call_row_tool(*call)
            assert episode.reward() == float(calls is solution)


@pytest.mark.parametrize("name", ASKED)
def test_what_a_shape_does_not_tell_is_asked(written, name):
    shape = SHAPES[name]
    printed = written(source_of(shape), *shape.options)
    assert shape.asks in printed


DOUBTS = [
    "two golds",
    "an index that is never 0 or 4",
    "a passage or an explanation",
    "a claim, its facts and its rules",
]


@pytest.mark.parametrize("name", DOUBTS)
def test_a_doubt_has_the_commands_to_choose_from(written, name):
    printed = written(source_of(SHAPES[name]))
    start = r"(?ms)^  uv run python -m env_runtime\.rows (.*?)    # or copy with -d "
    commands = re.findall(start, printed)
    made = []
    for each in commands:
        assert not written(*shlex.split(each), "--overwrite").startswith("failed")
        made.append(Path("make_rows.py").read_text())
    assert len({*made}) == 2
    if "rules" in name:
        assert all("{rules}" in text and "{statement}" in text for text in made)


def test_a_cure_names_all_that_the_question_is_about(written):
    """WiC's two sentences."""
    printed = written(source_of(SHAPES["WiC"]))
    for name in ("sentence1", "sentence2"):
        assert f"{{{name}}}" in printed


@pytest.mark.parametrize("name", ["LegalBench", "ZebraLogic's grids", "Sudoku"])
def test_a_prompt_that_says_what_to_do_is_enough(written, name):
    shape = SHAPES[name]
    column = next(iter(shape.record(0)))
    asked = f"Solve, and answer with header and rows, or yes or no: {{{column}}}"
    assert "What earns 1.0" in written(source_of(shape), "--prompt", asked)


def test_a_record_that_does_not_fit_is_left_out_and_named(written):
    printed = written(source_of(SHAPES["MMLU"]))
    assert "1 of 40 left out, that do not fit" in printed
    assert "data.jsonl, line 26: the grader choice does not take" in printed
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    made = [module["example"](record) for record in read("../data.jsonl")]
    assert [n for n, row in enumerate(made) if row is None] == [25]


def test_too_many_records_that_do_not_fit_are_asked_about(written):
    def record(n):
        return SHAPES["MMLU"].record(n) | ({"answer": 9} if n % 10 == 0 else {})

    printed = written(source_of(Shape(record)))
    assert 'how record["answer"] names an option is not clear, such as 9 of' in printed
    assert "data.jsonl, line 1)" in printed


CLASSES = {
    "a label without a name": ({}, "label is one of 0, 1, 2, and nothing says what"),
    "a label with a name": (
        {"names": ["entailment", "neutral", "contradiction"], "_type": "ClassLabel"},
        "grader: choice (all 39 are one of 3 labels)",
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_labels_are_their_names_if_the_dataset_tells_them(written, name):
    feature, said = CLASSES[name]
    record = SHAPES["SNLI with numbers"].record
    records = [record(n) if n != 7 else record(n) | {"label": -1} for n in range(COUNT)]
    told = json.dumps({"info": {"features": {"label": feature}}})
    table = pyarrow.Table.from_pylist(records)
    table = table.replace_schema_metadata({"huggingface": told})
    pyarrow.parquet.write_table(table, "../data.parquet")
    if feature:
        assert said in written("../data.parquet")
        module = runpy.run_path(str(Path("make_rows.py").resolve()))
        made = [module["example"](record) for record in read("../data.parquet")]
        golds = [row.task["expected_answer"] for row in made if row]
        assert golds[:3] == feature["names"] and made[7] is None
    else:
        records[7]["label"] = 1
        pyarrow.parquet.write_table(
            pyarrow.Table.from_pylist(records), "../data.parquet"
        )
        assert said in written("../data.parquet")


@pytest.mark.parametrize("name", ["Countdown", "IFEval"])
def test_a_rule_gets_a_class_whose_grade_is_still_to_be_written(written, name):
    source = source_of(SHAPES[name])
    assert "Write reward(answer) and oracle(task) in quiz.py" in written(source)
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    [record, *_] = read(source)
    row = module["example"](record)
    assert row.task == record and row.prompt
    kind = runpy.run_path("../quiz.py")["Quiz"]
    with pytest.raises(NotImplementedError, match="write reward"):
        kind(row.task).reward("\\boxed{25}")


CODE = {
    "HumanEval": "def f3(x):\n    return x",
    "MBPP": "def f3(x): return x",
}


@pytest.mark.parametrize("name", ["HumanEval", "MBPP"])
def test_programs_with_tests_become_rows_of_a_sandbox(written, name):
    def record(n):
        code = {
            "code": f"def f{n}(x): return x",
            "test_list": [f"assert f{n}({n}) == {n}"],
        }
        return SHAPES[name].record(n) | (code if name == "MBPP" else {})

    Path("../quiz.py").write_text("class Quiz: ...\n")
    source = source_of(Shape(record))
    assert "looked at 40 programs with tests" in written(source, "--tests")
    assert Path("../quiz.py").read_text() == "class Quiz: ...\n"
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    row = module["example"]([*read(source)][3])
    assert row.task["names"] == ["f3"] and "f3(x):" in row.prompt
    assert row.task["reference"] == CODE[name]
    assert row.task["tests"] not in row.prompt and "assert" not in row.prompt


def test_a_sandbox_takes_no_questions(written):
    assert "a sandbox takes programs with tests" in written(
        source_of(SHAPES["SVAMP"]), "--tests"
    )


def test_records_by_their_ids_are_read(written):
    """PubMedQA's file is an object of records."""
    records = {f"r{n}": SHAPES["CLUTRR"].record(n) for n in range(COUNT)}
    Path("../data.json").write_text(json.dumps(records))
    assert "looked at 40 questions" in written("../data.json")
    ids = [record["id"] for record in read("../data.json")]
    assert ids == [*records]


def test_the_calls_of_a_chat_are_turns_of_the_assistant():
    """As ShareGPT writes them: the call is text, with a role of its own."""
    call = {"from": "function_call", "value": '{"name": "f", "arguments": {"x": 1}}'}
    messages = [
        {"from": "human", "value": "Call f."},
        call,
        {"from": "observation", "value": "2"},
    ]
    kinds = [each.get("type", "message") for each in responses_input(messages)]
    assert kinds == ["message", "function_call", "function_call_output"]
    with pytest.raises(ValueError, match="message 2 of the prompt"):
        responses_input([*messages[:1], {"from": "function_call", "value": "f(1)"}])
