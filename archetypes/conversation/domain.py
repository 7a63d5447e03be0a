"""A help desk of an internet provider, with no framework around it.

The policy talks to a customer in messages, and changes a small database with tools.
"""

from __future__ import annotations

import copy
import json
import re
from typing import Any, Literal

PRICES = {"Basic": 20, "Plus": 30, "Fast": 45}  # dollars a month
MONTHS = 12  # of a contract, until it can be ended without a fee
MONTH_FEE = 10  # dollars for each missing month
DAY_CREDIT = 2  # dollars for each day without internet
MAX_MESSAGES = 10  # then the customer hangs up
MAX_WRONG_PINS = 3  # then no account is found, so that PINs cannot be guessed

ROLE = (
    "You are a customer of an internet provider and talk to its help desk. You know and "
    "want only this: {knows}. Say what you want first, and your number or PIN if you are "
    "asked. Pay the bill if you are told that you have to. If you are told what ending "
    "the contract costs, say no if it is more than highest_fee, and yes if not. Write "
    "one or two sentences."
)
ACCOUNT = {"name": "Ada", "pin": "83", "plan": "Basic", "months": 14}
ACCOUNT |= {"owes": 0, "days": 0, "credit": 0, "ended": False}


class DomainClass:
    """One conversation with a customer.

    `task` holds the `accounts` by number, the `number` of the customer's account, and
    what the customer `wants`: a new `plan`, a credit for `days` without internet, or an
    end of the contract for at most `highest_fee` dollars.
    """

    # No method waits for anything, so an episode needs no thread of its own.
    blocking = False

    user: Any = None  # a model that is the customer; without one, a script is

    def __init__(self, task: dict[str, Any]) -> None:
        self._start = task.get("accounts", {"4711": ACCOUNT})
        self._number = task.get("number", min(self._start))
        self._wants = task.get("wants", {"plan": "Fast"})
        self._accounts = copy.deepcopy(self._start)
        self._own = self._accounts[self._number]
        self._found: set[str] = set()
        self._wrong_pins = 0
        self._agreed: bool | None = None  # what the customer says to the fee
        self._said: list[str] = []
        knows = {"pin": self._own["pin"], "bill": self._own["owes"]}
        self._knows = {"number": self._number} | knows | self._wants
        role = ROLE.format(knows=json.dumps(self._knows))
        self._talk = [{"role": "system", "content": role}]

    def reply(self, answer: str) -> str | None:
        """What the customer says; None after a goodbye, or MAX_MESSAGES."""
        self._said.append(answer)
        if is_goodbye(answer) or len(self._said) == MAX_MESSAGES:
            return None
        if self.user is None:
            *calls, text = script(self._knows, answer)
            for _, arguments in calls:
                self._pay_bill(**arguments)
        else:
            self._talk.append({"role": "user", "content": answer})
            text = self.user.ask(self._talk, tools=[self._look_at_bill, self._pay_bill])
            self._talk.append({"role": "assistant", "content": text})
        if fee_of(self._own) in amounts_in(answer) and not self._own["ended"]:
            self._agreed = "yes" in text.lower()
        return text

    def find_account(self, number: str, pin: str) -> str:
        """Find a customer's account. The other tools need that.

        Args:
            number: The account number that the customer gives.
            pin: The PIN that the customer gives.
        """
        if self._wrong_pins == MAX_WRONG_PINS:
            raise ValueError(f"no account is found after {MAX_WRONG_PINS} wrong PINs")
        account = self._accounts.get(number)
        if account is None or account["pin"] != pin:
            self._wrong_pins += 1
            raise ValueError("no account has this number and this PIN")
        self._found.add(number)
        shown = ("name", "plan", "months", "owes")
        return ", ".join(f"{name}: {account[name]}" for name in shown)

    def check_outages(self, number: str) -> str:
        """Look up an account's days without internet, and the credit given for them."""
        account = self._account(number)
        return f"days without internet: {account['days']}, credit: ${account['credit']}"

    def change_plan(self, number: str, plan: Literal["Basic", "Plus", "Fast"]) -> str:
        """Change the plan of an account."""
        self._account(number)["plan"] = plan
        return f"The plan is {plan}."

    def give_credit(self, number: str, dollars: int) -> str:
        """Give an account a credit for its days without internet."""
        self._account(number)["credit"] += dollars
        return f"A credit of ${dollars} is given."

    def end_contract(self, number: str) -> str:
        """End the contract of an account."""
        self._account(number)["ended"] = True
        return "The contract is ended."

    def _account(self, number: str) -> dict[str, Any]:
        if number not in self._found:
            raise ValueError(f"find the account {number!r} first")
        account = self._accounts[number]
        if account["owes"]:
            raise ValueError(f"the bill of ${account['owes']} has to be paid first")
        return account

    # A leading underscore keeps these from the policy. They are the customer's tools.

    def _look_at_bill(self) -> str:
        """Look at your bill."""
        return f"You owe ${self._own['owes']}."

    def _pay_bill(self, dollars: int) -> str:
        """Pay your bill, all of it at once."""
        if dollars != self._knows["bill"]:
            raise ValueError(f"your bill is ${self._knows['bill']}")
        self._own["owes"] = 0
        return "The bill is paid."

    def reward(self) -> float:
        """1.0 if the database is right and the customer was told all amounts.

        0.6 if only the database is right, and had to change. Otherwise 0.0, also for a
        contract that is ended, or kept, without the customer's answer to its price.
        """
        accounts, amounts = outcome(self._start, self._number, self._wants)
        if self._accounts != accounts or self._number not in self._found:
            return 0.0
        if "highest_fee" in self._wants and self._agreed != self._own["ended"]:
            return 0.0
        said = "\n".join(self._said)
        if amounts_in(said) == amounts and is_goodbye(said):
            return 1.0
        return 0.0 if accounts == self._start else 0.6

    def metrics(self) -> dict[str, float]:
        """`messages`: how many the policy sent."""
        return {"messages": float(len(self._said))}

    @staticmethod
    def oracle(task: dict[str, Any]) -> list[Any]:
        """The messages (text) and the calls that solve `task`, in order."""
        wants, name = task["wants"], {"number": task["number"]}
        account = task["accounts"][task["number"]]
        accounts, amounts = outcome(task["accounts"], task["number"], wants)
        after = accounts[task["number"]]
        steps: list[Any] = ["How can I help? What are your account number and PIN?"]
        steps.append(("find_account", name | {"pin": account["pin"]}))
        if account["owes"]:
            steps.append(f"You owe ${account['owes']}. Please pay that first.")
        if "plan" in wants:
            steps.append(("change_plan", name | {"plan": wants["plan"]}))
        if "days" in wants:
            steps.append(("check_outages", name))
        if credit := after["credit"] - account["credit"]:
            steps.append(("give_credit", name | {"dollars": credit}))
        if "highest_fee" in wants:
            steps.append(f"Ending the contract costs ${fee_of(account)}. Is that fine?")
        if after["ended"]:
            steps.append(("end_contract", name))
        told = " and ".join(f"${amount}" for amount in sorted(amounts))
        return [*steps, f"All is settled. To repeat the amounts: {told}. Goodbye."]

    @staticmethod
    def stand_in(model: str, prompt: str) -> list[Any]:
        """Answer for the customer in gates and tests, without a key."""
        role, *_, answer = prompt.split("\n\n")
        return script(json.loads(role[role.index("{") : role.index("}") + 1]), answer)


