"""Make rows of coding and data tasks for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours. Each function that tasks() lists makes one kind of task: change
them, or write more. Each function computes the answer in another way than its solution
does, and the tests compare the two.
"""

import json
import random
import sys
from collections.abc import Iterable, Iterator
from textwrap import dedent
from typing import Any

from env_runtime.rows import Example, evenly, main

EXAMPLES = 20  # number of rows in data/example.jsonl


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), without end: each kind once, then again.

    An easy task takes one step, such as a sum over a file. A medium task takes two or
    three, or a careful rule. A hard task needs a program repaired.
    """
    kinds = [revenue, trail, merged_settings, slow_program, wrong_ledger]
    for kind in evenly(rng, kinds):
        yield kind(rng)


def python(code: str) -> list[Any]:
    """A solution, or a part of one: a call of run_python."""
    return [["run_python", {"code": text(code)}]]


def command(script: str) -> list[Any]:
    """A solution, or a part of one: a call of run_command."""
    return [["run_command", {"command": text(script)}]]


def text(block: str) -> str:
    """An indented block of lines as the content of a file."""
    return dedent(block).strip("\n") + "\n"


def lines(items: Iterable[Any]) -> str:
    return "".join(f"{item}\n" for item in items)


def revenue(rng: random.Random) -> Example:
    regions = ["north", "south", "east", "west"]
    wanted = rng.choice(regions)
    rows, total = ["region,units,price"], 0
    for region in [wanted, *rng.choices(regions, k=40)]:
        units, cents = rng.randrange(10, 50), rng.randrange(1000, 10_000)
        rows.append(f"{region},{units},{cents / 100:.2f}")
        if region == wanted:
            total += units * cents
    prompt = (
        f"sales.csv lists sales. Compute the revenue of the region {wanted}: the sum of "
        "units times price over its rows. Call submit with exactly the amount with two "
        "decimals, such as 1234.50, once you have computed it."
    )
    task = {
        "files": {"sales.csv": lines(rows)},
        "expected_output": f"{total // 100}.{total % 100:02}",
        "solution": python(f"""
            import csv
            from decimal import Decimal
            rows = csv.DictReader(open("sales.csv"))
            rows = [row for row in rows if row["region"] == "{wanted}"]
            print(sum(int(row["units"]) * Decimal(row["price"]) for row in rows))
        """),
    }
    return Example(prompt, task, "easy")


def trail(rng: random.Random) -> Example:
    word = rng.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ", k=10)
    names = [f"nodes/{number}.txt" for number in rng.sample(range(100, 1000), 10)]
    nodes = {}
    for name, letter, following in zip(names, word, [*names[1:], "none"], strict=True):
        nodes[name] = f"letter: {letter}\nnext: {following}\n"
    prompt = (
        "start.txt names a file in nodes/. That file has a letter and the name of the "
        "next file, and so on until next is none. Call submit with exactly the letters "
        "in that order, without spaces."
    )
    task = {
        "files": {"start.txt": f"{names[0]}\n", **dict(sorted(nodes.items()))},
        "expected_output": "".join(word),
        "solution": command("""
            file=$(cat start.txt)
            while [ "$file" != none ]; do
              word=$word$(sed -n 's/^letter: //p' "$file")
              file=$(sed -n 's/^next: //p' "$file")
            done
            echo "$word"
        """),
    }
    return Example(prompt, task, "easy")


def merged_settings(rng: random.Random) -> Example:
    files: dict[str, str] = {}
    merged: dict[str, dict[str, int]] = {}
    for name in ("base.ini", "override.ini"):
        content = []
        for section in rng.sample(["cache", "log", "mail", "server"], 3):
            content.append(f"[{section}]")
            for key in rng.sample(["limit", "port", "size", "timeout"], 3):
                value = rng.randrange(1, 1000)
                content.append(f"{key} = {value}")
                merged.setdefault(section, {})[key] = value
        files[name] = lines(content)
    prompt = (
        "Merge base.ini and override.ini: a key in override.ini replaces the same key of "
        "the same section. Write the result to merged.json as a JSON object of sections, "
        "the values as integers, all keys sorted, indented by two spaces. Call submit "
        "with exactly the sum of all values in merged.json."
    )
    task = {
        "files": files,
        "expected_output": str(sum(sum(keys.values()) for keys in merged.values())),
        "expected_files": {"merged.json": json.dumps(merged, indent=2, sort_keys=True)},
        "solution": python("""
            import configparser, json
            parser = configparser.ConfigParser()
            parser.read(["base.ini", "override.ini"])
            merged, total = {}, 0
            for name in parser.sections():
                merged[name] = {key: int(value) for key, value in parser[name].items()}
                total += sum(merged[name].values())
            content = json.dumps(merged, indent=2, sort_keys=True)
            open("merged.json", "w").write(content)
            print(total)
        """),
    }
    return Example(prompt, task, "medium")


def slow_program(rng: random.Random) -> Example:
    steps, longest = rng.randrange(100, 300), rng.randrange(3, 9)
    ways = [1]
    while len(ways) <= steps:
        ways.append(sum(ways[-longest:]))
    program = f'''
        """Prints in how many ways a stair is climbed in strides of 1 to longest."""


        def ways(steps, longest):
            if steps <= 0:
                return int(steps == 0)
            return sum(ways(steps - stride, longest) for stride in range(1, longest + 1))


        print(ways({steps}, {longest}))
    '''
    prompt = (
        "slow.py is correct but would run for years. Make it fast, so that it prints the "
        "same number within a second. Call submit with exactly that number."
    )
    edit = python("""
        program = open("slow.py").read()
        cached = "import functools\\n\\n\\n@functools.cache\\ndef ways"
        open("slow.py", "w").write(program.replace("def ways", cached))
    """)
    task = {
        "files": {"slow.py": text(program)},
        "expected_output": str(ways[steps]),
        "solution": edit + command("python3 slow.py"),
    }
    return Example(prompt, task, "medium")


def wrong_ledger(rng: random.Random) -> Example:
    balances, rejected, transfers = {"ann": 1000, "bob": 1000, "cleo": 1000}, 0, []
    for amount in [1000, *rng.choices(range(100, 1500), k=20)]:  # first a whole balance
        sender, receiver = rng.sample(sorted(balances), 2)
        transfers.append(f"{sender},{receiver},{amount}")
        if amount > balances[sender]:
            rejected += 1
        else:
            balances[sender] -= amount
            balances[receiver] += amount
    program = '''
        """Applies transfers.csv and prints how many it rejected, then the balances.

        A transfer of more than the sender has is rejected and changes nothing.
        """

        balances, rejected = {"ann": 1000, "bob": 1000, "cleo": 1000}, 0
        for line in open("transfers.csv"):
            sender, receiver, amount = line.strip().split(",")
            balances[sender] -= int(amount)
            if balances[sender] > 0:
                balances[receiver] += int(amount)
            else:
                rejected += 1
        print(rejected, *balances.values())
    '''
    prompt = (
        "ledger.py does not do what its docstring says. Repair it and run it. Call "
        "submit with exactly the line that the repaired program prints."
    )
    task = {
        "files": {"ledger.py": text(program), "transfers.csv": lines(transfers)},
        "expected_output": " ".join(map(str, [rejected, *balances.values()])),
        "solution": command("""
            sed -i.bak -e 's/> 0:/>= 0:/' \\
              -e 's/rejected += 1/&; balances[sender] += int(amount)/' ledger.py
            python3 ledger.py
        """),
    }
    return Example(prompt, task, "hard")


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
