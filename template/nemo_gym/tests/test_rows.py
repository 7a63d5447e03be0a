"""The dataset rows fit the server, and NeMo Gym."""

import pytest
from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from gates import find_server
from rollout import environment_class


def test_rows_are_what_nemo_gym_reads(rows):
    for row in rows:
        NeMoGymResponseCreateParamsNonStreaming.model_validate(
            row["responses_create_params"]
        )
        assert row["ground_truth"][0]["expected_output"]


def test_rows_offer_the_tools_that_the_server_has(rows, tools):
    """The server's endpoints are the one place where a tool is defined.

    After a change there: `uv run python gates.py --write-tools`.
    """
    for row in rows:
        assert row["responses_create_params"].get("tools") == tools


def test_rollout_and_server_play_the_same_domain_class():
    assert environment_class() is find_server().domain_class


def test_a_row_without_ground_truth_is_refused(client, rows):
    row = {**rows[0], "ground_truth": []}
    assert client.post("/verify", json=row).status_code == 422


def test_more_than_one_worker_is_refused(server):
    settings = server.config.model_dump()
    with pytest.raises(ValueError, match="num_workers must be 1, got 2"):
        type(server.config)(**{**settings, "num_workers": 2})
