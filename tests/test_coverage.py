"""benchmarks/coverage.py: what NeMo Gym's own servers need."""

from importlib.metadata import version

import pytest

from projects import ROOT, load_module

pytestmark = pytest.mark.skipif(
    not version("nemo-gym").startswith("0.7."), reason="the page is about 0.7"
)


@pytest.fixture(scope="module")
def coverage():
    """The script. Its name is that of a package, so it is loaded under another one."""
    return load_module(ROOT / "benchmarks/coverage.py", "coverage_of_servers")


def test_the_page_has_what_the_command_prints(coverage):
    page = (ROOT / "docs/internals/coverage.md").read_text()
    assert coverage.summary(list(coverage.servers())) in page


@pytest.mark.parametrize(
    ("name", "features", "possible"),
    [
        ("mcqa", ["last message"], True),
        ("circle_click", ["tools", "images"], True),
        ("wordle", ["tools"], True),
        ("blackjack", ["conversation"], True),
        ("scicode", ["conversation", "sandbox"], True),
        ("openair_congestion", ["tools"], True),
        ("equivalence_llm_judge", ["last message", "judge or user model"], True),
        ("swe_next", ["last message", "sandbox", "own agent"], False),
        ("lc_niah", ["last message"], False),
        ("image_tools", ["last message", "images"], True),
        ("xlam_fc", ["last message", "tools of each row"], True),
        ("swe_pivot", ["last message", "tools of each row"], True),
        ("finance_agent_v2", ["tools", "conversation", "judge or user model"], True),
    ],
)
def test_the_features_of_a_server(coverage, name, features, possible):
    server = coverage.read(coverage.SERVERS / name)
    assert (server.features, not server.problem) == (features, possible)
