"""Mutants of classes, which the tests of their own projects must notice."""

from typing import Any

import gymnasium

from . import by_attacks, by_game, by_gymnasium, by_sandbox, by_vision, replaces

# ---------------------------------------------------------------------- game


@replaces("MyEnv.reward")
@by_attacks("test_playing_on_after_the_verdict")
def always_solved(original, game):
    return 1.0


@replaces("MyEnv.reward")
@by_game("test_environment.py::test_a_lost_game_earns_nothing")
def any_guess_solves(original, game):
    return float(bool(game._guesses))


# ---------------------------------------------------------------------- sandbox


def submit_the_answer(episode):
    if episode.submitted is not None:
        episode.submitted = episode._task.get("expected_output")


@replaces("MyEnv.reward")
@by_sandbox("test_environment.py::test_the_last_submission_counts")
def any_answer_is_right(original, episode):
    submit_the_answer(episode)
    return original(episode)


@replaces("MyEnv.reward")
@by_sandbox("test_environment.py::test_the_last_submission_counts")
def an_answer_that_holds_the_right_one_is_right(original, episode):
    if str(episode._task.get("expected_output")).strip() in (episode.submitted or ""):
        submit_the_answer(episode)
    return original(episode)


@replaces("MyEnv._holds")
@by_sandbox("test_environment.py::test_expected_files_must_be_there")
def files_do_not_matter(original, episode, path, expected):
    return True


# ---------------------------------------------------------------------- vision


@replaces("my_env._holds")
@by_vision("test_environment.py::test_saving_the_form_as_it_opens_solves_no_row")
def the_goal_does_not_matter(original, goal, actual):
    return True


@replaces("MyEnv.reward")
@by_vision(
    "test_environment.py::test_a_saved_record_that_is_reported_as_a_failure_earns_nothing"
)
def any_status_is_success(original, episode):
    if episode.status is not None:
        episode.status = "success"
    return original(episode)


# ---------------------------------------------------------------------- gymnasium


class Endless(gymnasium.Wrapper):
    """An environment whose limit of steps is not seen."""

    def step(self, action: Any) -> Any:
        *seen, _, info = self.env.step(action)
        return *seen, False, info


@replaces("GymnasiumEpisode.__init__")
@by_gymnasium("test_environment.py::test_an_episode_ends")
def a_truncated_episode_goes_on(original, episode, task):
    original(episode, task)
    episode._env = Endless(episode._env)


@replaces("MyEnv.step")
@by_gymnasium("test_environment.py::test_an_episode_ends")
def steps_after_the_end_count(original, episode, action):
    episode.done = False
    return original(episode, action)


@replaces("MyEnv.step")
@by_gymnasium("test_environment.py::test_the_reward_is_the_sum_of_all_steps")
def a_truncated_episode_loses_nothing(original, episode, action):
    output = original(episode, action)
    if episode.done and episode._return < 0:
        episode._return = 0.0
    return output


@replaces("MyEnv.step")
@by_gymnasium("test_environment.py::test_the_reward_is_the_sum_of_all_steps")
def late_steps_do_not_count(original, episode, action):
    before = episode._return
    output = original(episode, action)
    if before < -30:  # the oracle is quicker
        episode._return = before
    return output


@replaces("GymnasiumEpisode.reward")
@by_gymnasium("test_environment.py::test_an_unfinished_episode_earns_the_least")
def an_unfinished_episode_is_rewarded(original, episode):
    return episode._return
