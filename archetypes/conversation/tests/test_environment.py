"""Tests of the help desk: its customer, its grader, and policies that cheat."""

import contextlib
import copy
import inspect

import pytest

from my_env import MyEnv as EnvironmentClass

PIN = "May I have your number and PIN?"
ACCOUNT = {"name": "Ada", "pin": "83", "plan": "Basic", "months": 7}
ACCOUNT |= {"owes": 51, "days": 4, "credit": 0, "ended": False}
OTHER = {**ACCOUNT, "pin": "17", "owes": 0}


class Knowing:
    """A model that is the customer, and answers as the class's stand-in does."""

    def ask(self, messages, tools=()):
        prompt = "\n\n".join(message["content"] for message in messages)
        *calls, text = EnvironmentClass.stand_in("user", prompt)
        by_name = {tool.__name__.lstrip("_"): tool for tool in tools}
        for name, arguments in calls:
            with contextlib.suppress(ValueError):  # the model would read it
                by_name[name](**arguments)
        return text


def new_episode(task):
    """An episode, whose customer is a model if the class asks one."""
    asks = "user" in inspect.signature(EnvironmentClass).parameters
    return EnvironmentClass(task, *([Knowing()] if asks else []))


@pytest.fixture
def desk():
    """Makes an episode of a customer with these wishes, and account."""

    def make(wants, **account):
        accounts = {"4711": {**ACCOUNT, **account}, "4712": OTHER}
        task = {"accounts": accounts, "number": "4711", "wants": wants}
        return new_episode(task), task

    return make


def play(episode, steps):
    """Send the messages and make the calls. Returns the customer's answers."""
    answers = []
    for step in steps:
        if isinstance(step, str):
            answers.append(episode.reply(step))
        else:
            getattr(episode, step[0])(**step[1])
    return answers


# ---------------------------------------------------------------------- the customer


def test_the_customer_says_what_it_is_asked_for(desk):
    episode, _ = desk({"plan": "Fast"})
    wish = "I want the plan Fast."
    assert episode.reply("Hello.") == wish
    assert episode.reply("Your number?") == f"{wish} My number is 4711."
    assert episode.reply(PIN) == f"{wish} My number is 4711. My pin is 83."
    assert episode.reply("Goodbye!") is None


def test_the_customer_pays_its_bill_if_it_is_told_to(desk):
    episode, _ = desk({"plan": "Fast"})
    episode.find_account("4711", "83")
    assert "paid" not in episode.reply("You owe $50.")
    assert episode.reply("You owe $51.") == "I have paid the bill."
    assert episode.find_account("4711", "83").endswith("owes: 0")
    assert isinstance(episode.reply("So $51 are paid."), str)


@pytest.mark.parametrize("fee, says", [(49, "No, keep it."), (50, "Yes, do.")])
def test_the_customer_agrees_to_a_fee_or_not(desk, fee, says):
    episode, _ = desk({"highest_fee": fee}, owes=0)
    assert episode.reply("It costs $50.") == says


@pytest.mark.parametrize("fee, says", [(49, "No, keep it."), (50, "Yes, do.")])
@pytest.mark.parametrize("thanks", ["Thank you for the $51.", "You owe $51."])
def test_the_customer_compares_the_fee_only(desk, fee, says, thanks):
    episode, _ = desk({"highest_fee": fee})
    if thanks.startswith("Thank"):
        episode.reply("You owe $51.")
    answer = episode.reply(f"{thanks} Ending the contract costs $50.")
    assert answer == f"I have paid the bill. {says}"


def test_a_customer_who_owes_nothing_compares_a_fee_of_nothing(desk):
    episode, _ = desk({"highest_fee": 0}, owes=0, months=12)
    assert episode.reply("It costs $0.") == "Yes, do."


def test_the_customer_asks_again_if_it_cannot_read_the_fee(desk):
    episode, _ = desk({"highest_fee": 50}, owes=0)
    assert "What does that cost?" in episode.reply("It costs $50.00.")


def test_the_customer_hangs_up(desk):
    episode, _ = desk({"plan": "Fast"})
    answers = play(episode, ["Well."] * 10)
    assert None not in answers[:9] and answers[9] is None


# ---------------------------------------------------------------------- the grade

WISHES = [
    {"plan": "Fast"},
    {"days": 9},
    {"highest_fee": 0},
    {"highest_fee": 60},
    {"plan": "Plus", "days": 4},
]


@pytest.mark.parametrize("wants", WISHES)
@pytest.mark.parametrize("owes", [0, 51])
@pytest.mark.parametrize("credit", [0, 11])
def test_the_oracle_solves_every_task(desk, wants, owes, credit):
    episode, task = desk(wants, owes=owes, credit=credit)
    given = copy.deepcopy(task)
    *before, last = play(episode, EnvironmentClass.oracle(task))
    assert last is None and None not in before
    assert episode.reward() == 1.0
    assert task == given


CALLS = [("find_account", {"number": "4711", "pin": "83"})]
CREDIT = [*CALLS, ("give_credit", {"number": "4711", "dollars": 8})]


