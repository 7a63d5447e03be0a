"""Tests of the environment, its rewards and its rows."""

import re

import pytest
from env_runtime.gymnasium import facts_of
from env_runtime.testing import (
    first_observation,
    sample_arguments,
    shows,
)

from my_env import MyEnv as EnvironmentClass

MAX_STEPS = facts_of(EnvironmentClass).max_steps
LOWEST, HIGHEST = EnvironmentClass.reward_range


@pytest.fixture
def task(rows):
    return rows[0]["ground_truth"][0]


@pytest.fixture
def action(tools):
    """An action that fits the definition of `step`."""
    [step] = [tool for tool in tools if tool["name"] == "step"]
    return sample_arguments(step)["action"]


def played(task, action):
    """An episode that takes the same action until its end, and its outputs."""
    episode, outputs = EnvironmentClass(task), []
    while not outputs or "The episode is over." not in str(outputs[-1]):
        assert len(outputs) < MAX_STEPS, "the episode does not end"
        outputs.append(episode.step(action))
    return episode, outputs


def test_an_episode_ends(task, action):
    episode, outputs = played(task, action)
    assert len(outputs) <= MAX_STEPS
    assert LOWEST <= episode.reward() <= HIGHEST
    with pytest.raises(ValueError, match="the episode is over"):
        episode.step(action)


def test_a_seed_gives_the_same_episode_again(task, action):
    assert EnvironmentClass(task).observation() == EnvironmentClass(task).observation()
    assert played(task, action)[1] == played(task, action)[1]


def test_the_reward_is_the_sum_of_all_steps(task, action):
    episode, outputs = played(task, action)
    told = re.findall(r"Reward: (-?[\d.e+-]*\d)", " ".join(map(str, outputs)))
    assert len(told) == len(outputs)
    assert episode.reward() == pytest.approx(sum(map(float, told)))


def test_an_unfinished_episode_earns_the_least(task):
    assert EnvironmentClass(task).reward() == LOWEST


def test_an_action_outside_the_space_is_refused(client, rows):
    client.post("/seed_session", json=rows[0])
    answer = client.post("/step", json={"action": {"no": "action"}})
    assert answer.status_code == 422


def test_every_prompt_shows_the_first_observation(rows):
    for row in rows:
        assert shows(row, first_observation(EnvironmentClass, row))
