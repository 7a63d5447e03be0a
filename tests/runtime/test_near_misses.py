"""What the rollout gate says of grades that look at less than they should."""

import json
import re
from typing import Any

import pytest
from env_runtime.errors import GateError
from env_runtime.probe.search import floor_note

NAMES = ["Ann", "Bob", "Cem", "Dee", "Eve", "Fay", "Gus", "Hal"]
HOURS = range(9, 17)


def asking(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "responses_create_params": {"input": f"Do what is asked in number {n}."},
            "ground_truth": [task],
        }
        for n, task in enumerate(tasks)
    ]


class Calendar:
    """One meeting of all who are asked, at an hour that is free, and not before ten."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.event = task, None
        self.fixed = dict(task["fixed"])  # who is busy at which hour

    def create_event(self, attendees: list[str], hour: int, title: str) -> str:
        """Create the meeting."""
        if unknown := {*attendees} - {*NAMES}:
            raise ValueError(f"nobody is called {', '.join(unknown)}")
        self.event = {*attendees}, hour, title
        return "created"

    def move_event(self, name: str, hour: int) -> str:
        """Move what a person has planned."""
        if name not in self.fixed:
            raise ValueError(f"{name} has no event")
        self.fixed[name] = hour
        return "moved"

    def asked(self) -> bool:
        return self.event is not None and self.event[0] == {*self.task["asked"]}

    def free(self) -> bool:
        assert self.event
        return self.event[1] not in [self.fixed.get(name) for name in self.event[0]]

    def allowed(self) -> bool:
        assert self.event
        return 10 <= self.event[1] == self.task["hour"]

    def kept(self) -> bool:
        return self.fixed == self.task["fixed"]

    def reward(self) -> float:
        good = self.asked() and self.free() and self.allowed() and self.kept()
        return float(good)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        meeting = {"attendees": task["asked"], "hour": task["hour"], "title": "Talk"}
        return [("create_event", meeting)]


class Ledger:
    """One of the row's entries is wrong, and has to go; an unknown one is refused."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.gone = task, ""

    def delete(self, entry: str) -> str:
        """Delete an entry."""
        if entry not in [each["entry"] for each in self.task["book"]]:
            raise ValueError(f"there is no entry {entry}")
        self.gone = entry
        return "deleted"

    def reward(self) -> float:
        return float(self.gone == self.task["wrong"])

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("delete", {"entry": task["wrong"]})]


class AnyEntry(Ledger):
    def reward(self) -> float:
        return float(bool(self.gone))


BOOKS = asking(
    *(
        {
            "book": [{"entry": f"e{n}{k}", "payee": NAMES[k]} for k in range(4)],
            "wrong": f"e{n}2",
        }
        for n in range(8)
    )
)


@pytest.mark.parametrize(
    ("kind", "line"),
    [(Ledger, "delete.entry  8 of 8 rows"), (AnyEntry, "delete.entry  0 of 8 rows")],
)
def test_other_values_of_the_field_in_the_task_are_tried(look, kind, line):
    """Those of other rows are refused, which shows nothing."""
    assert line in look(kind, BOOKS)


class Misread(Ledger):
    """The number as it was read first counts, too."""

    def reward(self) -> float:
        return float(self.gone in (self.task["wrong"], self.task["misread"]))


class Holds(Ledger):
    """The entry may stand among others."""

    def reward(self) -> float:
        return float(self.task["wrong"] in self.gone)


class Forgets(Ledger):
    """The grade ignores all other entries that were deleted."""

    def delete(self, entry: str) -> str:
        """Delete an entry."""
        self.gone += f" {entry}"
        return "deleted"

    def reward(self) -> float:
        return float(self.task["wrong"] in self.gone.split())


class Exact(Forgets):
    def reward(self) -> float:
        return float(self.gone.split() == [self.task["wrong"]])


class Blabs(Ledger):
    """An error names the right entry."""

    def delete(self, entry: str) -> str:
        """Delete an entry."""
        if entry != self.task["wrong"]:
            raise ValueError(f"{entry} is not it, {self.task['wrong']} is")
        return super().delete(entry)


class BlabsCount:
    """An error has the right count, of two digits, and another its limit."""

    limit = False

    def __init__(self, task: dict[str, Any]) -> None:
        self.right, self.count = task["right"], 0

    def order(self, count: int) -> str:
        """Order some jugs."""
        if count != self.right:
            most = 99 if self.limit else self.right
            raise ValueError(f"not that many: it must be {most}")
        self.count = count
        return "ordered"

    def reward(self) -> float:
        return float(self.count == self.right)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("order", {"count": task["right"]})]


