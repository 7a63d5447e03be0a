"""A plan for a dataset: as asked, or chosen by looking at its records.

Raises RolloutError for what the records do not tell. Nothing is guessed: a wrong choice
would be an environment that looks right.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from ..command_line import counted
from ..episode.tasks import task_of
from ..errors import RolloutError, one_line
from ..graders import Choice, Number, last_box
from .fields import as_text, is_empty, listed_in, names_in
from .plan import ALIASES, BOXED, FIRST, PARSED, Options, Path, Plan, Unfit, shown
from .records import Record

GRADERS = ("number", "choice", "text", "json", "judge", "calls")
FIT = 0.95  # the share of complete records that have to fit
# Answers are labels if there are few of them, each so many times on average.
LABELS, FEWEST = 10, 5
SAME = 0.8  # the share of equal answers that is worth a note
SHORT = 12  # the most words of an answer that is compared as text
OFTEN_EMPTY = 0.2  # the share of records that may lack a column of the prompt


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names of columns in lower case, the most likely first
PROMPTS = _words(
    "question problem prompt instruction query input goal question_stem stem ctx puzzle "
    "riddle utterance claim statement sentence text task"
)
CONTEXTS = _words(
    "context contexts passage passages article paragraph paragraphs document documents story "
    "input body premise background scenario dialogue table code snippet abstract transcript "
    "narrative hypothesis sentence1 sentence2 pre_text post_text description ctx"
)
MESSAGES = _words("messages conversations conversation chat prompt")
EXPECTED = _words(
    "expected_answer final_answer answer answers answerkey answer_key correct_answer "
    "correct_option correct gold gold_label ground_truth target label_text label_name label "
    "final_decision cop answer_idx answer_index correct_index correct_choice best_answer "
    "answers_spans solution output response completion intent category"
)
CLASSES = _words("label gold_label target class category intent sentiment")
INDEXES = _words(
    "cop answer_idx answer_index correct_index correct_option correct_choice"
)
OPTIONS = _words("options choices endings candidates mc1_targets")
# Columns of one option each, such as A, option_b, choice3, opa, sol1, answerA, ending0
OPTION = re.compile(
    r"(|op|opt|option|choice|ending|sol|answer|alternative)_?([a-j]|\d)", re.IGNORECASE
)
WRONG = re.compile(
    r"(?:distractor|incorrect|wrong)_?(?:answer|option|choice)?s?_?\d*", re.IGNORECASE
)
# Words in names of columns that explain an answer, are about a record, or are a model's
EXPLAINS = _words(
    "explanation explain rationale exp reason reasons reasoning cot chain thought thinking "
    "solution solutions support supporting hint hints proof equation equations formula "
    "annotated decomposition derivation working step steps feedback revision revised validator "
    "response responses output outputs completion generated generation generations prediction "
    "correct incorrect wrong distractor answer answers gold label labels target truth comment "
    "note estimate confidence program chosen rejected logical facts expected evidence"
)
ABOUT = _words(
    "id ids idx index uid uuid guid qid key hash url link source src dataset split subset "
    "subject topic category domain field level difficulty grade type kind tag tags lang "
    "language license author date year time created version title name meta metadata exam "
    "canary score rating count length config concept email file filename path style ability "
    "extra_info data_source word_count tokens"
)
IMAGES = _words("image images img picture figure photo")
# Columns of tests, and of rules, that no expected answer stands for
TESTS = (
    {"test_list"},
    {"test", "entry_point"},
    {"test", "prompt", "canonical_solution"},
)
TESTS += ({"input_output", "question"}, {"tests", "code"})
RULES = ({"instruction_id_list"}, {"nums", "target"}, {"numbers", "target"})
# The text before the answer in a long solution
BEFORE = {"####": r"####\s*(.+)"}
BEFORE["answer:"] = r"(?i)answer\s*(?:is|:)\s*(.+)"


class OwnGrade(RolloutError):
    """A dataset that no grader here is for: its rows need a grade of their own."""


class Chooser:
    """Chooses a plan for the first records of a dataset, and says why."""

    def __init__(self, records: list[Record], command: str = "") -> None:
        """`command` is what the user ran, for messages that complete it."""
        self.records, self.command = records, command
        self.plan = Plan(native="responses_create_params" in records[0])
        self.reasons: list[str] = []
        self.unused: dict[str, str] = {}  # why columns are left out
        self.why_prompt = ""

    @property
    def columns(self) -> list[str]:
        """The columns that have a value in a record."""
        found = {name: False for record in self.records for name in record}
        for record in self.records:
            for name, value in record.items():
                found[name] = found[name] or not is_empty(value)
        return [name for name, has_value in found.items() if has_value]

    def choose(
        self, prompt: str = "", expected: str = "", grader: str | None = ""
    ) -> Plan:
        """The plan. Raises RolloutError if a part is neither given nor clear."""
        plan = self.plan
        if plan.native:
            rows = self.records
            self.records = [Record(task_of(row), row.place) for row in rows]
            self.reasons.append("the rows are NeMo Gym's and stay as they are")
            plan.key = expected or self._named(EXPECTED)
            self._check(plan.key, "the expected answer", "expected", "COLUMN")
            plan.gold = Path(plan.key)
            if any("tools" in row["responses_create_params"] for row in rows):
                plan.tools = Path("tools")
            self._choose_grader(grader)
            return plan
        if not (prompt and expected):
            self._refuse_others()
        self._choose_lists(prompt)
        plan.missing = {
            name for name in self.columns if any(name not in r for r in self.records)
        }
        self._choose_prompt(prompt)
        if column := self._named(("tools", "functions")):
            plan.tools = self._path(column)
        if grader in (None, "", "choice"):
            self._choose_options(asked=grader == "choice")
        self._choose_expected(expected, grader)
        self._choose_grader(grader)
        if not prompt and not plan.is_chat:
            self._choose_contexts()
        plan.needed = self._needed()
        plan.has_id = "id" in self.columns and "id" not in plan.missing
        self.reasons.insert(0, f"prompt: {plan.prompt!r} ({self.why_prompt})")
        self._count_fits(asked=bool(grader or expected))
        for name in self.columns:
            if not plan.became(name):
                self.unused.setdefault(name, "")
        return plan

    # ------------------------------------------------------------------ other kinds

    def _refuse_others(self) -> None:
        """Raise RolloutError for datasets that no expected answer grades."""
        columns = {_folded(name) for name in self.columns}
        if any(names <= columns for names in TESTS):
            raise RolloutError(
                "its answers are programs, which tests grade: copy with -d "
                "archetype=sandbox in place of archetype=answer"
            )
        if found := next((names for names in RULES if names <= columns), None):
            raise OwnGrade(
                f"{' and '.join(sorted(found))} say what an answer must do, and no column is "
                "the answer"
            )

    # ------------------------------------------------------------------ the prompt

    def _choose_lists(self, prompt: str) -> None:
        """Find the questions in records that hold several, such as SQuAD's."""
        plan = self.plan
        wanted = {*_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        while not wanted <= {*self.columns}:
            known = self.columns
            lists = [n for n in known if n not in plan.lists and self._has_objects(n)]
            if not lists or len(plan.lists) == 3:
                return
            plan.lists.append(lists[0])
            self.records = [
                Record({**record, **item}, record.place)
                for record in self.records
                for item in record.get(lists[0]) or []
            ]
            wanted = {*_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        if plan.lists:
            self.reasons.append(f"a record has its questions in {'.'.join(plan.lists)}")

    def _choose_prompt(self, prompt: str) -> None:
        why = "as asked"
        if not prompt:
            chat = next((n for n in MESSAGES if self._has_messages(n)), "")
            asks = self._named(
                name for name in PROMPTS if name != chat and self._is_text(name)
            )
            prompt, why = chat, "a column of messages"
            if asks:
                prompt, why = f"{{{asks}}}", "a column of that name"
            others = [
                n
                for n in self.columns
                if _folded(n) not in (*EXPECTED, "id") and self._is_text(n)
            ]
            if not prompt and len(others) == 1 and not OPTION.fullmatch(others[0]):
                prompt, why = f"{{{others[0]}}}", "the only other column"
            named = self._named(PROMPTS)
            if not prompt and named:
                raise OwnGrade(
                    f"{named} is no text, such as {self._first(named)!r:.80}"
                )
            self._check(prompt, "the prompt", "prompt", "{COLUMN}")
        elif prompt in self.columns and not self._has_objects(prompt):
            prompt = f"{{{prompt}}}"
        for name in _names(prompt) or [prompt]:
            if name in self.columns and re.search(r"[.\[]", name):
                raise RolloutError(
                    f"no template can name the column {name!r}: rename it, without . and ["
                )
            if name not in self.columns:
                raise RolloutError(
                    f"the prompt {prompt!r} names {name!r}, and the columns are "
                    f"{', '.join(self.columns)}"
                )
        self.plan.prompt, self.why_prompt = prompt, why
        self.plan.images = [n for n in self.columns if self._are_images(n)]
        if self.plan.is_chat:
            last = self._first(prompt)[-1]
            plan = self.plan
            plan.answered = last.get("role", last.get("from")) in ("assistant", "gpt")
            plan.chat_key = "value" if "value" in last else "content"
            asked = [*self._first(prompt)][-2] if plan.answered else last
            plan.chat_in_parts = isinstance(asked.get(plan.chat_key), list)

    def _are_images(self, column: str) -> bool:
        """Whether a column holds images. Raises RolloutError if only their names."""
        value = self._first(column)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, bytes) or (
            isinstance(value, Mapping) and "bytes" in value
        ):
            return True
        text = value if isinstance(value, str) else ""
        if text.startswith("data:image/"):
            return True
        is_file = re.search(r"(?i)\.(png|jpe?g|gif|webp|bmp|tiff?)(\?\S*)?$", text)
        named = _folded(column) in IMAGES or column.lower().endswith(("image", "img"))
        if is_file and text.startswith("http"):
            return True
        if (
            named
            and text
            and (is_file or " " not in text)
            or (is_file and " " not in text)
        ):
            raise RolloutError(
                f"the column {column!r} names images, such as {text!r:.80}, and a row needs "
                "the image itself: put it into the records, as a URL or as bytes of Parquet"
            )
        return False

    def _choose_contexts(self) -> None:
        """Put what the question is about into the prompt, in the order of the file."""
        plan = self.plan
        main = names_in(plan.prompt)
        parts = []
        for name in self.columns:
            reason = "" if plan.became(name) else self._apart(name)
            if reason:
                self.unused[name] = reason
            elif name in main or not plan.became(name):
                parts.append(name)
        if len(parts) > 1:
            titles = [name.replace("_", " ").strip().capitalize() for name in parts]
            pairs = zip(titles, parts, strict=True)
            plan.prompt = "\n\n".join(f"{title}: {{{name}}}" for title, name in pairs)
            self.why_prompt = "the columns that the question is about"

    def _apart(self, column: str) -> str:
        """Why a column is not in the prompt; "" if it belongs to it.

        Raises RolloutError if that is not clear.
        """
        values = [
            record[column]
            for record in self.records
            if not is_empty(record.get(column))
        ]
        words = {*_folded(column).split("_")}
        is_context = _folded(column) in CONTEXTS
        if re.search(r"[.\[{}]", column):
            return "a name that no template can have"
        if not is_context and words & {*EXPLAINS}:
            return "about the answer"
        if not is_context and words & {*ABOUT}:
            return "about the record"
        if not is_context and not all(_is_texts(value) for value in values):
            return "no text"
        texts = [as_text(value) for value in values]
        main = [
            as_text(r.get(self._main()))
            for r in self.records
            if not is_empty(r.get(column))
        ]
        inside = [
            t.strip() in m or m.strip() in t for t, m in zip(texts, main, strict=True)
        ]
        if sum(inside) >= FIT * len(texts):
            return "the question again"
        if is_context:
            return ""
        if len({*texts}) < max(2, len(texts) / 3):
            return "few values"
        if all(" " not in text.strip() for text in texts) and all(
            map(_is_number, texts)
        ):
            return "no text"
        if all(re.fullmatch(r"\S*[\d_/:.-]\S*", text) for text in texts):
            return "a name or a number"
        if self._leaks(column):
            with_it = f"{{{column}}}\n\n{{{self._main()}}}"
            self._doubt(
                f"whether {column} belongs to the prompt is not clear: it holds the answer, as "
                f"a passage or as an explanation, such as {shown(texts[0])!r}",
                {"prompt": with_it},
                {"prompt": f"{{{self._main()}}}"},
            )
        return ""

    def _main(self) -> str:
        return next(iter(names_in(self.plan.prompt)), self.plan.prompt)

    def _leaks(self, column: str) -> bool:
        """Whether a column has the answer in many records."""
        found = count = 0
        for record in self.records:
            with contextlib.suppress(Unfit):
                for gold in self._said(record):
                    count += 1
                    text = as_text(record.get(column)).casefold()
                    found += bool(re.search(rf"(?<!\w){re.escape(gold)}(?!\w)", text))
                    break
        return count > 0 and found >= 0.3 * count

    def _said(self, record: Record) -> list[str]:
        """The answers to a record as text, without letters of options."""
        plan = self.plan
        gold = plan.expected(record)
        options = plan.options.of(record) if plan.options else None
        if isinstance(options, list) and plan.options and plan.options.kind != "labels":
            letter = plan.letter(record, gold)
            if Choice.takes(letter, options):
                gold = options[ord(Choice(letter, options).solution()[7]) - ord("A")]
        golds = gold if isinstance(gold, list) else [gold]
        return [text for each in golds if (text := as_text(each).strip().casefold())]

    def _needed(self) -> list[str]:
        """The columns that may not be empty: Alpaca's `input` often is."""
        plan, names = self.plan, list(dict.fromkeys(names_in(self.plan.prompt)))
        if plan.is_chat:
            names = [plan.prompt]
        count = len(self.records)
        needed = [
            name
            for name in names
            if sum(is_empty(r.get(name)) for r in self.records) <= OFTEN_EMPTY * count
            and (_folded(name) != "input" or len(names) == 1)
        ]
        paths = [plan.gold, *(plan.options.paths if plan.options else [])]
        needed += [path.column for path in paths if path.steps and not plan.answered]
        return list(dict.fromkeys(needed or names))

    # ------------------------------------------------------------------ the options

    def _choose_options(self, asked: bool) -> None:
        plan, in_prompt = self.plan, names_in(self.plan.prompt)
        if column := self._named(OPTIONS):
            path = self._path(column)
            value = self._first(column)
            if isinstance(value, Mapping) and "choices" in value:  # TruthfulQA
                path = path.then("item", "choices")
            plan.options = Options("column", [path], listed=column in in_prompt)
            return
        wrong = [n for n in self.columns if WRONG.fullmatch(_folded(n))]
        if wrong and (
            right := self._named(("correct_answer", "best_answer", "answer"))
        ):
            plan.options = Options("shuffled", [Path(right), *map(Path, wrong)])
            plan.splatted = {n for n in wrong if isinstance(self._first(n), list)}
            return
        groups: dict[str, list[str]] = {}
        for name in self.columns:
            if match := OPTION.fullmatch(name):
                groups.setdefault(match[1].lower(), []).append(name)
        several = [names for names in groups.values() if len(names) > 1]
        for names in several:
            listed = all(name in in_prompt for name in names)
            if listed or not {*names} & {*in_prompt}:
                plan.options = Options("columns", [*map(Path, names)], listed=listed)
                return

    def _listed_in_prompt(self, golds: list[Any]) -> None:
        """Find options in the prompts, if the golds are letters of them."""
        plan = self.plan
        letters = [
            re.fullmatch(r"\(?([A-Za-z])[).]?", str(gold).strip()) for gold in golds
        ]
        if plan.options or sum(map(bool, letters)) < FIT * len(golds):
            return
        column = self._main()
        texts = [as_text(record.get(column)) for record in self.records]
        if plan.is_chat:
            texts = [
                as_text(plan._asked(r, None)[-1][plan.chat_key]) for r in self.records
            ]
        has = [bool(listed_in(text)) for text in texts]
        if sum(has) < FIT * len(has):
            raise RolloutError(
                f"{plan.gold.column} has letters, such as {golds[0]!r}, and neither a column "
                "nor the prompt has the options: name the columns with --prompt "
                "'{question} A. {first} B. {second}' --grader choice"
            )
        kind = "letters" if plan.is_chat else "column"
        plan.options = Options(kind, [Path(column)] * (kind == "column"), listed=True)

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
        self._check(column, "the expected answer", "expected", "COLUMN")
        if not {column, column.partition(".")[0]} & {*self.columns}:
            raise RolloutError(
                f"expected names {column!r}, and the columns are {', '.join(self.columns)}"
            )
        if plan.answered and column == plan.prompt:
            plan.gold = Path(column)
        else:
            plan.answered = plan.answered and plan.is_chat
            plan.gold = self._path(column)
            if plan.options and self._share(self._values(plan.gold), _is_single) >= FIT:
                plan.gold = plan.gold.then(FIRST)
        if pattern:
            _check_pattern(pattern)
            plan.pattern = pattern
        elif not plan.options and grader != "judge":
            why = self._find_pattern() or why
        part = "the last \\boxed{}" if plan.boxed else plan.pattern
        self.reasons.append(f"expected: {column}{f'={part}' if part else ''} ({why})")

    def _gold(self, grader: str | None) -> tuple[str, str]:
        """The column of the gold, and why. Raises RolloutError for two that differ."""
        plan = self.plan
        used = {*names_in(plan.prompt), *plan.images, *plan.lists}
        if plan.options and plan.options.kind == "columns":
            used |= {path.column for path in plan.options.paths}
        columns = [name for name in self.columns if name not in used]
        found = [
            column for name in EXPECTED for column in columns if _folded(column) == name
        ]
        if plan.options and plan.options.kind == "shuffled":
            return plan.options.paths[0].column, "beside the wrong ones"
        if found:
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
        others = [name for name in columns if name != "id"]
        if len(others) == 1:
            return others[0], "the only other column"
        if others and all(not _is_texts(self._first(name)) for name in others):
            raise OwnGrade(f"no column is the answer: there are {', '.join(others)}")
        return "", ""

    def _refuse_two(self, found: list[str]) -> None:
        """Raise RolloutError if another column could be the gold, and says another."""
        first = self._values(self._path(found[0]))
        if not self._are_golds(first):
            return
        for other in found[1:]:
            if _folded(other) in EXPECTED[EXPECTED.index("solution") :]:
                return
            pairs = [
                (a, b)
                for r in self.records
                if not is_empty(a := self._path(found[0]).of(r))
                and not is_empty(b := self._path(other).of(r))
            ]
            golds = self._are_golds([b for _, b in pairs])
            if golds and not self._agree(found[0], other, pairs):
                self._doubt(
                    f"two columns could be the expected answer: {found[0]}, such as "
                    f"{pairs[0][0]!r:.80}, and {other}, such as {pairs[0][1]!r:.80}",
                    {"expected": found[0]},
                    {"expected": other},
                )

    def _are_golds(self, values: list[Any]) -> bool:
        texts = [text for value in values for text in [as_text(value)]]
        return bool(texts) and self._share(texts, _is_short) >= FIT

    def _agree(self, one: str, other: str, pairs: list[tuple[Any, Any]]) -> bool:
        """Whether two columns say the same: the same text, or always one for the other."""
        same = [
            _text_of(a) in _text_of(b) or _text_of(b) in _text_of(a) for a, b in pairs
        ]
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
        texts = self._values(plan.gold)
        if not all(isinstance(text, str) for text in texts):
            return ""
        if self._share(texts, _is_number) >= FIT:
            return ""
        short = self._share(texts, _is_short) >= FIT
        boxes = [last_box(text) for text in texts]
        if self._share(boxes, lambda box: bool(box) and _is_short(box)) >= FIT:
            plan.boxed = True
            return "each has \\boxed{ before the answer"
        for name, pattern in [*BEFORE.items()][: 1 if short else None]:
            found = [re.search(pattern, text) for text in texts]
            if self._share(found, lambda one: bool(one) and _is_short(one[1])) >= FIT:
                plan.pattern = pattern
                return f"each has {name} before the answer"
        return ""

    def _values(self, path: Path) -> list[Any]:
        """The values of the records at a path, those that are empty left out."""
        plan = self.plan
        if plan.answered and path.column == plan.prompt:
            found = [
                (r.get(plan.prompt) or [{}])[-1].get(plan.chat_key)
                for r in self.records
            ]
        else:
            found = [path.of(record) for record in self.records]
        return [value for value in found if not is_empty(value)]

    @staticmethod
    def _share(values: Iterable[Any], test: Any) -> float:
        values = [*values]
        return (
            sum(bool(test(value)) for value in values) / len(values) if values else 0.0
        )

    # ------------------------------------------------------------------ the grader

    def _golds(self) -> list[Any]:
        """The golds of the records, as the plan finds them."""
        golds = []
        for record in self.records:
            with contextlib.suppress(Unfit):
                golds.append(self.plan.expected(record))
        return golds

    def _choose_grader(self, grader: str | None) -> None:
        plan, golds = self.plan, self._golds()
        if not golds:
            fits = f" that fits {plan.pattern!r}" if plan.pattern else ""
            source = plan.gold.source(f"record[{json.dumps(plan.gold.column)}]")
            raise RolloutError(f"no record has an answer in {source}{fits}")
        if not plan.native and self._share(golds, lambda g: isinstance(g, bool)) == 1.0:
            self._choose_words()
            golds = self._golds()
        if not plan.native and grader in (None, "", "choice"):
            self._listed_in_prompt(golds)
        found, why = (grader, "as asked") if grader else self._grader_for(golds)
        plan.grader = found
        if found == "choice":
            self._choose_names(grader)
        if plan.grader != "choice":
            plan.options = plan.options if plan.words and found == "choice" else None
        found = plan.grader
        if found == "calls" and not plan.tools:
            raise RolloutError(
                "the grader calls needs a column `tools`, their definitions"
            )
        if found == "number" and not plan.native:
            odd = [gold for gold in golds if not Number.reads(gold)]
            if len(odd) == len(golds):
                raise RolloutError(
                    f"the grader number needs numbers, and none of {len(odd)} answers is "
                    f"one, such as {odd[0]!r:.80}: name another grader"
                )
            if odd:
                why += f"; {len(odd)} of {len(golds)} left out, such as {odd[0]!r:.80}"
        self.reasons.append(f"grader: {found} ({why})")
        [(most, count)] = Counter(map(str, golds)).most_common(1)
        if count >= SAME * len(golds) and len(golds) > 1:
            self.reasons.append(
                f"{count} of {len(golds)} answers are {most!r:.80}: a policy that always "
                "says so earns as much"
            )

    def _choose_words(self) -> None:
        """Call true and false as the question does."""
        plan = self.plan
        texts = [as_text(r.get(self._main())).casefold() for r in self.records]
        told = (
            self._share(texts, lambda text: "true" in text and "false" in text) >= 0.5
        )
        asked = self._share(texts, lambda t: "?" in t or _YES_NO.match(t)) >= 0.5
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
        if _folded(plan.gold.column) in INDEXES:
            raise RolloutError(
                f"{plan.gold.column} names an option, and no column has the options: there are "
                f"{', '.join(self.columns)}. Name them with --prompt and --grader choice"
            )
        padded = self._share(golds, lambda g: re.match(r"\s*0\d", str(g))) == 1.0
        odd = [g for g in golds if not _is_number(g) or padded]
        if len(odd) <= (1 - FIT) * len(golds):
            self._refuse_classes(golds)
            whole = (
                f"all {len(golds)}"
                if not odd
                else f"{len(golds) - len(odd)} of {len(golds)}"
            )
            return "number", f"{whole} are numbers"
        if all(isinstance(gold, Mapping) for gold in golds):
            return "json", f"all {len(golds)} are objects"
        parts = [p for one in golds for p in (one if isinstance(one, list) else [one])]
        if len(parts) > len(golds) and not all(isinstance(p, str) for p in parts):
            return "json", f"all {len(golds)} are lists"
        texts = [str(part) for part in parts]
        if self._share(texts, _is_short) >= FIT:
            counts = Counter(texts)
            labels = sorted(text for text in counts if counts[text] >= len(texts) / 100)
            covered = sum(counts[label] for label in labels) >= FIT * len(texts)
            different = len({label.casefold() for label in labels}) == len(labels)
            few = covered and 1 < len(labels) <= LABELS and different
            if few and FEWEST * len(labels) <= len(golds):
                plan.options = Options("labels", labels=labels)
                whole = (
                    f"all {len(golds)}" if len(counts) == len(labels) else "nearly all"
                )
                return "choice", f"{whole} are one of {len(labels)} labels"
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

    def _refuse_classes(self, golds: list[Any]) -> None:
        """Raise RolloutError for numbers that stand for something, or are in the prompt."""
        plan = self.plan
        values = {str(gold) for gold in golds}
        is_class = _folded(plan.gold.column) in CLASSES and len(values) <= LABELS
        whole = all(re.fullmatch(r"-?\d{1,2}(\.0)?", value) for value in values)
        zero_one = values <= {"0", "1", "0.0", "1.0"}
        few = len(golds) >= FEWEST * len(values) > FEWEST
        if whole and few and (is_class or zero_one) and self.why_prompt != "as asked":
            listed = ", ".join(sorted(values))
            raise RolloutError(
                f"{plan.gold.column} is one of {listed}, and nothing says what they mean: say "
                f"it in the prompt, such as --prompt '{{{self._main()}}} Answer 0 for no, 1 "
                "for yes.'"
            )
        if self.why_prompt == "as asked" or plan.native or plan.is_chat:
            return
        said = 0
        for record in self.records:
            with contextlib.suppress(Unfit):
                gold, text = (
                    str(plan.expected(record)),
                    as_text(record.get(self._main())),
                )
                found = re.search(rf"(?<![\d.]){re.escape(gold)}(?![\d.]|\w)", text)
                said += len(gold) > 1 and bool(found)
        if said >= 0.9 * len(golds):
            raise OwnGrade(f"{plan.gold.column} is in the question, as an input")

    # ------------------------------------------------------------------ names of options

    def _readings(self, path: Path) -> dict[str, Any]:
        """The ways in which a gold may name an option, the surest first."""
        options = self.plan.options
        ways: dict[str, Any] = {}
        if options and options.kind == "column":
            ways["the label of an option"] = []
        if options and options.kind == "columns":
            names = [path.column for path in options.paths]
            ways["the name of a column"] = names
            ends = [match[2] for name in names if (match := OPTION.fullmatch(name))]
            ways["the end of a column's name"] = ends
        ways["a letter or the text of an option"] = None
        ways["the number of an option, from 0"] = range(26)
        ways["the number of an option, from 1"] = range(1, 27)
        return ways

    def _letters(self, path: Path, reading: Any) -> list[str | None]:
        """The letter of each record's gold in one reading, None where it does not fit."""
        plan = self.plan
        kept = plan.names, plan.gold
        plan.names, plan.gold = reading, path
        letters: list[str | None] = []
        try:
            for record in self.records:
                letter = None
                with contextlib.suppress(Unfit):
                    assert plan.options
                    options = plan.options.of(record)
                    gold = plan.letter(record, plan.expected(record))
                    if Choice.takes(gold, options):
                        letter = Choice(gold, options).solution()[7:-1]
                letters.append(letter)
        finally:
            plan.names, plan.gold = kept
        return letters

    def _best_reading(self, path: Path) -> Any:
        ways = self._readings(path)
        fits = {
            why: sum(map(bool, self._letters(path, way))) for why, way in ways.items()
        }
        return ways[max(fits, key=lambda why: fits[why])]

    def _choose_names(self, grader: str | None) -> None:
        """Find how a gold names an option: by letter, text, label or number."""
        plan = self.plan
        if not plan.options:
            raise RolloutError(
                "the grader choice needs a column `options`, or A, B, C, D"
            )
        options = plan.options
        shown_as = ", ".join(path.column for path in options.paths) or options.labels
        if plan.names is not None or options.kind in ("labels", "shuffled", "letters"):
            self.reasons.append(f"options: {shown_as or 'in the prompt'}")
            return
        ways = self._readings(plan.gold)
        letters = {why: self._letters(plan.gold, way) for why, way in ways.items()}
        whole = [self._countable(record) for record in self.records]
        count = sum(whole)
        fits = {why: sum(map(bool, found)) for why, found in letters.items()}
        best = max(fits, key=lambda why: fits[why])
        if not fits[best] or fits[best] < FIT * count:
            if (
                options.kind == "columns"
                and not grader
                and (not fits[best] >= 0.5 * count or count < 0.5 * len(whole))
            ):
                # Columns called A and B need not be options, unless golds are letters.
                golds = self._golds()
                if (
                    self._share(golds, lambda g: re.fullmatch(r"[A-Ja-j]|\d", str(g)))
                    < FIT
                ):
                    plan.options = None
                    plan.grader, why = self._grader_for(golds)
                    return
            wrong = next(
                (n for n, ok in enumerate(whole) if ok and not letters[best][n]), 0
            )
            self._unclear(
                self.records[wrong],
                "Make it a letter, the text of an option, or its number",
            )
        if options.listed and options.kind == "columns" and not grader:
            golds = self._golds()
            if (
                self._share(golds, lambda g: re.fullmatch(r"\(?[A-Ja-j]\)?", str(g)))
                < FIT
            ):
                plan.options = None  # the prompt compares the columns
                plan.grader, _ = self._grader_for(golds)
                return
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
                        and self._share(golds, _is_number) >= FIT
                    ):
                        continue  # a label or a letter is sure
                    if any(isinstance(gold, str) for gold in golds):
                        continue  # texts of options, all of which are there
                name = plan.gold.column
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

    def _countable(self, record: Record) -> bool:
        """Whether a record has a gold, and options that a choice can take."""
        plan = self.plan
        try:
            plan.expected(record)
        except Unfit:
            return False
        options = plan.options.of(record) if plan.options else []
        return isinstance(options, int) or Choice.takes("A", options)

    @staticmethod
    def _differ(one: list[str | None], other: list[str | None]) -> bool:
        return any(a != b for a, b in zip(one, other, strict=True) if a and b)

    def _unclear(self, record: Record, cure: str, *choices: dict[str, str]) -> None:
        plan = self.plan
        source = plan.gold.source(f"record[{json.dumps(plan.gold.column)}]")
        listed = plan.options.of(record) if plan.options else []
        gold = plan.gold.of(record)
        self._doubt(
            f"how {source} names an option is not clear, such as {gold!r:.80} of "
            f"{listed!r:.200} ({record.place}). {cure}",
            *choices,
        )

    # ------------------------------------------------------------------ what fits

    def _count_fits(self, asked: bool) -> None:
        """Say which records are left out. Raises RolloutError if too few fit."""
        plan, made = self.plan, 0
        reasons: dict[str, list[str]] = {}
        misfits: list[str] = []
        for record in self.records:
            try:
                plan.apply(record)
                made += 1
            except Unfit as unfit:
                if unfit.incomplete:
                    reasons.setdefault(str(unfit), []).append(record.place)
                else:
                    misfits.append(f"{record.place}: {unfit}")
        asked_for = [
            n for n in plan.needed if n in (*names_in(plan.prompt), plan.prompt)
        ]
        lacking = [p for r, p in reasons.items() if r.partition(" ")[2] in asked_for]
        if places := [place for each in lacking for place in each]:
            which = " or ".join(asked_for)
            self._left_out(places, f"without {which}")
        for reason, places in reasons.items():
            if reason.partition(" ")[2] not in asked_for:
                self._left_out(places, reason)
        if misfits and not asked and made < FIT * (made + len(misfits)):
            self._doubt(
                f"only {made} of {made + len(misfits)} records fit the grader {plan.grader}; the "
                f"others would be left out, such as {misfits[0]}",
                {"grader": plan.grader},
                {"grader": "text" if plan.grader != "text" else "judge"},
            )
        if misfits:
            self._left_out(misfits, "that do not fit")

    def _left_out(self, places: list[str], why: str) -> None:
        more = ", ..." if len(places) > 3 else ""
        self.reasons.append(f"{len(places)} of {len(self.records)} left out, {why}")
        self.reasons.append(f"  {'; '.join(places[:3])}{more}")

    def _doubt(self, problem: str, *choices: dict[str, str]) -> None:
        """Raise RolloutError with a command for each way to go on."""
        lines = [problem]
        for choice in choices:
            given = " ".join(
                f"--{name} {_shell(value)}" for name, value in choice.items()
            )
            copied = " ".join(f"-d {_shell(f'{n}={v}')}" for n, v in choice.items())
            lines.append(
                f"  {self.command} {given}    # or copy with {copied}".rstrip()
            )
        raise RolloutError("\n".join(lines))

    # ------------------------------------------------------------------ the columns

    def _named(self, names: Iterable[str]) -> str:
        """The column with the first of the names, in any case; "" if there is none."""
        by_name = {_folded(column): column for column in reversed(self.columns)}
        return next((by_name[name] for name in names if name in by_name), "")

    def _first(self, column: str) -> Any:
        """The first value of a column that is not empty."""
        values = (record.get(column) for record in self.records)
        return next((value for value in values if not is_empty(value)), "")

    def _is_text(self, name: str) -> bool:
        """Whether the column of a name, in any case, holds text."""
        column = name if name in self.columns else self._named([name])
        return isinstance(self._first(column), str) if column else False

    def _has_objects(self, column: str) -> bool:
        """Whether a column holds lists of objects."""
        value = self._first(column)
        return isinstance(value, list) and isinstance(value[0], Mapping)

    def _has_messages(self, column: str) -> bool:
        column = self._named([column])
        if not column or not self._has_objects(column):
            return False
        return bool({"role", "from"} & {*self._first(column)[0]})

    def _path(self, column: str) -> Path:
        """The path to a column, or to a part of it, as in `answers.text`."""
        name, _, part = (
            (column, "", "") if column in self.columns else column.partition(".")
        )
        value, path = self._first(name), Path(name)
        one = value[0] if isinstance(value, list) and value else value
        if not part and isinstance(one, Mapping):
            if {*one} <= {"text", "answer_start"}:
                part = "text"  # SQuAD's answers
            elif "aliases" in one and "value" in one:
                return path.then(ALIASES)
            else:
                part = next((key for key in ("spans", "answer") if key in one), "")
        if part and isinstance(value, list):
            return path.then("each", part)
        if part:
            for key in part.split("."):
                path = path.then("item", key)
            return path
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                json.loads(value)
                return path.then(PARSED)
        return path

    def _check(self, found: str, what: str, option: str, value: str) -> None:
        """Raise RolloutError if no column was found."""
        if not found:
            raise RolloutError(
                f"which column is {what} is not clear: there are "
                f"{', '.join(self.columns)}. Name it with --{option} '{value}', or "
                f"-d {option}='{value}'"
            )


