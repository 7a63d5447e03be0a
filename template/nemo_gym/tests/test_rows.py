"""The dataset rows fit the server, and NeMo Gym."""

from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from plumbing.gates import read_rows


def test_rows_can_be_played_and_graded():
    assert read_rows()


def test_rows_are_what_nemo_gym_reads(rows):
    for row in rows:
        NeMoGymResponseCreateParamsNonStreaming.model_validate(
            row["responses_create_params"]
        )


def test_rows_offer_the_tools_that_the_server_has(rows, tools):
    """After a change of a tool: `uv run python gates.py --write-tools`."""
    for row in rows:
        assert row["responses_create_params"].get("tools") == tools