class Limits(BlabsCount):
    limit = True


COUNTS = asking(*({"right": 30 + n} for n in range(8)))
NUMBERS = asking(
    *(
        {"wrong": f"AB{n}7-{n}41", "misread": f"AB{n}1-{n}47", "book": []}
        for n in range(8)
    )
)


class Anything(Ledger):
    def delete(self, entry: str) -> str:
        """Delete an entry."""
        self.gone = entry
        return "deleted"


class MisreadToo(Anything, Misread):
    pass


class HoldsIt(Anything, Holds):
    pass


@pytest.mark.parametrize(
    ("kind", "tasks", "says"),
    [
        (
            MisreadToo,
            NUMBERS,
            r"delete\.entry .*never with .*another value of its task",
        ),
        (HoldsIt, NUMBERS, r"delete\.entry .*never with .*another value before it"),
        (Forgets, NUMBERS, r"delete added +0 of 8 rows"),
        (Blabs, BOOKS, r"the error about a wrong one has the right one in 8 rows"),
        (BlabsCount, COUNTS, r"the error about a wrong one has the right one in 8"),
    ],
)
def test_what_a_grade_lets_pass_is_named(look, kind, tasks, says):
    meant = ["crowd", "reader"]  # which would find them, too
    assert re.search(says, look(kind, tasks, meant))
    honest = {Blabs: Ledger, Forgets: Exact, BlabsCount: Limits}.get(kind, Anything)
    assert not re.search(says, look(honest, tasks, meant))


class Announced(Ledger):
    """The entry in a form, of which any beginning counts."""

    delete = None

    def __init__(self, task: dict[str, Any]) -> None:
        super().__init__(task)
        self.said = ""

    def reply(self, answer: str) -> str | None:
        self.said = answer
        return None

    def reward(self) -> float:
        found = re.fullmatch(r"It is (\w+)\.", self.said)
        return float(bool(found and self.task["wrong"].startswith(found[1])))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [f"It is {task['wrong']}."]


def test_a_prefix_is_one_of_what_a_form_holds(look):
    words = [
        "ginger",
        "pepper",
        "fennel",
        "sesame",
        "nutmeg",
        "thyme",
        "laurel",
        "cloves",
    ]
    rows = asking(*({"book": [], "wrong": word} for word in words))
    assert "never with a prefix" in look(Announced, rows)


class AnybodyMayCome(Calendar):
    def asked(self) -> bool:
        return self.event is not None and bool(self.event[0])


class AnyHour(Calendar):
    def allowed(self) -> bool:
        return True

    def free(self) -> bool:
        return True


class FixedEventsMove(Calendar):
    def kept(self) -> bool:
        return True


MEETINGS = asking(
    *(
        {
            "asked": [NAMES[n], NAMES[(n + 1) % 8]],
            "hour": 10 + n % 6,
            "fixed": {NAMES[n]: 9, NAMES[(n + 3) % 8]: 16},
        }
        for n in range(8)
    )
)


@pytest.mark.parametrize(
    ("kind", "matters", "does_not"),
    [
        (Calendar, ["attendees", "hour"], ["title"]),
        (AnybodyMayCome, ["hour"], ["title"]),
        (AnyHour, ["attendees"], ["hour", "title"]),
        (FixedEventsMove, ["attendees", "hour"], ["title"]),
    ],
)
def test_the_table_names_what_the_grade_depends_on(look, kind, matters, does_not):
    note = look(kind, MEETINGS, ["constant", "form"])
    assert (
        "\nrows in which one change to the oracle's solution lowers the reward:\n"
        in note
    )
    falls = dict(
        re.findall(r"^  (create_event\.\w+|\w+ \w+) +(\d) of 8", note, re.MULTILINE)
    )
    assert all(falls[f"create_event.{name}"] == "8" for name in matters), note
    assert all(falls[f"create_event.{name}"] == "0" for name in does_not), note
    moved = re.search(r"^  move_event added +(\d) of 8", note, re.MULTILINE)
    assert moved
    assert (moved[1] == "8") == (kind is not FixedEventsMove), note


def test_a_value_that_never_matters_is_named(look):
    note = look(AnybodyMayCome, MEETINGS, ["constant", "form"])
    line = re.search(r"create_event\.attendees +(.*)", note)
    assert line and "never with another value" in line[1]