def script(knows: dict[str, Any], answer: str) -> list[Any]:
    """A customer that is no model: the calls of its tools, then what it says."""
    amounts, text = amounts_in(answer), answer.lower()
    bill = knows["bill"] or None  # $0 is a fee, and no bill
    calls, said = [], []
    if bill in amounts:
        calls.append(("pay_bill", {"dollars": bill}))
        said.append("I have paid the bill.")
    if "highest_fee" in knows and (fees := amounts - {bill, -1}):
        said.append("Yes, do." if max(fees) <= knows["highest_fee"] else "No, keep it.")
    if said:
        return [*calls, " ".join(said)]
    wishes = {
        "plan": "I want the plan {}.",
        "days": "I had no internet for {} days, and want a credit for them.",
        "highest_fee": "I want to end my contract. What does that cost?",
    }
    said = [wish.format(knows[key]) for key, wish in wishes.items() if key in knows]
    said += [f"My {key} is {knows[key]}." for key in ("number", "pin") if key in text]
    return [" ".join(said)]


def outcome(
    start: dict[str, Any], number: str, wants: dict[str, Any]
) -> tuple[dict[str, Any], set[int]]:
    """The accounts as they must be in the end, and the dollars that must be told."""
    accounts, amounts = copy.deepcopy(start), set()
    account = accounts[number]
    if account["owes"]:
        amounts.add(account["owes"])
        account["owes"] = 0
    if "plan" in wants:
        account["plan"] = wants["plan"]
        amounts.add(PRICES[wants["plan"]])
    if "days" in wants:
        account["credit"] = account["credit"] or DAY_CREDIT * account["days"]
        amounts.add(account["credit"])
    if "highest_fee" in wants:
        amounts.add(fee_of(account))
        account["ended"] = fee_of(account) <= wants["highest_fee"]
    return accounts, amounts


def fee_of(account: dict[str, Any]) -> int:
    """What it costs to end a contract, in dollars."""
    return MONTH_FEE * max(0, MONTHS - account["months"])


def amounts_in(text: str) -> set[int]:
    """The dollars that a text names, such as $18 or $1,000; -1 for any like $18.50."""
    named = re.findall(r"\$ ?(\d[\d.,]*)", text)
    plain = (amount.replace(",", "").rstrip(".") for amount in named)
    return {int(each) if re.fullmatch(r"\d{1,9}", each) else -1 for each in plain}


def is_goodbye(message: str) -> bool:
    """Whether a message ends the conversation."""
    return "goodbye" in message.lower()
