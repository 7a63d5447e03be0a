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

import heapq
import json
import math
import random
import sys
from base64 import b64encode
from collections.abc import Iterable, Iterator
from textwrap import dedent
from typing import Any

from env_runtime.rows import Example, main

EXAMPLES = 20  # number of rows in data/example.jsonl


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), without end: each kind once, then again.

    An easy task takes one step, such as a sum over a file. A medium task takes two or
    three, or a careful rule. A hard task needs a bug fixed or an algorithm written.
    """
    kinds = [revenue, hidden_word, trail]
    kinds += [failing_requests, merged_settings, contacts, slow_program]
    kinds += [wrong_ledger, cheapest_path, determinant]
    while True:
        for kind in rng.sample(kinds, len(kinds)):
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


def hidden_word(rng: random.Random) -> Example:
    word = f"{rng.choice(NOUNS)}-{rng.choice(NOUNS)}-{rng.randrange(1000, 10_000)}"
    message = f"The code word is {word}. Keep it."
    prompt = (
        "message.txt holds a short text that was written backwards and then encoded as "
        "base64. The text names a code word. Call submit with exactly the code word."
    )
    task = {
        "files": {"message.txt": b64encode(message[::-1].encode()).decode() + "\n"},
        "expected_output": word,
        "solution": python("""
            import base64, re
            message = base64.b64decode(open("message.txt").read()).decode()[::-1]
            print(re.search(r"code word is (\\S+)\\.", message)[1])
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


def failing_requests(rng: random.Random) -> Example:
    hosts = [f"10.0.0.{number}" for number in rng.sample(range(1, 255), 5)]
    # Each host fails once more than the one before it: the last one is the worst.
    failed = [host for times, host in enumerate(hosts, 4) for _ in range(times)]
    requests = [(host, rng.choice([500, 502, 503])) for host in failed]
    requests += [(rng.choice(hosts), rng.choice([200, 304, 404])) for _ in range(40)]
    log, total = [], 0
    for host, status in rng.sample(requests, len(requests)):
        path = rng.choice(["/", "/items/500", "/login", "/search?q=503"])
        size = rng.randrange(200, 9000)
        log.append(f'{host} "GET {path} HTTP/1.1" {status} {size}')
        if host == hosts[-1] and status >= 500:
            total += size
    prompt = (
        "Each line of logs/access.log has an address, a request, the status of the "
        "response and its size in bytes. Find the address with the most responses of "
        "status 500 to 599, and add up the bytes of exactly those responses. Call submit "
        "with exactly the address, one space and that sum, such as: 192.0.2.1 12345."
    )
    task = {
        "files": {"logs/access.log": lines(log)},
        "expected_output": f"{hosts[-1]} {total}",
        "solution": command("""
            awk '$(NF-1) >= 500 { n[$1]++; bytes[$1] += $NF }
                 END { for (a in n) print n[a], a, bytes[a] }' logs/access.log |
              sort -rn | head -n 1 | cut -d ' ' -f 2-
        """),
    }
    return Example(prompt, task, "medium")


def merged_settings(rng: random.Random) -> Example:
    files, merged = {}, {}
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


