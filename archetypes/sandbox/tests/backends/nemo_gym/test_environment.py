"""The sandbox on NeMo Gym, its grader and its rows.

The provider is NeMo Gym's `local`, which needs nothing, unless SANDBOX_PROVIDER or
SANDBOX_CONFIG names another one. Without nemo-gym 0.7 most tests are skipped.
"""

import importlib.metadata
import json
import os
import sys

import pytest

from conftest import verify_body
from plumbing.environment import EnvironmentClass

NEWER = not importlib.metadata.version("nemo-gym").startswith("0.4.")


@pytest.fixture(autouse=True)
def provider(monkeypatch):
    """NeMo Gym's name of the provider."""
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")  # the tests can be trusted
    if not {"SANDBOX_PROVIDER", "SANDBOX_CONFIG"} & os.environ.keys():
        monkeypatch.setenv("SANDBOX_PROVIDER", "local")
    return os.environ.get("SANDBOX_PROVIDER")


@pytest.fixture
def sandboxes(provider):
    """Skips a test that needs them where they cannot be had."""
    if problem := EnvironmentClass.missing_requirement():
        pytest.skip(problem)


@pytest.fixture
def start(sandboxes):
    """Makes episodes of the given tasks, and closes them at the end."""
    episodes = []

    def make(**task):
        episodes.append(EnvironmentClass(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        episode.close()
        episode.close()


# ---------------------------------------------------------------------- NeMo Gym


@pytest.mark.skipif(not NEWER, reason="needs nemo-gym 0.7")
def test_nemo_gym_has_all_that_its_local_provider_needs(monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    monkeypatch.setenv("SANDBOX_PROVIDER", "local")
    assert EnvironmentClass.missing_requirement() is None


def test_an_older_nemo_gym_is_one_clear_line(monkeypatch):
    if NEWER:  # then the import fails, as it does on 0.4
        monkeypatch.setitem(sys.modules, "nemo_gym.sandbox.providers.local", None)
    for text in (
        str(EnvironmentClass.missing_requirement()),
        str(EnvironmentClass.refuse_to_serve()),
        EnvironmentClass.notice(),
    ):
        assert "nemo-gym 0.7 is needed" in text
        assert "Python 3.13.14" in text
    episode = EnvironmentClass({})
    with pytest.raises(RuntimeError, match=r"nemo-gym 0\.7 is needed"):
        episode.run_command("ls")
    assert "nemo-gym 0.7" in str(episode.infrastructure_failure)


def test_a_provider_that_nemo_gym_does_not_have_is_named(sandboxes, monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    monkeypatch.setenv("SANDBOX_PROVIDER", "cloud9")
    assert "'cloud9'" in str(EnvironmentClass.missing_requirement())
    episode = EnvironmentClass({})
    with pytest.raises(RuntimeError, match="cloud9"):
        episode.run_command("ls")
    assert "cloud9" in str(episode.infrastructure_failure)


# ---------------------------------------------------------------------- the tools


def test_files_persist_between_calls(start):
    episode = start(files={"data/in.txt": "3\n4\n"})
    assert episode.read_file("data/in.txt") == "3\n4\n"
    assert episode.run_command("cat data/in.txt > copy.txt") == "(no output)"
    assert episode.run_python("print(open('copy.txt').read())").split() == ["3", "4"]
    episode.write_file("new/deep/file.txt", "short")
    episode.write_file("new/deep/file.txt", "s")
    assert episode.run_command("cat new/deep/file.txt") == "s"


def test_output_has_both_streams_and_the_exit_status(start):
    episode = start()
    output = episode.run_command("echo out; echo err >&2; exit 3")
    assert output == "out\nerr\n[exit status 3]"
    assert "ZeroDivisionError" in episode.run_python("1 / 0")


def test_a_slow_command_is_killed(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "1")
    episode = start()
    output = episode.run_command("echo begun; sleep 60 & sleep 60")
    assert output == "error: killed after 1 seconds\nbegun"
    assert episode.run_command("echo on") == "on"
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize(
    "call",
    [
        lambda episode: episode.run_command("ls"),
        lambda episode: episode.read_file("a"),
        lambda episode: episode.write_file("a", "b"),
    ],
)
def test_a_lost_sandbox_is_not_the_policys_fault(start, call):
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")
    assert episode.reward() == 1.0
    episode._workspace.close()
    assert episode.reward() == 0.0
    assert "the provider has failed" in str(episode.infrastructure_failure)
    with pytest.raises(RuntimeError, match="the provider has failed"):
        call(episode)


def test_nothing_works_after_close(start):
    episode = start()
    episode.run_command("ls")
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")


# ------------------------------------------------------------ the grader, through HTTP


@pytest.fixture
def row(rows):
    """A task with a file that must be right, too."""
    return next(row for row in rows if row["ground_truth"][0].get("expected_files"))


@pytest.fixture
def player(sandboxes, client, tools, row):
    """A client whose session plays the row, with the right answer submitted."""
    if missing := {"write_file", "submit"} - {tool["name"] for tool in tools}:
        pytest.skip(f"the server does not expose {', '.join(sorted(missing))}")
    client.post("/seed_session", json=row)
    answer = row["ground_truth"][0]["expected_output"]
    client.post("/submit", json={"answer": answer})
    return client


def write_expected_files(client, row):
    for path, content in row["ground_truth"][0]["expected_files"].items():
        client.post("/write_file", json={"path": path, "content": content})


def test_the_right_answer_and_files_earn_one(player, row, verify):
    write_expected_files(player, row)
    assert verify(player, row) == 1.0


def test_the_right_answer_without_the_files_earns_nothing(player, row, verify):
    assert verify(player, row) == 0.0


def test_a_lost_sandbox_masks_the_sample(server, player, row):
    """NeMo Gym 0.7 leaves a masked sample out of its scores."""
    write_expected_files(player, row)
    [session] = server.sessions.values()
    session.environment._workspace.close()
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer["reward"] == 0.0
    assert answer["mask_sample"] is True
    assert "the provider has failed" in answer["failure_reason"]


# ---------------------------------------------------------------------- the rows


def test_the_oracle_solves_every_row(start, rows):
    for row in rows:
        task = row["ground_truth"][0]
        episode = start(**task)
        calls = EnvironmentClass.oracle(task)
        outputs = [getattr(episode, tool)(**given) for tool, given in calls]
        # The answer is what the tools printed, not only what the row says.
        if task.get("solution"):
            assert outputs[-2].strip() == task["expected_output"].strip()
        assert episode.reward() == 1.0
        episode.close()


def test_no_row_gives_its_answer_away(rows):
    for row in rows:
        task = row["ground_truth"][0]
        if task.get("expected_files"):  # then no answer alone is enough
            continue
        answer = task["expected_output"].strip()
        assert answer not in json.dumps(row["responses_create_params"])
        assert all(answer not in text for text in (task.get("files") or {}).values())