def test_graded_pins_an_argument(look):
    pins = ["create_event.attendees", "create_event.hour"]
    assert "create_event.hour" in look(Calendar, MEETINGS, graded=pins)
    with pytest.raises(
        GateError, match=r"`graded` names create_event\.hour, but anoth"
    ):
        look(AnyHour, MEETINGS, ["constant", "form"], graded=pins)
    with pytest.raises(
        GateError, match=r"`graded` names place, but what the oracle doe"
    ):
        look(Calendar, MEETINGS, graded=["place"])


class Answers:
    def __init__(self, task: dict[str, Any]) -> None:
        self.expected = task["expected"]

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return str(task["expected"])


class Prefix(Answers):
    def reward(self, answer: str) -> float:
        return float(len(answer) > 1 and self.expected.startswith(answer))


class Tolerant(Answers):
    most = 0.6

    def reward(self, answer: str) -> float:
        try:
            return float(abs(float(answer) / self.expected - 1) <= self.most)
        except (ValueError, OverflowError):
            return 0.0


class ByAThird(Tolerant):
    most = 1 / 3


class Sorted(Answers):
    def sort(self, names: list[str]) -> str:
        """Hand in the sorted names."""
        self.names = names
        return "noted"

    names: tuple | list = ()

    def reward(self) -> float:
        return float(sorted(self.names) == self.expected)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("sort", {"names": task["expected"]})]


class Negative(Answers):
    sold = 0

    def sell(self, quantity: int) -> str:
        """Sell some."""
        self.sold = quantity
        return "sold"

    def reward(self) -> float:
        return float(abs(self.sold) == self.expected)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("sell", {"quantity": task["expected"]})]


@pytest.mark.parametrize(
    ("kind", "expected", "named"),
    [
        (Prefix, [f"{name} of {name}" for name in NAMES], "a prefix"),
        (Tolerant, [10**n for n in range(1, 9)], "half as much again"),
        (ByAThird, [n * 100 for n in range(1, 9)], "a tenth more"),
        (Sorted, [[NAMES[n], f"{NAMES[n]}y"] for n in range(8)], "another order"),
        (Negative, range(11, 19), "its negative"),
    ],
)
def test_a_planted_flaw_is_in_the_table(look, kind, expected, named):
    note = look(kind, asking(*({"expected": one} for one in expected)))
    line = re.search(r"; never with (.*)", note)
    assert line and named in line[1], note


def test_what_there_was_no_time_for_is_weak_and_no_hole(look):
    note = look(Calendar, MEETINGS, seconds=0.0, graded=["create_event.attendees"])
    assert note.startswith("WEAK")
    assert "not for `graded` create_event.attendees: there was no time" in note


class OnlyNamed(Calendar):
    """Others than those who have an event are refused."""

    def create_event(self, attendees: list[str], hour: int, title: str) -> str:
        """Create the meeting."""
        if unknown := {*attendees} - {*self.task["asked"], *self.fixed}:
            raise ValueError(f"nobody is called {', '.join(unknown)}")
        return super().create_event(attendees, hour, title)


def test_an_order_that_does_not_matter_is_no_argument_that_does_not(look):
    """An empty list, a part and another order take turns, and other values are refused."""
    note = look(OnlyNamed, MEETINGS, ["constant", "form"])
    assert re.search(r"attendees +(\d) of \1 rows; never with another order\n", note), (
        note
    )


class Refusing(Calendar):
    """Other attendees are refused, and nobody looks at those of the meeting."""

    def create_event(self, attendees: list[str], hour: int, title: str) -> str:
        """Create the meeting."""
        if attendees != self.task["asked"]:
            raise ValueError("these do not want to meet")
        return super().create_event(attendees, hour, title)


def test_a_value_that_is_refused_shows_nothing(look):
    note = look(Refusing, MEETINGS)
    assert re.search(
        r"attendees +not seen: every other value is refused \(8 rows\)", note
    )
    with pytest.raises(GateError, match="is refused, which shows nothing of the grade"):
        look(Refusing, MEETINGS, graded=["create_event.attendees"])


