"""Data is neither code nor control of a terminal: names, columns, prompts, messages."""

import ast
import io
import json
import sys

import pytest
from env_runtime.checks.runner import report
from env_runtime.command_line import exit_status, printable
from env_runtime.errors import RolloutError
from env_runtime.evaluation.rows import load_rows, write_rows
from env_runtime.rows.choosing import Chooser
from env_runtime.rows.records import Record, read
from env_runtime.rows.source import class_source, rows_source

CODE = (
    'a"""; import os; os.abort(); """ \\" {x} {{y}} \\N{DASH} $name \n\r\0\x85\u2028b'
)
WIPE = "\x1b[2J\x1b]0;title\x07 \x9b1m\u202e\udc80"


def names_in(source):
    """The names that a module's code uses: data adds none."""
    tree = ast.parse(source)
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def sources(name, column, value="What?", answer="4", **options):
    records = [Record({column: value, "answer": answer}, "line 1")] * 2
    options = {"prompt": "", "expected": "answer", "grader": None, **options}
    plan = Chooser(records).choose(**options)
    title = f"Questions of {name}, with a grade."
    return class_source(plan, "Mine", title), rows_source(plan, name, name, {})


@pytest.mark.parametrize(
    "name", [CODE, '"""', "\\", 'x"', "'", "\\N", "{0}", "${name}"]
)
def test_the_name_of_a_dataset_is_text(name):
    plain = sources("data.jsonl", "question")
    for source, usual in zip(sources(name, "question"), plain, strict=True):
        assert names_in(source) == names_in(usual)
        assert "\r" not in source and source.encode()
    written = ast.parse(sources(name, "question")[1])
    assert name in (ast.get_docstring(written, clean=False) or "")


@pytest.mark.parametrize(
    "column", ['q"""uestion', 'a"; x="', "a\\", "a\nb", "a'b", "\x85"]
)
def test_a_column_and_a_prompt_are_text(column):
    usual = sources("data.jsonl", "question")[1]
    _, source = sources("data.jsonl", column, prompt=f'"""{{{column}}}\n\r\0\\')
    assert names_in(source) <= names_in(usual)
    values = [
        n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant)
    ]
    assert f'"""{{{column}}}\n\r\0\\' in values


@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_half_a_character_becomes_the_replacement_character(tmp_path, ending):
    path = tmp_path / f"data.{ending}"
    text = '{"question": "\\ud800 \\ud83d\\ude00 \\\\ud800", "\\udfff": [1.5, null]}'
    path.write_text(text if ending == "jsonl" else f"[{text}]")
    [record] = read(path)
    assert record == {"question": "\ufffd \U0001f600 \\ud800", "\ufffd": [1.5, None]}
    assert json.dumps(record, ensure_ascii=False).encode()


def test_a_command_prints_control_characters_as_escapes(capsys):
    def run():
        print(f"row 1: {WIPE}\tend")
        raise RolloutError(f"no {WIPE}")

    assert exit_status("rows", run) == 1
    printed = capsys.readouterr()
    escaped = "\\x1b[2J\\x1b]0;title\\x07 \\x9b1m\\u202e\\udc80"
    assert printed.out == f"row 1: {escaped}\tend\n"
    assert printed.err == f"rows: no {escaped}\n"


def test_a_gate_prints_control_characters_as_escapes(capsys):
    result = {"gate": "smoke", "passed": False, "weak": False, "seconds": 0.1}
    report([{**result, "detail": WIPE, "notes": [WIPE]}], as_json=False)  # type: ignore
    printed = capsys.readouterr().out
    assert printed.count("\\x1b[2J") == 2 and "\x1b" not in printed


def test_a_progress_bar_still_goes_back(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)

    def run():
        print("\r 5 records", end="", file=sys.stderr)
        return 0

    assert exit_status("rows", run) == 0
    assert stream.getvalue() == "\r 5 records"
    assert printable("a\rb\n") == "a\\rb\n"


def test_a_file_of_rows_is_utf_8_whatever_they_hold(tmp_path):
    """Half a character stays JSON's escape of it."""
    path, rows = tmp_path / "rows.jsonl", [{"text": "\ud800 \xe9 \\ud800"}]
    write_rows(path, rows)
    assert path.read_bytes().decode() == '{"text": "\\ud800 \xe9 \\\\ud800"}\n'
    assert load_rows(path) == rows
