r"""Make rows of word problems for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no problem is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours. Each function that tasks() lists makes one kind of problem: change
them, or write more. All of them compute with fractions, never with floats.
"""

import math
import random
import re
import sys
from collections.abc import Iterator
from fractions import Fraction

from env_runtime.rows import Example, evenly, main

EXAMPLES = 30  # number of rows in data/example.jsonl

# The box is empty, so a policy that repeats the prompt earns nothing.
INSTRUCTIONS = (
    "Solve the problem step by step. End with the final answer in \\boxed{}: one exact "
    "number, as an integer, a decimal or a fraction, without a unit. Use \\boxed{} only "
    "once."
)

Problem = tuple[str, str, str]  # its text, its answer, its difficulty

NAMES = [
    *("Ada", "Amir", "Bea", "Carlos", "Dana", "Elif", "Farid", "Grace", "Hugo", "Ines"),
    *("Jonas", "Kira", "Liam", "Maya", "Nils", "Olga", "Pavel", "Rosa", "Samir"),
]


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), without end: each kind once, then again.

    An easy problem takes one or two steps. A medium problem takes three, or a ratio of
    two unknowns. A hard problem takes an equation of its own, or careful counting.
    """
    kinds = [shopping, ride, share, two_ages]
    kinds += [sale, cake, years_ahead, round_trip, committee]
    kinds += [former_price, pipes, seats, marbles, mixture, multiples]
    for kind in evenly(rng, kinds):
        problem, answer, difficulty = kind(rng)
        # A number that the policy only reads must not solve the problem.
        numbers = re.findall(r"\d+(?:[./]\d+)?", problem)
        if Fraction(answer) not in map(Fraction, numbers):
            prompt = f"{problem}\n\n{INSTRUCTIONS}"
            task = {"problem": problem, "expected_answer": answer}
            yield Example(prompt, task, difficulty)


def dollars(cents: int) -> str:
    """An amount with two decimals."""
    return f"{cents // 100}.{cents % 100:02}"


# ---------------------------------------------------------------------- easy


def shopping(rng: random.Random) -> Problem:
    name = rng.choice(NAMES)
    books, pens = rng.randrange(2, 7), rng.randrange(2, 9)
    book, pen = rng.randrange(125, 500, 5), rng.randrange(40, 200, 5)
    problem = (
        f"{name} buys {books} notebooks at ${dollars(book)} each and {pens} pens at "
        f"${dollars(pen)} each, and pays with a $50 bill. How many dollars of change "
        f"does {name} get?"
    )
    return problem, dollars(5000 - books * book - pens * pen), "easy"


def ride(rng: random.Random) -> Problem:
    speed = rng.randrange(12, 120, 6)
    hours, minutes = rng.randrange(1, 6), rng.randrange(10, 60, 10)
    problem = (
        f"A train travels at a steady {speed} km/h. How many kilometers does it travel "
        f"in {hours} hours and {minutes} minutes?"
    )
    return problem, str(speed * (60 * hours + minutes) // 60), "easy"


def share(rng: random.Random) -> Problem:
    parts = rng.randrange(3, 10)
    sold = rng.choice([n for n in range(2, parts) if math.gcd(n, parts) == 1])
    rolls = parts * rng.randrange(6, 40)
    problem = (
        f"A bakery makes {rolls} rolls and sells {sold}/{parts} of them before noon. How "
        "many rolls are left at noon?"
    )
    return problem, str(rolls // parts * (parts - sold)), "easy"


def two_ages(rng: random.Random) -> Problem:
    old, young = rng.sample(NAMES, 2)
    times, age = rng.randrange(2, 7), rng.randrange(3, 16)
    problem = (
        f"{old} is {times} times as old as {young}. Together they are "
        f"{(times + 1) * age} years old. How old is {old}?"
    )
    return problem, str(times * age), "easy"


# ---------------------------------------------------------------------- medium


def sale(rng: random.Random) -> Problem:
    while True:
        price, off = rng.randrange(20, 300, 5), rng.choice([10, 15, 20, 25, 30, 35, 40])
        tax = rng.choice([4, 5, 6, 8, 10, 12])
        cents = Fraction(price * (100 - off) * (100 + tax), 100)
        if cents.denominator == 1:
            break
    problem = (
        f"A coat costs ${price}. In a sale it is {off}% off, and a sales tax of {tax}% is "
        "added to the reduced price. How many dollars does the coat cost then?"
    )
    return problem, dollars(int(cents)), "medium"


def cake(rng: random.Random) -> Problem:
    first, second = rng.sample(NAMES, 2)
    a, b = (Fraction(rng.randrange(1, n), n) for n in rng.sample(range(3, 10), 2))
    problem = (
        f"{first} eats {a} of a cake. Then {second} eats {b} of what is left. What "
        "fraction of the whole cake remains?"
    )
    return problem, str((1 - a) * (1 - b)), "medium"


def years_ahead(rng: random.Random) -> Problem:
    old, young = rng.sample(NAMES, 2)
    years, times = rng.randrange(3, 12), rng.randrange(2, 5)
    age = rng.randrange(2, 15)
    apart = (times - 1) * (age + years)
    problem = (
        f"{old} is {apart} years older than {young}. In {years} years, {old} will be "
        f"{times} times as old as {young} is then. How old is {old} now?"
    )
    return problem, str(age + apart), "medium"


def round_trip(rng: random.Random) -> Problem:
    name = rng.choice(NAMES)
    there, back = rng.sample(range(30, 125, 5), 2)
    problem = (
        f"{name} drives to a lake at {there} km/h and returns on the same road at {back} "
        f"km/h. What is {name}'s average speed on the whole trip, in km/h?"
    )
    return problem, str(Fraction(2 * there * back, there + back)), "medium"


def committee(rng: random.Random) -> Problem:
    nurses, doctors = rng.randrange(4, 11), rng.randrange(4, 9)
    some, others = rng.randrange(2, 4), rng.randrange(2, 4)
    problem = (
        f"A clinic has {nurses} nurses and {doctors} doctors. In how many ways can it "
        f"choose a team of {some} nurses and {others} doctors?"
    )
    return problem, str(math.comb(nurses, some) * math.comb(doctors, others)), "medium"


# ---------------------------------------------------------------------- hard


def former_price(rng: random.Random) -> Problem:
    while True:
        price = rng.randrange(20, 400)
        up, down = rng.sample(range(5, 45, 5), 2)
        cents = Fraction(price * (100 + up) * (100 - down), 100)
        if cents.denominator == 1:
            break
    problem = (
        f"A shop raises the price of a lamp by {up}% and later lowers the new price by "
        f"{down}%. The lamp costs ${dollars(int(cents))} now. How many dollars did it "
        "cost at first?"
    )
    return problem, str(price), "hard"


def pipes(rng: random.Random) -> Problem:
    first, second, drain = rng.sample(range(3, 16), 3)
    drain += max(first, second)  # the tank fills
    rate = Fraction(1, first) + Fraction(1, second) - Fraction(1, drain)
    problem = (
        f"One pipe fills an empty tank in {first} hours, another one in {second} hours. "
        f"A drain empties the full tank in {drain} hours. The tank is empty, and both "
        "pipes and the drain are opened. After how many hours is it full?"
    )
    return problem, str(1 / rate), "hard"


def seats(rng: random.Random) -> Problem:
    first, second, third = rng.sample(NAMES, 3)
    friends = rng.randrange(5, 10)
    pair = 2 * math.factorial(friends - 2)  # orders in which the two sit together
    apart = math.factorial(friends - 1) - pair
    pairs, rule = rng.choice([(pair, "sit"), (apart, "do not sit")])
    ends, end = rng.choice([(2, "one of the two ends"), (1, "the left end")])
    problem = (
        f"{friends} friends sit down in a row of {friends} chairs, {first}, {second} and "
        f"{third} among them. {first} and {second} {rule} next to each other, and "
        f"{third} sits at {end}. In how many ways can the friends sit?"
    )
    return problem, str(ends * pairs), "hard"


def marbles(rng: random.Random) -> Problem:
    red, blue, green = (rng.randrange(2, 8) for _ in range(3))
    drawn = rng.randrange(2, 4)
    none = Fraction(
        math.comb(blue + green, drawn), math.comb(red + blue + green, drawn)
    )
    problem = (
        f"A bag holds {red} red, {blue} blue and {green} green marbles. {drawn} marbles "
        "are drawn at random, and none is put back. What is the probability that at "
        "least one of them is red?"
    )
    return problem, str(1 - none), "hard"


def mixture(rng: random.Random) -> Problem:
    weak, middle, strong = sorted(rng.sample(range(5, 100, 5), 3))
    liters = rng.randrange(4, 41)
    problem = (
        f"How many liters of salt water with {strong}% salt must be added to {liters} "
        f"liters with {weak}% salt, so that the mixture has {middle}% salt?"
    )
    return problem, str(Fraction(liters * (middle - weak), strong - middle)), "hard"


def multiples(rng: random.Random) -> Problem:
    last = rng.randrange(100, 1000)
    triples = [(2, 3, 5), (3, 4, 7), (4, 6, 5), (3, 5, 4), (6, 7, 9), (5, 8, 3)]
    a, b, c = rng.choice(triples)
    count = sum((n % a == 0 or n % b == 0) and n % c != 0 for n in range(1, last + 1))
    problem = (
        f"How many of the integers from 1 to {last} are divisible by {a} or by {b}, or by "
        f"both, but not by {c}?"
    )
    return problem, str(count), "hard"


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