class Payments:
    """Which payment pays which invoice: a share of the right pairs is earned."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.task, self.pairs = task, {}

    def pay(self, payment: str, invoice: str) -> str:
        """Say which invoice a payment pays."""
        self.pairs[payment] = invoice
        return "noted"

    def reward(self) -> float:
        right = self.task["pairs"]
        found = sum(self.pairs.get(payment) == right[payment] for payment in right)
        return found / len(right)

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("pay", {"payment": a, "invoice": b}) for a, b in task["pairs"].items()]

    @staticmethod
    def shallow(task: dict[str, Any]) -> Any:
        """The first payment pays the first invoice, and so on."""
        numbers = range(len(task["pairs"]))
        return [("pay", {"payment": f"p{n}", "invoice": f"i{n}"}) for n in numbers]


LEDGERS = asking(
    *(
        {"pairs": {"p0": "i0", "p1": "i1" if n % 2 else "i2", "p2": f"i{n}"}}
        for n in range(8)
    )
)


class Tags:
    """Partial credit for each right tag among the last two."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.right = task["tags"]

    def reward(self, answer: str) -> float:
        said = {*answer.split()[-2:]}
        return len(said & {*self.right}) / len(self.right) if said else 0.0

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return " ".join(task["tags"])


TAGGED = asking(*({"tags": ["news", f"tag{n}"]} for n in range(8)))


def test_the_floor_is_what_a_policy_without_a_solution_earns(look):
    note = look(Payments, LEDGERS)
    assert re.search(
        r"without a solution, a policy earns at most 0\.4\d+ on average \(always plays the "
        r"solution[^\n]*: training would find that\.",
        note,
    )
    note = look(Tags, TAGGED)
    assert "a policy earns at most 0.5" in note
    assert "`floor = 0.56`" in note


class Paid(Payments):
    """The first two payments are enough."""

    def reward(self) -> float:
        right = self.task["pairs"]
        return float(all(self.pairs.get(one) == right[one] for one in ("p0", "p1")))


def test_a_call_that_earns_nothing_is_told(look):
    lines = look(Paid, LEDGERS).splitlines()
    [line] = [one for one in lines if one.startswith("  pay left out")]
    assert line.endswith(" 0 of 8 rows: the last such call earns nothing")
    [line] = [
        one for one in look(Payments, LEDGERS).splitlines() if "pay left out" in one
    ]
    assert line.endswith(" 8 of 8 rows")


class Acts(Payments):
    """A share for each of three actions."""

    pay = None

    def act(self, action: str) -> str:
        """Do something."""
        self.pairs[action] = action
        return "done"

    def reward(self) -> float:
        return sum(one in self.pairs for one in self.task["acts"]) / 3

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("act", {"action": action}) for action in task["acts"]]


def test_the_oracle_with_another_last_call_knows_the_solution(look):
    """Two of the three actions are the oracle's, so that policy knows most of the solution."""
    rows = asking(
        *({"acts": [f"lift {n}", f"turn {n}", f"drop {n}"]} for n in range(8))
    )
    note = look(Acts, rows)
    assert re.search(r"none of \d+ policies earns more than nothing", note)


def test_rows_in_which_nothing_can_be_learned_are_named(look):
    """Their baseline is the highest reward: no policy can earn more."""
    idle = [{**row, "baseline_reward": 1.0} for row in TAGGED]
    note = look(Tags, idle)
    assert "training would find" not in note
    assert "Nothing can be learned in 8 of 8 rows, such as row 1 of data/" in note
    note = look(Tags, [*idle[:3], *TAGGED[3:]])
    assert "\nNothing can be learned in 3 of 8 rows, such as row 1 of data/" in note


def test_what_is_earned_is_said_even_if_the_rows_allow_it(look):
    """A baseline_reward of 0.01 is more than nothing."""
    rows = [{**row, "baseline_reward": 0.01} for row in TAGGED]
    look(Tags, rows)
    for reward, says in (
        (0.01, "a policy earns at most 0.01 on average (noop"),
        (0, "none of 1 policies earns more than nothing"),
    ):
        note = floor_note(Tags, None, rows, {"noop": dict.fromkeys(range(8), reward)})
        assert note.startswith(f"\nwithout a solution, {says}")


@pytest.mark.parametrize(("kind", "rows"), [(Payments, LEDGERS), (Tags, TAGGED)])
def test_a_floor_can_be_pinned(look, kind, rows):
    assert look(kind, rows, floor=0.6).endswith("; floor = 0.6")
    with pytest.raises(
        GateError, match=r"but `floor` below \[tool.environment\] in pyp"
    ):
        look(kind, rows, floor=0.2)


# ------------------------------------------------------------------ by field

PLACES = [
    {"city": city, "country": country, "size": 1000 * n + 700}
    for n, (city, country) in enumerate(
        [
            ("Lima", "Peru"),
            ("Oslo", "Norway"),
            ("Quito", "Ecuador"),
            ("Cairo", "Egypt"),
            ("Delhi", "India"),
            ("Seoul", "Korea"),
            ("Rome", "Italy"),
            ("Bern", "Switzerland"),
        ]
    )
]


