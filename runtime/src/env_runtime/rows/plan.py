"""The way from the records of a dataset to rows: as asked, or chosen by looking."""

import contextlib
import json
import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from ..episode.tasks import task_of
from ..errors import RolloutError
from ..graders import Choice, Number
from .records import Record

RECORDS = 200  # so many are looked at
GRADERS = ("number", "choice", "text", "json", "judge", "calls")
# Answers are labels if there are few of them, each so many times on average.
LABELS, FEWEST = 10, 5
SAME = 0.8  # the share of equal answers that is worth a note
SHORT = 12  # the most words of an answer that is compared as text

# Names of columns in lower case, the most likely first
PROMPTS = ("question", "problem", "prompt", "instruction", "query", "input", "goal")
PROMPTS += ("utterance", "sentence", "text", "task")
CONTEXTS = ("context", "passage", "article", "paragraph", "document", "story", "input")
MESSAGES = ("messages", "conversations", "conversation", "chat", "prompt")
EXPECTED = ("expected_answer", "final_answer", "answer", "answers", "answerkey")
EXPECTED += ("answer_key", "correct_answer", "correct", "gold", "ground_truth")
EXPECTED += ("target", "label", "solution", "output", "response", "completion")
EXPECTED += ("intent", "category")
OPTIONS = ("options", "choices")
# Columns of one option each, such as A, option_b, choice3, opa
OPTION = re.compile(r"(|op|opt|option|choice|ending)_?([a-j]|\d)", re.IGNORECASE)
# The text before the answer in a long solution
BEFORE = {"####": r"####\s*(.+)", "\\boxed{": r"\\boxed\{(.+)\}"}
BEFORE["answer:"] = r"(?i)answer\s*(?:is|:)\s*(.+)"

Records = list[Record]