def contacts(rng: random.Random) -> Example:
    people = [f"{name}@example.org" for name in rng.sample(NOUNS, 5)]
    given, kept = [], {}
    for email in rng.choices(people, k=12):
        area, number = rng.randrange(200, 1000), rng.randrange(1000, 10_000)
        phones = [f"({area}) 555-{number}", f"{area}.555.{number}"]
        phone = rng.choice([*phones, f"+1 {area} 555 {number}"])
        given.append(f"{rng.choice([email, email.upper(), email.title()])}; {phone}")
        kept.setdefault(email, f"+1{area}555{number}")
    result = [f"{email},{phone}" for email, phone in sorted(kept.items())]
    prompt = (
        "contacts.txt has lines of email; phone. Clean it up into contacts.csv with "
        "lines email,phone and no header: the email in lower case, the phone as +1 and "
        "its ten other digits. Of several lines with the same email keep the first, and "
        "sort by email. Call submit with exactly the last line of contacts.csv."
    )
    task = {
        "files": {"contacts.txt": lines(given)},
        "expected_output": result[-1],
        "expected_files": {"contacts.csv": lines(result)},
        "solution": python("""
            import re
            kept = {}
            for line in open("contacts.txt"):
                email, phone = line.lower().split(";")
                kept.setdefault(email, "+1" + re.sub("[^0-9]", "", phone)[-10:])
            result = [f"{email},{phone}" for email, phone in sorted(kept.items())]
            open("contacts.csv", "w").write("\\n".join(result))
            print(result[-1])
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


def cheapest_path(rng: random.Random) -> Example:
    size = rng.randrange(20, 25)
    costs = [1, 2, 3, 4, 5, 6, 70, 80, 90, 99]  # so that the path winds
    grid = [[rng.choice(costs) for _ in range(size)] for _ in range(size)]
    queue, done = [(grid[0][0], 0, 0)], set()
    while (size - 1, size - 1) not in done:
        cost, i, j = heapq.heappop(queue)
        if (i, j) in done:
            continue
        done.add((i, j))
        for x, y in (i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1):
            if 0 <= x < size and 0 <= y < size:
                heapq.heappush(queue, (cost + grid[x][y], x, y))
    prompt = (
        f"grid.txt has {size} rows of {size} costs. A path from the top left to the "
        "bottom right cell goes up, down, left or right, and costs the sum of all its "
        "cells, both ends included. Call submit with exactly the lowest cost."
    )
    task = {
        "files": {"grid.txt": lines(" ".join(map(str, row)) for row in grid)},
        "expected_output": str(cost),
        "solution": python("""
            rows = enumerate(map(str.split, open("grid.txt")))
            grid = {(i, j): int(cost) for i, row in rows for j, cost in enumerate(row)}
            best, before = {(0, 0): grid[0, 0]}, {}
            while best != before:
                before = dict(best)
                for (i, j), cost in grid.items():
                    for cell in (i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1):
                        if cell in best:
                            new = best[cell] + cost
                            best[i, j] = min(new, best.get((i, j), new))
            print(best[max(grid)])
        """),
    }
    return Example(prompt, task, "hard")


def determinant(rng: random.Random) -> Example:
    size = rng.randrange(8, 11)
    diagonal = [rng.choice([-1, 1]) * rng.randrange(150, 250) for _ in range(size)]
    matrix = [[diagonal[i] * (i == j) for j in range(size)] for i in range(size)]
    for _ in range(50):  # adding one row to another does not change the determinant
        i, j = rng.sample(range(size), 2)
        matrix[i] = [a + b for a, b in zip(matrix[i], matrix[j], strict=True)]
    prompt = (
        f"matrix.csv is a {size} by {size} matrix of integers. Compute its determinant "
        "exactly; floating point is not precise enough. Call submit with exactly the "
        "integer."
    )
    task = {
        "files": {"matrix.csv": lines(",".join(map(str, row)) for row in matrix)},
        "expected_output": str(math.prod(diagonal)),
        "solution": python("""
            import functools
            rows = [list(map(int, line.split(","))) for line in open("matrix.csv")]

            @functools.cache
            def minor(row, columns):
                total = 0 if columns else 1
                for k, column in enumerate(columns):
                    rest = columns[:k] + columns[k + 1:]
                    total += (-1) ** k * rows[row][column] * minor(row + 1, rest)
                return total

            print(minor(0, tuple(range(len(rows)))))
        """),
    }
    return Example(prompt, task, "hard")


NOUNS = ["anchor", "canyon", "garden", "harbor", "lantern", "meridian", "orchard"]
NOUNS += ["river", "summit", "tulip", "valley", "willow"]

if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