_YES_NO = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should)\b"
)


def _folded(name: str) -> str:
    return re.sub(r"[\s.-]+", "_", name.strip().lower())


def _shell(text: str) -> str:
    return text if re.fullmatch(r"[\w=.-]+", text) else f"'{text}'"


def _names(template: str) -> list[str]:
    """The columns that a template names. Raises RolloutError if it is none."""
    try:
        return names_in(template)
    except ValueError as error:
        raise RolloutError(
            f"the prompt {template!r} is not a template: {error}"
        ) from None


def _check_pattern(pattern: str) -> None:
    """Raise RolloutError for a pattern without exactly one group."""
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise RolloutError(
            f"expected has a wrong pattern {pattern!r}: {error}"
        ) from None
    if groups != 1:
        raise RolloutError(
            f"expected has the pattern {pattern!r}: it needs one group, as in '#### (.*)'"
        )


def _text_of(value: Any) -> str:
    return as_text(value).strip().casefold()


def _is_texts(value: Any) -> bool:
    """Whether a value is text, or a list of texts."""
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, str) for part in parts)


def _is_single(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 1


def _is_number(value: Any) -> bool:
    """Whether a value is a number, and not 12 km; `9 (apples)` is ASDiv's."""
    text = re.sub(r"\\[a-z]+|\(.*\)$", "", str(value))
    return Number.reads(value) and not re.search(r"[^\W\d_]{2}", text)


def _is_short(text: str) -> bool:
    return 0 < len(text.split()) <= SHORT


def are_calls(value: Any) -> bool:
    """Whether a value is a list of calls, each with a name and arguments."""
    return isinstance(value, list) and all(
        isinstance(call, Mapping) and {"name", "arguments"} <= call.keys()
        for call in value
    )


def told(count: int) -> str:
    """The number of records that a plan was chosen by."""
    return f"looked at {counted(count, 'question')}"


__all__ = ["BOXED", "GRADERS", "Chooser", "OwnGrade", "are_calls", "one_line", "told"]
