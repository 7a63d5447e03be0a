"""The files of an environment over a dataset, written from a plan."""

import ast
from collections.abc import Iterable
from string import Template

from . import __all__ as PUBLIC
from .plan import JSON_INSTRUCTIONS, Options, Plan, quoted
from .records import part_of

_BOXED = Template('''"""$title"""

from typing import Any

from env_runtime import graders


class $name:
    $docstring

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._grader = graders.$grader($arguments)

    def reward(self, answer: str) -> float:
        """1.0 for the expected answer, else 0.0."""
        return self._grader.reward(answer)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return graders.$grader($arguments).solution()
''')

_CALLS = Template('''"""$title"""

from typing import Any

from env_runtime import graders


class $name:
    """One question, whose row has the tools. Nobody executes their calls."""

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._grader = graders.Calls(self.oracle(task))
        self._made: list[tuple[str, dict[str, Any]]] = []

    def call_row_tool(self, name: str, arguments: dict[str, Any]) -> str:
        """Note a call of one of the row's tools."""
        self._made.append((name, arguments))
        return "noted"

    def reward(self) -> float:
        """1.0 for the expected calls and no others, in any order; else 0.0."""
        return self._grader.reward(self._made)

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        """The calls that solve `task`, as (name, arguments)."""
        return [(call["name"], call["arguments"]) for call in task[$key]]
''')

_JUDGE = Template('''"""$title"""

from typing import Any

RULES = """\\
You grade an answer to a question by a reference. It is RIGHT if it says what the reference
says and nothing that contradicts it, else WRONG. Neither its length nor its style counts.

Question: {question}

Reference: {reference}"""


class $name:
    """One question. A judge compares the last message with a reference."""

    def __init__(self, task: dict[str, Any], judge: Any) -> None:
        self.judge = judge
        question, reference = task["question"], task[$key]
        self._rules = RULES.format(question=question, reference=reference)

    async def reward(self, answer: str) -> float:
        """1.0 if the judge finds the answer right, else 0.0."""
        choices = ["RIGHT", "WRONG"]
        said = await self.judge.ask(self._rules, choices=choices, data=answer)
        return float(said == "RIGHT")

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return task[$key]

    @staticmethod
    def stand_in(model: str, prompt: str) -> str:
        """Answer for the judge in gates and tests: only the reference is right."""
        text = prompt.partition("\\n\\nReference: ")[2]  # the reference, then the answer
        half = (len(text) - 2) // 2
        return "RIGHT" if text[:half] == text[-half:] else "WRONG"
''')

_OWN = Template('''"""$title"""

from typing import Any


class $name:
    """One question, whose answer a rule grades. The task has all columns of its record."""

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task

    def reward(self, answer: str) -> float:
        """1.0 if the last message is right for the task, else 0.0."""
        raise NotImplementedError("write reward()")

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`. It is still to be written."""
        return ""
''')

# The docstring of a class, by its grader
_SAYS = {
    "number": r'r"""One question. The last message has a number in \boxed{}."""',
    "choice": r'r"""One question. The last message has an option in \boxed{}."""',
    "text": r'r"""One question. The last message has a short answer in \boxed{}."""',
    "json": '"""One question. The last message is a JSON document."""',
}


def class_source(plan: Plan, name: str, title: str) -> str:
    """The module of the class `name`."""
    source = {"calls": _CALLS, "judge": _JUDGE, "own": _OWN, "tests": _OWN}.get(
        plan.grader, _BOXED
    )
    arguments = f"task[{quoted(plan.key)}]"
    if plan.grader == "choice":
        arguments += ', task["options"]'
    return source.substitute(
        title=quoted(title)[1:-1],
        name=name,
        key=quoted(plan.key),
        grader=plan.grader.capitalize(),
        docstring=_SAYS.get(plan.grader),
        arguments=arguments,
    )


