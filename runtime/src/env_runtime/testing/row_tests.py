"""Tests that the rows of the dataset fit the server and NeMo Gym."""

from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming

from ..episode.tools import lists_tools, tools_in
from ..evaluation.rows import read_rows
from ..project import here


class TestRows:
    """NeMo Gym can read the rows, and the server can play them."""

    def test_rows_can_be_played_and_graded(self):
        assert read_rows(here().load_class())

    def test_nemo_gym_reads_the_rows(self, rows):
        for row in rows:
            NeMoGymResponseCreateParamsNonStreaming.model_validate(
                row["responses_create_params"]
            )

    def test_rows_offer_the_tools_that_the_server_has(self, rows, tools):
        """If this fails, run `uv run python gates.py --write-tools`."""
        for row in rows:
            expected = tools_in(here().load_class(), row, tools)
            assert lists_tools(row, expected), expected
