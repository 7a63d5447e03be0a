"""A plan for a dataset: as asked, or chosen by looking at its records.

Raises RolloutError for what the records do not tell. Nothing is guessed: a wrong choice
would be an environment that looks right.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..episode.chat import responses_input
from ..episode.tasks import task_of
from ..errors import RolloutError, one_line
from ..evaluation.rows import prompt_text
from .apart import LEFT_OUT, Column, has_queries
from .asking import ASSISTANTS
from .columns import (
    ABOUT,
    ANSWERS,
    CONTEXTS,
    DIFFICULTY,
    EXPECTED,
    EXPLAINS,
    FEWEST,
    IMAGE,
    IMAGES,
    LABELS,
    MESSAGES,
    OFTEN_EMPTY,
    OPTION,
    OPTIONS,
    PAIRS,
    PROMPTS,
    SAME,
    SOUND,
    TOLD,
    folded,
    is_read,
    share,
    template_names,
    template_of,
    titled,
    valid,
    words_in,
)
from .fields import as_text, filled, is_empty, names_in
from .golds import Golds
from .grading import GRADINGS
from .plan import Columns, Draft, Path, Unfit, items_of, shown
from .records import Record

# A form of answers that a prompt may ask for
FORM = re.compile(
    r"(?i)[^.\n]*(?:final answer|<answer>|answer:|\bjson\b|in the format|end with|"
    r"finish with|output only|respond with|only the letter)[^\n]*"
)
MEDIA = {"audio", "audios", "sound", "sounds", "speech", "video", "videos", "wav"}
NAMES_OF_FILMS = ("video", "video_id", "video_name", "audio", "audio_id")
# Messages leave the words in place of these to the reader.
PLACEHOLDER = re.compile(
    r"\} \.{3}\?|\w for \.{3}|Is (?:it|that) \.{3}\?|\.{3} Is that so|with \.{3}"
)
MISFIT = "that do not fit"
MOST = 3000  # so many questions of records that hold several are looked at


def _has_options(value: Mapping[str, Any]) -> bool:
    lists = [v for key, v in value.items() if folded(key) in OPTIONS]
    return any(isinstance(each, list) and len(each) > 1 for each in lists)


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
            plan.key = expected or self.named(EXPECTED)
            self.ask("native", expected)
            plan.expected = Path(plan.key)
            if any("tools" in row["responses_create_params"] for row in rows):
                plan.tools = Path("tools")
            self._look_at_forms(rows)
            self._choose_grader(grader)
            if plan.grading.boxed and not grader:
                self.ask("form")
            if plan.grading.boxed and self.form:
                self.reasons.append(f"{self.form}: an answer without a box earns 0.0")
            return plan.columns
        if not (prompt and expected):
            self.ask("file")
        self._choose_lists(prompt)
        self._choose_prompt(prompt, expected)
        if column := self.named(("tools", "functions", "function")):
            plan.tools = self.path(column)
        if not grader or GRADINGS[grader].options:
            self._choose_options(expected)
        self._choose_expected(expected, grader)
        self._parts_of_one_question()
        self._choose_grader(grader)
        if not prompt and not plan.is_chat:
            self._choose_contexts()
        elif prompt:
            self.ask("as asked", [*map(plan.question, self.records)])
        else:
            self.ask("chats", [*map(plan.question, self.records)])
        plan.difficulty = self._difficulty()
        plan.needed = self._needed()
        plan.has_id = all("id" in record for record in self.records)
        self.reasons.insert(0, f"prompt: {plan.prompt!r} ({self.why_prompt})")
        for name in self.columns:
            if not plan.became(name):
                self.unused.setdefault(name, self._unnamed(name) if prompt else "")
        return plan.columns

    def _unnamed(self, column: str) -> str:
        """Why a column that a prompt does not name may belong to it; "" if it does not."""
        if self.plan.is_chat or not valid(column):
            return ""
        if not Column(self, column).is_passage:
            return ""
        return f"texts that --prompt '{titled([column, self.main])}' would show"

    def _look_at_forms(self, rows: list[Record]) -> None:
        """Look whether the prompts of NeMo Gym's rows ask for a box."""
        asked = [prompt_text(row) for row in rows]
        without = [text for text in asked if "boxed" not in text]
        if without:
            self.form = (
                f"{len(without)} of {len(asked)} prompts do not ask for \\boxed{{}}"
            )
        other = next((found for text in without if (found := FORM.search(text))), None)
        self.never_boxed = len(without) == len(asked)
        if other and self.never_boxed:
            self.form += f", but for {shown(other[0])!r}"

    def without_gold(self) -> Columns:
        """The plan for a dataset that wants a grade of its own: all columns are the task."""
        texts = [name for name in self.columns if self.is_text(name)]
        asks = next((name for name in texts if folded(name) in PROMPTS), "")
        named = [n for n in self.columns if folded(n) not in ABOUT and valid(n)]
        names = [asks] if asks else named
        self.plan = Draft(grader="own")
        self.plan.prompt = "\n\n".join(
            f"{{{name}}}" if asks else f"{name}: {{{name}}}" for name in names
        )
        self.plan.difficulty = self._difficulty()
        return self.plan.columns

    # ------------------------------------------------------------------ the prompt

    def _choose_lists(self, prompt: str) -> None:
        """Find the questions in records that hold several, such as SQuAD's."""
        plan = self.plan
        named = {*template_names(prompt)}
        for name in self.columns if not self.named(OPTIONS) else ():
            parts = self.first(name)
            if not isinstance(parts, Mapping) or not _has_options(parts):
                continue
            if "stem" not in parts and folded(name) not in EXPECTED:
                continue
            if not named or (named <= {*self.columns, *parts} and name not in named):
                plan.lists = (name,)
                self.records = [*islice(items_of(self.records, name), MOST)]
                break
        if isinstance(self.first(pair := self.named(("translation",))), Mapping):
            plan.lists = (pair,)
            self.records = [*islice(items_of(self.records, pair), MOST)]
        wanted = {*template_names(prompt)} or {self.named(PROMPTS + MESSAGES)}
        while not wanted <= {*self.columns}:
            known = self.columns
            lists = [n for n in known if n not in plan.lists and self._has_items(n)]
            if not lists or len(plan.lists) == 3:
                return
            asks = {"question", *EXPECTED}
            lists.sort(key=lambda n: not asks & {*map(folded, self.first(n)[0])})
            plan.lists = (*plan.lists, lists[0])
            self.records = [*islice(items_of(self.records, lists[0]), MOST)]
            wanted = {*template_names(prompt)} or {self.named(PROMPTS + MESSAGES)}
        answered = next((n for n in self.columns if self._has_answers(n)), "")
        if answered and not (plan.lists or self.named(EXPECTED)):
            plan.lists = (answered,)
            self.records = [*islice(items_of(self.records, answered), MOST)]
        if plan.lists:
            self.reasons.append(f"a record has its questions in {'.'.join(plan.lists)}")

    def _parts_of_one_question(self) -> None:
        """Ask about lists whose objects have no answer of their own, or only a place."""
        plan = self.plan
        if plan.lists and isinstance(self.first(plan.lists[-1]), list):
            self.ask("parts", plan.lists[-1])

    def _has_answers(self, column: str) -> bool:
        """Whether a column has lists of answers to the question beside it, as self-instruct has."""
        if folded(column) in OPTIONS or not self._has_items(column):
            return False
        return bool(
            {"output", "answer", "target"} & {*map(folded, self.first(column)[0])}
        )

    def _has_items(self, column: str) -> bool:
        """Whether a column has lists of objects with a key that most of them have."""
        if not self.has_objects(column):
            return False
        firsts = [value[0] for value in self.values(Path(column)) if value]
        keys = Counter(key for first in firsts for key in first)
        return max(keys.values(), default=0) > 0.5 * len(firsts)

    def _choose_prompt(self, prompt: str, expected: str) -> None:
        """Choose the prompt from the columns other than `expected`."""
        why, given = "as asked", expected
        if given not in self.columns:
            given = given.partition("=")[0].partition(".")[0]
        if not prompt:
            chat = next((n for n in MESSAGES if self.has_messages(n)), "")
            asks = self.named(
                name
                for name in PROMPTS
                if name != chat and self.is_text(name) and self._asks(name)
                if self.named([name]) != given
            )
            prompt, why = chat, "a column of messages"
            if not (asks or chat):
                asks = self.named(PAIRS)
            if asks:
                prompt, why = template_of(asks), "a column of that name"
            known = (*EXPECTED, *CONTEXTS, *ABOUT)
            others = [
                n
                for n in self.columns
                if n != given
                and (self.is_source(n) or (self.is_text(n) and folded(n) not in known))
                and not words_in(n) & ({*TOLD} - ANSWERS | {"type", "kind"})
                and not Column(self, n).is_difficulty
                and not has_queries(Column(self, n))
            ]
            if (
                not prompt
                and len(others) == 1
                and not OPTION.fullmatch(folded(others[0]))
                and share(self.values(Path(others[0])), is_read) > 0.5
            ):
                prompt, why = template_of(others[0]), "the only other column"
            if {*map(folded, self.columns)} == {"context", "completion"}:
                prompt, why = template_of(self.named(["context"])), "beside completion"
            if not prompt:
                self.must_ask("no prompt")
        elif prompt in self.columns and not self.has_objects(prompt):
            prompt = template_of(prompt)
        if found := PLACEHOLDER.search(prompt):
            raise RolloutError(
                f"the prompt {prompt!r} has {found[0].strip()!r}: write the words there that say what to do"
            )
        for name in template_names(prompt) or [prompt]:
            if name in self.columns and "{" in prompt:
                template_of(name)
            if name not in self.columns:
                raise RolloutError(
                    f"the prompt {prompt!r} names {name!r}, and the columns are "
                    f"{', '.join(self.columns)}"
                )
        self.plan.prompt, self.why_prompt = prompt, why
        self._choose_images()
        if not (self.asked_for or self.plan.is_chat):
            self.ask("main")
        if self.plan.is_chat:
            self._look_at_messages(self.first(prompt))

    def _look_at_messages(self, messages: list[Mapping[str, Any]]) -> None:
        """Find how messages are written, by the first list of them."""
        plan, last = self.plan, messages[-1]
        plan.answered = last.get("role", last.get("from")) in ASSISTANTS
        system = self.named(("system", "system_prompt"))
        first = messages[0]
        if self.is_text(system) and first.get("role", first.get("from")) != "system":
            plan.system = system

    def _asks(self, name: str) -> bool:
        """Whether a column may hold questions: `query` may have SPARQL, `task` their common name."""
        column = self.named([name])
        values = {as_text(record.get(column)) for record in self.records}
        if has_queries(Column(self, column)):
            return False
        return name != "task" or 2 * len(values) > len(self.records)

    def _choose_images(self) -> None:
        """Find the columns of images. Raises RolloutError if there are only their names."""
        named = ""
        for column in self.columns:
            if words_in(column) & MEDIA and not self.asked_for:
                value = self.first(column)
                value = value[0] if isinstance(value, list) else value
                is_name = re.fullmatch(r"[\w-]{5,}", as_text(value)) is not None
                if isinstance(value, bytes | Mapping) or SOUND.search(as_text(value)):
                    self.must_ask("media", column)
                if folded(column) in NAMES_OF_FILMS and is_name:
                    self.must_ask("media", column)
            is_id = column.lower().endswith("id")
            if is_id or words_in(column) & {*EXPLAINS, "preview", "thumbnail"}:
                continue
            kind = self._images(column)
            self.plan.images += (column,) * (kind == "images")
            named = named or column * (kind == "names")
        if named and not (self.plan.images or self.asked_for):
            self.must_ask("images", named)

    def _images(self, column: str) -> str:
        """Say whether a column holds "images", their "names" or neither, ""."""
        value = self.first(column)
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, bytes) or (
            isinstance(value, Mapping) and "bytes" in value
        ):
            return "images"
        if isinstance(value, Mapping) and folded(column) in IMAGES:
            files = (v for v in value.values() if isinstance(v, str))
            value = next(filter(IMAGE.search, files), "")
        text = value if isinstance(value, str) and " " not in value else ""
        is_file = IMAGE.search(text)
        if text.startswith("data:image/") or (is_file and text.startswith("http")):
            return "images"
        if text.startswith("http") and folded(column) in IMAGES:
            return "images"
        named = folded(column) in IMAGES or column.lower().endswith(("image", "img"))
        if is_file and not named:  # one of many files may be an image
            files = map(as_text, self.values(Path(column)))
            named = share(files, IMAGE.search) > 0.5
        return "names" if named and text else ""

    def _choose_contexts(self) -> None:
        """Put what the question is about into the prompt."""
        apart = self.apart()
        left_out = {n: each for n, each in apart.items() if each.outcome == LEFT_OUT}
        self.unused = {name: reason.why for name, reason in left_out.items()}
        self.ask("columns", apart)
        if len(parts := self.parts()) > 1:
            self.plan.prompt = titled(parts)
            self.why_prompt = "the columns that the question is about"
        asked = [filled(self.plan.prompt, record) for record in self.records]
        self.ask("prompts", asked)

    def _difficulty(self) -> str:
        """The column with the names of few difficulties, "" if there is none."""
        for name in self.columns:
            is_named = words_in(name) & {*DIFFICULTY} or folded(name) == "level"
            if not is_named or self.plan.became(name):
                continue
            values = self.values(Path(name))
            few = len({*map(as_text, values)}) <= min(LABELS, len(values) / 2)
            if few and all(isinstance(value, str) for value in values):
                self.reasons.append(f"difficulty: {name}")
                return name
        return ""

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
        plan, count, made, none, lacking = self.plan, 0, 0, 0, 0
        lists = {name: [0, 0] for name in plan.lists[:1]}  # records without items, all
        left_out: dict[str, list[str]] = {}  # the first places, by the reason
        counts, said = Counter[str](), Counter[str]()  # said: the answers
        question = [
            n for n in plan.needed if n in (*names_in(plan.prompt), plan.prompt)
        ]
        for record in plan.questions(self._counted(records, lists)):
            count += 1
            place = record.place
            try:
                row = plan.apply(record)
                prompt = row.prompt
                made += 1
                said[one_line(row.task[plan.key], 200)] += 1
                if plan.is_chat:
                    responses_input(prompt)
                continue
            except ValueError as error:
                raise RolloutError(f"{place}: {error}") from None
            except Unfit as unfit:
                reason = str(unfit)
                none += bool(plan.nothing) and plan.said(record) in plan.nothing
                if not unfit.incomplete:
                    reason, place = MISFIT, f"{place}: {unfit}"
                elif reason.partition(" ")[2] in question:
                    reason = f"without {' or '.join(question)}"
            counts[reason] += 1
            asks = not any(is_empty(record.get(n)) for n in names_in(plan.prompt))
            lacking += reason == f"without {plan.expected.column}" and asks
            left_out.setdefault(reason, []).extend([place] * (counts[reason] <= 3))
        self._note_same(said)
        if left_out and not made:
            reason, [place, *_] = next(iter(left_out.items()))
            why = f", which is {reason}" * (reason != MISFIT)
            raise RolloutError(
                f"none of {count} records makes a row, such as {place}{why}"
            )
        if counts[MISFIT] and not asked:
            # Answers that say that there is none are left out, too.
            lost = counts[MISFIT] + none
            self.ask("misfits", made, lost, left_out[MISFIT][0])
        for column, some in [*lists.items(), (plan.expected.column, [lacking, count])]:
            if 2 * some[0] > some[1] and not asked:
                self.ask("incomplete", some[1], some[0], column)
        if len(said) == 1 and made >= FEWEST and not (asked or self.native):
            self.ask("same", *said.most_common(1)[0])
        for reason, places in left_out.items():
            more = ", ..." if counts[reason] > len(places) else ""
            self.reasons.append(f"{counts[reason]} of {count} left out, {reason}")
            self.reasons.append(f"  {'; '.join(places)}{more}")

    def _counted(
        self, records: Iterable[Record], lists: dict[str, list[int]]
    ) -> Iterator[Record]:
        """The records, of which those without items of a list are counted."""
        for record in records:
            for name, some in lists.items():
                some[0] += is_empty(record.get(name))
                some[1] += 1
            yield record

    def _note_same(self, answers: Counter[str]) -> None:
        """Say that nearly all answers are the same."""
        [(most, count)] = answers.most_common(1) or [("", 0)]
        if count >= SAME * answers.total() and answers.total() > 1:
            self.reasons.append(
                f"{count} of {answers.total()} answers are {shown(most)!r}: a policy that always says "
                "so earns as much"
            )
