"""Datasets of programs with tests, such as HumanEval and MBPP: rows for a sandbox."""

import ast
import re
from typing import Any

from ..errors import RolloutError
from .fields import is_empty
from .records import Record

PROMPT = "Write the code in solution.py. Hidden tests call it; nothing else counts."

_HUMAN_EVAL = '''def example(record: Record) -> Example | None:
    """The row of a record. None leaves it out."""
    start, name = record["prompt"], record["entry_point"]
    task = {{
        "files": {{"solution.py": start}},
        "names": [name],
        "tests": f"{{record['test']}}\\n\\ncheck({{name}})",
        "reference": {reference},
    }}
    return Example(f"{{PROMPT}}\\n\\n{{start}}", task)'''

_MBPP = '''def example(record: Record) -> Example | None:
    """The row of a record. None leaves it out."""
    tests = "\\n".join({tests})
    names = functions_in(record[{code}], tests)
    if not names:
        return None
    task = {{"names": [*names], "tests": tests, "reference": record[{code}]}}
    parts = [PROMPT, record[{prompt}], *names.values()]
    return Example("\\n\\n".join(parts), task)'''


def functions_in(source: str, tests: str = "") -> dict[str, str]:
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


def example_source(records: list[Record]) -> str:
    """The function example() for programs with tests. Raises RolloutError."""
    first = records[0]

    def named(*names: str) -> str:
        return next((name for name in names if not is_empty(first.get(name))), "")

    if {"prompt", "test", "entry_point", "canonical_solution"} <= first.keys():
        _check_python(records)
        whole = functions_in(first["canonical_solution"], f"{first['entry_point']}(")
        reference = 'record["canonical_solution"]'
        return _HUMAN_EVAL.format(
            reference=reference if whole else f"start + {reference}"
        )
    code, prompt = named("code", "solution"), named("text", "prompt", "question")
    if isinstance(first.get("test_list"), list) and code and prompt:
        parts = ['*record["test_list"]']
        for name in ("test_imports", "test_setup_code"):
            if name in first:
                star = "*" * isinstance(first[name], list)
                parts.insert(0, f'{star}record["{name}"]')
        quoted: dict[str, Any] = {"code": f'"{code}"', "prompt": f'"{prompt}"'}
        return _MBPP.format(tests=f"[{', '.join(parts)}]", **quoted)
    raise RolloutError(
        "a sandbox takes programs with tests: prompt, canonical_solution, test and entry_point "
        f"as HumanEval has them, or text, code and test_list as MBPP. There are "
        f"{', '.join(first)}"
    )
