"""Write the class and make_rows.py of an environment over a dataset.

    uv run python -m env_runtime.rows SOURCE [--prompt TEMPLATE] [--grader GRADER]
                                      [--expected COLUMN[=PATTERN]] [--splits SPLITS]

SOURCE is a file of records (JSONL, JSON, CSV, TSV, Parquet, Arrow), a folder or a glob of
them, or hf:owner/name[:config]. What is not named is chosen by the first records, and
printed with the reason. Both files are written anew. Then run:

    uv run python make_rows.py --example --overwrite
    uv run python gates.py
"""

import os
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from string import Template

from ..command_line import counted, exit_status, new_parser
from ..files import write_atomically
from ..project import here
from .plan import GRADERS, RECORDS, Plan, part_of, quoted, splits_of
from .records import read

UNFINISHED = "  # unfinished: "  # a class that this command has to write


def main(arguments: list[str] | None = None) -> int:
    """Write the class's file and make_rows.py. Returns the exit status."""
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("source", metavar="SOURCE", help="from this folder")
    add("--prompt", default="", help="such as '{question}', or a column of messages")
    add("--expected", default="", help="such as answer, or 'answer=#### (.*)'")
    add("--grader", choices=GRADERS, help="what compares the answer")
    add("--overwrite", action="store_true", help="replace what is there")
    add("--splits", default="", help="such as train=train,validation=dev")
    options = parser.parse_args(arguments)

    def run() -> int:
        place, splits, project = options.source, splits_of(options.splits), here()
        hub = place.startswith("hf:")
        source = place if hub else os.path.normpath(os.path.expanduser(place))
        parts = {ours: part_of(source, its) for ours, its in splits.items()}
        plan = Plan([*islice(read(parts or source), RECORDS)])
        plan.choose(options.prompt, options.expected, options.grader)
        if not place.startswith(("hf:", "/", "~")):
            place = Path(os.path.relpath(source, project.gym)).as_posix()
        name = source.partition(":")[2] if hub else Path(source).name
        module = project.root / project.folder / project.module.replace(".", "/")
        package = module / "__init__.py"
        of_class = package if package.exists() else module.with_suffix(".py")
        paths = [of_class, project.gym / "make_rows.py"]
        kept = [path for path in paths if not options.overwrite and _is_finished(path)]
        plan.keeps_class = of_class in kept
        sources = [
            class_source(
                plan, project.class_name, f"Questions of {name}, with a grade."
            ),
            rows_source(plan, name, place, splits),
        ]
        for path, text in zip(paths, sources, strict=True):
            if path in kept:
                print(f"{path.name} is there and stays: --overwrite replaces it")
                continue
            with write_atomically(path) as file:
                file.write(text.encode())
        print(f"{name}: looked at {counted(len(plan.records), 'question')}")
        print(*(f"  {reason}" for reason in plan.reasons), sep="\n")
        if unused := plan.left_out():
            print(f"  left out: {', '.join(unused)}")
        return 0

    return exit_status("rows", run)


def _is_finished(path: Path) -> bool:
    return path.exists() and UNFINISHED not in path.read_text(encoding="utf-8")


# ---------------------------------------------------------------- the files' text

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

# The docstring of a class, by its grader
_SAYS = {
    "number": r'r"""One question. The last message has a number in \boxed{}."""',
    "choice": r'r"""One question. The last message has an option in \boxed{}."""',
    "text": r'r"""One question. The last message has a short answer in \boxed{}."""',
    "json": '"""One question. The last message is a JSON document."""',
}


def class_source(plan: Plan, name: str, title: str) -> str:
    """The module of the class `name`."""
    source = {"calls": _CALLS, "judge": _JUDGE}.get(plan.grader, _BOXED)
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
_NATIVE = '''def example(record: Record) -> dict[str, Any]:
    """The row of a record: it is one already."""
    return record'''
_JSON = 'INSTRUCTIONS = "Answer with one JSON document and nothing else."'


