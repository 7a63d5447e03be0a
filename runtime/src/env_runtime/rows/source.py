"""The files of an environment over a dataset, written from a plan."""

import json
from dataclasses import fields
from pathlib import Path as File
from typing import Any

from .plan import Columns, Options, Path
from .records import part_of

_TEXT = 'Text(task["expected_answer"])'


def class_source(plan: Columns, name: str, title: str) -> str:
    """The module of the class `name`."""
    grading, key = plan.grading, quoted(plan.key)
    file = File(__file__).parent / f"classes/{grading.module}.py"
    text = file.read_text(encoding="utf-8")
    expected = [f"task[{key}]", *(['task["options"]'] if plan.options else [])]
    said = grading.says
    prefix = "r" * ("\\" in said)
    replaced = {
        '"""Questions of a dataset, with a grade."""': f'"""{quoted(title)[1:-1]}"""',
        "from ... import": "from env_runtime import",
        "class DomainClass": f"class {name}",
        _TEXT: grading.source(*expected),
        'r"""One question. The last message has the answer in \\boxed{}."""': (
            f'{prefix}"""One question. The last message has {said}."""'
        ),
        'task["expected_answer"]': f"task[{key}]",
    }
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


_MAKE_ROWS = '''"""Make rows of {title} for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train N] [--validation N]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. This file is yours: change what a record becomes.
"""

{imports}

{source}
EXAMPLES = 30  # the most rows in data/example.jsonl

# A function that takes a record, and returns an Example or None, may stand in its place.
example = {example}
{more}

if __name__ == "__main__":
    sys.exit(from_dataset({function}, SOURCE, EXAMPLES, __doc__))
'''


def rows_source(
    plan: Columns, title: str, place: str, splits: dict[str, str], example: str = ""
) -> str:
    """The text of make_rows.py.

    `place` is the dataset's, from the file's folder or on the Hub. `splits` has the part
    of it for each of ours, if they are named. `example` is the function that makes a row of a
    record, if it is not the plan.
    """
    written = example or called(plan)
    names = {"from_dataset", example or "Columns"} - {"dict"}
    if "Options(" in written:
        names.add("Options")
    lines = ["import sys"]
    if not place.startswith("hf:"):
        lines.append("from pathlib import Path")
    listed = ", ".join(sorted(names, key=lambda name: (name.islower(), name)))
    lines += ["", f"from env_runtime.rows import {listed}"]
    more = "examples = example.each  # a record has several questions\n" * bool(
        plan.lists
    )
    return _MAKE_ROWS.format(
        title=quoted(title)[1:-1],
        imports="\n".join(lines),
        source="\n".join(_source(place, splits)),
        example=written,
        more=more,
        function="examples" if plan.lists else "example",
    )


def _source(place: str, splits: dict[str, str]) -> list[str]:
    """The lines that say where the dataset is."""
    if place.startswith("hf:"):
        parts = {n: part_of(place, its) for n, its in splits.items()}
        return _line("SOURCE = ", parts or place).splitlines()
    if place.startswith(("/", "~")):
        path = f"Path({quoted(place)})" + ".expanduser()" * (place[0] == "~")
    else:
        parts = place.split("/")
        up = parts.count("..")
        folder = f"parents[{up}]" if up else "parent"
        path = f"Path(__file__).{folder} / {quoted('/'.join(parts[up:]))}"
    if not splits:
        return [f"SOURCE = {path}"]
    files = (f'"{ours}": FOLDER / {quoted(its)}' for ours, its in splits.items())
    return [f"FOLDER = {path}", "SOURCE = {" + ", ".join(files) + "}"]


# ------------------------------------------------------------ as ruff formats them


def called(value: Any, indent: int = 0, before: int = 10) -> str:
    """The call that makes a plan, or its options, with what is not as usual.

    `before` is how many characters stand before it in its line.
    """
    pairs = [
        (field.name, given)
        for field in fields(value)
        if field.repr and (given := getattr(value, field.name)) != field.default
    ]
    pairs = [(n, given) for n, given in pairs if given != Path("")]
    name = type(value).__name__
    line = f"{name}({', '.join(_line(f'{n}=', each) for n, each in pairs)})"
    if before + len(line) <= 88 and "\n" not in line:
        return line
    margin = " " * (indent + 4)
    parts = [f"{margin}{_line(f'{n}=', each, indent + 4)}," for n, each in pairs]
    return "\n".join([f"{name}(", *parts, f"{' ' * indent})"])


def _line(start: str, value: Any, indent: int = 0) -> str:
    """A value as source after a start, on several lines if one is too short."""
    if isinstance(value, Options):
        return start + called(value, indent, indent + len(start) + 1)
    line = start + literal(value)
    if indent + len(line) < 88 or not isinstance(value, tuple | list | dict):
        return line
    items = value.items() if isinstance(value, dict) else value
    margin = " " * (indent + 4)
    of_dict = isinstance(value, dict)
    parts = [
        f"{literal(i[0])}: {literal(i[1])}" if of_dict else literal(i) for i in items
    ]
    opening, end = "{}" if of_dict else "()"
    inner = [f"{margin}{part}," for part in parts]
    return "\n".join([start + opening, *inner, f"{' ' * indent}{end}"])


def literal(value: Any) -> str:
    """A value of a plan as source."""
    if isinstance(value, Path):
        return literal(value.written)
    if isinstance(value, tuple):
        items = ", ".join(map(literal, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items())
            + "}"
        )
    is_plain = isinstance(value, str) and '"' not in value and value.isprintable()
    if is_plain and "\\" in value and not value.endswith("\\"):
        return f'r"{value}"'
    return quoted(value) if isinstance(value, str) else repr(value)


def quoted(text: str) -> str:
    """A text as source, in double quotes.

    What is not printable is escaped as Python does it: JSON's escapes are half a character
    there.
    """
    source = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in source)
