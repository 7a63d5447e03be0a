"""Make rows for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite. Each row lists the tools
that the server has now.

This file is yours. Each function that tasks() lists makes one kind of task.
"""

import json
import random
import sys
from collections.abc import Iterator
from typing import Any

from env_runtime.graders import INSTRUCTIONS
from env_runtime.rows import Example, main

EXAMPLES = 3  # number of rows in data/example.jsonl

PEOPLE = ["Ada", "Amir", "Bea", "Carlos", "Dana", "Elif", "Farid", "Grace", "Hugo"]
CITIES = ["Bergen", "Cusco", "Dakar", "Graz", "Hue", "Kyoto", "Lima", "Oslo", "Turku"]
FIRMS = ["Brightwater", "Copperleaf", "Duskmill", "Elmgate", "Foxglove", "Greyhill"]


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks over a graph of people, without end: each kind once, then again."""
    while True:
        for kind in (remember, move, count):
            yield kind(rng)


def person(name: str, *observations: str) -> dict[str, Any]:
    return {"name": name, "entityType": "person", "observations": [*observations]}


def works_at(name: str, firm: str) -> dict[str, Any]:
    return {"from": name, "to": firm, "relationType": "works_at"}


def graph(entities: list[Any], relations: list[Any]) -> list[Any]:
    """The state in which the server answers with this graph."""
    return [["read_graph", {}, {"entities": entities, "relations": relations}]]


def file_of(entities: list[Any], relations: list[Any]) -> dict[str, str]:
    """The server's file with this graph, for the start of an episode."""
    lines = [{"type": "entity", **each} for each in entities]
    lines += [{"type": "relation", **each} for each in relations]
    return {"memory.jsonl": "\n".join(map(json.dumps, lines))}


def remember(rng: random.Random) -> Example:
    (one, other), city = rng.sample(PEOPLE, 2), rng.choice(CITIES)
    people = [person(one, f"lives in {city}"), person(other, "speaks Spanish")]
    knows = [{"from": one, "to": other, "relationType": "knows"}]
    prompt = (
        f"Remember two entities of the type 'person': {one}, with the observation 'lives "
        f"in {city}', and {other}, with the observation 'speaks Spanish'. Then remember "
        f"the relation 'knows' from {one} to {other}. Remember nothing else."
    )
    oracle = [
        ("create_entities", {"entities": people}),
        ("create_relations", {"relations": knows}),
    ]
    task = {"expected_state": graph(people, knows)}
    return Example(prompt, task, "easy", oracle=oracle)


def move(rng: random.Random) -> Example:
    names, (old, new) = rng.sample(PEOPLE, 4), rng.sample(CITIES, 2)
    who = names[0]
    before = [person(name, f"lives in {old}") for name in names]
    after = [person(who, f"lives in {new}"), *before[1:]]
    prompt = (
        f"{who} has moved from {old} to {new}. Correct what is known about {who}, in the "
        "words in which it is known, and change nothing else."
    )
    gone = {"entityName": who, "observations": [f"lives in {old}"]}
    known = {"entityName": who, "contents": [f"lives in {new}"]}
    oracle = [
        ("delete_observations", {"deletions": [gone]}),
        ("add_observations", {"observations": [known]}),
    ]
    task = {"files": file_of(before, []), "expected_state": graph(after, [])}
    return Example(prompt, task, "medium", oracle=oracle)


def count(rng: random.Random) -> Example:
    firm, other = rng.sample(FIRMS, 2)
    names = rng.sample(PEOPLE, 8)
    here = names[: rng.randrange(2, 7)]
    firms = [{**person(each), "entityType": "firm"} for each in (firm, other)]
    rng.shuffle(names)
    works = [works_at(name, firm if name in here else other) for name in names]
    entities = [*map(person, names), *firms]
    prompt = (
        f"How many people work at {firm}, by what is known? Change nothing. Answer with "
        f"a number in digits.\n\n{INSTRUCTIONS}"
    )
    task = {
        "files": file_of(entities, works),
        "expected_answer": str(len(here)),
        "expected_state": graph(entities, works),
    }
    oracle: list[Any] = [("read_graph", {}), "\\boxed{" + str(len(here)) + "}"]
    return Example(prompt, task, "hard", oracle=oracle)


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