class AsJson(Answers):
    """All fields are compared."""

    def reward(self, answer: str) -> float:
        try:
            return float(self.same(json.loads(answer)))
        except (ValueError, TypeError, KeyError, AttributeError):
            return 0.0

    def same(self, found: Any) -> bool:
        return found == self.expected

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return json.dumps(task["expected"])


class Unread(AsJson):
    def same(self, found: Any) -> bool:
        return (found["city"], found["size"]) == (
            self.expected["city"],
            self.expected["size"],
        )


class ByPrefix(AsJson):
    def same(self, found: Any) -> bool:
        begins = self.expected["country"].startswith(found.get("country") or "no")
        return begins and {**found, "country": 0} == {**self.expected, "country": 0}


class Denied(AsJson):
    def same(self, found: Any) -> bool:
        named = self.expected["country"] in found["country"]
        return named and {**found, "country": 0} == {**self.expected, "country": 0}


class AsTags(Answers):
    """All tags are compared."""

    def reward(self, answer: str) -> float:
        return float(
            self.found(answer) == self.read(self.oracle({"expected": self.expected}))
        )

    def found(self, answer: str) -> Any:
        return self.read(answer)

    def read(self, answer: str) -> Any:
        return dict(re.findall(r"<(\w+)>(.*?)</\1>", answer))

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "".join(
            f"<{name}>{value}</{name}>" for name, value in task["expected"].items()
        )


class UnreadTag(AsTags):
    def read(self, answer: str) -> Any:
        return {**super().read(answer), "country": ""}


class AnyTag(AsTags):
    def read(self, answer: str) -> Any:
        return re.findall(r"<\w+>(.*?)</\w+>", answer)


class AsLines(AsTags):
    def read(self, answer: str) -> Any:
        return answer.split("\n")

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "\n".join(map(str, task["expected"].values()))


class UnreadLine(AsLines):
    def read(self, answer: str) -> Any:
        return answer.split("\n")[::2]


class AsFields(AsLines):
    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return "\n".join(f"{name}: {value}" for name, value in task["expected"].items())


class UnreadField(AsFields):
    def read(self, answer: str) -> Any:
        return [line for line in answer.split("\n") if not line.startswith("country")]


class Listed(AsJson):
    """Objects in a list: an order that may differ."""

    def same(self, found: Any) -> bool:
        key = json.dumps
        return sorted(found, key=key) == sorted(
            [self.expected, {"city": "Ulm"}], key=key
        )

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return json.dumps([task["expected"], {"city": "Ulm"}], indent=2)


def by_place(note: str) -> dict[str, tuple[str, str]]:
    """Whether all or none of its changes count, and which never do, by place."""
    found = re.findall(r"^  (\S+(?: \d)?) +(\d) of (\d) rows?(.*)", note, re.MULTILINE)
    return {
        place: ("all" if count == of else count, rest)
        for place, count, of, rest in found
    }


@pytest.mark.parametrize(
    ("kind", "place", "named"),
    [
        (AsJson, "", ""),
        (Unread, "answer.country", "another value"),
        (ByPrefix, "answer.country", "a prefix"),
        (Denied, "answer.country", "its denial"),
        (AsTags, "", ""),
        (UnreadTag, "answer.country", "another value"),
        (AnyTag, "answer", "another tag"),
        (AsLines, "", ""),
        (UnreadLine, "answer.line 2", "another value"),
        (AsFields, "", ""),
        (UnreadField, "answer.country", "another value"),
        (Listed, "", ""),
    ],
)
def test_each_part_of_an_answer_is_changed_by_itself(look, kind, place, named):
    note = look(kind, asking(*({"expected": one} for one in PLACES)), ["constant"])
    found = by_place(note)
    assert len(found) >= 4, note
    if not place:
        assert {rest for _, rest in found.values()} <= {
            "",
            "; never with another order",
        }
        assert {count for count, _ in found.values()} == {"all"}, note
        return
    count, rest = found.pop(place)
    assert named in rest, note
    assert (count == "0") == (named == "another value"), note
    assert {count for count, _ in found.values()} == {"all"}, note
    # A part can be pinned.
    rows = asking(*({"expected": one} for one in PLACES))
    if named == "another value":
        with pytest.raises(GateError, match=rf"`graded` names {place}, but another"):
            look(kind, rows, ["constant"], graded=[place])
    assert look(
        kind, rows, ["constant"], graded=["answer.city"][: place != "answer.line 2"]
    )