class Plan:
    """The way from records to rows: as asked, or chosen by the first records.

    `options`, `expected`, `number` and `tools` are expressions of make_rows.py.
    """

    def __init__(self, records: Records) -> None:
        self.records = records
        self.reasons: list[str] = []
        self.native = "responses_create_params" in records[0]
        self.lists: list[str] = []  # columns of lists, in which the questions are
        self.prompt = ""  # a template over columns, or the name of a column of messages
        self.answered = False  # whether the last message is the answer
        self.chat_key = "content"  # of a message, "value" as ShareGPT has it
        self.chat_in_parts = False  # whether the content is a list
        self.option_columns: list[str] = []
        self.labels: list[str] = []  # the options of all records
        self.options = ""
        self.key = "expected_answer"  # in the task
        self.expected = ""
        self.number = ""  # of an option, counted from 0
        self.pattern = ""  # finds the answer in the expected text
        self.keeps_class = False  # whether the class is the user's already
        self.tools = ""
        self.grader = ""
        self.drops_texts = False  # whether answers that are no numbers are left out

    @property
    def columns(self) -> list[str]:
        """The columns of the records."""
        return list(dict.fromkeys(name for record in self.records for name in record))

    def choose(self, prompt: str, expected: str, grader: str | None) -> None:
        """Complete the plan. Raises RolloutError if a part is neither given nor clear."""
        if self.native:
            rows = self.records
            self.records = [Record(task_of(row), row.place) for row in rows]
            self.reasons.append("the rows are NeMo Gym's and stay as they are")
            self.key = expected or self._named(EXPECTED)
            self._check(self.key, "the expected answer", "expected", "COLUMN")
            self.expected = _item("record", self.key)
            if any("tools" in row["responses_create_params"] for row in rows):
                self.tools = 'params["tools"]'
        else:
            self._choose_lists(prompt)
            self._choose_prompt(prompt)
            if grader in (None, "", "choice"):
                self._choose_options()
            if column := self._named(("tools", "functions")):
                self.tools = self._part(column)
            self._choose_expected(*expected.partition("=")[::2])
        self._choose_grader(grader)

    def left_out(self) -> list[str]:
        """The columns that no row has."""
        used = {*self.lists, *self.option_columns, *_names(self.prompt)}
        text = self.options + self.tools + self.expected
        used |= {name for name in self.columns if _item("", name) in text}
        used |= {self.prompt, "id"}
        return [] if self.native else [n for n in self.columns if n not in used]

    # ------------------------------------------------------------------ the prompt

    def _choose_lists(self, prompt: str) -> None:
        """Find the questions in records that hold several, such as SQuAD's."""
        wanted = {*_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        while not wanted <= {*self.columns}:
            known = self.columns
            lists = [n for n in known if n not in self.lists and self._has_objects(n)]
            if not lists or len(self.lists) == 3:
                return
            self.lists.append(lists[0])
            self.records = [
                Record({**record, **item}, record.place)
                for record in self.records
                for item in record.get(lists[0]) or []
            ][:RECORDS]
            wanted = {*_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        if self.lists:
            self.reasons.append(f"a record has its questions in {'.'.join(self.lists)}")

    def _choose_prompt(self, prompt: str) -> None:
        why = "as asked"
        if not prompt:
            chat = next((n for n in MESSAGES if self._has_objects(n)), "")
            asks = self._named(name for name in PROMPTS if name != chat)
            about = self._named(name for name in CONTEXTS if name != asks.lower())
            prompt, why = chat, "a column of messages"
            if asks:
                prompt, why = f"{{{asks}}}", "a column of that name"
            if asks and about:
                prompt, why = f"{{{about}}}\n\n{{{asks}}}", "columns of these names"
            others = [n for n in self.columns if n.lower() not in (*EXPECTED, "id")]
            if not prompt and len(others) == 1:
                prompt, why = f"{{{others[0]}}}", "the only other column"
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
        self.prompt = prompt
        self.reasons.append(f"prompt: {prompt!r} ({why})")
        of_all = [[r.get(n, n) for n in self.asked] for r in self.records]
        if without := sum(None in values or "" in values for values in of_all):
            which = " or ".join(self.asked)
            self.reasons.append(f"{without} of {len(of_all)} left out, without {which}")

    @property
    def asked(self) -> list[str]:
        """The columns of the prompt that may not be empty: Alpaca's `input` often is."""
        names = list(dict.fromkeys(_names(self.prompt)))
        return [name for name in names if name.lower() != "input"] or names

    @property
    def is_chat(self) -> bool:
        """Whether the prompt is a column of messages."""
        return not self.native and "{" not in self.prompt

    # ------------------------------------------------------------------ the answer

    def _choose_options(self) -> None:
        column = self._named(OPTIONS)
        if column:
            value = self._first(column)
            source = _item("record", column)
            if isinstance(value, Mapping) and "text" in value:
                self.options = f'{source}["text"]'
            elif isinstance(value, Mapping):
                self.options = f"list({source}.values())"
            else:
                self.options = self._part(column)
        else:
            groups: dict[str, list[str]] = {}
            asked = _names(self.prompt)
            for name in self.columns:
                if (match := OPTION.fullmatch(name)) and name not in asked:
                    groups.setdefault(match[1].lower(), []).append(name)
            several = [names for names in groups.values() if len(names) > 1]
            if several:
                self.option_columns = several[0]
                self.options = "[record[column] for column in OPTIONS]"

    def _choose_expected(self, column: str, pattern: str) -> None:
        why = "as asked"
        *_, asked, last = [{}, *self._first(self.prompt)] if self.is_chat else [{}, {}]
        self.answered = last.get("role", last.get("from")) in ("assistant", "gpt")
        key = self.chat_key = "value" if "value" in last else "content"
        asked = asked if self.answered else last
        self.chat_in_parts = isinstance(asked.get(key), list)
        if not column:
            used = _names(self.prompt)
            column = self._named(EXPECTED, {n for n in self.columns if n not in used})
            why = "a column of that name"
            if not column and self.answered:
                why, column = "the assistant's last message", self.prompt
                self.expected = f'answer["{key}"]'
        others = [n for n in self.columns if n not in (*_names(self.prompt), "id")]
        if not column and len(others) == 1:
            column, why = others[0], "the only other column"
        self._check(column, "the expected answer", "expected", "COLUMN")
        if not {column, column.partition(".")[0]} & {*self.columns}:
            raise RolloutError(
                f"expected names {column!r}, and the columns are {', '.join(self.columns)}"
            )
        if not self.expected:
            self.expected = self._part(column)
            values = self._answers()
            lists = all(isinstance(value, list) and len(value) == 1 for value in values)
            if self.options and lists:
                self.expected += "[0]"
        if pattern:
            _check_pattern(pattern)
        elif not self.options:
            pattern, why = self._pattern() or ("", why)
        self.pattern = pattern
        shown = f"{column}={pattern}" if pattern else column
        self.reasons.append(f"expected: {shown} ({why})")

    def _pattern(self) -> tuple[str, str] | None:
        """The pattern that finds a short answer in each expected text, and why."""
        texts = self._answers()
        if not all(isinstance(t, str) for t in texts) or all(map(_is_number, texts)):
            return None
        patterns = list(BEFORE.items())[: 2 if all(map(_is_short, texts)) else None]
        for name, pattern in patterns:
            found = [re.search(pattern, text) for text in texts]
            if all(match and _is_short(match[1]) for match in found):
                return pattern, f"each has {name} before the answer"
        return None

    def _value(self, source: str, record: dict[str, Any]) -> Any:
        """Evaluate an expression of make_rows.py for a record."""
        names = {"json": json, "record": record}
        names["OPTIONS"] = self.option_columns or self.labels
        if source.startswith("answer["):
            names["answer"] = record[self.prompt][-1]
        return eval(source, names)

    def _answers(self) -> list[Any]:
        """The expected values of the records, those that are empty left out."""
        values = []
        for record in self.records:
            try:
                value = self._value(self.expected, record)
            except (KeyError, TypeError, ValueError) as error:
                raise RolloutError(
                    f"{record.place} has no {self.expected}: {record!r:.200}: correct it, "
                    "or name another column with --expected"
                ) from error
            if self.pattern and isinstance(value, str):
                match = re.search(self.pattern, value)
                value = match[1].strip() if match else None
            if value not in (None, "", []):
                values.append(value)
        return values

    def _choose_grader(self, grader: str | None) -> None:
        answers = self._answers()
        if not answers:
            raise RolloutError(
                f"no record has an answer in {self.expected}"
                f"{f' that fits {self.pattern!r}' if self.pattern else ''}"
            )
        found, why = (grader, "as asked") if grader else self._grader_for(answers)
        if found == "choice":
            try:
                self._choose_letter()
            except RolloutError:
                if grader or not self.option_columns:
                    raise
                # Columns called A and B need not be options.
                self.options, self.option_columns = "", []
                self._choose_grader(grader)
                return
        if found == "calls" and not self.tools:
            raise RolloutError(
                "the grader calls needs a column `tools`, their definitions"
            )
        if (
            found == "number"
            and not self.native
            and (odd := [a for a in answers if not Number.reads(a)])
        ):
            if len(odd) == len(answers):
                raise RolloutError(
                    f"the grader number needs numbers, and none of {len(odd)} answers is "
                    f"one, such as {odd[0]!r:.80}: name another grader"
                )
            why += f"; {len(odd)} of {len(answers)} left out, such as {odd[0]!r:.80}"
            self.drops_texts = True
        self.grader = found
        self.reasons.append(f"grader: {found} ({why})")
        [(most, count)] = Counter(map(str, answers)).most_common(1)
        if count >= SAME * len(answers) and len(answers) > 1:
            self.reasons.append(
                f"{count} of {len(answers)} answers are {most!r:.80}: a policy that always "
                "says so earns as much"
            )

    def _grader_for(self, answers: list[Any]) -> tuple[str, str]:
        """The grader of the answers, and why. Raises RolloutError."""
        if self.tools and all(map(_are_calls, answers)):
            return "calls", "each record has tools, and calls of them"
        if self.options:
            return "choice", "each record has options"
        odd = [answer for answer in answers if not _is_number(answer)]
        if not odd:
            return "number", f"all {len(answers)} are numbers"
        if all(isinstance(answer, Mapping) for answer in answers):
            return "json", f"all {len(answers)} are objects"
        parts = [
            p for one in answers for p in (one if isinstance(one, list) else [one])
        ]
        if len(parts) > len(answers) and not all(isinstance(p, str) for p in parts):
            return "json", f"all {len(answers)} are lists"
        texts = [str(part) for part in parts]
        if all(map(_is_short, texts)):
            labels = sorted({*texts})
            folded = {label.casefold() for label in labels}
            few = 1 < len(folded) == len(labels) <= LABELS
            if few and FEWEST * len(labels) <= len(answers):
                self.labels = labels
                self.options = "OPTIONS"
                return "choice", f"all {len(answers)} are one of {len(labels)} labels"
            if 2 * len(odd) < len(answers):
                return "text", (
                    f"{len(answers) - len(odd)} of {len(answers)} are numbers, but not "
                    f"{odd[0]!r:.80}: --grader number leaves out those that are not numbers"
                )
            return "text", f"all {len(answers)} are short texts"
        words = median(len(text.split()) for text in texts)
        raise RolloutError(
            f"how to compare the answers is not clear: they have {words:g} words (the "
            f"median), such as {max(texts, key=len)!r:.80}. Have a model compare them with "
            "--grader judge, or name the part that counts with --expected 'COLUMN=PATTERN'"
        )

    def _choose_letter(self) -> None:
        """Find how an answer names an option: by letter, text, label or number."""
        if not self.options:
            raise RolloutError(
                "the grader choice needs a column `options`, or A, B, C, D"
            )
        source, options = self.expected, self.options
        ways = {"a letter or the text of an option": ""}
        if '["text"]' in options:
            labels = options.replace('["text"]', '["label"]')
            ways["the label of an option"] = f"{labels}.index({source})"
        ways["the number of an option, from 0"] = f"int({source})"
        ways["the number of an option, from 1"] = f"int({source}) - 1"
        fitting = []
        for why, number in ways.items():
            try:
                for record in self.records:
                    answer = self._value(number or source, record)
                    letter = string.ascii_uppercase[answer] if number else answer
                    Choice(letter, self._value(options, record))
            except (ValueError, IndexError, KeyError, TypeError):
                continue
            fitting.append(why)
        # A number may be counted from 0 or from 1; the other ways are sure.
        if not fitting or (len(fitting) > 1 and fitting[0].endswith(" 0")):
            answer, listed = (
                self._value(s, self.records[0]) for s in (source, options)
            )
            raise RolloutError(
                f"how {source} names an option is not clear, such as {answer!r:.80} of "
                f"{listed!r:.200}. Make it a letter, the text of an option, or its number"
            )
        self.number = ways[fitting[0]]
        named = ", ".join(self.option_columns) or self._named(OPTIONS)
        self.reasons.append(
            f"options: {named or self.labels}; an answer is {fitting[0]}"
        )

    # ------------------------------------------------------------------ the columns

    def _named(self, names: Iterable[str], among: Iterable[str] | None = None) -> str:
        """The column with the first of the names, in any case; "" if there is none."""
        columns = self.columns if among is None else among
        by_name = {column.lower(): column for column in columns}
        return next((by_name[name] for name in names if name in by_name), "")

    def _first(self, column: str) -> Any:
        """The first value of a column that is not empty."""
        values = (record.get(column) for record in self.records)
        return next((value for value in values if value), "")

    def _has_objects(self, column: str) -> bool:
        """Whether a column holds lists of objects."""
        value = self._first(column)
        return isinstance(value, list) and isinstance(value[0], Mapping)

    def _part(self, column: str) -> str:
        """The expression of a column, or of a part of it, as in `answers.text`."""
        name, _, part = (
            (column, "", "") if column in self.columns else column.partition(".")
        )
        value, source = self._first(name), _item("record", name)
        one = value[0] if isinstance(value, list) else value
        if not part and isinstance(one, Mapping) and {*one} <= {"text", "answer_start"}:
            part = "text"  # SQuAD's answers
        if part and isinstance(value, list):
            return f"[{_item('each', part)} for each in {source}]"
        if part:
            return _item(source, part)
        if isinstance(value, str) and value.strip()[:1] in ("{", "["):
            with contextlib.suppress(ValueError):
                json.loads(value)
                return f"json.loads({source})"
        return source

    def _check(self, found: str, what: str, option: str, value: str) -> None:
        """Raise RolloutError if no column was found."""
        if not found:
            raise RolloutError(
                f"which column is {what} is not clear: there are "
                f"{', '.join(self.columns)}. Name it with --{option} '{value}', or "
                f"-d {option}='{value}'"
            )


def _names(template: str) -> list[str]:
    """The columns that a template names. Raises RolloutError if it is none."""
    try:
        parts = [*string.Formatter().parse(template)]
    except ValueError as error:
        raise RolloutError(
            f"the prompt {template!r} is not a template: {error}"
        ) from None
    return [name for _, name, _, _ in parts if name]


def quoted(text: Any) -> str:
    """A text, or a dict of texts, as source.

    What is not printable is escaped as Python does it: JSON's escapes are half a character
    there.
    """
    source = json.dumps(text, ensure_ascii=False)
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in source)


def _item(of: str, name: str) -> str:
    return f"{of}[{quoted(name)}]"


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


def _is_number(value: Any) -> bool:
    """Whether a value is a number, and neither 12 km nor a code such as 0123."""
    text = re.sub(r"\\[a-z]+", "", str(value))
    return Number.reads(value) and not re.search(r"[^\W\d_]{2}|^\s*0\d", text)


def _is_short(text: str) -> bool:
    return 0 < len(text.split()) <= SHORT


def _are_calls(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(call, Mapping) and {"name", "arguments"} <= call.keys()
        for call in value
    )


def splits_of(text: str) -> dict[str, str]:
    """The part of the dataset for each of our splits. Raises RolloutError."""
    pairs = [part.partition("=")[::2] for part in text.split(",") if part.strip()]
    splits = {name.strip(): part.strip() for name, part in pairs}
    if not splits.keys() <= {"train", "validation", "test"} or "" in splits.values():
        raise RolloutError(
            f"splits are like train=train.jsonl,validation=dev.jsonl, got {text!r}: name "
            "a file of the folder, or a split of the Hub, for train, validation, test"
        )
    return splits


def part_of(source: str, part: str) -> str:
    """A file of a folder, or a split of a dataset on the Hub."""
    if not source.startswith("hf:"):
        return f"{source}/{part}"
    return f"{source}:{part}" if source.count(":") > 1 else f"{source}::{part}"
