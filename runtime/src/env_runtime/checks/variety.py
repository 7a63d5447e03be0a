"""How different the rows are: training on one task memorizes one episode."""

import json
from pathlib import Path
from typing import Any

from ..episode.types import Row
from ..errors import GateError
from ..evaluation.observations import prompt_text
from ..evaluation.rows import shown
from ..project import Project

# The gate's note counts these, in this order: the names for one and for several
KINDS = {
    "prompt": "prompts",
    "first observation": "first observations",
    "outcome of the same calls": "outcomes of the same calls",
    "solution": "solutions",
}


class Variety:
    """The different prompts, observations, outcomes and solutions of the rows played."""

    def __init__(self, project: Project, rows: list[Row], path: Path) -> None:
        self.project = project
        self.rows, self.path = rows, path
        self.answered = (
            False  # whether a tool answered nonsense with more than an error
        )
        self._seen: dict[str, set[int]] = {}
        for row in rows:
            self.note("prompt", row["responses_create_params"].get("input"))

    def note(self, kind: str, value: Any) -> None:
        """Remember one row's value of a kind."""
        text = json.dumps(value, sort_keys=True, default=repr)
        self._seen.setdefault(kind, set()).add(hash(text))

    def note_outcome(self, result: dict[str, Any]) -> None:
        """Remember what the tools answered to the same calls, and the reward."""
        outputs = [item.get("output") for item in result["response"]["output"]]
        texts = [output for output in outputs if isinstance(output, str)]
        errors = '{"output": "error:', "error:"
        self.answered |= any(not text.startswith(errors) for text in texts)
        self.note("outcome of the same calls", [outputs, result["reward"]])

    def note_line(self) -> str:
        """The gate's notes, on lines of their own.

        Raises GateError if the rows are one task, without `one_task = true`.
        """
        placeholder = self._placeholder_note()
        if len(self.rows) == 1:
            return placeholder
        counts = {kind: len(self._seen[kind]) for kind in KINDS if kind in self._seen}
        said = [f"{n} {kind if n == 1 else KINDS[kind]}" for kind, n in counts.items()]
        text = f"{placeholder}\nrows: {', '.join(said)}"
        if max(counts.values()) > 1:
            return text
        if self.project.table().get("one_task"):
            return f"{text}; one task, as [tool.environment] says"
        if len(counts) == 2 or not (self.answered or "solution" in counts):
            return (
                f"{text}; two calls cannot tell if they are different tasks: the "
                "solutions of an oracle(task) in the class would show it"
            )
        raise GateError(
            f"the {len(self.rows)} rows of {shown(self.path)} are one task ("
            f"{', '.join(said)}): training would memorize one episode. Let the "
            "tasks differ, for instance in the seed of all randomness, or write one "
            "row. If the tasks differ, give the class an oracle(task) that shows it. If "
            "one task is meant, write `one_task = true` below [tool.environment] in "
            "pyproject.toml"
        )

    def _placeholder_note(self) -> str:
        """A note if a prompt is still the text that generation wrote."""
        text = f"The {self.project.class_name} environment."
        if all(prompt_text(row).strip() != text for row in self.rows):
            return ""
        return f"\na prompt says only {text!r}: tell the policy what to do, in make_rows.py"
