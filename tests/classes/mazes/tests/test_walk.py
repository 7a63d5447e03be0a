from mazes.walk import Walk


def test_a_step():
    assert Walk({}).step() == "place 1"
