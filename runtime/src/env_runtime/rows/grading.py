"""The graders of data sets: an entry for each choice of --grader.

Copier calls them as `graders` of facts.json does.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..graders import INSTRUCTIONS, Choice, Json, Number, Several, Text

_ALL = (
    "End with all answers in one \\boxed{}, parted by commas and without other words."
)
_ORDER = "End with all answers in one \\boxed{}, in order, parted by commas and without other words."
_DOCUMENT = "Answer with one JSON document and nothing else."


@dataclass(frozen=True)
class Grading:
    """How a prompt requests an answer, and how the answer is compared."""

    # The grader of env_runtime.graders; None if the class compares in its own way
    grader: Callable[..., Any] | None = None
    # The class's docstring says that the last message has this.
    says: str = ""
    # The prompt requests it with this sentence.
    asks: str = ""
    boxed: bool = True  # whether the answer is in \boxed{}
    options: bool = False  # whether the answer may name options of the question
    all: bool = False  # whether the answer must have all texts of a list
    ordered: bool = False  # whether their order counts
    module: str = "answer"  # the class's, in classes/

    def of(self, *expected: Any) -> Any:
        """The grader of what is expected. Raises TypeError or ValueError if it does not take it."""
        assert self.grader
        return self.grader(*expected, **self._arguments)

    def takes(self, *expected: Any) -> bool:
        """Whether the grader can be made of what is expected."""
        with contextlib.suppress(TypeError, ValueError):
            return bool(self.of(*expected))
        return False

    def source(self, *expected: str) -> str:
        """The call that makes the grader, with the source of what is expected."""
        named = [f"{name}={value}" for name, value in self._arguments.items()]
        name = getattr(self.grader, "__name__", "")
        return f"{name}({', '.join([*expected, *named])})"

    @property
    def _arguments(self) -> dict[str, Any]:
        return {"ordered": True} if self.ordered else {}


_ONE = "a short answer in \\boxed{}"
_EACH = "all answers in \\boxed{}"
_OWN = Grading(boxed=False, module="own")
GRADINGS = {
    "number": Grading(Number, "a number in \\boxed{}", INSTRUCTIONS),
    "choice": Grading(Choice, "an option in \\boxed{}", INSTRUCTIONS, options=True),
    "text": Grading(Text, _ONE, INSTRUCTIONS),
    "any": Grading(Text, _ONE, INSTRUCTIONS),
    "all": Grading(Several, _EACH, _ALL, options=True, all=True),
    "ordered": Grading(
        Several, f"{_EACH}, in order", _ORDER, options=True, all=True, ordered=True
    ),
    "json": Grading(Json, "a JSON document", _DOCUMENT, boxed=False),
    "calls": Grading(boxed=False, module="calls"),
    "judge": Grading(boxed=False, module="judge"),
    # The command chooses these itself: for a class of one's own, and for tested programs.
    "own": _OWN,
    "tests": _OWN,
}
