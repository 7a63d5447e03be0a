"""Make rows of the form for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours: change tasks() and the values below. The names of the fields and
options must be the same as in CONTROLS beside the class.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

from env_runtime.rows import Example, evenly, main

EXAMPLES = 20  # number of rows in data/example.jsonl

# How many fields a task changes: every twenty tasks have these numbers, shuffled.
FIELDS = [1] * 6 + [2] * 5 + [3] * 4 + [4, 4, 5, 6, 13]

Record = dict[str, Any]  # the values of the fields by name, in the order of the form

CHECKS = {
    "subscribe": '"Subscribe to the newsletter"',
    "terms": '"The customer accepted the terms"',
}
FIELD_NAMES = """
name email country subscribe company phone street city postcode plan contact terms note
"""
EMPTY: Record = dict.fromkeys(FIELD_NAMES.split(), "") | dict.fromkeys(CHECKS, False)
CHOICES = ("country", "plan", "contact")
# The prompts' words for fields, if they differ from the fields' names.
LABELS = {
    "name": "full name",
    "phone": "phone number",
    "postcode": "postal code",
    "contact": "preferred contact",
    **CHECKS,
}

FIRST_NAMES = (
    "Ada Alan Amina Emil Grace Ines Juan Kwame Li Lena Mary Noor Omar Sofia Yuki"
)
LAST_NAMES = (
    "Costa Haddad Hopper Kimani Larsen Moreno Otieno Patel Sato Singh Virtanen Wei"
)
COMPANIES = (
    *("Analytical Engines", "Babbage and Sons", "Compilers Ltd", "Fjord Data"),
    *("Harbour Foods", "Maple Robotics", "Northern Glass", "Savanna Solar"),
)
DOMAINS = ("example.com", "example.net", "example.org", "mail.example")
STREETS = ("Acacia Road", "Cherry Street", "Harbour Street", "King Street", "Mill Lane")
# For each country, its city and the form of its postal codes, with # for a digit.
PLACES = {
    "Argentina": ("Rosario", "S2###"),
    "Canada": ("Ottawa", "K#P #G#"),
    "Finland": ("Helsinki", "00##0"),
    "India": ("Pune", "411 0##"),
    "Japan": ("Osaka", "53#-00##"),
    "Kenya": ("Nairobi", "00##0"),
    "Norway": ("Bergen", "50##"),
    "Portugal": ("Porto", "4###-0##"),
}
PLANS = ("Free", "Team", "Business", "Enterprise")
CONTACTS = ("Email", "Phone", "Post")
NOTES = ("Call after 5 pm", "Met at the fair", "Old address", "Pays by invoice", "VIP")


def tasks(rng: random.Random) -> Iterator[Example]:
    """Forms to fill in and records to correct, as (prompt, task, difficulty), without end."""
    for count in evenly(rng, FIELDS):
        yield fill_in(rng, count) if rng.random() < 0.4 else correct(rng, count)


def fill_in(rng: random.Random, count: int) -> Example:
    """Fill in `count` fields of an empty form."""
    ticked = dict.fromkeys(CHECKS, True)
    wanted = person(rng) | ticked | {"note": rng.choice(NOTES)}
    fields = chosen(rng, count)
    parts = [part(field, wanted[field]) for field in fields]
    what = "The Customer record window shows an empty form."
    goal = EMPTY | {field: wanted[field] for field in fields}
    rest = "Leave the other fields as they are."
    task = {"goal": {"saved": goal}}
    return Example(prompt(what, parts, rest, count), task, level(count))


def correct(rng: random.Random, count: int) -> Example:
    """Change `count` fields of a record."""
    start, other = person(rng), person(rng)
    fields = chosen(rng, count)
    if fields == ["name"] and rng.random() < 0.5:
        name = start["name"]
        place = rng.randrange(1, len(name) - 1)
        start["name"] = name[:place] + name[place + 1 :]
        other["name"] = name
        parts = [f'correct the misspelled full name to "{name}"']
    else:
        for field in fields:
            while other[field] == start[field]:
                other[field] = person(rng)[field]
        parts = [part(field, other[field], start[field]) for field in fields]
    what = "The Customer record window shows an existing record."
    goal = start | {field: other[field] for field in fields}
    rest = "Change nothing else."
    task = {"goal": {"saved": goal}, "start": start}
    return Example(prompt(what, parts, rest, count), task, level(count))


def level(count: int) -> str:
    """The difficulty of a task that changes `count` fields."""
    return "easy" if count == 1 else "medium" if count <= 3 else "hard"


def chosen(rng: random.Random, count: int) -> list[str]:
    """Names of `count` fields, in the order of the form."""
    names = set(rng.sample(list(EMPTY), count))
    return [name for name in EMPTY if name in names]


def person(rng: random.Random) -> Record:
    """A record with a value in every text field, except sometimes in the note."""
    first, last = rng.choice(FIRST_NAMES.split()), rng.choice(LAST_NAMES.split())
    country = rng.choice(list(PLACES))
    city, code = PLACES[country]
    return {
        "name": f"{first} {last}",
        "email": f"{first}.{last}@{rng.choice(DOMAINS)}".lower(),
        "country": country,
        "subscribe": rng.random() < 0.5,
        "company": rng.choice(COMPANIES),
        "phone": f"555 01{rng.randrange(100):02}",
        "street": f"{rng.randrange(1, 100)} {rng.choice(STREETS)}",
        "city": city,
        "postcode": "".join(str(rng.randrange(10)) if c == "#" else c for c in code),
        "plan": rng.choice(PLANS),
        "contact": rng.choice(CONTACTS),
        "terms": rng.random() < 0.5,
        "note": rng.choice(("", *NOTES)),
    }


def part(field: str, value: Any, old: Any = "") -> str:
    """The words that ask for a field's value."""
    label = LABELS.get(field, field)
    if isinstance(value, bool):
        return f"{'tick' if value else 'untick'} {label}"
    if not value:
        return f"empty the {label}"
    if field in CHOICES:
        return f"choose the {label} {value}"
    return f'{"change" if old else "enter"} the {label}{" to" if old else ""} "{value}"'


def prompt(what: str, parts: list[str], rest: str, count: int) -> str:
    """The prompt that asks for `parts` of `count` fields."""
    *others, last = parts
    asked = f"{', '.join(others)} and {last}" if others else last
    rest = f" {rest}" if count < len(EMPTY) else ""
    return (
        f"{what} {asked[0].upper()}{asked[1:]}.{rest} Save the record, then call "
        'terminate with status "success".'
    )


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
