"""A plan for a dataset: as asked, or chosen by looking at its records.

Raises RolloutError for what the records do not tell. Nothing is guessed: a wrong choice
would be an environment that looks right.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from statistics import median
from typing import Any

from ..episode.chat import responses_input
from ..episode.tasks import task_of
from ..errors import RolloutError, one_line
from ..evaluation.rows import prompt_text
from ..graders import Choice
from .columns import (
    ABOUT,
    AGAIN,
    CONTEXTS,
    EXPECTED,
    EXPLAINS,
    FILE,
    FILES,
    FIT,
    IMAGES,
    MESSAGES,
    OFTEN_EMPTY,
    OPTION,
    PAIRS,
    PASSAGE,
    PROMPTS,
    SAME,
    SHORT,
    folded,
    is_number,
    is_texts,
    template_names,
    titled,
    valid,
    words_in,
)
from .doubts import OwnGrade
from .fields import as_text, filled, is_empty, names_in
from .golds import Golds
from .plan import BOXED, Columns, Draft, Path, Unfit, items_of, shown
from .records import Record

# Questions about code say so, or ask about an expression, as CRUXEval does.
CODE = re.compile(
    r"(?i)\b(code|program|function|snippet|script|method|output|print|return|query)|^\S+$|^[^a-zA-Z]"
)
EQUATION = re.compile(
    r"[\s\d.,()+*/=%^xXyN-]*\d\s*[-+*/^%]\s*[(\d][\s\d.,()+*/=%^xXyN-]*"
)
CONSTANT = re.compile(r"[A-Z][A-Z\d_]+")
CLAIMS = ("claim", "statement", "hypothesis")
# A form of answers that a prompt may ask for
FORM = re.compile(
    r"(?i)[^.\n]*(?:final answer|<answer>|answer:|\bjson\b|in the format|end with|"
    r"finish with|output only|respond with|only the letter)[^\n]*"
)
MISFIT = "that do not fit"
MOST = 3000  # so many questions of records that hold several are looked at


class Chooser(Golds):
    """Chooses a plan for the first records of a dataset, and says why."""

    def choose(
        self, prompt: str = "", expected: str = "", grader: str | None = ""
    ) -> Columns:
        """The plan. Raises RolloutError if a part is neither given nor clear."""
        plan = self.plan
        if self.native:
            rows = self.records
            self.records = [Record(task_of(row), row.place) for row in rows]
            self.reasons.append("the rows are NeMo Gym's and stay as they are")
            plan.key = expected or self._named(EXPECTED)
            if plan.key not in self.columns:
                named = (
                    f"{expected!r} is none of these"
                    if expected
                    else "none is an answer"
                )
                raise RolloutError(
                    f"the rows are NeMo Gym's, and their tasks have {', '.join(self.columns)}: "
                    f"{named}. The verifier that they were made for reads these fields. Name "
                    "the one with the expected answer, --expected FIELD, or write a class that "
                    "takes them, and copy beside it with the same dataset"
                )
            plan.expected = Path(plan.key)
            if any("tools" in row["responses_create_params"] for row in rows):
                plan.tools = Path("tools")
            self._look_at_forms(rows)
            self._choose_grader(grader)
            if self.plan.grader in BOXED:
                self._ask_for_form(grader)
            return plan.columns
        if not (prompt and expected):
            self.ask("file")
        self._choose_lists(prompt)
        self._choose_prompt(prompt)
        if column := self._named(("tools", "functions", "function")):
            plan.tools = self._path(column)
        if grader in (None, "", "choice", "all", "ordered"):
            self._choose_options(expected)
        self._choose_expected(expected, grader)
        self._choose_grader(grader)
        if not prompt and not plan.is_chat:
            self._choose_contexts()
        plan.needed = self._needed()
        plan.has_id = all("id" in record for record in self.records)
        self.reasons.insert(0, f"prompt: {plan.prompt!r} ({self.why_prompt})")
        for name in self.columns:
            if not plan.became(name):
                self.unused.setdefault(name, self._unnamed(name) if prompt else "")
        return plan.columns

    def _unnamed(self, column: str) -> str:
        """Why a column that a prompt does not name may belong to it; "" if it does not."""
        if self.plan.is_chat or not valid(column) or not self._is_passage(column):
            return ""
        return f"texts that --prompt '{titled([column, self._main()])}' would show"

    def _look_at_forms(self, rows: list[Record]) -> None:
        """Look whether the prompts of NeMo Gym's rows ask for a box."""
        asked = [prompt_text(row) for row in rows]
        without = [text for text in asked if "boxed" not in text]
        if without:
            self.form = (
                f"{len(without)} of {len(asked)} prompts do not ask for \\boxed{{}}"
            )
        other = next((found for text in without if (found := FORM.search(text))), None)
        if other and len(without) == len(asked):
            self.form += f", but for {shown(other[0])!r}"
            self.asks_otherwise = True

    def _ask_for_form(self, grader: str | None) -> None:
        """Say that prompts do not ask for what the grader reads, or raise RolloutError."""
        if self.asks_otherwise and not grader:
            self._doubt(
                f"{self.form}, which the grader {self.plan.grader} reads: ask for a box in the "
                "prompts, or write a class whose reward(answer) reads their form. This command "
                "goes on nevertheless",
                {"grader": self.plan.grader},
            )
        if self.form:
            self.reasons.append(f"{self.form}: an answer without a box earns 0.0")

    def without_gold(self) -> Columns:
        """The plan for a dataset that wants a grade of its own: all columns are the task."""
        texts = [name for name in self.columns if self._is_text(name)]
        asks = next((name for name in texts if folded(name) in PROMPTS), "")
        names = [asks] if asks else [n for n in self.columns if folded(n) not in ABOUT]
        self.plan = Draft(grader="own")
        self.plan.prompt = "\n\n".join(
            f"{{{name}}}" if asks else f"{name}: {{{name}}}" for name in names
        )
        return self.plan.columns

    # ------------------------------------------------------------------ the prompt

    def _choose_lists(self, prompt: str) -> None:
        """Find the questions in records that hold several, such as SQuAD's."""
        plan = self.plan
        asks = self._named(PROMPTS)
        parts = self._first(asks)
        has_options = isinstance(parts, Mapping) and any(
            isinstance(part, list) and len(part) > 1 for part in parts.values()
        )
        if has_options and "stem" in parts and not prompt:
            plan.lists = (asks,)
            self.records = [*islice(items_of(self.records, asks), MOST)]
        wanted = {*template_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        while not wanted <= {*self.columns}:
            known = self.columns
            lists = [n for n in known if n not in plan.lists and self._has_objects(n)]
            if not lists or len(plan.lists) == 3:
                return
            asks = {"question", *EXPECTED}
            lists.sort(key=lambda n: not asks & {*map(folded, self._first(n)[0])})
            plan.lists = (*plan.lists, lists[0])
            self.records = [*islice(items_of(self.records, lists[0]), MOST)]
            wanted = {*template_names(prompt)} or {self._named(PROMPTS + MESSAGES)}
        if plan.lists:
            self.reasons.append(f"a record has its questions in {'.'.join(plan.lists)}")

    def _choose_prompt(self, prompt: str) -> None:
        why = "as asked"
        if not prompt:
            chat = next((n for n in MESSAGES if self._has_messages(n)), "")
            asks = self._named(
                name
                for name in PROMPTS
                if name != chat and self._is_text(name) and self._asks(name)
            )
            prompt, why = chat, "a column of messages"
            if not (asks or chat):
                asks = self._named(PAIRS)
            if asks:
                prompt, why = f"{{{asks}}}", "a column of that name"
            others = [
                n
                for n in self.columns
                if folded(n) not in (*EXPECTED, *CONTEXTS, *ABOUT) and self._is_text(n)
            ]
            if (
                not prompt
                and len(others) == 1
                and not OPTION.fullmatch(folded(others[0]))
                and self._share(self._values(Path(others[0])), is_read) > 0.5
            ):
                prompt, why = f"{{{others[0]}}}", "the only other column"
            named = self._named(PROMPTS)
            if not prompt and not isinstance(self._first(named), Mapping | str):
                raise OwnGrade(
                    f"{named} is no text, such as {self._first(named)!r:.80}"
                )
            if not prompt:
                self.ask("no prompt")
            texts = self._texts()
            around = [name for name in texts[1:] if self._is_passage(name)]
            likely = [f"{{{name}}}" for name in texts if valid(name)]
            if around:
                likely.insert(0, titled([*around, texts[0]]))
            self._check(prompt, "the prompt", "prompt", "{COLUMN}", likely)
        elif prompt in self.columns and not self._has_objects(prompt):
            prompt = f"{{{prompt}}}"
        for name in template_names(prompt) or [prompt]:
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
        self._choose_images()
        if self.plan.is_chat:
            self._look_at_messages(self._first(prompt))

    def _look_at_messages(self, messages: list[Mapping[str, Any]]) -> None:
        """Find how messages are written, by the first list of them."""
        plan, last = self.plan, messages[-1]
        plan.answered = last.get("role", last.get("from")) in ("assistant", "gpt")
        system = self._named(("system", "system_prompt"))
        first = messages[0]
        if self._is_text(system) and first.get("role", first.get("from")) != "system":
            plan.system = system

    def _asks(self, name: str) -> bool:
        """Whether a column may hold questions: `task` may also be their common name."""
        column = self._named([name])
        values = {as_text(record.get(column)) for record in self.records}
        return name != "task" or 2 * len(values) > len(self.records)

    def _choose_images(self) -> None:
        """Find the columns of images. Raises RolloutError if there are only their names."""
        named = ""
        for column in self.columns:
            is_id = column.lower().endswith("id")
            if is_id or words_in(column) & {*EXPLAINS, "preview", "thumbnail"}:
                continue
            kind = self._images(column)
            self.plan.images += (column,) * (kind == "images")
            named = named or column * (kind == "names")
        if named and not self.plan.images:
            raise RolloutError(
                f"the column {named!r} names images, such as {self._first(named)!r:.80}, and a "
                "row needs the image itself: put it into the records, as a URL or as bytes "
                "of Parquet"
            )

    def _images(self, column: str) -> str:
        """Say whether a column holds "images", their "names" or neither, ""."""
        value = self._first(column)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, bytes) or (
            isinstance(value, Mapping) and "bytes" in value
        ):
            return "images"
        text = value if isinstance(value, str) and " " not in value else ""
        is_file = re.search(r"(?i)\.(png|jpe?g|gif|webp|bmp|tiff?)(\?\S*)?$", text)
        if text.startswith("data:image/") or (is_file and text.startswith("http")):
            return "images"
        named = folded(column) in IMAGES or column.lower().endswith(("image", "img"))
        return "names" if is_file or (named and text) else ""

    def _choose_contexts(self) -> None:
        """Put what the question is about into the prompt."""
        plan, parts = self.plan, self._parts()
        # Such as response_A and response_B, beside A>B
        told = [n for n, why in self.unused.items() if why == "about the answer"]
        compared = [n for n in told if re.search(r"(?i)_?[ab01]$", n)]
        if plan.options and plan.options.kind == "labels" and len(compared) == 2:
            self._doubt(
                f"whether {' and '.join(compared)} belong to the prompt is not clear",
                {"prompt": titled([*parts, *compared])},
                {"prompt": titled(parts)},
            )
        for column, problem in self.doubts.items():
            without = titled([name for name in parts if name != column])
            ways = [without] if folded(column) in FILES else [titled(parts), without]
            self._doubt(problem, *({"prompt": way} for way in ways))
        if len(parts) > 1:
            plan.prompt = titled(parts)
            self.why_prompt = "the columns that the question is about"
        asked = [filled(plan.prompt, record) for record in self.records]
        self.ask("prompts", asked)

    def _parts(self) -> list[str]:
        """The columns that the question is about, in the order of the file."""
        parts, main = [], names_in(self.plan.prompt)
        for name in self.columns:
            became = self.plan.became(name)
            if reason := "" if became else self._apart(name):
                self.unused[name] = reason
            elif name in main or not became:
                parts.append(name)
        return parts

    def _template(self) -> str:
        return titled(self._shown())

    def _shown(self) -> list[str]:
        return self._parts() or [self._main()]

    def _apart(self, column: str) -> str:
        """Why a column is not in the prompt; "" if it belongs to it, or may, with a doubt."""
        values = [
            record[column]
            for record in self.records
            if not is_empty(record.get(column))
        ]
        name, main_name = folded(column), folded(self._main())
        words = words_in(column)
        is_context = name in CONTEXTS
        if name in FILES and 0 < len(values) < len(self.records):
            self.doubts[column] = (
                f"{column} names a file for {len(values)} of {len(self.records)} questions, such "
                f"as {shown(values[0])!r}, and no row has it: leave these out of the dataset, or"
            )
            return ""
        paths = self._share(values, lambda v: FILE.fullmatch(str(v).strip()))
        if paths > 0.5 and words & {*CONTEXTS} and not words & {"id", "source", "url"}:
            raise RolloutError(
                f"{column} names files, such as {shown(values[0])!r}, and a row needs what is "
                f"in them: put the text of each into {column}"
            )
        if words & AGAIN:
            return "the question again"
        if not valid(column):
            return "a name that no template can have"
        is_text = all(map(is_texts, values))
        if main_name in CLAIMS and is_text and words & {"fact", "facts", "evidence"}:
            why = "it may be what the claim follows from"
            return self._may_belong(column, why, values)
        if not is_context and words & {*EXPLAINS}:
            return "about the answer"
        if not is_context and words & {*ABOUT}:
            return "about the record"
        if not is_context and not is_text:
            is_long = median([len(as_text(v).split()) for v in values] or [0]) > SHORT
            if is_long and any(isinstance(v, list | Mapping) for v in values):
                why = "it has objects or lists, which the question may be about"
                return self._may_belong(column, why, values)
            return "no text"
        texts = [as_text(value) for value in values]
        main = [
            as_text(r.get(self._main()))
            for r in self.records
            if not is_empty(r.get(column))
        ]
        inside = [
            (t.strip() in m and 3 * len(t) > len(m)) or (len(m) > 20 and m.strip() in t)
            for t, m in zip(texts, main, strict=True)
        ]
        if sum(inside) >= FIT * len(texts):
            return "the question again"
        if is_context:
            if name == "code" and not self._share(main, CODE.search) > 0.5:
                why = "it may be the solution, as a program"
                return self._may_belong(column, why, texts)
            return ""
        if len({*texts}) < max(2, len(texts) / 3):
            if median(len(text.split()) for text in texts) < PASSAGE:
                return "few values"
            if len({*texts}) == 1:
                why = "it is the same in all records"
                return self._may_belong(column, why, texts)
        if all(" " not in text.strip() for text in texts) and all(
            map(is_number, texts)
        ):
            return "no text"
        if all(re.fullmatch(r"\S*[\d_/:.-]\S*", text) for text in texts):
            return "a name or a number"
        if self._share(texts, is_equation) > 0.8:
            return self._may_belong(
                column, "it may be the solution, as an equation", texts
            )
        is_long = median(len(text.split()) for text in texts) > SHORT
        if not is_long and self._decides(column):
            why = "each of its values has one answer"
            return self._may_belong(column, why, texts)
        if self._share(texts, CONSTANT.fullmatch) > 0.5:
            return self._may_belong(column, "it has names, as of constants", texts)
        if self._leaks(column):
            why = "it holds the answer, as a passage or as an explanation"
            return self._may_belong(column, why, texts)
        return ""

    def _may_belong(self, column: str, why: str, values: list[Any]) -> str:
        self.doubts[column] = (
            f"whether {column} belongs to the prompt is not clear: {why}, such as "
            f"{shown(values[0])!r}"
        )
        return ""

    def _decides(self, column: str) -> bool:
        """Whether values of a column that are there again have the same answer again."""
        answers: dict[str, list[str]] = {}
        for record in self.records:
            with contextlib.suppress(Unfit):
                gold = as_text(self.plan.gold(record))
                answers.setdefault(as_text(record.get(column)), []).append(gold)
        answers.pop("", None)
        again = sum(len(golds) - 1 for golds in answers.values())
        several = len({gold for golds in answers.values() for gold in golds}) > 1
        one = all(len({*golds}) == 1 for golds in answers.values())
        return several and one and again >= max(3, sum(map(len, answers.values())) / 4)

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
        gold = plan.gold(record)
        options = plan.options.of(record) if plan.options else None
        if isinstance(options, list) and plan.options and plan.options.kind != "labels":
            letter = plan.letter(record, gold)
            if Choice.takes(letter, options):
                gold = options[Choice(letter, options).index]
        golds = gold if isinstance(gold, list) else [gold]
        return [text for each in golds if (text := as_text(each).strip().casefold())]

    def _needed(self) -> tuple[str, ...]:
        """The columns that may not be empty: Alpaca's `input` often is."""
        plan, names = self.plan, list(dict.fromkeys(names_in(self.plan.prompt)))
        if plan.is_chat:
            names = [plan.prompt]
        count = len(self.records)
        needed = [
            name
            for name in names
            if sum(is_empty(r.get(name)) for r in self.records) <= OFTEN_EMPTY * count
            and (folded(name) != "input" or len(names) == 1)
        ]
        paths = [plan.expected, *(plan.options.paths if plan.options else [])]
        needed += [path.column for path in paths if path.steps and not plan.answered]
        return tuple(dict.fromkeys(needed or names))

    # ------------------------------------------------------------------ what fits

    def count_fits(self, records: Iterable[Record], asked: bool = False) -> None:
        """Say which of all records are left out. Raises RolloutError if too few fit.

        `asked` is whether the user named what grades, and so wants only what fits.
        """
        plan, count, made = self.plan, 0, 0
        left_out: dict[str, list[str]] = {}  # the first places, by the reason
        counts, said = Counter[str](), Counter[str]()  # said: the answers
        question = [
            n for n in plan.needed if n in (*names_in(plan.prompt), plan.prompt)
        ]
        for record in plan.questions(records):
            count += 1
            place = record.place
            try:
                row = plan.apply(record)
                prompt = row.prompt
                made += 1
                said[one_line(row.task[plan.key], 80)] += 1
                if plan.is_chat:
                    responses_input(prompt)
                continue
            except ValueError as error:
                raise RolloutError(f"{place}: {error}") from None
            except Unfit as unfit:
                reason = str(unfit)
                if not unfit.incomplete:
                    reason, place = MISFIT, f"{place}: {unfit}"
                elif reason.partition(" ")[2] in question:
                    reason = f"without {' or '.join(question)}"
            counts[reason] += 1
            left_out.setdefault(reason, []).extend([place] * (counts[reason] <= 3))
        self._note_same(said)
        misfits = counts[MISFIT]
        if misfits and not asked and made < FIT * (made + misfits):
            self._doubt(
                f"only {made} of {made + misfits} records fit the grader {plan.grader}; the "
                f"others would be left out, such as {left_out[MISFIT][0]}",
                {"grader": plan.grader},
                {"grader": "text" if plan.grader != "text" else "judge"},
            )
        for reason, places in left_out.items():
            more = ", ..." if counts[reason] > len(places) else ""
            self.reasons.append(f"{counts[reason]} of {count} left out, {reason}")
            self.reasons.append(f"  {'; '.join(places)}{more}")

    def _note_same(self, answers: Counter[str]) -> None:
        """Say that nearly all answers are the same."""
        [(most, count)] = answers.most_common(1) or [("", 0)]
        if count >= SAME * answers.total() and answers.total() > 1:
            self.reasons.append(
                f"{count} of {answers.total()} answers are {most!r}: a policy that always says "
                "so earns as much"
            )


def is_read(text: Any) -> bool:
    """Whether a text is one to read, and not a number or a hash."""
    return re.fullmatch(r"[\x21-\x7e]*\d[\x21-\x7e]*", as_text(text).strip()) is None


def is_equation(text: str) -> bool:
    """Whether a text is arithmetic, such as ( 9 - 4 ) = X."""
    return len(text) < 200 and EQUATION.fullmatch(text) is not None