_MAKE_ROWS = '''"""Make rows of {title} for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train N] [--validation N]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. This file is yours: change what a record becomes.
"""

{imports}

{constants}


{functions}


if __name__ == "__main__":
    sys.exit(from_dataset({function}, SOURCE, EXAMPLES, __doc__))
'''
_OWN_EXAMPLE = '''def example(record: Record) -> Example | None:
    """The row of a record. None leaves it out."""
    return Example(filled(PROMPT, record), dict(record))'''
_NATIVE = '''def example(record: Record) -> dict[str, Any]:
    """The row of a record: it is one already."""
    return record'''


def rows_source(
    plan: Plan, title: str, place: str, splits: dict[str, str], example: str = ""
) -> str:
    """The text of make_rows.py.

    `place` is the dataset's, from the file's folder or on the Hub. `splits` has the part
    of it for each of ours, if they are named. `example` is the function's text if the plan
    is of programs.
    """
    constants = _source(place, splits)
    constants.append("EXAMPLES = 30  # the most rows in data/example.jsonl")
    if example or plan.grader == "own":
        functions = [example or _OWN_EXAMPLE]
    else:
        functions = [_NATIVE if plan.native else _example(plan)]
    if not (plan.native or plan.is_chat) or example:
        constants.append(f"PROMPT = {_text(plan.prompt)}")
    if names := _option_names(plan.options):
        constants += _assigned("OPTIONS", [*map(quoted, names)], "[]")
    if plan.classes:
        constants += _assigned("CLASSES", [*map(quoted, plan.classes)], "[]")
    if plan.pattern:
        constants.append(f"PATTERN = {_raw(plan.pattern)}  # of the answer")
    if plan.lists:
        functions.append(_nested(plan.lists))
    text = "\n\n\n".join(functions)
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    graders = ["INSTRUCTIONS", "Choice", "Number", "Text"]
    if plan.grader == "json" and "INSTRUCTIONS" in text:
        constants.append(f'INSTRUCTIONS = "{JSON_INSTRUCTIONS}"')
        graders.remove("INSTRUCTIONS")
    lines = [f"import {name}" for name in ("json", "re") if name in names]
    lines.append("import sys")
    if plan.lists:
        lines.append("from collections.abc import Iterator")
    if not place.startswith("hf:"):
        lines.append("from pathlib import Path")
    if "Any" in names:
        lines.append("from typing import Any")
    lines.append("")
    lines += _imported("env_runtime.graders", [n for n in graders if n in names])
    helpers = {"from_dataset", *names} & {*PUBLIC}
    lines += _imported("env_runtime.rows", sorted(helpers))
    return _MAKE_ROWS.format(
        title=quoted(title)[1:-1],
        imports="\n".join(lines),
        constants="\n".join(constants),
        functions=text,
        function="examples" if plan.lists else "example",
    )


