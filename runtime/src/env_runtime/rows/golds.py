"""The gold of each record, the options that it may name, and what compares answers."""

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..command_line import counted
from ..errors import RolloutError
from ..graders import Number
from ..notation import last_box
from .asking import LETTER, Asking
from .columns import (
    ABOUT,
    ADDED,
    ANSWERS,
    BEFORE,
    CONTEXTS,
    EXPECTED,
    FEWEST,
    FIT,
    INDEXES,
    LABELS,
    MARKED,
    MIDNIGHT,
    NO_ANSWER,
    OPTION,
    OPTIONS,
    PERHAPS_OPTIONS,
    PLAIN,
    SENTENCE,
    SPELLED,
    SURE,
    TOLD,
    TOPICS,
    WRONG,
    YES_NO,
    are_calls,
    are_joined,
    are_labels,
    check_pattern,
    folded,
    is_number,
    is_scored,
    is_short,
    is_short_list,
    is_single,
    is_texts,
    nearly_all_match,
    share,
    words_in,
)
from .doubts.golds import are_letters, bare, kind_of, none_in, stand_for_something
from .fields import EITHER, as_text, is_empty, is_flagged, lettered, listed_in, names_in
from .fields import LETTERS as ALPHABET
from .grading import GRADINGS
from .naming import Naming
from .plan import (
    BEST,
    FIRST,
    KEYS,
    LETTERS,
    LISTED,
    ONE_EACH,
    PARSED,
    PARTED,
    Options,
    Path,
    Unfit,
)
from .records import Record

