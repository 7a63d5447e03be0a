"""NeMo Gym's mcqa: the letter of one of several options, in a form that the row names."""

import re
from typing import Any

from resources_servers.mcqa import app


class Mcqa:
    """One question. `options` holds `{"A": text}` each, `expected_answer` a letter.

    The question itself is in the row's prompt. The rules for a form are NeMo Gym's.
    """

    blocking = False

    def __init__(self, task: dict[str, Any]) -> None:
        self._options: list[dict[str, Any]] = task.get("options") or []
        self._letters = app._get_allowed_letters_from_options(self._options)
        self._expected = (task.get("expected_answer") or "").strip().upper()
        self._mode = task.get("grading_mode", "strict_single_letter_boxed")
        self._template: dict[str, Any] = task.get("template_metadata") or {}

    def reward(self, answer: str) -> float:
        """1.0 for the right letter, else 0.0."""
        found = self._by_template(answer.strip()) or self._by_mode(answer.strip())
        return float(bool(self._expected) and found == self._expected)

    @staticmethod
    def oracle(task: dict[str, Any]) -> str:
        """The letter in a box, and after `Answer:`."""
        letter = task["expected_answer"]
        return "\\boxed{" + letter + "}\nAnswer: " + letter

    def _by_template(self, text: str) -> str | None:
        if "output_regex" not in self._template:
            return None
        patterns = self._template["output_regex"]
        return app._parse_answer_with_custom_regexes(
            text, patterns, self._letters, self._options
        )

    def _by_mode(self, text: str) -> str | None:
        if self._mode == "lenient_answer_colon":
            return self._behind_colon(text)
        letter, _, _ = app._parse_answer_letter_strict_boxed(text, self._letters)
        if letter is None and self._mode == "lenient_boxed":
            letter = app._match_option_text(text, self._options, self._letters)
        return letter

    def _behind_colon(self, text: str) -> str | None:
        match = re.search(r"answer\s*:\s*(.+)", text, re.IGNORECASE)
        if match is None:
            return None
        said = app._strip_latex_wrappers(match[1]).strip()
        if said.upper() in self._letters:
            return said.upper()
        wanted = app._normalize_for_match(said)
        for option in self._options:
            for letter, content in option.items():
                if content and app._normalize_for_match(content) == wanted:
                    return letter.upper()
        return None
