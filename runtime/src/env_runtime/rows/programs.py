"""Datasets of programs with tests, such as HumanEval and MBPP: rows for a sandbox."""

import ast
import re
from collections.abc import Mapping
from typing import Any

from ..errors import RolloutError
from .examples import Example
from .fields import is_empty
from .records import Record

CODE, ASKED = ("code", "solution"), ("text", "prompt", "question")
BEFORE = ("test_setup_code", "test_imports")  # what MBPP's tests need
PROMPT = "Write the code in solution.py. Hidden tests call it; nothing else counts."


def tested_program(record: Mapping[str, Any]) -> Example | None:
    """The row of a program with tests, as HumanEval and MBPP have them, for a sandbox.

    None if its solution has no function that the tests call.
    """
    if "entry_point" in record:
        start, name = record["prompt"], record["entry_point"]
        rest = record["canonical_solution"]
        task = {
            "files": {"solution.py": start},
            "names": [name],
            "tests": f"{record['test']}\n\ncheck({name})",
            "reference": rest if functions_in(rest, f"{name}(") else f"{start}{rest}",
        }
        return Example(f"{PROMPT}\n\n{start}", task)
    code, asked = first_of(record, CODE), first_of(record, ASKED)
    parts = [record.get(name) or [] for name in BEFORE]
    before = [line for p in parts for line in ([p] if isinstance(p, str) else p)]
    tests = "\n".join([*before, *record["test_list"]])
    names = functions_in(code, tests)
    if not names:
        return None
    task = {"names": [*names], "tests": tests, "reference": code}
    return Example("\n\n".join([PROMPT, asked, *names.values()]), task)


def first_of(record: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first value that is not empty of the columns."""
    return next((v for n in names if not is_empty(v := record.get(n))), "")


def functions_in(source: Any, tests: str = "") -> dict[str, str]:
    """The functions of a program that tests call, and the first line of each.

    {} if the program cannot be read.
    """
    try:
        nodes = ast.parse(source).body
    except (SyntaxError, TypeError, ValueError):
        return {}
    found = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    return {
        node.name: f"def {node.name}({ast.unparse(node.args)}):"
        for node in found
        if re.search(rf"\b{node.name}\s*\(", tests)
    }


def _check_python(records: list[Record]) -> None:
    """Raise RolloutError for programs in another language, and for those without solutions."""
    for record in records:
        start, rest = record.get("prompt"), record.get("canonical_solution")
        named = str(record.get("language") or "python").casefold()
        wrong = "" if named.startswith("py") else f"its language is {named}"
        if not wrong and not isinstance(rest, str):
            wrong = f"canonical_solution is {rest!r:.80}"
        called = f"{record.get('entry_point')}("
        if not wrong and not (
            functions_in(rest, called) or functions_in(f"{start}{rest}", called)
        ):
            wrong = f"its solution has no function {called[:-1]} of Python"
        if wrong:
            raise RolloutError(
                f"{record.place}: {wrong}, and the sandbox takes programs in Python with a "
                "solution each: remove the others from the file"
            )


def check_programs(records: list[Record]) -> None:
    """Raise RolloutError for records that are no programs with tests."""
    first = records[0]
    if {"prompt", "test", "entry_point", "canonical_solution"} <= first.keys():
        return _check_python(records)
    if isinstance(first.get("test_list"), list) and all(
        first_of(first, names) for names in (CODE, ASKED)
    ):
        return None
    raise RolloutError(
        "a sandbox takes programs with tests: prompt, canonical_solution, test and entry_point "
        f"as HumanEval has them, or text, code and test_list as MBPP. There are "
        f"{', '.join(first)}"
    )