def _imported(module: str, names: list[str]) -> list[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= 88:
        return [line] * bool(names)
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def _option_names(options: Options | None) -> list[str]:
    """The columns or the labels that the constant OPTIONS has."""
    if options and options.kind == "columns":
        return [path.column for path in options.paths]
    return options.labels if options else []


def _source(place: str, splits: dict[str, str]) -> list[str]:
    """The lines that say where the dataset is."""
    if place.startswith("hf:"):
        value = quoted(place)
        if splits:
            value = quoted({n: part_of(place, its) for n, its in splits.items()})
        return [f"SOURCE = {value}"]
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


def _example(plan: Plan) -> str:
    """The function that makes a row of a record, or of one question of it."""
    kind = "dict[str, Any]" if plan.lists else "Record"
    lines = [
        f"def example(record: {kind}) -> Example | None:",
        '    """The row of a record. None leaves it out."""',
    ]
    needed = [_value(plan, name) for name in plan.needed]
    empty = f'{"".join(needed)} in (None, "")'
    if len(needed) > 1:
        lines += _assigned("    needed", needed, "[]")
        empty = 'None in needed or "" in needed'
    if needed:
        lines += [f"    if {empty}:", "        return None"]
    if plan.is_chat:
        parts = "*messages, last" + (", answer" if plan.answered else "")
        lines.append(f"    {parts} = {_value(plan, plan.prompt)}")
        if plan.system:
            said = f'{{"role": "system", "content": {_value(plan, plan.system)}}}'
            lines.append(f"    messages.insert(0, {said})")
    lines += _gold(plan)
    options = ""
    if plan.options:
        options, assigned = _options(plan, plan.options)
        lines += assigned
        lines += _letter(plan, plan.options)
    if plan.grader in ("number", "choice", "text"):
        taken = ", ".join(filter(None, ["expected", options]))
        lines += [
            f"    if not {plan.grader.capitalize()}.takes({taken}):",
            "        return None",
        ]
    prompt = _prompt(plan, options, lines)
    task = {'"id"': 'record["id"]'} if plan.has_id else {}
    if plan.grader == "judge":
        lines.append(f"    question = {prompt}")
        prompt = "question"
        task['"question"'] = "question"
    if plan.options:
        task['"options"'] = options
    task[quoted(plan.key)] = "expected"
    parts = [f"{key}: {value}" for key, value in task.items()]
    lines += _assigned("    task", parts, "{}")
    if plan.images:
        images = ", ".join(f"record.get({quoted(name)})" for name in plan.images)
        lines.append(f"    prompt = with_images({prompt}, {images})")
        prompt = "prompt"
    tools = ""
    if plan.grader == "calls" and plan.tools:
        tools = f", tools={plan.tools.source(_value(plan, plan.tools.column))}"
    lines.append(f"    return Example({prompt}, task{tools})")
    return "\n".join(lines)


def _value(plan: Plan, column: str) -> str:
    """A column's value, which some records may lack."""
    name = quoted(column)
    return f"record.get({name})" if column in plan.missing else f"record[{name}]"


def _gold(plan: Plan) -> list[str]:
    """The lines that find the answer of a record."""
    source = plan.gold.source(_value(plan, plan.gold.column))
    if plan.answered and plan.gold.column == plan.prompt:
        source = f"answer[{quoted(plan.chat_key)}]"
    if plan.classes:
        source = f"dict(enumerate(CLASSES)).get({source})"
    lines = [f"    expected = {source}"]
    # takes() of a number and of a choice refuses what is empty.
    if plan.words or plan.grader not in ("number", "choice"):
        empty = ["None", '""', "[]", *map(quoted, plan.nothing)]
        lines += [f"    if expected in ({', '.join(empty)}):", "        return None"]
    if plan.boxed:
        lines += ["    expected = last_box(expected)"]
    elif plan.pattern:
        lines += [
            "    found = re.search(PATTERN, str(expected))",
            "    expected = found[1].strip() if found else None",
        ]
    if (plan.boxed or plan.pattern) and plan.grader not in ("number", "choice"):
        lines += ['    if expected in (None, ""):', "        return None"]
    if plan.words:
        yes, no = map(quoted, plan.words)
        lines.append(f"    expected = {yes} if expected else {no}")
    return lines


def _options(plan: Plan, options: Options) -> tuple[str, list[str]]:
    """The expression of a record's options, and the lines that name it."""
    if options.kind == "letters":
        return "26", []
    if options.kind == "labels":
        return "OPTIONS", []
    if options.kind == "columns":
        return "options", [
            "    options = options_of([record[name] for name in OPTIONS])"
        ]
    values = [path.source(_value(plan, path.column)) for path in options.paths]
    if options.kind == "column":
        return "options", [f"    options = options_of({values[0]})"]
    lists = {path.column for path in options.paths if path.column in plan.splatted}
    parts = [
        f"*{value}" if path.column in lists else value
        for path, value in zip(options.paths, values, strict=True)
    ]
    lines = _assigned("    every", parts, "[]")
    return "options", [*lines, "    options = shuffled(every)"]


def _letter(plan: Plan, options: Options) -> list[str]:
    """The lines that make a letter of what names an option."""
    if plan.names is None:
        return []
    names = (
        f"labels_of({options.paths[0].source(_value(plan, options.paths[0].column))})"
    )
    if isinstance(plan.names, range):
        start = plan.names.start
        names = f"range({start}, {start + 26})" if start else "range(26)"
    elif plan.names and plan.names == _option_names(options):
        names = "OPTIONS"
    elif plan.names:
        names = quoted(plan.names)
    return [f"    expected = letter_of(expected, {names})"]


def _prompt(plan: Plan, options: str, lines: list[str]) -> str:
    """The expression of the prompt, whose lines are added."""
    ends = ["INSTRUCTIONS"] * plan.adds
    if plan.options and not plan.options.listed:
        ends.insert(0, f"Choice.listed({options})")
    if not plan.is_chat:
        prompt = "filled(PROMPT, record)"
        if len(ends) == 1:
            lines.append(f'    prompt = f"{{{prompt}}}\\n\\n{{{ends[0]}}}"')
        elif ends:
            lines += [
                f"    parts = [{', '.join([prompt, *ends])}]",
                '    prompt = "\\n\\n".join(parts)',
            ]
        return "prompt" if ends else prompt
    if not ends:
        return "[*messages, last]"
    text = ends[0]
    if len(ends) > 1:
        lines.append(f'    text = f"{{{ends[0]}}}\\n\\n{{INSTRUCTIONS}}"')
        text = "text"
    key = plan.chat_key
    if plan.chat_in_parts:
        lines += [
            f'    part = {{"type": "text", "text": {text}}}',
            "    asked = {**last, " + f'"{key}": [*last["{key}"], part]' + "}",
        ]
    else:
        said = f"{{last['{key}']}}\\n\\n{{{text}}}"
        lines.append(f'    asked = {{**last, "{key}": f"{said}"}}')
    return "[*messages, asked]"


def _nested(lists: Iterable[str]) -> str:
    """The function that makes the rows of a record with several questions."""
    lines = [
        "def examples(record: Record) -> Iterator[Example]:",
        '    """The rows of a record, which has several questions."""',
    ]
    outer, margin = "record", "    "
    for depth, column in enumerate(lists):
        item = ("part", "item", "one")[depth]
        lines.append(f"{margin}for {item} in {outer}[{quoted(column)}]:")
        outer, margin = item, margin + "    "
    parts = ["record", "part", "item", "one"][: len([*lists]) + 1]
    merged = ", ".join(f"**{part}" for part in parts)
    lines += [
        f"{margin}if row := example({{{merged}}}):",
        f"{margin}    yield row",
    ]
    return "\n".join(lines)


# ------------------------------------------------------------ as ruff formats them


def _assigned(name: str, parts: list[str], brackets: str) -> list[str]:
    """The lines that give the parts in brackets a name, which may be indented."""
    start, end = brackets
    line = f"{name} = {start}{', '.join(parts)}{end}"
    if len(line) <= 88:
        return [line]
    margin = " " * (len(name) - len(name.lstrip()))
    inner = [f"{margin}    {part}," for part in parts]
    return [f"{name} = {start}", *inner, f"{margin}{end}"]


def _text(text: str) -> str:
    """A text as source, on several lines if it has them."""
    plain = all(line.isprintable() for line in text.split("\n"))
    if "\n" not in text or '"""' in text or "\\" in text or not plain:
        return quoted(text)
    return f'"""\\\n{text}"""' if not text.endswith('"') else repr(text)


def _raw(pattern: str) -> str:
    """A pattern as source."""
    if '"' in pattern or not pattern.isprintable() or pattern.endswith("\\"):
        return repr(pattern)
    return f'r"{pattern}"' if "\\" in pattern else f'"{pattern}"'