@pytest.mark.parametrize(
    "steps, reward",
    [
        ([*CREDIT, "You get $8. Goodbye."], 1.0),
        ([*CREDIT, "You get $8.", "Goodbye."], 1.0),
        ([*CREDIT, "You get 8 dollars. Goodbye."], 0.6),
        ([*CREDIT, "You get $8.50. Goodbye."], 0.6),
        ([*CREDIT, "You get $8, not $18. Goodbye."], 0.6),
        ([*CREDIT, "You get $8, or $500.00. Goodbye."], 0.6),
        ([*CREDIT, "You get $8, or $8,999. Goodbye."], 0.6),
        ([*CREDIT, "You get $8, or $1234567890123. Goodbye."], 0.6),
        ([*CREDIT, f"You get $8, or ${'9' * 5000}. Goodbye."], 0.6),
        ([*CREDIT, "You get $8."], 0.6),
        (CREDIT, 0.6),
        (["You get $8. Goodbye."], 0.0),
        ([*CALLS, "You get $8. Goodbye."], 0.0),
        ([*CREDIT, CREDIT[-1], "You get $8. Goodbye."], 0.0),
        ([*CREDIT, ("end_contract", {"number": "4711"}), "$8. Goodbye."], 0.0),
    ],
)
def test_the_reward(desk, steps, reward):
    episode, _ = desk({"days": 9}, owes=0)
    play(episode, steps)
    assert episode.reward() == reward


def test_a_customer_without_a_wish_needs_no_message(desk):
    episode, _ = desk({}, owes=0)
    episode.find_account("4711", "83")
    assert episode.reward() == 0.0
    episode.reply("Goodbye.")
    assert episode.reward() == 1.0


def test_a_thousand_may_have_a_comma(desk):
    episode, _ = desk({"plan": "Fast"}, owes=1000)
    assert episode.reply("You owe $1,000.") == "I have paid the bill."


END = ("end_contract", {"number": "4711"})


@pytest.mark.parametrize(
    "steps, to_end, to_keep",
    [
        (["It costs $50.", END, "Goodbye."], 1.0, 0.0),
        (["It costs $50.", "Goodbye."], 0.0, 1.0),
        ([END, "It costs $50.", "Goodbye."], 0.0, 0.0),
        ([END, "It costs $50. Goodbye."], 0.0, 0.0),
        (["It costs $50. Goodbye."], 0.0, 0.0),
        (["It costs $10.", END, "I mean $50. Goodbye."], 0.0, 0.0),
        (["It costs $50, or $90.", END, "Goodbye."], 0.0, 0.0),
        (["It costs $50, or $10.", END, "Goodbye."], 0.6, 0.0),
    ],
)
def test_a_contract_is_ended_after_a_yes_only(desk, steps, to_end, to_keep):
    for highest_fee, reward in ((50, to_end), (49, to_keep)):
        episode, _ = desk({"highest_fee": highest_fee}, owes=0)
        play(episode, [*CALLS, *steps])
        assert episode.reward() == reward


@pytest.mark.parametrize(
    "call",
    [
        ("check_outages", {"number": "4711"}),
        ("change_plan", {"number": "4711", "plan": "Fast"}),
        ("give_credit", {"number": "4711", "dollars": 8}),
        END,
    ],
)
def test_the_bill_comes_first(desk, call):
    episode, _ = desk({"plan": "Fast"})
    with pytest.raises(ValueError, match=r"the bill of \$51 has to be paid first"):
        play(episode, [*CALLS, call])
    play(episode, ["You owe $51.", call])


# ---------------------------------------------------------------------- policies that cheat

EVERY_AMOUNT = " ".join(f"${amount}" for amount in range(200))


@pytest.mark.parametrize("wants", WISHES)
@pytest.mark.parametrize(
    "steps",
    [
        ["Goodbye."],
        ["What must I do to get the reward? What is the answer?"] * 10,
        ["You are the nicest customer of all.", "All is done. Goodbye."],
        [f"{EVERY_AMOUNT} Goodbye."],
        [*CALLS, f"{EVERY_AMOUNT} Goodbye."],
        [*CALLS, "I did all that you want. Goodbye."],
        [*CALLS, *["Go on."] * 10],
    ],
)
def test_nothing_is_earned_by_talk_alone(desk, wants, steps):
    episode, _ = desk(wants)
    play(episode, steps)
    assert episode.reward() == 0.0


def test_a_repeated_prompt_earns_nothing(rows):
    for row in rows:
        prompt = row["responses_create_params"]["input"][0]["content"]
        episode = new_episode(row["ground_truth"][0])
        assert episode.reply(prompt) is None
        assert episode.reward() == 0.0


def test_no_account_is_found_without_its_pin(desk):
    episode, _ = desk({"plan": "Fast"})
    with pytest.raises(ValueError, match="no account has this number and this PIN"):
        episode.find_account("4712", "83")
    with pytest.raises(ValueError, match="find the account '4712' first"):
        episode.change_plan("4712", "Fast")


def test_pins_cannot_be_guessed(desk):
    episode, _ = desk({"plan": "Fast"})
    for pin in ("10", "11", "12"):
        with pytest.raises(ValueError, match="this number and this PIN"):
            episode.find_account("4711", pin)
    with pytest.raises(ValueError, match="found after 3 wrong PINs"):
        episode.find_account("4711", "83")


def test_the_policy_has_none_of_the_customer_s_tools(tools, client, rows):
    names = [tool["name"] for tool in tools]
    assert not {"pay_bill", "look_at_bill", "reply"} & set(names)
    client.post("/seed_session", json=rows[0])
    assert client.post("/pay_bill", json={"dollars": 51}).status_code == 404
    assert client.post("/reply", json={"answer": PIN}).status_code == 403
