"""Wordle itself, without a server."""

import json

import pytest

from rollout import environment_class

Wordle = environment_class()


@pytest.fixture
def game():
    return Wordle({"target": "crane"})


def test_feedback_marks_every_letter(game):
    assert game.guess("caper") == (
        "Guess 1 of 6: C correct, A present, P absent, E present, R present."
    )


def test_a_letter_is_present_as_often_as_the_word_holds_it(game):
    assert game.guess("speed") == (
        "Guess 1 of 6: S absent, P absent, E present, E absent, D absent."
    )


def test_the_hidden_word_solves_the_game(game):
    assert game.guess("Crane").endswith("\nSolved: the hidden word is CRANE.")
    with pytest.raises(ValueError, match="the game is over"):
        game.guess("crane")


def test_six_wrong_guesses_lose_the_game(game):
    outputs = [game.guess("plumb") for _ in range(6)]
    assert "Lost: it was CRANE." in outputs[-1]
    assert "Solved" not in outputs[-1]
    with pytest.raises(ValueError, match="six guesses are used"):
        game.guess("crane")


@pytest.mark.parametrize("word", ["", "four", "sixsix", "ab1de", "crâne", "a b c"])
def test_what_is_no_guess_costs_none(game, word):
    with pytest.raises(ValueError, match="is not a word of five letters"):
        game.guess(word)
    assert game.guess("plumb").startswith("Guess 1 of 6")


def test_any_five_letters_are_a_guess(game):
    assert game.guess("zzzzz").startswith("Guess 1 of 6")


def test_the_default_task_is_playable():
    assert "Solved" in Wordle({}).guess("crane")


def test_the_oracle_solves_every_row(rows):
    for row in rows:
        task = row["ground_truth"][0]
        [(tool, arguments)] = Wordle.oracle(task)
        assert task["expected_output"] in getattr(Wordle(task), tool)(**arguments)


def test_no_prompt_gives_its_answer_away(rows):
    for row in rows:
        shown = json.dumps(row["responses_create_params"]).lower()
        assert row["ground_truth"][0]["target"] not in shown
