"""The class and the make_rows.py that `python -m env_runtime.rows` writes."""

import json
import runpy
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from env_runtime.graders import INSTRUCTIONS
from env_runtime.project import Project
from env_runtime.rows import __main__ as command
from env_runtime.rows import read, responses_input
from env_runtime.testing import without_answers

SETTINGS = """[tool.environment]
env_name = "quiz"
module = "quiz"
class = "Quiz"
"""
NUMBERS = range(12)


@pytest.fixture
def written(tmp_path, monkeypatch, capsys):
    """A function that runs the command in a new project, beside the dataset."""
    (tmp_path / "nemo_gym").mkdir()
    (tmp_path / "nemo_gym/pyproject.toml").write_text(SETTINGS)
    (tmp_path / "quiz.py").write_text("Quiz = object  # unfinished: it is written\n")
    monkeypatch.chdir(tmp_path / "nemo_gym")
    monkeypatch.setattr(command, "here", lambda: Project.read(tmp_path))

    def run(*arguments: str) -> str:
        status = command.main(list(arguments))
        printed = capsys.readouterr()
        return printed.out if status == 0 else f"failed: {printed.err}"

    return run


def lines(name, records):
    Path("..", name).write_text("".join(f"{json.dumps(each)}\n" for each in records))


def squad():
    def paragraph(n):
        answers = [{"text": f"Orm{n}", "answer_start": 1}] if n % 2 else []
        asked = {"id": n, "question": f"Which river has city {n}?", "answers": answers}
        return {"context": f"City {n} is at the Orm{n}.", "qas": [asked]}

    articles = [{"title": f"T{n}", "paragraphs": [paragraph(n)]} for n in NUMBERS]
    Path("../data.json").write_text(json.dumps({"version": "1", "data": articles}))


def chat():
    messages = [
        [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": f"What is {n} + {n}?"},
            {"role": "assistant", "content": str(2 * n)},
        ]
        for n in NUMBERS
    ]
    table = pyarrow.Table.from_pylist([{"messages": each} for each in messages])
    pyarrow.parquet.write_table(table, "../data.parquet")


def choices():
    rows = ["question,A,B,C,D,answer"]
    for n in NUMBERS:
        first, second, answer = (f"it is {n}", "x", "A")
        if n % 2:
            first, second, answer = ("x", f"it is {n}", "B")
        rows.append(f"Which is {n}?,{first},{second},y,z,{answer}")
    Path("../data.csv").write_text("\n".join(rows))


def calls():
    about = {"town": {"type": "str"}, "days": {"type": "int, optional"}}
    tools = json.dumps([{"name": "weather", "parameters": about}])
    lines(
        "data.jsonl",
        [
            {
                "query": f"Weather in {n}?",
                "tools": tools,
                "answers": json.dumps([{"name": "weather", "arguments": {"town": n}}]),
            }
            for n in map(str, NUMBERS)
        ],
    )


def records(**columns):
    """A file whose columns are functions of the record's number."""

    def write():
        lines("data.jsonl", [{k: of(n) for k, of in columns.items()} for n in NUMBERS])

    return write


def question(n):
    return f"What is {n}?"


def texts(n):
    return [f"it is {n}", f"it is not {n}", "neither"]


LONG = "It takes a while to say why, because there is so much that one has to know. "

