"""Policies that play the generated rows of the archetype `conversation`."""

import itertools
import random
from collections.abc import Callable
from typing import Any

import runtime.rendered  # noqa: F401  # makes env_runtime importable

# isort: split
import pytest

from projects import ROOT, load_module

ROWS = 400
Policy = Callable[[Any, dict[str, Any]], None]

domain = load_module(ROOT / "archetypes/conversation/domain.py", "conversation_desk")
make_rows = load_module(
    ROOT / "archetypes/conversation/make_rows.py", "conversation_rows"
)


@pytest.fixture(scope="module")
def tasks() -> list[dict[str, Any]]:
    examples = itertools.islice(make_rows.tasks(random.Random(0)), ROWS)
    return [example.task for example in examples]


def play(policy: Policy, task: dict[str, Any]) -> float:
    """The reward of a policy that knows the task, and all amounts to name."""
    episode, number = domain.DomainClass(task), task["number"]
    episode.find_account(number, task["accounts"][number]["pin"])
    policy(episode, task)
    return episode.reward()


def named(task: dict[str, Any]) -> str:
    _, amounts = domain.outcome(task["accounts"], task["number"], task["wants"])
    return " and ".join(f"${amount}" for amount in sorted(amounts))


def change(episode: Any, task: dict[str, Any], end: bool) -> None:
    number, wants = task["number"], task["wants"]
    account = task["accounts"][number]
    if "plan" in wants:
        episode.change_plan(number, wants["plan"])
    if "days" in wants and not account["credit"]:
        episode.give_credit(number, 2 * account["days"])
    if end:
        episode.end_contract(number)


def all_in_one_sentence(episode: Any, task: dict[str, Any]) -> None:
    heard = episode.reply(f"You have to know of {named(task)}.")
    change(episode, task, end="Yes" in heard)
    episode.reply("Goodbye.")


def thanks_for_the_bill(episode: Any, task: dict[str, Any]) -> None:
    episode.reply(named(task))
    heard = episode.reply(f"Thank you! Once more: {named(task)}.")
    change(episode, task, end="Yes" in heard)
    episode.reply("Goodbye.")


def never_asks(ends: bool) -> Policy:
    def policy(episode: Any, task: dict[str, Any]) -> None:
        bill = task["accounts"][task["number"]]["owes"]
        episode.reply(f"You owe ${bill}." if bill else "Hello.")
        change(episode, task, end=ends)
        episode.reply(f"{named(task)}. Goodbye.")

    return policy


def does_not_listen(most: int) -> Policy:
    """Names the fee, and ends the contract if that is at most so much."""

    def policy(episode: Any, task: dict[str, Any]) -> None:
        episode.reply(named(task))
        fee = domain.fee_of(task["accounts"][task["number"]])
        change(episode, task, end="highest_fee" in task["wants"] and fee <= most)
        episode.reply("Goodbye.")

    return policy


@pytest.mark.parametrize("policy", [all_in_one_sentence, thanks_for_the_bill])
def test_an_honest_policy_earns_all(tasks, policy):
    assert [task for task in tasks if play(policy, task) != 1.0] == []


@pytest.mark.parametrize("ends", [True, False])
def test_a_contract_earns_nothing_without_a_question(tasks, ends):
    ending = [task for task in tasks if "highest_fee" in task["wants"]]
    assert {play(never_asks(ends), task) for task in ending} == {0.0}


@pytest.mark.parametrize("most", [-1, 0, 30, 60, 100])
def test_the_customer_s_answer_cannot_be_guessed_from_the_fee(tasks, most):
    ending = [task for task in tasks if "highest_fee" in task["wants"]]
    rewards = [play(does_not_listen(most), task) for task in ending]
    assert 0.35 < sum(rewards) / len(rewards) < 0.65