def rows_source(plan: Plan, title: str, place: str, splits: dict[str, str]) -> str:
    """The text of make_rows.py.

    `place` is the dataset's, from the file's folder or on the Hub. `splits` has the part
    of it for each of ours, if they are named.
    """
    constants = _source(place, splits)
    constants.append("EXAMPLES = 30  # the most rows in data/example.jsonl")
    functions = [_NATIVE if plan.native else _example(plan)]
    if not (plan.native or plan.is_chat):
        constants.append(f"PROMPT = {_text(plan.prompt)}")
    if names := plan.option_columns or plan.labels:
        constants += _assigned("OPTIONS", [*map(quoted, names)], "[]")
    if plan.pattern:
        constants.append(f"PATTERN = {_raw(plan.pattern)}  # of the answer")
    if plan.lists:
        functions.append(_nested(plan.lists))
    text = "\n\n\n".join(functions)
    graders = [name for name in ("INSTRUCTIONS", "Choice") if name in text]
    graders += ["Number"] * plan.drops_texts
    if plan.grader == "json" and "INSTRUCTIONS" in text:
        constants.append(_JSON)
        graders = []
    ours = [name for name in ("Example", "Record") if name in text]
    ours.append("from_dataset")
    imports = [
        f"import {name}" for name in ("json", "re", "string") if f"{name}." in text
    ]
    imports.append("import sys")
    if plan.lists:
        imports.append("from collections.abc import Iterator")
    if not place.startswith("hf:"):
        imports.append("from pathlib import Path")
    if "Any" in text:
        imports.append("from typing import Any")
    imports.append("")
    if graders:
        imports.append(f"from env_runtime.graders import {', '.join(graders)}")
    imports.append(f"from env_runtime.rows import {', '.join(ours)}")
    return _MAKE_ROWS.format(
        title=quoted(title)[1:-1],
        imports="\n".join(imports),
        constants="\n".join(constants),
        functions=text,
        function="examples" if plan.lists else "example",
    )


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
    asked = [f"record[{quoted(name)}]" for name in plan.asked]
    empty = f'{"".join(asked)} in (None, "")'
    if len(asked) > 1:
        lines += _assigned("    asked", asked, "[]")
        empty = 'None in asked or "" in asked'
    if asked:
        lines += [f"    if {empty}:", "        return None"]
    if plan.is_chat:
        parts = "*messages, last" + (", answer" if plan.answered else "")
        lines.append(f"    {parts} = record[{quoted(plan.prompt)}]")
    expected = plan.expected
    if plan.pattern:
        lines += [
            f"    found = re.search(PATTERN, {expected})",
            "    if found is None:",
            "        return None",
        ]
        expected = "found[1].strip()"
    else:
        lines += [
            f"    expected = {expected}",
            '    if expected in (None, "", []):',
            "        return None",
        ]
        expected = "expected"
    if plan.drops_texts:
        lines += [f"    if not Number.reads({expected}):", "        return None"]
    if plan.number:
        lines[-3:] = [f"    number = {plan.number}"]
        expected = "string.ascii_uppercase[number]"
    options = "OPTIONS" if plan.labels else "options"
    if plan.options and not plan.labels:
        lines.append(f"    options = {plan.options}")
    prompt = "PROMPT.format_map(record)"
    # A class of the user's own may read the whole message.
    ends = plan.grader in ("number", "choice", "text", "json") and not plan.keeps_class
    if plan.is_chat:
        prompt = "[*messages, last]"
        if ends:
            lines += _asked(plan)
            prompt = "[*messages, asked]"
    elif plan.options and ends:
        parts = f"{prompt}, Choice.listed({options}), INSTRUCTIONS"
        lines += [f"    parts = [{parts}]", '    prompt = "\\n\\n".join(parts)']
        prompt = "prompt"
    elif ends:
        lines.append('    prompt = f"{' + prompt + '}\\n\\n{INSTRUCTIONS}"')
        prompt = "prompt"
    task = {'"id"': 'record["id"]'} if "id" in plan.columns else {}
    if plan.grader == "judge":
        lines.append(f"    question = {prompt}")
        prompt = "question"
        task['"question"'] = "question"
    if plan.options:
        task['"options"'] = options
    task[quoted(plan.key)] = expected
    parts = [f"{key}: {value}" for key, value in task.items()]
    lines += _assigned("    task", parts, "{}")
    tools = f", tools={plan.tools}" if plan.grader == "calls" else ""
    lines.append(f"    return Example({prompt}, task{tools})")
    return "\n".join(lines)


def _asked(plan: Plan) -> list[str]:
    """The lines that add the instructions to the last message."""
    key = plan.chat_key
    if plan.chat_in_parts:
        return [
            '    part = {"type": "text", "text": INSTRUCTIONS}',
            "    asked = {**last, " + f'"{key}": [*last["{key}"], part]' + "}",
        ]
    text = f"{{last['{key}']}}\\n\\n{{INSTRUCTIONS}}"
    return [f'    asked = {{**last, "{key}": f"{text}"}}']


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


if __name__ == "__main__":
    sys.exit(main())
