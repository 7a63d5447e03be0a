"""Answers as people write them: the gold of each row, and answers that are wrong."""

import re
import string
from collections.abc import Callable
from typing import Any

from ..command_line import counted
from ..episode.tasks import task_of
from ..episode.types import Row, content_text
from ..errors import GateError
from ..evaluation.rows import messages_of

BOX = re.compile(r"\\boxed\{(.*)\}", re.DOTALL)
OTHERS = 3  # so many golds of other rows are tried in each
# ANSWER stands for the gold.
FORMS = (r"The answer is \boxed{ANSWER}.", r"$$\boxed{ ANSWER }$$")
LETTERS = (r"**\boxed{(ANSWER)}**", r"\boxed{ANSWER.}")


def check_written(
    rows: list[Row], solutions: dict[int, str], earns: Callable[[int, str], bool]
) -> str:
    """A note on the answers that were tried in rows of a dataset; "" for other rows.

    `solutions` has the last message that solves a row, by its index. `earns` plays a message
    in a row, and says whether it earns what the row promises. Raises GateError if a gold does
    not earn in a form that people use, or if something else does.
    """
    golds = {
        index: match[1]
        for index, text in solutions.items()
        if (match := BOX.fullmatch(text)) and "expected_answer" in task_of(rows[index])
    }
    if not golds or len(golds) < len(solutions):
        return ""
    from ..notation import other_spellings  # only rows of a dataset need it

    tried = 0
    for index, gold in golds.items():
        task = task_of(rows[index])
        _check_listed(index, rows[index], task)
        is_choice = "options" in task
        forms = [*FORMS, *(LETTERS if is_choice else ())]
        written = [form.replace("ANSWER", gold) for form in forms]
        spelled = [] if is_choice else other_spellings(gold)
        for text in [*written, *("\\boxed{" + each + "}" for each in spelled)]:
            if not earns(index, text):
                raise GateError(
                    f"row {index + 1}: the gold, written {text!r}, earns less"
                )
        others = _others(task, gold, [*golds.values()])
        wrong = [each for each in others if earns(index, "\\boxed{" + each + "}")]
        if wrong and (is_choice or len(wrong) == len(others) > 1):
            what = "another option" if is_choice else "the gold of another row"
            raise GateError(
                f"row {index + 1}: {what}, {wrong[0]!r:.80}, earns as much as {gold!r:.80}"
            )
        tried += len(others)
    return (
        f"\ngolds earn as people write them; {counted(tried, 'other answer')} in "
        f"{counted(len(golds), 'row')} looked at"
    )


def _check_listed(index: int, row: Row, task: dict[str, Any]) -> None:
    """Raise GateError if the prompt lacks an option."""
    options = task.get("options")
    texts = [content_text(each.get("content")) for each in messages_of(row)]
    asked = " ".join(" ".join(texts).split())
    for option in options if isinstance(options, list) else []:
        if " ".join(str(option).split()) not in asked:
            raise GateError(
                f"row {index + 1}: the prompt does not have the option {option!r:.80}: add "
                "Choice.listed(options) to it in make_rows.py"
            )


def _others(task: dict[str, Any], gold: str, golds: list[str]) -> list[str]:
    """Answers that are not the gold: other options, or golds of other rows."""
    options = task.get("options")
    if options is None:
        return [each for each in dict.fromkeys(golds) if each != gold][:OTHERS]
    count = options if isinstance(options, int) else len(options)
    return [each for each in string.ascii_uppercase[:count] if each != gold]
