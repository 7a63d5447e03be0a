"""Tests of the game, its grader and its rows."""

import json

import pytest

from my_env import MyEnv as EnvironmentClass


@pytest.fixture
def game():
    return EnvironmentClass({"target": "crane"})


@pytest.fixture
def player(client, tools, rows):
    """A client whose session plays the first row."""
    if "guess" not in [tool["name"] for tool in tools]:
        pytest.skip("these tests play with guess, which the server does not expose")
    client.post("/seed_session", json=rows[0])
    return client


@pytest.fixture
def target(rows):
    return rows[0]["ground_truth"][0]["target"]


def guess(client, word):
    return client.post("/guess", json={"word": word}).json()["output"]


# ---------------------------------------------------------------------- the game


@pytest.mark.parametrize(
    "word, feedback",
    [
        ("caper", "C correct, A present, P absent, E present, R present"),
        # A letter is present as often as the hidden word holds it.
        ("speed", "S absent, P absent, E present, E absent, D absent"),
    ],
)
def test_feedback_marks_every_letter(game, word, feedback):
    assert game.guess(word) == f"Guess 1 of 6: {feedback}."


def test_the_hidden_word_solves_the_game(game):
    assert game.guess("Crane").endswith("\nSolved: the hidden word is CRANE.")
    assert game.reward() == 1.0
    with pytest.raises(ValueError, match="the game is over"):
        game.guess("crane")


def test_six_wrong_guesses_lose_the_game(game):
    outputs = [game.guess("plumb") for _ in range(6)]
    assert outputs[-1].endswith("\nLost: it was CRANE.")
    with pytest.raises(ValueError, match="six guesses are used"):
        game.guess("crane")
    assert game.reward() == 0.0


@pytest.mark.parametrize("word", ["", "four", "sixsix", "ab1de", "crâne", "a b c"])
def test_a_bad_guess_does_not_count(game, word):
    with pytest.raises(ValueError, match="is not a word of five letters"):
        game.guess(word)
    assert game.guess("zzzzz").startswith("Guess 1 of 6")


def test_the_policy_reads_what_is_wrong_with_its_guess(player):
    assert guess(player, "four").startswith("error: 'four' is not a word")


# ---------------------------------------------------------------------- the grader


def test_a_solved_game_earns_one(player, rows, target, verify):
    guess(player, "plumb")
    guess(player, target)
    assert verify(player, rows[0]) == 1.0


def test_a_lost_game_earns_nothing(player, rows, target, verify):
    for _ in range(6):
        guess(player, "plumb")
    assert guess(player, target).startswith("error:")
    assert verify(player, rows[0]) == 0.0


# ---------------------------------------------------------------------- the rows


def test_no_prompt_gives_its_answer_away(rows):
    for row in rows:
        shown = json.dumps(row["responses_create_params"]).lower()
        assert row["ground_truth"][0]["target"] not in shown