# A dataset, options of the command, what it prints, and the solution of the first record
CASES = {
    "numbers": (
        records(question=question, answer=lambda n: n, level=str),
        [],
        ["prompt: '{question}'", "grader: number", "left out: level"],
        r"\boxed{0}",
    ),
    "a number behind ####": (
        records(problem=question, solution=lambda n: f"{LONG}\n#### {n},000"),
        [],
        ["prompt: '{problem}'", r"expected: solution=####\s*(.+)", "grader: number"],
        r"\boxed{0,000}",
    ),
    "a pattern": (
        records(a=question, b=lambda n: f"x{n}y"),
        ["--prompt", "Q: {a}", "--expected", r"b=x(\d+)y", "--grader", "number"],
        ["prompt: 'Q: {a}' (as asked)", "grader: number (as asked)"],
        r"\boxed{0}",
    ),
    "options in columns": (choices, [], ["options: A, B, C, D"], r"\boxed{A}"),
    "an option by its number": (
        records(question=question, choices=texts, answer=lambda n: n % 3),
        [],
        ["the number of an option, from 0", "grader: choice"],
        r"\boxed{A}",
    ),
    "an option by its number from 1": (
        records(question=question, choices=texts, label=lambda n: str(n % 3 + 1)),
        [],
        ["the number of an option, from 1"],
        r"\boxed{A}",
    ),
    "an option by its label": (
        records(
            question=question,
            choices=lambda n: {"text": texts(n), "label": ["1", "2", "3"]},
            answerKey=lambda n: str(3 - n % 3),
        ),
        [],
        ["the label of an option"],
        r"\boxed{C}",
    ),
    "an empty question is left out": (
        records(question=lambda n: question(n) if n != 3 else "", answer=str),
        [],
        ["1 of 12 left out, without question\n"],
        r"\boxed{0}",
    ),
    "no question is left out": (
        records(
            context=lambda n: f"City {n}." if n != 3 else None,
            question=question,
            answer=str,
        ),
        [],
        ["1 of 12 left out, without context or question\n"],
        r"\boxed{0}",
    ),
    "Alpaca's input may be empty": (
        records(
            input=lambda n: f"On day {n} of it." if n % 2 else "",
            instruction=question,
            output=str,
        ),
        [],
        ["Input: {input}\\n\\nInstruction: {instruction}"],
        r"\boxed{0}",
    ),
    "numbers but for one": (
        records(question=question, answer=lambda n: "n/a" if n == 3 else n),
        [],
        ["grader: text (11 of 12 are numbers, but not 'n/a': --grader number leaves"],
        r"\boxed{0}",
    ),
    "an answer that is not a number is left out": (
        records(question=question, answer=lambda n: "n/a" if n == 3 else n),
        ["--grader", "number"],
        ["grader: number (as asked; 1 of 12 left out, such as 'n/a')"],
        r"\boxed{0}",
    ),
    "an answer that says there is none is left out": (
        records(
            question=question, answer=lambda n: "proof" if n == 3 else f"{n + 7}/9"
        ),
        [],
        ["1 of 12 left out, without answer\n", "grader: number (all 11 are numbers)"],
        r"\boxed{7/9}",
    ),
    "a match that is not a number is left out": (
        records(question=question, answer=lambda n: f"#### {n if n != 3 else 'none'}"),
        ["--grader", "number"],
        ["1 of 12 left out, such as 'none'"],
        r"\boxed{0}",
    ),
    "labels": (
        records(
            text=lambda n: f"{question(n)} Is that good or bad?",
            label=lambda n: ["bad", "good"][n % 2],
        ),
        [],
        ["grader: choice (all 12 are one of 2 labels)"],
        r"\boxed{A}",
    ),
    "columns that only look like options": (
        records(question=question, answer=str, answer_1=str, a=str, b=str),
        ["--grader", "number"],
        ["left out: answer_1, a, b"],
        r"\boxed{0}",
    ),
    "numbers in columns like options": (
        records(question=question, a=str, b=str, answer=lambda n: 2 * n + 1),
        [],
        ["grader: number", "left out: a, b"],
        r"\boxed{1}",
    ),
    "the only other column is the answer": (
        records(id=str, question=question, result=lambda n: f"Lake {n}"),
        [],
        ["expected: result (the only other column)", "grader: text"],
        r"\boxed{Lake 0}",
    ),
    "a prompt over columns like options": (
        records(a=str, b=str, sum=lambda n: 2 * n),
        ["--prompt", "What is {a} + {b}?", "--expected", "sum"],
        ["grader: number"],
        r"\boxed{0}",
    ),
    "an answer that is a column of the prompt": (
        records(a=str, b=lambda n: str(n + 1), more=lambda n: str(n + 1)),
        ["--prompt", "Which is more, {a} or {b}?", "--expected", "more"],
        ["grader: number"],
        r"\boxed{1}",
    ),
    "a letter in a list": (
        records(question=question, options=texts, answer=lambda n: ["ABC"[n % 3]]),
        [],
        ["grader: choice"],
        r"\boxed{A}",
    ),
    "a column without braces": (
        records(q=question, answer=lambda n: f"0{n}1"),
        ["--prompt", "q"],
        ["prompt: '{q}'", "grader: text"],
        r"\boxed{001}",
    ),
    "the only other column": (
        records(
            id=str,
            riddle=lambda n: f"Is it {n}?",
            answer=lambda n: "yes" if n else "no",
        ),
        [],
        ["prompt: '{riddle}'", "11 of 12 answers are 'yes'"],
        r"\boxed{A}",
    ),
    "lists of numbers": (
        records(question=question, answer=lambda n: [n, n + 1]),
        [],
        ["grader: json"],
        "[\n 0,\n 1\n]",
    ),
    "a name of more than two bytes": (
        records(**{"\U0001f5e8": lambda n: [{"question": question(n), "answer": n}]}),
        [],
        ["in \U0001f5e8", "grader: number"],
        r"\boxed{0}",
    ),
    "messages in parts": (
        records(
            messages=lambda n: [
                {"role": "user", "content": [{"type": "text", "text": question(n)}]},
                {"role": "assistant", "content": f"{n}"},
            ]
        ),
        [],
        ["grader: number"],
        r"\boxed{0}",
    ),
    "texts": (
        records(question=question, answers=lambda n: [f"Lake {n}", f"the {n}"]),
        [],
        ["grader: text"],
        r"\boxed{Lake 0}",
    ),
    "SQuAD": (
        squad,
        [],
        ["in paragraphs.qas", "{context}\\n\\nQuestion: {question}", "left out: title"],
        r"\boxed{Orm1}",
    ),
    "messages": (chat, [], ["the assistant's last message"], r"\boxed{0}"),
    "ShareGPT": (
        records(
            conversations=lambda n: [
                {"from": "human", "value": question(n)},
                {"from": "gpt", "value": f"{LONG} \\boxed{{{n}}}"},
            ]
        ),
        [],
        ["grader: number"],
        r"\boxed{0}",
    ),
    "objects": (
        records(
            text=lambda n: f"What is {n}? Answer with keys n and of.",
            output=lambda n: {"n": n, "of": [n]},
        ),
        [],
        ["grader: json"],
        '{\n "n": 0,\n "of": [\n  0\n ]\n}',
    ),
    "calls": (calls, [], ["grader: calls"], [("weather", {"town": "0"})]),
    "a judge": (
        records(question=question, answer=lambda n: f"{LONG}{n}"),
        ["--grader", "judge"],
        ["grader: judge (as asked)"],
        f"{LONG}0",
    ),
    "NeMo Gym's rows": (
        records(
            responses_create_params=lambda n: {
                "input": f"{question(n)} Use \\boxed{{}}."
            },
            expected_answer=str,
        ),
        [],
        ["the rows are NeMo Gym's", "grader: number"],
        r"\boxed{0}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_dataset_becomes_an_environment(written, name):
    write, options, said, solution = CASES[name]
    write()
    [source] = Path("..").glob("data.*")
    printed = written(str(source), *options)
    for text in said:
        assert text in printed
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    assert module["SOURCE"].resolve() == source.resolve()
    kind = runpy.run_path("../quiz.py")["Quiz"]
    made = [module.get("examples", module["example"])(each) for each in read(source)]
    if "examples" in module:
        made = [row for rows in made for row in rows]
    if name == "SQuAD":
        assert len(made) == 6  # the others have no answer
    if "left out" in name:
        assert made.pop(3) is None
    tasks = [row if isinstance(row, dict) else row.task for row in made]
    if name != "NeMo Gym's rows":
        content = responses_input(made[0].prompt)[-1]["content"]
        assert isinstance(content, list) == (name == "messages in parts")
        asks_for_a_box = str(solution).startswith("\\boxed")
        assert (
            str(content).endswith(INSTRUCTIONS)
            or isinstance(content, list)
            or not asks_for_a_box
        )
        assert "boxed" in str(content) or not asks_for_a_box
    assert kind.oracle(tasks[0]) == solution
    for task in tasks if name != "a judge" else []:
        episode = kind(task)
        for _ in solution if name == "calls" else []:
            episode.call_row_tool(*kind.oracle(task)[0])
        given = [] if name == "calls" else [kind.oracle(task)]
        assert episode.reward(*given) == 1.0
        assert kind(task).reward(*([""] if given else [])) == 0.0


@pytest.mark.parametrize(
    ("columns", "options", "complaint"),
    [
        ({"a": question, "b": str}, [], "use a file that has them\nColumns:\n  a: What is 0?\n  b: 0\n"),
        ({"question": question, "by": str, "at": str}, [], "use a file that has them\nColumns:\n  question: What is 0? (prompt)\n  by: 0\n  at: 0\n"),
        ({"question": question, "answer": lambda n: LONG}, [], "they have 17 words (the median), such as 'It takes a while"),
        ({"question": question, "answer": str}, ["--prompt", "{q}"], "the prompt '{q}' names 'q', and the columns are question, answer"),
        ({"q.text": question, "answer": str}, ["--prompt", "{q.text}"], "no template can name the column 'q.text': rename it"),
        ({"question": question, "answer": str}, ["--prompt", "{question"], "the prompt '{question' is not a template"),
        ({"question": question, "answer": str}, ["--expected", "b"], "expected names 'b', and the columns are question, answer"),
        ({"question": question, "answer": str}, ["--expected", "answer=#("], "expected has a wrong pattern '#('"),
        ({"question": question, "answer": str}, ["--expected", "answer=#"], "it needs one group"),
        ({"question": question, "answer": str}, ["--expected", "answer=# (.*)"], "no record has an answer in record[\"answer\"] that fits '# (.*)'"),
        ({"question": question, "answer": str}, ["--grader", "choice"], "the grader choice needs a column `options`"),
        ({"question": question, "answer": str}, ["--grader", "calls"], "the grader calls needs a column `tools`"),
        ({"question": question, "choices": texts, "answer": lambda n: "none"}, [], "how record[\"answer\"] names an option is not clear, such as 'none'"),
        ({"question": question, "choices": texts, "answer": lambda n: 1}, [], "names an option is not clear, such as 1"),
        ({"question": question, "answer": question}, ["--grader", "number"], "the grader number needs numbers, and none of 12 answers is one, such as 'What is 0?'"),
        ({"question": question, "answer": str}, ["--splits", "train"], "splits are like train=train.jsonl"),
        ({"question": question, "answer": str}, ["--splits", "tests=x"], "splits are like train=train.jsonl"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_asked_for(written, columns, options, complaint):
    records(**columns)()
    assert complaint in written("../data.jsonl", *options)
    assert "unfinished" in Path("../quiz.py").read_text()
    assert not Path("make_rows.py").exists()


def test_a_class_of_ones_own_gets_the_options_and_no_box(written):
    Path("../quiz.py").write_text("class Quiz: ...\n")
    choices()
    printed = written("../data.csv")
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    made = [module["example"](record) for record in read("../data.csv")]
    assert made[0].prompt == "Which is 0?\n\nA. it is 0\nB. x\nC. y\nD. z"
    assert "boxed" not in printed.partition("What earns")[0]


def test_every_record_counts_not_only_the_first_thousand(written):
    """The plan is of the first 1,000, and all that do not fit are left out, or too many."""

    def write(count, odd):
        found = [{"question": question(n), "answer": n + 1} for n in range(count)]
        lines("data.jsonl", [*found, *odd])

    write(1500, [{"question": question(n), "answer": "many"} for n in range(100)])
    printed = written("../data.jsonl")
    assert "only 1500 of 1600 records fit the grader number" in printed
    assert "data.jsonl, line 1501: the grader number does not take 'many'" in printed
    assert not Path("make_rows.py").exists()
    write(1500, [{"question": "Why?", "answer": "many"}, {"question": "Why not?"}] * 20)
    printed = written("../data.jsonl")
    assert "20 of 1540 left out, that do not fit" in printed
    assert "20 of 1540 left out, without answer\n" in printed
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    made = [module["example"](record) for record in read("../data.jsonl")]
    assert all(made[:1500]) and not any(made[1500:])


@pytest.mark.parametrize("nested", [False, True])
def test_a_record_without_an_answer_is_left_out_and_named_by_its_place(written, nested):
    found = [{"question": question(n), "answer": n} for n in NUMBERS]
    del found[7]["answer"]
    lines("data.jsonl", [{"parts": [each]} for each in found] if nested else found)
    printed = written("../data.jsonl")
    assert "1 of 12 left out, without answer\n" in printed
    assert "data.jsonl, line 8\n" in printed and "grader: number" in printed
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    made = [module["example"](each) for each in found]
    assert [n for n, row in enumerate(made) if row is None] == [7]


def test_files_that_are_finished_stay(written):
    records(question=question, answer=str)()
    assert "is there and stays" not in written("../data.jsonl")
    before = Path("../quiz.py").read_text(), Path("make_rows.py").read_text()
    records(question=question, answer=lambda n: f"Lake {n}")()
    printed = written("../data.jsonl")
    assert "quiz.py is there and stays: --overwrite replaces it" in printed
    assert before == (Path("../quiz.py").read_text(), Path("make_rows.py").read_text())
    written("../data.jsonl", "--overwrite")
    assert "Text(" in Path("../quiz.py").read_text()


@pytest.mark.parametrize("home", [False, True])
def test_a_path_stays_as_it_was_given(written, tmp_path, monkeypatch, home):
    records(question=question, answer=str)()
    monkeypatch.setenv("HOME", str(tmp_path))
    written("~/data.jsonl" if home else str(tmp_path / "data.jsonl"))
    text = Path("make_rows.py").read_text()
    shown = '"~/data.jsonl").expanduser()' if home else f'"{tmp_path}/data.jsonl")'
    assert f"SOURCE = Path({shown}" in text
    found = runpy.run_path(str(Path("make_rows.py").resolve()))["SOURCE"]
    assert found == tmp_path / "data.jsonl"


@pytest.mark.parametrize("grader", ["number", "text", "json", "calls"])
def test_a_class_may_be_called_like_its_grader(written, tmp_path, grader):
    name = grader.capitalize()
    settings = tmp_path / "nemo_gym/pyproject.toml"
    settings.write_text(SETTINGS.replace('"Quiz"', f'"{name}"'))
    tools = [{"name": "look"}]
    records(question=question, answer=str, tools=lambda n: tools)()
    written("../data.jsonl", "--grader", grader)
    kind = runpy.run_path("../quiz.py")[name]
    task = {"expected_answer": [] if grader == "calls" else "7"}
    given = [] if grader == "calls" else [kind.oracle(task)]
    assert kind(task).reward(*given) == 1.0


def test_a_class_of_ones_own_stays_and_its_prompt_names_no_box(written):
    Path("../quiz.py").write_text("class Quiz: ...\n")
    records(question=question, answer=lambda n: str(n) if n % 2 else "")()
    assert "quiz.py is there and stays" in written("../data.jsonl")
    assert Path("../quiz.py").read_text() == "class Quiz: ...\n"
    module = runpy.run_path(str(Path("make_rows.py").resolve()))
    made = [module["example"](each) for each in read("../data.jsonl")]
    assert made[0] is None  # it has no answer
    assert made[1].prompt == question(1)


def test_splits_are_files_of_a_folder(written):
    Path("../parts").mkdir()
    for number, name in enumerate("ab"):
        row = {"question": question(number), "answer": str(number)}
        lines(f"parts/{name}.jsonl", [row])
    written("../parts", "--splits", "train=b.jsonl, test=a.jsonl")
    source = runpy.run_path(str(Path("make_rows.py").resolve()))["SOURCE"]
    assert {split: [r["answer"] for r in read(source, split)] for split in source} == {
        "train": ["1"],
        "test": ["0"],
    }


def test_the_judge_of_a_dataset_has_a_stand_in(written):
    records(question=question, answer=lambda n: f"{LONG}{n}")()
    written("../data.jsonl", "--grader", "judge")
    kind = runpy.run_path("../quiz.py")["Quiz"]
    assert not without_answers(kind)
    rules = kind({"question": "Why?", "expected_answer": "So."}, None)._rules
    assert kind.stand_in("judge", f"{rules}\n\nSo.") == "RIGHT"
    assert kind.stand_in("judge", f"{rules}\n\nNo.") == "WRONG"
