r"""Word problems, with no framework around them.

The policy solves a problem in its last message and writes the answer, a number, in
\boxed{}. math-verify compares it with the expected one.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from math_verify import LatexExtractionConfig, parse, verify

BOX = re.compile(r"\\boxed\s*\{")
# The content of a box, up to its closing brace. It may have one level of braces.
CONTENT = re.compile(r"((?:[^{}]++|\{[^{}]*+\})*+)\}")
MAX_CHARACTERS = 100  # the most characters in a box
# A box may hold -3, 1,250.75, 3/4, \frac{3}{4}, 2\frac{1}{2}. A currency, a percent sign
# or a unit as \text{} beside the number is ignored. math-verify could read much more, but
# a formula such as 9^{9^9} would keep it busy for hours: before you allow other answers,
# limit the time that they may take.
NUMBER = re.compile(
    r"""
    (?P<sign> [-+\u2212]?) \s* (?:\\?\$)? \s*
    (?P<number>
        \d{1,12} \s* / \s* [1-9]\d{0,11}
      | (?:\d{1,12} \s*)? \\[dt]?frac \s*
        (?: \{-?\d{1,12}\} \s* \{[1-9]\d{0,11}\} | \d[1-9] )
      | (?: \d{1,12} | \d{1,3} (?: (?: , | \{,\} | \\, | \\! ) \d{3} ){1,3} )
        (?: \.\d{1,12} )?
    )
    \s* (?: \\?% | (?:\\[ ,;])? \s* \\(?:text|mathrm|mbox) \{[^{}\d]{1,30}\} )?
    """,
    re.VERBOSE | re.ASCII,
)
THOUSANDS = re.compile(r"\{,\}|,|\\,|\\!")

# math-verify warns that it has no time limit. NUMBER limits its time: its own limit, a
# signal, works only in the main thread of a process.
logging.getLogger("math_verify").setLevel(logging.ERROR)


def read_number(text: str) -> str:
    """`text` as LaTeX that math-verify reads, "" if it is not a number."""
    text = text.strip()
    match = NUMBER.fullmatch(text) if len(text) <= MAX_CHARACTERS else None
    if match is None:
        return ""
    sign = "-" if match["sign"] in ("-", "\u2212") else ""
    return sign + THOUSANDS.sub("", match["number"])


def boxed_number(text: str) -> str:
    r"""The number that `text` has in \boxed{}, as LaTeX.

    "" without a number, with different numbers, or if a box holds anything else.
    """
    numbers = set()
    for box in BOX.finditer(text):
        content = CONTENT.match(text, box.end())
        if content is None or content[1].strip():  # an empty box repeats the prompt
            numbers.add(read_number(content[1]) if content else "")
    return numbers.pop() if len(numbers) == 1 else ""


def equal(number: str, other: str) -> bool:
    """Whether two numbers are the same. Decimals are compared to six places."""
    form = [LatexExtractionConfig(boxed_match_priority=0)]
    values = [
        parse(f"${text}$", form, fallback_mode="no_fallback", parsing_timeout=None)
        for text in (number, other)
    ]
    return verify(*values, timeout_seconds=None)


class DomainClass:
    r"""One word problem. The policy's last message has the answer in \boxed{}.

    `task` holds the `problem` and the `expected_answer`, such as "42", "12.50" or "3/4".
    """

    blocking = False  # no method waits for anything
    format_credit = 0.1  # the reward for one number in \boxed{} that is not the answer

    def __init__(self, task: dict[str, Any]) -> None:
        expected = str(task.get("expected_answer", "42"))
        self._expected = read_number(expected)
        if not self._expected:
            raise ValueError(
                "expected_answer must be a number such as 42, 12.50 or 3/4, got "
                f"{expected!r:.80}"
            )
        self._boxed = ""

    def reward(self, answer: str) -> float:
        r"""1.0 for the expected number in \boxed{}, `format_credit` for another one.

        0.0 for an answer without a number in \boxed{}, or with different numbers.
        """
        self._boxed = boxed_number(answer)
        if not self._boxed:
            return 0.0
        return 1.0 if equal(self._expected, self._boxed) else self.format_credit

    def metrics(self) -> dict[str, float]:
        r"""`boxed`: whether the answer had one number in \boxed{}, right or wrong."""
        return {"boxed": float(self._boxed != "")}

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The last message that solves `task`."""
        return "\\boxed{" + str(task["expected_answer"]) + "}"
