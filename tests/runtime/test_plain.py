"""What tools return becomes JSON, or an error that names it."""

import collections
import datetime
import json
import os
import pathlib
import subprocess
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from env_runtime.episode.answers import as_answer
from pydantic import BaseModel, Field

from .support import Mover

WORDS = {"mill", "dock", "farm", "port", "mine", "camp", "yard", "pier"}
IN_ORDER = sorted(WORDS)
DAYS = pd.DataFrame(
    {
        "day": pd.to_datetime(["2031-01-02", None]),
        "sold": pd.array([1, None], dtype="Int64"),
        "share": [0.5, np.nan],
    }
)


class Color(Enum):
    RED = "red"


class Shops(BaseModel):
    names: set[str] = Field(default=WORDS, serialization_alias="called")
    inner: list[dict[str, frozenset[str]]] = [{"a": frozenset(WORDS)}]
    when: datetime.date = datetime.date(2031, 1, 2)


@dataclass
class Shop:
    names: set[str] = field(default_factory=lambda: WORDS)
    sold: Any = pd.NA


SHOPS = {"called": IN_ORDER, "inner": [{"a": IN_ORDER}], "when": "2031-01-02"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            DAYS.to_dict("records"),
            [
                {"day": "2031-01-02T00:00:00", "sold": 1, "share": 0.5},
                {"day": None, "sold": None, "share": None},
            ],
        ),
        (DAYS.day, ["2031-01-02T00:00:00", None]),
        (DAYS.day.iloc[1], None),
        ([pd.NA, np.datetime64("NaT", "D"), np.float32("nan")], [None] * 3),
        ({pd.NaT: 1, (1, 2): np.int64(3)}, {"None": 1, "1,2": 3}),
        ([WORDS, frozenset([10, 9]), {1, "a", None}], [IN_ORDER, [9, 10], ["a", 1, None]]),
        ([{(2, "b"), (1, "a")}], [[[1, "a"], [2, "b"]]]),
        (Shops(), SHOPS),
        ([Shop()], [{"names": IN_ORDER, "sold": None}]),
        ([Color.RED, Decimal("1.5"), b"ab"], ["red", "1.5", "ab"]),
        ([pathlib.PurePosixPath("a/b"), range(2)], ["a/b", [0, 1]]),
        ([types.MappingProxyType({"a": 1}), {"a": 1}.values()], [{"a": 1}, [1]]),
        ([collections.deque([1]), collections.ChainMap({"a": 1})], [[1], {"a": 1}]),
    ],
)  # fmt: skip
def test_a_value_that_json_can_hold(begin, value, expected):
    class Teller(Mover):
        def tell(self) -> Any:
            """Tell."""
            return value

    client = begin(Teller, served=["tell"])
    assert json.loads(client.call("tell")) == expected


def nested() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: [{"a": b"\xff"}],
            r"with a bytes in it, .*: b'\\xff', at \[0\]\['a'\]",
        ),
        (lambda: {"x": object()}, "with a object in it, .*: <object .*>, at ['x']"),
        (lambda: {frozenset([1]): 2}, "with a frozenset in it"),
        (lambda: [pd.Period("2031")], "with a Period in it, .*Period.*, at [0]"),
        (nested, "nested too deeply"),
        (lambda: [10**5000], "a number that is too long"),
        (lambda: DAYS, "returned DataFrame, but .*: write .to_dict"),
        (lambda: WORDS, r"returned set, but .*: write sorted\(...\) around it"),
        (lambda: (1, 2), r"returned tuple, but .*: write list\(...\) around it"),
        (lambda: Decimal(1), r"returned Decimal, but .*: write str\(...\) around it"),
    ],
)
def test_a_value_that_json_cannot_hold_is_named(begin, make: Callable[[], Any], says):
    class Teller(Mover):
        def tell(self) -> Any:
            """Tell."""
            return make()

    client = begin(Teller, served=["tell"])
    answer = client.post("/tell", json={})
    assert answer.json() == {"output": "error: NotTextError"}
    fault = answer.headers["X-Tool-Error"]
    for part in says.split(".*"):
        assert part.replace("\\", "") in fault.replace("\\", ""), fault
    assert "(runtime/test_plain.py, line " in fault
    assert "answers.py" not in fault and "plain.py, line" not in fault.replace(
        "test_plain.py", ""
    )


SCRIPT = f"""
from dataclasses import dataclass
from env_runtime.episode.answers import as_answer
from pydantic import BaseModel

class Shops(BaseModel):
    names: set[str]

@dataclass
class Town:
    shops: list[Shops]
    names: frozenset[str]

words = {WORDS!r}
print(as_answer(Town([Shops(names=words)], frozenset(words))).output)
"""


def test_a_set_is_the_same_in_each_process():
    """Python orders texts in a set by a hash that is another one in each process."""
    told = set()
    for seed in "12":
        variables = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=variables,
            capture_output=True,
            text=True,
            check=True,
        )
        told.add(done.stdout)
    assert [json.loads(text) for text in told] == [
        {"shops": [{"names": IN_ORDER}], "names": IN_ORDER}
    ]


def test_the_image_and_the_other_fields_are_json_too():
    @dataclass
    class View:
        output: Any
        seen: Any

    answer = as_answer(View([pd.NaT], {"at": WORDS}))
    assert (answer.output, answer.extra) == ("[null]", {"seen": {"at": IN_ORDER}})
