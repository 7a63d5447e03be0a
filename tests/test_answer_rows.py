"""Tests that solve the problems of the archetype `answer` in another way."""

import itertools
import math
import random
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import runtime.rendered  # noqa: F401  # makes env_runtime importable

# isort: split
import pytest

from projects import ROOT, load_module

Numbers = list[Fraction]


@pytest.fixture(scope="module")
def make_rows() -> Any:
    """make_rows.py of the archetype, as it is in a project."""
    return load_module(ROOT / "archetypes/answer/make_rows.py", "make_word_problems")


def percent(number: Fraction) -> Fraction:
    return number / 100


def shopping(answer: Fraction, n: Numbers) -> bool:
    books, book, pens, pen, bill = n
    spent = sum([book] * int(books) + [pen] * int(pens))
    return answer + spent == bill


def ride(answer: Fraction, n: Numbers) -> bool:
    speed, hours, minutes = n
    return answer / (hours + minutes / 60) == speed


def share(answer: Fraction, n: Numbers) -> bool:
    rolls, sold = n
    return answer + rolls * sold == rolls


def two_ages(answer: Fraction, n: Numbers) -> bool:
    times, together = n
    return answer + answer / times == together


def sale(answer: Fraction, n: Numbers) -> bool:
    price, off, tax = n
    reduced = price - price * percent(off)
    return answer == reduced + reduced * percent(tax)


def cake(answer: Fraction, n: Numbers) -> bool:
    first, second = n
    return answer + first + (1 - first) * second == 1


def years_ahead(answer: Fraction, n: Numbers) -> bool:
    apart, years, times = n
    return answer + years == times * (answer - apart + years)


def round_trip(answer: Fraction, n: Numbers) -> bool:
    there, back = n
    kilometers = 100
    return answer * (kilometers / there + kilometers / back) == 2 * kilometers


def committee(answer: Fraction, n: Numbers) -> bool:
    nurses, doctors, some, others = map(int, n)
    teams = itertools.product(
        itertools.combinations(range(nurses), some),
        itertools.combinations(range(doctors), others),
    )
    return answer == sum(1 for _ in teams)


def former_price(answer: Fraction, n: Numbers) -> bool:
    up, down, now = n
    raised = answer + answer * percent(up)
    return raised - raised * percent(down) == now


def pipes(answer: Fraction, n: Numbers) -> bool:
    first, second, drain = n
    return answer / first + answer / second - answer / drain == 1


def seats(answer: Fraction, n: Numbers, text: str) -> bool:
    friends = int(n[0])
    apart, both_ends = "do not sit next" in text, "two ends" in text
    count = 0
    for row in itertools.permutations(range(friends)):
        next_to = abs(row.index(0) - row.index(1)) == 1
        at_end = row[0] == 2 or (both_ends and row[-1] == 2)
        count += at_end and next_to != apart
    return answer == count


def marbles(answer: Fraction, n: Numbers) -> bool:
    red, blue, green, drawn = map(int, n)
    bag = "r" * red + "b" * blue + "g" * green
    draws = list(itertools.combinations(bag, drawn))
    return answer == Fraction(sum("r" in draw for draw in draws), len(draws))


def mixture(answer: Fraction, n: Numbers) -> bool:
    strong, liters, weak, middle = n
    salt = answer * percent(strong) + liters * percent(weak)
    return salt / (answer + liters) == percent(middle)


def multiples(answer: Fraction, n: Numbers) -> bool:
    _, last, a, b, c = map(int, n)

    def count(*divisors: int) -> int:
        return last // math.lcm(*divisors)

    either = count(a) + count(b) - count(a, b)
    return answer == either - count(a, c) - count(b, c) + count(a, b, c)


# One for each kind of problem, with the kind's name.
CHECKS: dict[str, Callable[..., bool]] = {
    check.__name__: check
    for check in [
        *(shopping, ride, share, two_ages, sale, cake, years_ahead, round_trip),
        *(committee, former_price, pipes, seats, marbles, mixture, multiples),
    ]
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_answer_fits_the_text_of_the_problem(make_rows, name):
    for seed in range(60):
        text, answer, _ = getattr(make_rows, name)(random.Random(seed))
        numbers = [Fraction(part) for part in re.findall(r"\d+(?:[./]\d+)?", text)]
        if name == "seats" and numbers[0] > 7:  # too many orders to count one by one
            continue
        more = [text] if name == "seats" else []
        assert CHECKS[name](Fraction(answer), numbers, *more), (text, answer)
        assert Fraction(answer) > 0


def test_every_kind_of_problem_is_checked(make_rows):
    examples = itertools.islice(make_rows.tasks(random.Random(0)), len(CHECKS) * 10)
    assert len({each.task["problem"] for each in examples}) > len(CHECKS) * 9
    kinds = [
        name
        for name, kind in vars(make_rows).items()
        if getattr(kind, "__annotations__", {}).get("return") is make_rows.Problem
    ]
    assert sorted(kinds) == sorted(CHECKS)
