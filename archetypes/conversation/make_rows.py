"""Make rows of the help desk for the dataset: train, validation, example.

    uv run python make_rows.py [--seed 0] [--train 200] [--validation 50]
                               [--output data] [--overwrite]
    uv run python make_rows.py --example --overwrite

The first command writes data/train.jsonl and data/validation.jsonl, the second
data/example.jsonl anew. A seed always gives the same rows, no task is in two of the
files, and no existing file is replaced without --overwrite.

This file is yours: change the rules (in the class, too), the wishes and the accounts.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

from env_runtime.rows import Example, main

EXAMPLES = 24  # number of rows in data/example.jsonl
NAMES = ["Ada", "Amir", "Bea", "Carlos", "Dana", "Elif", "Farid", "Grace"]
PLANS = ["Basic", "Plus", "Fast"]

PROMPT = """\
You work at the help desk of an internet provider. Talk to the customer in messages, and \
use the tools. The rules of the desk:

- Ask for the account number and the PIN, and find the account with both. After three \
wrong PINs, none is found.
- Do what the customer wants if a rule allows it, and nothing else.
- A customer who owes money has to pay it first. Say how much. Only the customer can pay.
- The plans are Basic ($20 a month), Plus ($30) and Fast ($45). Say the price of a new plan.
- The credit for an outage is $2 for each day without internet on record, whatever the \
customer says, and is given once. If it was given before, say how much it was.
- A contract can be ended for $10 for each month that is missing to 12, for $0 after that. \
Say the price first. End the contract only if the customer then agrees.
- Write amounts as $18, and no amounts but those that these rules ask for.
- End the conversation with a message that contains the word goodbye.

The customer says: Hello, can you help me with my contract?"""


def tasks(rng: random.Random) -> Iterator[Example]:
    """Tasks as (prompt, task, difficulty), without end."""
    while True:
        numbers = rng.sample(range(1000, 10_000), 4)
        names = rng.sample(NAMES, 4)
        accounts = {
            str(number): _account(rng, name)
            for number, name in zip(numbers, names, strict=True)
        }
        number = rng.choice(list(accounts))
        account, wants = accounts[number], {}
        wish = rng.choice(["plan", "days", "end", "plan", "days", "end", "both"])
        if wish in ("plan", "both"):
            others = [plan for plan in PLANS if plan != account["plan"]]
            wants["plan"] = rng.choice(others)
        if wish in ("days", "both"):
            account["days"] = rng.randint(2, 20)
            wants["days"] = account["days"] + rng.choice([0, 0, 5])
        if wish == "end":
            account["months"] = rng.randint(2, 12)
            fee = 10 * (12 - account["months"])
            # Half of the customers say no to any fee but $0, so the policy must ask.
            wants["highest_fee"] = max(0, fee + rng.choice([-20, -10, 0, 10]))
        task = {"accounts": accounts, "number": number, "wants": wants}
        yield Example(PROMPT, task, difficulty(account, wants))


def difficulty(account: dict[str, Any], wants: dict[str, Any]) -> str:
    """How hard the task is: the number of things that need care.

    These are a bill, a wish for more than what is on record, a credit that was given
    before, a fee, and a second wish.
    """
    care = bool(account["owes"]) + (len(wants) > 1)
    if "days" in wants:
        care += wants["days"] != account["days"] or bool(account["credit"])
    if "highest_fee" in wants:
        care += account["months"] < 12
    return ("easy", "medium", "hard", "hard")[care]


def _account(rng: random.Random, name: str) -> dict[str, Any]:
    days = rng.choice([0, 0, rng.randint(2, 20)])
    return {
        "name": name,
        "pin": str(rng.randint(10, 99)),
        "plan": rng.choice(PLANS),
        "months": rng.randint(2, 30),
        "owes": rng.choice([0, 0, rng.randrange(51, 99, 2)]),  # odd: every fee is even
        "days": days,
        "credit": rng.choice([0, 0, 11]) if days else 0,
        "ended": False,
    }


if __name__ == "__main__":
    sys.exit(main(tasks, EXAMPLES, __doc__))
