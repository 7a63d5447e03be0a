"""Doubts: each says what the records leave open, with the commands to choose from.

Each is an entry of DOUBTS, in `doubts/`: a function of the records that were looked at, which returns a
Doubt or None. Errors in what the user named are raised where it is read.
The plan is chosen in stages, and the doubts of each are asked there, in this order:

    native      NeMo Gym's rows lack a known answer
    file        before anything is chosen
    no prompt   no column is known as the prompt
    media       a column names sounds or films
    images      a column names images
    main        the column that asks is chosen
    expected    columns have names of answers
    no expected  no column is known as the answer
    elsewhere   some records have the answer in another column
    no golds    no record has an answer
    booleans    golds are true and false
    letters     golds may be letters of options
    none        golds may say that there is none
    as texts    golds are objects, and the user named a grader of texts
    lists       golds may be lists
    golds       golds of any kind
    numbers, objects, places, calls, labels, texts, sentences     golds of that kind
    long        golds are too long to compare
    option, options     how golds name options
    form        NeMo Gym's rows ask for another form of answers
    columns     columns may belong to the prompt
    prompts     the prompts as they are
    as asked    the prompts that the user named
    chats       prompts that are messages
    parts       the records of which each holds several
    misfits     records do not fit the grader
    incomplete  records lack the question or the answer
    same        all records have one answer
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from ..errors import RolloutError
from .apart import (
    LEFT_OUT,
    Column,
    Reason,
    explains_the_answer,
    has_a_name_that_tells_nothing,
    has_long_objects,
    reason_of,
)
from .columns import (
    ASKS,
    EXPECTED,
    FEWEST,
    FIT,
    IMAGE,
    LABELS,
    TOPICS,
    Looked,
    are_labels,
    folded,
    nearly_all_match,
    share,
    titled,
    valid,
    words,
)
from .fields import as_text, listed_in, names_in
from .plan import Options, Path, message_key, shown

_ONE_OF_TWO = re.compile(r"(?i)(.+?)[ _-]?[ab012]$")
LETTER = r"[A-Ja-j]|\d"  # of an option, or its number
TITLES = ("title", "headline")  # of texts that labels are about
ASSISTANTS = ("assistant", "gpt", "agent", "bot", "model")  # roles of a policy
SCORES = {*words("score scores rating ratings stars")}
# Words in names of columns with numbers that are no answers
NUMBERS = words("id pk index idx rank loss seed fold mark marks points")
# A text that asks, or breaks off where the answer is
QUESTION = re.compile(r"[?？؟]|_{2,}|\.{3}\s*$|[:=]\s*$")


class OwnGrade(RolloutError):
    """A dataset that no grader here is for: its rows need a grade of their own."""


class Doubt(NamedTuple):
    """A problem that the records leave open, and the ways to go on.

    `own`: the data set wants a grade of its own.
    """

    problem: str
    ways: tuple[dict[str, str], ...] = ()
    own: bool = False


class Asking(Looked):
    """Raises RolloutError for what the records leave open."""

    def ask(self, stage: str, *facts: Any) -> None:
        """Raise RolloutError for the first doubt of a stage, whose functions take `facts`."""
        for find in DOUBTS[stage]:
            if doubt := find(self, *facts):
                if doubt.own:
                    raise OwnGrade(doubt.problem)
                lines = [doubt.problem]
                if doubt.ways or "--prompt" in doubt.problem:
                    lines += ["Columns:", *self.told_of_columns()]
                if doubt.ways:
                    lines += ["Commands:", *self.commands(doubt.ways)]
                raise RolloutError("\n".join(lines))

    @property
    def called_answer(self) -> str:
        """The column with a name of answers, topics left out; "" if there is none."""
        return self.named(name for name in EXPECTED if name not in TOPICS)

    def told_of_columns(self) -> Iterator[str]:
        """Lines that tell of each column its labels, or its first value, and its use so far."""
        names = dict.fromkeys(n for record in self.records for n in record if n)
        for name in names:
            values = self.values(Path(name))
            held = shown(values[0]) if values else "no value"
            plain = not any(isinstance(value, list | Mapping) for value in values)
            if plain and values and are_labels(texts := [*map(as_text, values)]):
                held = shown(" or ".join(sorted({*texts})))
            use = self.plan.became(name)
            if plain and share(map(as_text, values), IMAGE.search) > 0.5:
                use = use or "names of images, which no row has"
            if not self.plan.prompt:
                use = use or "expected" * (name == self.called_answer)
            yield f"  {name}: {held}{f' ({use})' * bool(use)}"

    def must_ask(self, stage: str, *facts: Any) -> NoReturn:
        """Raise RolloutError for a stage of which a doubt always holds."""
        self.ask(stage, *facts)
        raise AssertionError(f"none of the doubts at {stage!r} holds")

    def apart(self) -> dict[str, Reason]:
        """The reasons for columns, beside those that the plan has."""
        columns = [name for name in self.columns if not self.plan.became(name)]
        reasons = {name: reason_of(Column(self, name)) for name in columns}
        return {name: reason for name, reason in reasons.items() if reason}

    def parts(self, without: Collection[str] = ()) -> list[str]:
        """The columns that the question is about, in the order of the file."""
        main, apart = names_in(self.plan.prompt), self.apart()
        left_out = {n for n, reason in apart.items() if reason.outcome == LEFT_OUT}
        left_out -= {*self.compared(apart)}
        return [
            name
            for name in self.columns
            if name not in {*left_out, *without}
            and (name in main or not self.plan.became(name))
        ]

    def compared(self, apart: Mapping[str, Reason]) -> list[str]:
        """Two columns such as `response 1` and `response 2`, of which a label names one."""
        if not self.plan.expected.column or len({*map(str, self.golds())}) > 4:
            return []
        pairs: dict[str, list[str]] = {}
        for name, reason in apart.items():
            if reason.holds is explains_the_answer and (m := _ONE_OF_TWO.match(name)):
                pairs.setdefault(m[1], []).append(name)
        return next((pair for pair in pairs.values() if len(pair) == 2), [])

    def template(self) -> str:
        """A template of all that the question is surely about, for commands in messages."""
        unsure = (has_a_name_that_tells_nothing, has_long_objects)
        left_out = {n for n, reason in self.apart().items() if reason.holds in unsure}
        parts = [name for name in self.parts() if name not in left_out]
        return titled(parts or [self.main])

    def labeled(self) -> str:
        """The same for labels, which may be about a title, too."""
        template = self.template()
        names = [*names_in(template)]
        for name in self.columns:
            texts = [*map(as_text, self.values(Path(name)))]
            differ = len({*texts}) > 0.7 * len(self.records)
            if folded(name) in TITLES and name not in names and valid(name) and differ:
                names.append(name)
        return titled([name for name in self.columns if name in names])

    def asked(self, record: Mapping[str, Any]) -> str:
        """All that a record asks, with what is before the question."""
        plan = self.plan
        if not plan.is_chat:
            return plan.question(record)
        parts = [message.get(message_key(message)) for message in record[plan.prompt]]
        return "\n".join(map(as_text, parts[: -1 if plan.answered else None]))

    def prompts(self) -> tuple[dict[str, str], ...]:
        """The command with the prompt as it is; none before it is known."""
        return ({"prompt": self.plan.prompt},) if self.plan.prompt else ()

    def names_options(self, path: Path, options: Options) -> bool:
        """Whether a column has letters, numbers or texts of the options."""
        golds = [record for record in self.records if len(options.of(record)) > 1]
        lists = [v if isinstance(v, list) else [v] for v in self.values(path)]
        return nearly_all_match(LETTER, (as_text(v) for one in lists for v in one)) or (
            share(golds, lambda record: path.of(record) in options.of(record)) >= FIT
        )

    def lists_options(self) -> str:
        """The text column that lists options, the one that asks first; "" if none does."""
        names = [self.main, *(name for name in self.texts() if name != self.main)]
        for name in names:
            if share((as_text(r.get(name)) for r in self.records), listed_in) >= FIT:
                return name
        return ""

    @property
    def prompts_ask(self) -> bool:
        """Whether more than half of the prompts are questions, or say what to do."""
        asked = (as_text(record.get(self.main)) for record in self.records)
        return share(asked, lambda t: QUESTION.search(t) or ASKS.match(t)) > 0.5

    def said_in_the_prompt(
        self, problem: str, ways: list[dict[str, str]], as_it_is: dict[str, str]
    ) -> tuple[str, tuple[dict[str, str], ...]]:
        """A problem that words in the prompt solve, and the commands.

        `as_it_is` leaves a prompt alone, if it may say so already.
        """
        problem += ": say it in the prompt"
        if not (self.prompts_ask or self.says_what_to_do or self.plan.is_chat):
            return f"{problem}, as in this command", (*ways,)
        if ways:
            problem += ", as in the first command. The second is for prompts that do"
        else:
            problem += ". This command is for prompts that do"
        return problem, (*ways, as_it_is)

    def ways(self, more: str) -> list[dict[str, str]]:
        """The command that says more in the prompt; none for messages."""
        if self.plan.is_chat:
            return []
        said = self.plan.prompt if self.says_what_to_do else self.labeled()
        # Apart from the columns: a text may be a line of prose, or empty in a record.
        return [{"prompt": f"{said}\n\n{more}"}]


DOUBTS: dict[str, list[Callable[..., Doubt | None]]] = {}


def at[Find: Callable[..., Doubt | None]](stage: str) -> Callable[[Find], Find]:
    """Make a function a doubt of a stage."""

    def added(find: Find) -> Find:
        DOUBTS.setdefault(stage, []).append(find)
        return find

    return added


NO_TESTS = Doubt(
    "its answers are programs, and how their tests run is not known: copy with -d "
    "archetype=sandbox, without a dataset, and write the rows in its make_rows.py"
)


def names_of_labels(golds: list[Any]) -> str:
    """The labels that golds are, as `this, that or those`; "" if they are none."""
    labels = sorted({*map(str, golds)})
    are_few = len(labels) <= LABELS and len(labels) < len(golds)
    if len(labels) < 2 or not (are_few or FEWEST * len(labels) <= len(golds)):
        return ""
    labels = [label for label in labels if re.search(r"\w", label)] or labels
    return ", ".join(labels[:-1]) + f" or {labels[-1]}"


def asks_something(text: str) -> bool:
    return bool(ASKS.search(text) or QUESTION.search(text))
