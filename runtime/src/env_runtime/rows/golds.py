"""The gold of each record, the options that it may name, and what compares answers."""

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from ..errors import RolloutError
from ..graders import Choice, Number
from ..notation import last_box
from .columns import (
    ABOUT,
    ANSWERS,
    BEFORE,
    EXPECTED,
    FEWEST,
    FIT,
    LABELS,
    MARKED,
    MIDNIGHT,
    NO_ANSWER,
    OPTION,
    OPTIONS,
    PLAIN,
    SENTENCE,
    WRONG,
    YES_NO,
    are_calls,
    check_pattern,
    folded,
    is_number,
    is_scored,
    is_short,
    is_single,
    is_texts,
    text_of,
    words_in,
)
from .doubts import Asking, OwnGrade, are_letters, bare, none_in, stand_for_something
from .fields import LETTERS as ALPHABET
from .fields import as_text, is_empty, lettered, listed_in, names_in
from .plan import BEST, FIRST, KEYS, LETTERS, LISTED, Options, Path, Unfit, shown
from .records import Record

# An option in a template, such as A. {first}
LETTERED = re.compile(r"(?<![^\W_])([A-J])[.):] ?\{(\w+)\}")


class Golds(Asking):
    """Chooses the part of a plan that grades."""

    # ------------------------------------------------------------------ the options

    def _choose_options(self, expected: str) -> None:
        """Find the options; the column that is asked for as `expected` is none."""
        plan, in_prompt = self.plan, names_in(self.plan.prompt)
        lettered = LETTERED.findall(plan.prompt)
        if len(lettered) > 1 and ALPHABET.startswith("".join(a for a, _ in lettered)):
            paths = [Path(name) for _, name in lettered]
            plan.options = Options("columns", paths, listed=True)
            return
        for column in filter(None, (self._named([name]) for name in OPTIONS)):
            options = Options(
                "column", [self._path(column)], listed=column in in_prompt
            )
            several = [len(options.of(record)) > 1 for record in self.records]
            if sum(several) < 0.5 * len(several):
                continue
            if folded(column) == "answers" and not self._names_one(options):
                continue
            texts = [as_text(record.get(self._main())) for record in self.records]
            told = [
                all(text in asked for text in options.of(record)) and listed_in(asked)
                for record, asked in zip(self.records, texts, strict=True)
            ]
            listed = options.listed or sum(map(bool, told)) >= FIT * len(told)
            plan.options = replace(options, listed=listed)
            return
        wrong = [n for n in self.columns if WRONG.fullmatch(folded(n))]
        if wrong and (
            right := self._named(("correct_answer", "best_answer", "answer"))
        ):
            paths = [Path(name) for name in wrong]
            paths = [p.then(LISTED) if self._lists(p) else p for p in paths]
            plan.options = Options("shuffled", [Path(right), *paths], gold=Path(right))
            return
        scored = (
            n
            for n in self.columns
            if self._share(self._values(Path(n)), is_scored) >= FIT
        )
        if column := next(scored, ""):
            path = Path(column)
            plan.options = Options("column", [path.then(KEYS)], gold=path.then(BEST))
            return
        groups: dict[str, list[str]] = {}
        for name in self.columns:
            if match := OPTION.fullmatch(folded(name)):
                groups.setdefault(match[1].lower(), []).append(name)
        several = [
            names
            for names in groups.values()
            if len(names) > 1 and expected.partition("=")[0] not in names
        ]
        for names in several:
            listed = all(name in in_prompt for name in names)
            if listed or not {*names} & {*in_prompt}:
                plan.options = Options("columns", [*map(Path, names)], listed=listed)
                return

    def _lists(self, path: Path) -> bool:
        """Whether texts list several, with semicolons."""
        return self._share(self._values(path), lambda value: ";" in value) > 0.5

    def _names_one(self, options: Options) -> bool:
        """Whether another column has numbers or letters, as ReClor's label of `answers`."""
        for column in filter(None, (self._named([name]) for name in EXPECTED)):
            values = [as_text(value) for value in self._values(Path(column))]
            if column != options.paths[0].column and values:
                named = self._share(values, re.compile(r"[A-Ja-j]|\d").fullmatch) >= FIT
                if named:
                    return True
        return False

    def _listed_in_prompt(self, golds: list[Any]) -> None:
        """Find options in the prompts, if the golds are letters of them."""
        plan, said = self.plan, bare(golds)
        if plan.options:
            return
        self.ask("letters", said)
        if are_letters(said) and not stand_for_something(said):
            paths = () if plan.is_chat else (Path(self._main()),)
            plan.options = Options("column" if paths else "letters", paths, listed=True)

    # ------------------------------------------------------------------ the gold

    def _choose_expected(self, given: str, grader: str | None) -> None:
        plan = self.plan
        column, pattern = given, ""
        if given not in self.columns and "=" in given:
            column, _, pattern = given.partition("=")
        match = re.fullmatch(r"(.+) from ([01])", column)
        if match and column not in self.columns:
            column = match[1]
            plan.names = range(int(match[2]), 26 + int(match[2]))
        why = "as asked"
        if not column:
            column, why = self._gold(grader)
        likely = [] if column else self._may_answer()
        self._check(column, "the expected answer", "expected", "COLUMN", likely)
        if not {column, column.partition(".")[0]} & {*self.columns}:
            raise RolloutError(
                f"expected names {column!r}, and the columns are {', '.join(self.columns)}"
            )
        if plan.answered and column == plan.prompt:
            plan.expected = Path(column)
        else:
            plan.answered = plan.answered and plan.is_chat
            plan.expected = self._path(column)
            if grader == "all" and self._are_letters(plan.expected):
                plan.expected = plan.expected.then(LETTERS)
            plan.classes = tuple(self.records[0].classes.get(column, ()))
            if plan.options and plan.options.gold and not given:
                plan.expected = plan.options.gold
            elif (
                plan.options
                and self._share(self._values(plan.expected), is_single) >= FIT
            ):
                plan.expected = plan.expected.then(FIRST)
        if pattern:
            check_pattern(pattern)
            plan.pattern = pattern
        elif not plan.options and grader != "judge":
            why = self._find_pattern() or why
        part = "the last \\boxed{}" if plan.boxed else plan.pattern
        self.reasons.append(f"expected: {column}{f'={part}' if part else ''} ({why})")

    def _are_letters(self, path: Path) -> bool:
        """Whether golds are letters of options, such as AC."""
        letters = re.compile(r"[A-J]+(?:, ?[A-J])*")
        return self._share(map(str, self._values(path)), letters.fullmatch) >= FIT

    def _gold(self, grader: str | None) -> tuple[str, str]:
        """The column of the gold, and why. Raises RolloutError for two that differ."""
        plan = self.plan
        used = {*names_in(plan.prompt), *plan.images, *plan.lists}
        if plan.options and plan.options.kind in ("columns", "column"):
            used |= {path.column for path in plan.options.paths}
        columns = [name for name in self.columns if name not in used]
        names = [
            n for n in EXPECTED if not plan.answered or n not in ("intent", "category")
        ]
        found = [
            column for name in names for column in columns if folded(column) == name
        ]
        if plan.options and plan.options.gold:
            return plan.options.gold.column, "which tells the right option"
        if found:
            self.ask("expected", found, columns)
            self._refuse_two(found)
            return found[0], "a column of that name"
        if plan.answered:
            return plan.prompt, "the assistant's last message"
        for column in columns:
            value = self._first(column)
            if isinstance(value, Mapping) and (
                key := next((n for n in EXPECTED if n in value), "")
            ):
                return f"{column}.{key}", "a part of that name"
        others = [
            name
            for name in columns
            if folded(name) not in ABOUT and not self._has_messages(name)
        ]
        if len(others) == 1 and words_in(others[0]) & ANSWERS - {*ABOUT}:
            return others[0], "the only other column"
        if others and all(not is_texts(self._first(name)) for name in others):
            raise OwnGrade(f"no column is the answer: there are {', '.join(others)}")
        return "", ""

    def _refuse_two(self, found: list[str]) -> None:
        """Raise RolloutError if another column could be the gold, and says another."""
        first = self._values(self._path(found[0]))
        if not self._are_short(first):
            return
        path = self._path(found[0])
        for other in found[1:]:
            if folded(other) in EXPECTED[EXPECTED.index("solution") :]:
                return
            others = self._path(other)
            pairs = [
                (a, b)
                for r in self.records
                if not is_empty(a := path.of(r)) and not is_empty(b := others.of(r))
            ]
            golds = self._are_short([b for _, b in pairs])
            if golds and not self._agree(found[0], other, pairs):
                self._doubt(
                    f"two columns could be the expected answer: {found[0]}, such as "
                    f"{pairs[0][0]!r:.80}, and {other}, such as {pairs[0][1]!r:.80}",
                    {"expected": found[0]},
                    {"expected": other},
                )

    def _agree(self, one: str, other: str, pairs: list[tuple[Any, Any]]) -> bool:
        """Whether two columns say the same: the same text, or always one for the other."""
        same = [text_of(a) in text_of(b) or text_of(b) in text_of(a) for a, b in pairs]
        if sum(same) >= FIT * len(pairs):
            return True
        by_first: dict[str, set[str]] = {}
        for a, b in pairs:
            by_first.setdefault(as_text(a), set()).add(as_text(b))
        values = {as_text(b) for _, b in pairs}
        few = len(by_first) <= LABELS and len(by_first) == len(values)
        if few and all(len(each) == 1 for each in by_first.values()):
            return True
        if not self.plan.options:
            return False
        readings = [self._best_reading(self._path(name)) for name in (one, other)]
        letters = [
            self._letters(self._path(n), r)
            for n, r in zip((one, other), readings, strict=True)
        ]
        both = [(a, b) for a, b in zip(*letters, strict=True) if a and b]
        return len(both) >= 0.5 * len(pairs) and sum(
            a == b for a, b in both
        ) >= FIT * len(both)

    def _find_pattern(self) -> str:
        """Find the short answer in long golds. Returns why, "" if the whole is one."""
        plan = self.plan
        values = self._values(plan.expected)
        texts = [
            v for each in values for v in (each if isinstance(each, list) else [each])
        ]
        if not all(isinstance(text, str) for text in texts):
            return ""
        if self._share(texts, is_number) >= FIT:
            return ""
        if any(re.search(MIDNIGHT, text) for text in texts):
            plan.pattern = rf"^(.*?)(?:{MIDNIGHT})?$"
            return "dates, without the time that pandas gave them"
        short = self._share(texts, is_short) >= FIT
        for name, pattern in MARKED.items() if short else ():
            if self._share(texts, re.compile(pattern).fullmatch) >= FIT:
                plan.pattern, plan.whole = pattern, "brackets" in name
                return f"each has {name}"
        if any(isinstance(value, list) for value in values):
            return ""
        boxes = [last_box(text) for text in texts]
        if self._share(boxes, lambda box: bool(box) and is_short(box)) >= FIT:
            plan.boxed = True
            return "each has \\boxed{ before the answer"
        for name, pattern in [*BEFORE.items()][: 1 if short else None]:
            found = [re.search(pattern, text) for text in texts]
            if self._share(found, lambda one: bool(one) and is_short(one[1])) >= FIT:
                plan.pattern = pattern
                return f"each has {name} before the answer"
        return ""

    # ------------------------------------------------------------------ the grader

    def _golds(self) -> list[Any]:
        """The golds of the records, as the plan finds them."""
        golds = []
        for record in self.records:
            with contextlib.suppress(Unfit):
                golds.append(self.plan.gold(record))
        return golds

    def _choose_grader(self, grader: str | None) -> None:
        plan, golds = self.plan, self._golds()
        if not golds:
            fits = f" that fits {plan.pattern!r}" if plan.pattern else ""
            source = plan.expected
            raise RolloutError(
                f"no record has an answer in {source}{fits}: name another with --expected"
            )
        if not self.native and self._share(golds, lambda g: isinstance(g, bool)) == 1.0:
            self._choosewords()
            golds = self._golds()
        if not self.native and grader in (None, "", "choice"):
            self._listed_in_prompt(golds)
        if not (grader or plan.options or self.native):
            golds = self._without_nothing(golds)
        if grader in (None, "", "text", "choice"):
            self.ask("lists", golds)
        found, why = (grader, "as asked") if grader else self._grader_for(golds)
        plan.grader = found
        if found == "choice":
            found, why = self._choose_names(grader) or (found, why)
            plan.grader = found
        if found not in ("choice", "all", "ordered"):
            plan.options = None
        if found == "calls" and not plan.tools:
            raise RolloutError(
                "the grader calls needs a column `tools`, their definitions"
            )
        if found in ("number", "text") and not (self.native or grader == "number"):
            named = [self._names_an_option(record) for record in self.records]
            if sum(named) > 0.01 * len(named):
                found, plan.grader, plan.lettered = "text", "text", True
                why = f"{sum(named)} questions list options, and the letter earns, too"
        if plan.whole and found == "number":
            found, why = "text", f"{why}, with and without brackets"
            plan.grader = found
        plan.whole = plan.whole and found == "text"
        if found == "number" and not self.native:
            odd = [gold for gold in golds if not Number.reads(gold)]
            if len(odd) == len(golds):
                raise RolloutError(
                    f"the grader number needs numbers, and none of {len(odd)} answers is "
                    f"one, such as {odd[0]!r:.80}: name another grader"
                )
            if odd:
                why += f"; {len(odd)} of {len(golds)} left out, such as {odd[0]!r:.80}"
        self.reasons.append(f"grader: {found} ({why})")

    def _names_an_option(self, record: Record) -> bool:
        """Whether a gold is the text or the letter of an option that the question lists."""
        with contextlib.suppress(Unfit):
            gold = self.plan.gold(record)
            return lettered(gold, self.plan.question(record)) != gold
        return False

    def _without_nothing(self, golds: list[Any]) -> list[Any]:
        """The golds without those that say there is none, such as NuminaMath's `proof`.

        Those that the prompts speak of stay.
        """
        texts = {gold for gold in golds if isinstance(gold, str)}
        if len(texts) <= LABELS:
            return golds
        found = none_in(self, golds)
        self.ask("none", golds, found)
        never = {text for text in texts if text.strip().casefold() in NO_ANSWER}
        self.plan.nothing = tuple(sorted({*found, *never}))
        return [gold for gold in golds if gold not in self.plan.nothing]

    def _choosewords(self) -> None:
        """Call true and false as the question does."""
        plan = self.plan
        texts = [as_text(r.get(self._main())).casefold() for r in self.records]
        told = (
            self._share(texts, lambda text: "true" in text and "false" in text) >= 0.5
        )
        asked = self._share(texts, lambda t: "?" in t or YES_NO.match(t)) >= 0.5
        self.ask("booleans")
        plan.words = ("yes", "no") if asked and not told else ("true", "false")
        plan.options = Options("labels", labels=[*plan.words])
        self.reasons.append(f"true and false are {' and '.join(plan.words)}")

    def _grader_for(self, golds: list[Any]) -> tuple[str, str]:
        """The grader of the golds, and why. Raises RolloutError."""
        plan = self.plan
        if plan.tools and self._share(golds, are_calls) >= FIT:
            return "calls", "each record has tools, and calls of them"
        if plan.options:
            return "choice", "each record has options"
        self.ask("golds", golds)
        padded = self._share(golds, lambda g: re.match(r"\s*0\d", str(g))) == 1.0
        odd = [g for g in golds if not is_number(g) or padded]
        if len(odd) <= (1 - FIT) * len(golds):
            self.ask("numbers", golds)
            some = f"{len(golds) - len(odd)} of" if odd else "all"
            return "number", f"{some} {len(golds)} are numbers"
        if all(isinstance(gold, Mapping) for gold in golds):
            if any(
                re.match("func|check|constraint|rule|verif", key) for key in golds[0]
            ):
                raise OwnGrade(
                    f"{plan.expected.column} names a rule: {shown(golds[0])}"
                )
            self.ask("objects", golds)
            return "json", f"all {len(golds)} are objects"
        parts = [p for one in golds for p in (one if isinstance(one, list) else [one])]
        has_objects = any(isinstance(part, Mapping | list) for part in parts)
        if plan.tools:
            raise RolloutError(
                f"{plan.expected.column} does not have calls with `name` and `arguments`, but "
                f"{shown(golds[0])}: rewrite them, or name a grader with --grader"
            )
        several = (
            len(parts) > len(golds)
            and self._share(parts, lambda part: isinstance(part, str)) < FIT
        )
        if has_objects:
            self.ask("objects", parts)
        if has_objects or several:
            return "json", f"all {len(golds)} are lists"
        texts = [str(part) for part in parts]
        told = self._share(texts, SENTENCE.fullmatch) < 0.5
        if told and self._share(texts, is_short) >= FIT:
            counts = Counter(texts)
            labels = sorted(
                text
                for text in counts
                if counts[text] >= len(texts) / 100 and re.search(r"\w", text)
            )
            covered = sum(counts[label] for label in labels) >= FIT * len(texts)
            different = len({label.casefold() for label in labels}) == len(labels)
            few = covered and 1 < len(labels) <= LABELS and different
            counted = self._share(labels, Number.reads) > 0.5  # 2 hours, of 1 to 5
            are_plain = {label.casefold() for label in counts} in PLAIN
            enough = FEWEST * len(labels) <= len(golds) and not counted
            if are_plain or (few and enough):
                self.ask("labels", labels)
                texts = [*map(plan.question, self.records)]
                listed = [all(f"- {each}" in text for each in labels) for text in texts]
                plan.options = Options(
                    "labels", (), labels, sum(listed) >= FIT * len(listed)
                )
                whole = len(counts) == len(labels)
                most = f"all {len(golds)}" if whole else "nearly all"
                return "choice", f"{most} are one of {len(labels)} labels"
            self.ask("texts")
            if 2 * len(odd) < len(golds):
                return "text", (
                    f"{len(golds) - len(odd)} of {len(golds)} are numbers, but not "
                    f"{odd[0]!r:.80}: --grader number leaves out those that are not numbers"
                )
            return "text", f"all {len(golds)} are short texts"
        words = median(len(text.split()) for text in texts)
        raise RolloutError(
            f"how to compare the answers is not clear: they have {words:g} words (the "
            f"median), such as {max(texts, key=len)!r:.80}. Have a model compare them with "
            "--grader judge, or name the part that counts with --expected 'COLUMN=PATTERN'"
        )

    # ------------------------------------------------------------------ names of options

    def _readings(self, path: Path) -> dict[str, Any]:
        """The ways in which a gold may name an option, the surest first."""
        options = self.plan.options
        ways: dict[str, Any] = {}
        if options and options.kind == "column":
            ways["the label of an option"] = ()
        if options and options.kind == "columns":
            names = [path.column for path in options.paths]
            ways["the name of a column"] = tuple(names)
            ends = [
                match[2] for name in names if (match := OPTION.fullmatch(folded(name)))
            ]
            ways["the end of a column's name"] = tuple(ends)
        ways["a letter or the text of an option"] = None
        ways["the number of an option, from 0"] = range(26)
        ways["the number of an option, from 1"] = range(1, 27)
        return ways

    def _letters(self, path: Path, reading: Any) -> list[str | None]:
        """The letter of each record's gold in one reading, None where it does not fit."""
        plan = self.plan
        kept = plan.names, plan.expected
        plan.names, plan.expected = reading, path
        letters: list[str | None] = []
        try:
            for record in self.records:
                letter = None
                with contextlib.suppress(Unfit):
                    assert plan.options
                    options = plan.options.of(record)
                    gold = plan.letter(record, plan.gold(record))
                    if Choice.takes(gold, options):
                        letter = Choice(gold, options).solution()[7:-1]
                letters.append(letter)
        finally:
            plan.names, plan.expected = kept
        return letters

    def _best_reading(self, path: Path) -> Any:
        ways = self._readings(path)
        fits = {
            why: sum(map(bool, self._letters(path, way))) for why, way in ways.items()
        }
        return ways[max(fits, key=lambda why: fits[why])]

    def _choose_names(self, grader: str | None) -> tuple[str, str] | None:
        """Find how a gold names an option: by letter, text, label or number.

        Returns another grader, and why, if columns called A and B are no options.
        """
        plan = self.plan
        if not plan.options:
            raise RolloutError(
                "the grader choice needs a column `options`, or A, B, C, D"
            )
        options = plan.options
        shown_as = ", ".join(path.column for path in options.paths) or [*options.labels]
        if plan.names is not None or options.kind in ("labels", "shuffled", "letters"):
            self.reasons.append(f"options: {shown_as or 'in the prompt'}")
            return None
        ways = self._readings(plan.expected)
        letters = {why: self._letters(plan.expected, way) for why, way in ways.items()}
        whole = [self._countable(record) for record in self.records]
        count = sum(whole)
        fits = {why: sum(map(bool, found)) for why, found in letters.items()}
        best = max(fits, key=lambda why: fits[why])
        if not fits[best] or fits[best] < FIT * count:
            # Columns called A and B need not be options, unless golds are letters.
            if (
                options.kind == "columns"
                and all(len(path.column) == 1 for path in options.paths)
                and not grader
                and (not fits[best] >= 0.5 * count or count < 0.5 * len(whole))
                and not self._all_are(r"[A-Ja-j]|\d")
            ):
                plan.options = None
                return self._grader_for(self._golds())
            wrong = next(
                (n for n, ok in enumerate(whole) if ok and not letters[best][n]), 0
            )
            self._unclear(
                self.records[wrong],
                "Make it a letter, the text of an option, or its number",
            )
        listed = options.listed and options.kind == "columns" and not grader
        if listed and not self._all_are(r"\(?[A-Ja-j]\)?"):
            plan.options = None  # the prompt compares the columns
            return self._grader_for(self._golds())
        for why, found in letters.items():
            if (
                why != best
                and fits[why] == fits[best]
                and self._differ(found, letters[best])
            ):
                if why.startswith("the number") and not best.startswith("the number"):
                    golds = self._golds()
                    if not (
                        best.startswith("a letter")
                        and self._share(golds, is_number) >= FIT
                    ):
                        continue  # a label or a letter is sure
                    if any(isinstance(gold, str) for gold in golds):
                        continue  # texts of options, all of which are there
                name = plan.expected.column
                record = self.records[next(n for n, ok in enumerate(whole) if ok)]
                self._unclear(
                    record,
                    f"It may be {best}, or {why}",
                    {"expected": f"{name} from 0"},
                    {"expected": f"{name} from 1"},
                )
        plan.names = ways[best]
        if best.startswith("a letter"):
            plan.names = None
        self.reasons.append(f"options: {shown_as}; an answer is {best}")
        return None

    def _all_are(self, pattern: str) -> bool:
        return (
            self._share(map(str, self._golds()), re.compile(pattern).fullmatch) >= FIT
        )

    def _countable(self, record: Record) -> bool:
        """Whether a record has a gold, and options that a choice can take."""
        plan = self.plan
        try:
            plan.gold(record)
        except Unfit:
            return False
        options = plan.options.of(record) if plan.options else []
        return isinstance(options, int) or Choice.takes("A", options)

    @staticmethod
    def _differ(one: list[str | None], other: list[str | None]) -> bool:
        return any(a != b for a, b in zip(one, other, strict=True) if a and b)

    def _unclear(self, record: Record, cure: str, *choices: dict[str, str]) -> None:
        plan = self.plan
        source = plan.expected
        listed = plan.options.of(record) if plan.options else []
        gold = plan.expected.of(record)
        self._doubt(
            f"how {source} names an option is not clear, such as {gold!r:.80} of "
            f"{listed!r:.200} ({record.place}). {cure}",
            *choices,
        )