CITED = ("reference", "references", "ref")  # which may also be a book
KEY = "key"  # of the right option, where no other column tells it
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
        for path in map(Path, self.columns):
            if share(self.values(path), is_flagged) > 0.5:
                plan.options = Options("column", [path], gold=path.then(BEST))
                return
        names = [*OPTIONS, *["o"][: folded(self.main) == "q"]]
        for column in filter(None, map(self._called_options, names)):
            options = Options("column", [self.path(column)], listed=column in in_prompt)
            asking = [r for r in self.records if not is_empty(r.get(self.main))]
            several = [len(options.of(record)) > 1 for record in asking]
            if sum(several) < 0.5 * len(several):
                continue
            if folded(column) in PERHAPS_OPTIONS and not self._names_one(options):
                continue
            texts = [as_text(record.get(self.main)) for record in self.records]
            told = [
                all(text in asked for text in options.of(record)) and listed_in(asked)
                for record, asked in zip(self.records, texts, strict=True)
            ]
            listed = options.listed or sum(map(bool, told)) >= FIT * len(told)
            plan.options = replace(options, listed=listed)
            return
        wrong = [n for n in self.columns if WRONG.fullmatch(folded(n))]
        right = expected if expected in self.columns else ""
        right = right or self.named(
            ("correct_answer", "best_answer", "answer", "correct")
        )
        if wrong and right:
            paths = [Path(name) for name in wrong]
            paths = [p.then(LISTED) if self._lists(p) else p for p in paths]
            plan.options = Options("shuffled", [Path(right), *paths], gold=Path(right))
            return
        scored = (
            n for n in self.columns if share(self.values(Path(n)), is_scored) >= FIT
        )
        if column := next(scored, ""):
            path = Path(column)
            plan.options = Options("column", [path.then(KEYS)], gold=path.then(BEST))
            return
        if column := self._numbered_list():
            plan.options = Options("column", [Path(column)])
            return
        groups: dict[str, list[str]] = {}
        for name in self.columns:
            if match := OPTION.fullmatch(folded(name)):
                groups.setdefault(match[1].lower(), []).append(name)
        several = [
            names
            for names in groups.values()
            if len(names) > 1
            and expected.partition("=")[0] not in names
            and not (expected.endswith("*") and names[0].startswith(expected[:-1]))
        ]
        for names in several:
            listed = all(name in in_prompt for name in names)
            if listed or not {*names} & {*in_prompt}:
                plan.options = Options("columns", [*map(Path, names)], listed=listed)
                return

    def _called_options(self, name: str) -> str:
        """The column of a name, or of that name and a language, as choices_en; "" if none."""
        if column := self.named([name]):
            return column
        language = re.compile(rf"{name}_[a-z]{{2}}")
        return next((c for c in self.columns if language.fullmatch(folded(c))), "")

    def _numbered_list(self) -> str:
        """The only column with short lists of texts, if another one has their numbers."""
        lists = [
            name
            for name in self.columns
            if folded(name) not in (*CONTEXTS, *EXPECTED)
            and share(self.values(Path(name)), is_short_list) >= FIT
        ]
        index = self.named((*INDEXES, "correct", "correct_answer", "right", KEY))
        numbers = self.values(Path(index)) if index else []
        if len(lists) != 1 or not numbers or index in lists:
            return ""
        options = Options("column", [Path(lists[0])])
        fits = share(
            self.records,
            lambda r: type(r.get(index)) is int and 0 <= r[index] <= len(options.of(r)),
        )
        return lists[0] if fits >= FIT and len({*numbers}) > 1 else ""

    def _lists(self, path: Path) -> bool:
        """Whether texts list several, with semicolons."""
        return share(self.values(path), lambda value: ";" in value) > 0.5

    def _names_one(self, options: Options) -> bool:
        """Whether another column names one: by letter or number, as in ReClor, or its text."""
        found = filter(None, (self.named([name]) for name in (*EXPECTED, KEY)))
        others = [Path(name) for name in found if name != options.paths[0].column]
        return any(self.names_options(path, options) for path in others)

    def _listed_in_prompt(self, golds: list[Any]) -> None:
        """Find options in the prompts, if the golds are letters of them."""
        plan, said = self.plan, bare(golds)
        if plan.options:
            return
        self.ask("letters", said)
        is_index = folded(plan.expected.column) in INDEXES
        texts = map(plan.question, self.records) if is_index else ()
        if (are_letters(said) and not stand_for_something(said)) or (
            share(texts, listed_in) >= FIT
        ):
            paths = () if plan.is_chat else (Path(self.lists_options() or self.main),)
            plan.options = Options("column" if paths else "letters", paths, listed=True)

    # ------------------------------------------------------------------ the gold

    def _choose_expected(self, given: str, grader: str | None) -> None:
        plan = self.plan
        column, pattern = given, ""
        if given not in self.columns and "=" in given:
            column, _, pattern = given.partition("=")
        if column.endswith("*") and (starts := self.starting_with(column[:-1])):
            column, *also = starts
            plan.also = tuple(also)
        match = re.fullmatch(r"(.+) from ([01])", column)
        if match and column not in self.columns:
            column = match[1]
            plan.names = range(int(match[2]), 26 + int(match[2]))
        why = "as asked"
        if not column:
            column, why = self._gold(grader)
        if not {column, column.partition(".")[0]} & {*self.columns}:
            raise RolloutError(
                f"expected names {column!r}, and the columns are {', '.join(self.columns)}"
            )
        if plan.answered and column == plan.prompt:
            plan.expected = Path(column)
            kinds = [kind_of(plan.said(record), False) for record in self.records]
            if share(kinds, lambda kind: kind == "object") >= FIT:
                plan.expected = plan.expected.then(PARSED)
        else:
            plan.answered = plan.answered and plan.is_chat
            plan.expected = self.path(column)
            values = self.values(plan.expected)
            if grader == "all" and nearly_all_match(r"[A-J]+(?:, ?[A-J])*", values):
                plan.expected = plan.expected.then(LETTERS)
            elif grader in ("any", "all", "ordered") and are_joined(values):
                plan.expected = plan.expected.then(PARTED)
            elif grader == "any" and any(
                EITHER.search(v) for v in values if isinstance(v, str)
            ):
                plan.expected = plan.expected.then(ONE_EACH)
            plan.classes = tuple(self.records[0].classes.get(column, ()))
            gold = plan.options.gold if plan.options else None
            if gold and (not given or column == gold.column):
                plan.expected = gold
            elif share(self.values(plan.expected), is_single) >= FIT:
                firsts = plan.expected.then(FIRST)
                golds = self.values(firsts)
                are_few = (
                    are_labels(map(as_text, golds)) or share(golds, is_number) > 0.5
                )
                if plan.options or are_few or nearly_all_match("[A-J]", golds):
                    plan.expected = firsts
            if not given:
                if not (plan.options or plan.answered):
                    plan.also = tuple(n for n in self.columns if self._spells(n))
                self.ask("elsewhere")
        if pattern:
            check_pattern(pattern)
            plan.pattern = pattern
        elif not plan.options and grader != "judge":
            why = self._find_pattern(grader) or why
        shown = plan.pattern if plan.pattern != ADDED else ""  # `why` says it in words
        part = "the last \\boxed{}" if plan.boxed else shown
        names = ", ".join([column, *plan.also])
        self.reasons.append(f"expected: {names}{f'={part}' if part else ''} ({why})")

    def _gold(self, grader: str | None) -> tuple[str, str]:
        """The column of the gold, and why. Raises RolloutError for two that differ."""
        plan = self.plan
        used = {*names_in(plan.prompt), *plan.images, *plan.lists}
        if plan.options and plan.options.kind in ("columns", "column"):
            used |= {path.column for path in plan.options.paths}
        columns = [name for name in self.columns if name not in used]
        if plan.options and plan.options.gold:
            return plan.options.gold.column, "which tells the right option"
        if found := self._called_golds(columns):
            self.ask("expected", found, columns)
            return found[0], "a column of that name"
        if plan.answered:
            return plan.prompt, "the assistant's last message"
        for column in columns:
            value = self.first(column)
            named = [n for n in EXPECTED if n not in TOPICS]
            if isinstance(value, Mapping) and (
                key := next((n for n in named if n in value), "")
            ):
                return f"{column}.{key}", "a part of that name"
        others = [
            name
            for name in columns
            if folded(name) not in ABOUT and not self.has_messages(name)
        ]
        if len(others) == 1 and words_in(others[0]) & ANSWERS - {*ABOUT}:
            return others[0], "the only other column"
        self.must_ask("no expected", others)

    def _called_golds(self, columns: list[str]) -> list[str]:
        """The columns with names of golds, the likeliest first."""
        plan, options = self.plan, self.plan.options
        columns = [name for name in columns if not self.names_splits(name)]
        topics = [column for column in columns if folded(column) in TOPICS]
        named = {folded(column): column for column in columns if column not in topics}
        found = [named[name] for name in EXPECTED if name in named]
        sure = [column for column in columns if self._is_surely_gold(column)]
        found += [column for column in sure if column not in found]
        if folded(self.main) == "q" and not found:
            found = [column for column in columns if folded(column) == "a"]
            if options and options.kind == "column" and not found:
                found = [column for column in columns if folded(column) == "c"]
        if options and options.kind == "column" and not found:
            found = [column for column in columns if folded(column) == KEY]
        if not found:  # Choice: B
            choices = (named[name] for name in ("choice", "choices") if name in named)
            found = [
                n for n in choices if nearly_all_match("[A-J]", self.values(Path(n)))
            ]
        found.sort(key=lambda name: folded(name) in CITED or not words_in(name) & SURE)
        found += [] if plan.answered else topics
        if options and options.kind in ("column", "columns"):
            found.sort(key=lambda name: not self.names_options(Path(name), options))
        return found

    def _is_surely_gold(self, column: str) -> bool:
        """Whether the name of a column says that it has expected answers, as gold_de does."""
        named = words_in(column)
        other = named & ({*ABOUT, *CONTEXTS} | (TOLD - ANSWERS - SURE))
        return bool(named & SURE) and not other and not self._is_wrong(column)

    def _spells(self, column: str) -> bool:
        """Whether a column has lists of other spellings of the answer."""
        if folded(column) not in SPELLED or self.plan.became(column):
            return False
        values = self.values(Path(column))
        lists = all(isinstance(each, list) and is_texts(each) for each in values)
        return lists and self.are_short(one for each in values for one in each)

    def _is_wrong(self, column: str) -> bool:
        return WRONG.fullmatch(folded(column)) is not None

    def _find_pattern(self, grader: str | None) -> str:
        """Find the short answer in long golds. Returns why, "" if the whole is one."""
        plan = self.plan
        values = self.values(plan.expected)
        texts = [
            v for each in values for v in (each if isinstance(each, list) else [each])
        ]
        if not all(isinstance(text, str) for text in texts):
            return ""
        if share(texts, is_number) >= FIT:
            return ""
        if share(texts, lambda text: re.search(f"{MIDNIGHT}$", text)) > 0.5:
            plan.pattern = rf"^(.*?)(?:{MIDNIGHT})?$"
            return "dates, without the time that pandas gave them"
        short = share(texts, is_short) >= FIT
        for name, pattern in MARKED.items() if short else ():
            if share(texts, re.compile(pattern).fullmatch) >= FIT:
                plan.pattern, plan.whole = pattern, "brackets" in name
                return f"each has {name}"
        if any(isinstance(value, list) for value in values):
            return ""
        is_text = grader in (None, "", "text") and len({*texts}) > LABELS
        if short and is_text and (some := self._have_additions(texts)):
            plan.pattern, plan.whole = ADDED, True
            return f"{some} have an addition in brackets, which may be left out"
        boxes = [last_box(text) for text in texts]
        if share(boxes, lambda box: bool(box) and is_short(box)) >= FIT:
            plan.boxed = True
            return "each has \\boxed{ before the answer"
        for name, pattern in [*BEFORE.items()][: 1 if short else None]:
            found = [re.search(pattern, text) for text in texts]
            if share(found, lambda one: bool(one) and is_short(one[1])) >= FIT:
                plan.pattern = pattern
                return f"each has {name} before the answer"
        return ""

    def _have_additions(self, texts: list[str]) -> str:
        """How many of short texts have an addition; "" if none has, or it tells two apart."""
        found = [re.match(ADDED, text.strip()) for text in texts]
        names = {
            text: m[1] if m else text for text, m in zip(texts, found, strict=True)
        }
        some = {text for text, name in names.items() if name != text.strip()}
        same = len({*names.values()}) < len(names)
        count = sum(text in some for text in texts)
        return f"{count} of {len(texts)}" if some and not same else ""

    # ------------------------------------------------------------------ the grader

    def _choose_grader(self, grader: str | None) -> None:
        plan, golds = self.plan, self.golds()
        if not golds:
            self.must_ask("no golds")
        if not self.native and share(golds, lambda g: isinstance(g, bool)) == 1.0:
            self._choose_words(grader)
            golds = self.golds()
        if not self.native and grader in (None, "", "choice"):
            self._listed_in_prompt(golds)
        if not (grader or plan.options or self.native):
            golds = self._without_nothing(golds)
        self.ask("as texts", golds, grader)
        if grader in (None, "", "text", "choice"):
            self.ask("lists", golds)
        found, why = (grader, "as asked") if grader else self._grader_for(golds)
        plan.grader = found
        if found == "choice":
            found, why = self._choose_names(grader) or (found, why)
            plan.grader = found
        if not GRADINGS[found].options:
            plan.options = None
        if found == "calls" and not plan.tools:
            raise RolloutError(
                "the grader calls needs a column `tools`, their definitions"
            )
        if found in ("number", "text") and not (self.native or grader == "number"):
            named = [self._names_an_option(record) for record in self.records]
            if sum(named) > 0.01 * len(named):
                found, plan.grader, plan.lettered = "text", "text", True
                lists = "lists" if sum(named) == 1 else "list"
                why = f"{counted(sum(named), 'question')} {lists} options, and the letter earns, too"
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

    def _choose_words(self, grader: str | None) -> None:
        """Call true and false as the question does."""
        plan = self.plan
        texts = [as_text(r.get(self.main)).casefold() for r in self.records]
        told = share(texts, lambda text: "true" in text and "false" in text) >= 0.5
        asked = share(texts, lambda t: "?" in t or YES_NO.match(t)) >= 0.5
        self.ask("booleans", [*map(plan.question, self.records)], grader)
        plan.words = ("yes", "no") if asked and not told else ("true", "false")
        plan.options = Options("labels", labels=[*plan.words])
        self.reasons.append(f"true and false are {' and '.join(plan.words)}")

    def _grader_for(self, golds: list[Any]) -> tuple[str, str]:
        """The grader of the golds, and why. Raises RolloutError."""
        plan = self.plan
        if plan.tools and share(golds, are_calls) >= FIT:
            return "calls", "each record has tools, and calls of them"
        if plan.options:
            return "choice", "each record has options"
        self.ask("golds", golds)
        padded = share(golds, lambda g: re.match(r"\s*0\d", str(g))) == 1.0
        odd = [g for g in golds if not is_number(g) or padded]
        if len(odd) <= (1 - FIT) * len(golds):
            self.ask("numbers", golds)
            some = f"{len(golds) - len(odd)} of" if odd else "all"
            return "number", f"{some} {len(golds)} are numbers"
        if all(isinstance(gold, Mapping) for gold in golds):
            self.ask("objects", golds)
            return "json", f"all {len(golds)} are objects"
        parts = [p for one in golds for p in (one if isinstance(one, list) else [one])]
        has_objects = any(isinstance(part, Mapping | list) for part in parts)
        self.ask("calls", golds, [*map(as_text, parts)])
        several = (
            len(parts) > len(golds)
            and share(parts, lambda part: isinstance(part, str)) < FIT
        )
        if has_objects:
            self.ask("objects", parts)
        if several:
            self.ask("places", golds)
        if has_objects or several:
            return "json", f"all {len(golds)} are lists"
        texts = [str(part) for part in parts]
        told = share(texts, SENTENCE.fullmatch) < 0.5
        if told and share(texts, is_short) >= FIT:
            counts = Counter(texts)
            labels = sorted(
                text
                for text in counts
                if counts[text] >= len(texts) / 100 and re.search(r"\w", text)
            )
            covered = sum(counts[label] for label in labels) >= FIT * len(texts)
            different = len({label.casefold() for label in labels}) == len(labels)
            few = covered and 1 < len(labels) <= LABELS and different
            are_counts = share(labels, Number.reads) > 0.5  # 2 hours, of 1 to 5
            are_plain = {label.casefold() for label in counts} in PLAIN
            enough = FEWEST * len(labels) <= len(golds) and not are_counts
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
            self.ask("texts", golds)
            if 2 * len(odd) < len(golds):
                return "text", (
                    f"{len(golds) - len(odd)} of {len(golds)} are numbers, but not "
                    f"{odd[0]!r:.80}: --grader number leaves out those that are not numbers"
                )
            return "text", f"all {len(golds)} are short texts"
        self.ask("sentences", golds)
        self.must_ask("long", texts)

    # ------------------------------------------------------------------ names of options

    def _choose_names(self, grader: str | None) -> tuple[str, str] | None:
        """Find how a gold names an option.

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
        naming = Naming(self, plan.expected)
        if not (naming.fits[naming.best] and naming.fit(FIT)):
            # Columns called A and B need not be options, unless golds are letters.
            few = sum(naming.countable) < 0.5 * len(self.records)
            if (
                options.kind == "columns"
                and all(len(path.column) == 1 for path in options.paths)
                and not grader
                and (few or not naming.fits[naming.best] or not naming.fit(0.5))
                and not nearly_all_match(rf"{LETTER}|[A-J]{{2,}}", self.golds())
            ):
                plan.options = None
                return self._grader_for(self.golds())
            self.must_ask("option", naming)
        listed = options.listed and options.kind == "columns" and not grader
        if listed and not nearly_all_match(r"\(?[A-Ja-j]\)?", self.golds()):
            plan.options = None  # the prompt compares the columns
            return self._grader_for(self.golds())
        self.ask("options", naming)
        plan.names = naming.ways[naming.best]
        self.reasons.append(f"options: {shown_as}; an answer is {naming.best}")
        return None
