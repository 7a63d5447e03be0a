"""Datasets that no grader here grades, and golds that mean nothing without more."""

import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ..errors import RolloutError
from .columns import (
    ASKS,
    CLASSES,
    EXPECTED,
    FEWEST,
    FIT,
    LABELS,
    PAIRS,
    PROGRAM,
    PROGRAMS,
    PROMPTS,
    QUESTIONS,
    RULES,
    TESTS,
    YES_NO,
    Looked,
    are_spellings,
    folded,
    is_number,
    is_texts,
)
from .fields import as_text, parsed
from .plan import ALIASES, Unfit, shown


class OwnGrade(RolloutError):
    """A dataset that no grader here is for: its rows need a grade of their own."""


_PROGRAMS = (
    "its answers are programs, and how their tests run is not known: copy with -d "
    "archetype=sandbox, without a dataset, and write the rows in its make_rows.py"
)


class Refusing(Looked):
    """Raise RolloutError if a plan would make an environment that only looks right."""

    def _refuse_others(self) -> None:
        """Raise RolloutError for datasets that no expected answer grades."""
        columns = {folded(name) for name in self.columns}
        if {"chosen", "rejected"} <= columns:
            raise RolloutError(
                "chosen and rejected are preferences between two answers, and neither is a gold: "
                "take a dataset with expected answers"
            )
        if any(names <= columns for names in TESTS):
            raise RolloutError(
                "its answers are programs, which tests grade: copy with -d "
                "archetype=sandbox in place of archetype=answer"
            )
        if any(names <= columns for names in PROGRAMS):
            raise RolloutError(_PROGRAMS)
        if found := next((names for names in RULES if names <= columns), None):
            names = " and ".join(name for name in self.columns if folded(name) in found)
            raise OwnGrade(f"no column is the answer: {names} tell what it must do")

    def _refuse_objects(self) -> None:
        """Raise RolloutError if the question may be a part of an object."""
        objects = {
            n: v for n in self.columns if isinstance(v := self._first(n), Mapping)
        }
        asking = (
            n for n, value in objects.items() if {*PROMPTS} & {*map(folded, value)}
        )
        if name := next(
            asking, next(iter(objects), "") if {*objects} == {*self.columns} else ""
        ):
            raise RolloutError(
                f"{name} is an object with {', '.join(objects[name])}: write these as columns "
                "of their own, and take that file"
            )

    def _refuse_kinds(self, golds: list[Any]) -> None:
        """Raise RolloutError for programs, and for several kinds, such as 7 beside [1, 2]."""
        if self._share(map(str, golds), PROGRAM.search) > 0.5:
            raise RolloutError(_PROGRAMS)
        if self._share(map(str, golds), re.compile(r"b'.*'|b\".*\"").fullmatch) > 0.5:
            raise RolloutError(
                f"{self.plan.expected.column} has bytes as Python writes them, such as {golds[0]}: "
                "write them as text, in the questions, too"
            )
        by_kind: dict[str, list[Any]] = {}
        has_numbers = any(isinstance(gold, int | float) for gold in golds)
        for gold in golds:
            by_kind.setdefault(kind_of(gold, has_numbers), []).append(gold)
        one, *others = sorted(by_kind.values(), key=len, reverse=True)
        if len(one) < FIT * len(golds):
            raise RolloutError(
                f"{self.plan.expected.column} has answers of several kinds, such as {shown(one[0])!r} and "
                f"{shown(others[0][0])!r}, and one grader compares all: keep the records of one kind"
            )

    def _refuse_pairs(self, what: str) -> None:
        """Raise RolloutError if two texts are compared, and no column says how."""
        if folded(self._main()) in PAIRS and self.why_prompt != "as asked":
            raise RolloutError(
                f"{self.plan.expected.column} is {what}, and no column asks the question: ask it with "
                f"--prompt '{self._template()} ...?'"
            )

    def _refuse_keys(self, golds: list[Any]) -> None:
        """Raise RolloutError for lists of lists, and objects whose keys no other column tells."""
        if self.why_prompt == "as asked":
            return
        column, told = self.plan.expected.column, 0
        for record in self.records:
            said = json.dumps(
                {k: v for k, v in record.items() if k != column}, ensure_ascii=False
            )
            told += isinstance(golds[0], Mapping) and all(
                key in said for key in golds[0]
            )
        if told < 0.5 * len(self.records):
            has = "lists of lists"
            if isinstance(golds[0], Mapping):
                has = f"objects with {', '.join(golds[0])}"
            raise RolloutError(
                f"{column} has {has}, and no question says so: say it "
                f"with --prompt '{self._template()} Answer with ...' --grader json"
            )

    def _refuse_lists(self, golds: list[Any]) -> None:
        """Raise RolloutError for lists of texts that are not spellings of one answer."""
        path = self.plan.expected
        lists = [
            [str(part) for part in gold]
            for gold in golds
            if isinstance(gold, list)
            and len({*map(str, gold)}) > 1
            and is_texts([part for part in gold if not isinstance(part, int | float)])
        ]
        are_numbers = all(is_number(part) for one in lists for part in one)
        if (
            not lists
            or ALIASES in path.steps
            or (are_numbers and not self.plan.options)
        ):
            return
        if self._share(lists, are_spellings) > 0.5 and not self.plan.options:
            return
        listed = max(lists[:20], key=len)
        ways = [{"grader": "all"}, {"grader": "ordered"}]
        self._doubt(
            f"{path.column} has lists, such as {listed!r:.80}, and whether one of them is enough, "
            "all are wanted, or all in this order, is not clear"
            + f". {self.form}, which these graders read"
            * bool(self.form),
            *([] if self.plan.options else [{"grader": "any"}]),
            *ways,
        )

    def _refuse_labels(self, labels: list[str]) -> None:
        """Raise RolloutError for letters that stand for something, if no prompt says so."""
        if self.why_prompt == "as asked" and all(
            re.search(rf"(?<!\w){re.escape(label)}(?!\w)", self.plan.prompt)
            for label in labels
        ):
            return
        meant = ", ".join(f"{label} for ..." for label in labels)
        self._doubt(
            f"{self.plan.expected.column} is one of {', '.join(labels)}, and nothing says what they "
            "mean: say it in the prompt, as in the first command. The second is for prompts "
            "that do",
            {"prompt": f"{self._template()} Answer {meant}."},
            {"grader": "text"},
        )

    def _refuse_statements(self) -> None:
        """Raise RolloutError if the prompts say something, and ask nothing."""
        name = folded(self._main())
        if self.why_prompt == "as asked" or self.plan.is_chat or self.plan.images:
            return
        if name in QUESTIONS or self.native:
            return
        texts = [
            "\n".join(as_text(record.get(column)) for column in self._shown())
            for record in self.records
        ]
        told = re.compile(r"(?s)[A-Z\d\W][^?？؟]*[.!\"'”’)]\s*")
        if self._share(texts, lambda t: told.fullmatch(t) and not ASKS.search(t)) > 0.5:
            raise RolloutError(
                f"the prompts, such as {shown(texts[0])!r}, ask nothing: say what to do with "
                f"--prompt '{self._template()} ...?'"
            )

    def _refuse_unasked(self, labels: list[str]) -> None:
        """Raise RolloutError if answers are yes and no, and nothing asks."""
        is_yes_or_no = {"yes", "no"} <= {label.casefold() for label in labels}
        if not is_yes_or_no or self.why_prompt == "as asked":
            return
        column, asked = self.plan.expected.column, 0
        for record in self.records:
            text = as_text([value for name, value in record.items() if name != column])
            main = as_text(record.get(self._main())).casefold()
            asked += "?" in text or "yes" in text.casefold() or bool(YES_NO.match(main))
        if asked < 0.5 * len(self.records):
            raise RolloutError(
                f"{column} is yes or no, and no column asks the question: ask it with --prompt "
                f"'{self._template()} ... Is that so?'"
            )

    def _refuse_classes(self, golds: list[Any]) -> None:
        """Raise RolloutError for numbers that stand for something, or are in the prompt."""
        plan = self.plan
        values = {str(gold) for gold in golds}
        name = folded(plan.expected.column)
        is_class = name in CLASSES or (name not in EXPECTED and not plan.expected.steps)
        most = len(golds) / 2 if name in CLASSES else LABELS
        is_class = is_class and len(values) <= most
        whole = all(re.fullmatch(r"-?\d{1,3}(\.0)?", value) for value in values)
        zero_one = values <= {"0", "1", "0.0", "1.0"}
        few = len(golds) >= FEWEST * len(values) > FEWEST or name in CLASSES
        if whole and few and (is_class or zero_one) and self.why_prompt != "as asked":
            listed = ", ".join(sorted(values))
            meant = ", ".join(f"{value} for ..." for value in sorted(values))
            meant = "0 for no, 1 for yes" if zero_one else meant
            self._doubt(
                f"{plan.expected.column} is one of {listed}, and nothing says what they mean: say "
                "it in the prompt, as in the first command. The second is for numbers that "
                "the question asks for",
                {"prompt": f"{self._template()} Answer {meant}."},
                {"grader": "number"},
            )
        if self.why_prompt == "as asked" or self.native or plan.is_chat:
            return
        said = 0
        for record in self.records:
            with contextlib.suppress(Unfit):
                gold, text = (
                    str(plan.gold(record)),
                    as_text(record.get(self._main())),
                )
                found = re.search(rf"(?<![\d.]){re.escape(gold)}(?![\d.]|\w)", text)
                said += len(gold) > 1 and bool(found)
        if said >= 0.9 * len(golds):
            raise OwnGrade(f"{plan.expected.column} is in the question, as an input")


def kind_of(value: Any, among_numbers: bool) -> str:
    """Whether a gold is an object, a list, or plain, as texts for one answer are, too."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str) and value.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            if is_texts(found := parsed(value)) and isinstance(found, list):
                return "list"
    if isinstance(value, list) and (among_numbers or not is_texts(value)):
        return "list"
    return "object" if isinstance(value, Mapping) else "plain"
