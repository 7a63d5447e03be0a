"""Tests of rewards outside of 0 to 1, also for episodes that do not count."""

import json
import shutil
from typing import Any

import pytest
from env_runtime import project
from env_runtime.checks import manifests
from env_runtime.checks.class_checks import check_class
from env_runtime.checks.rollout import rollout_gate
from env_runtime.episode.tasks import baseline_reward, oracle_reward, reward_range
from env_runtime.errors import GateError, RolloutError, ToolError
from env_runtime.evaluation import command
from env_runtime.evaluation.play import check_verdict, play
from env_runtime.evaluation.policies import fixed_policy
from env_runtime.evaluation.report import write_page
from env_runtime.evaluation.stats import (
    RolloutStats,
    figures,
    measure,
    pass_at,
    table,
)
from env_runtime.evaluation.trajectory import as_response, function_call

from .support import rows_file


class Duel:
    """Wins with a parry, loses with anything else. Doing nothing earns 0.0."""

    blocking = False
    reward_range = (-100.0, 19.4)

    def __init__(self, task: dict[str, Any]) -> None:
        self.points = 0.0

    def fight(self, how: str) -> str:
        """Fight."""
        self.points = 19.4 if how == "parry" else -100.0
        return "won" if self.points > 0 else "lost"

    def reward(self) -> float:
        return self.points

    @staticmethod
    def oracle(task: dict[str, Any]) -> Any:
        return [("fight", {"how": "parry"})]


@pytest.fixture
def client(client_of):
    return client_of(Duel)


def seed_and_lose(client, row):
    client.seed()
    assert client.call("fight", how="x") == "lost"


@pytest.mark.parametrize(("how", "reward"), [("parry", 19.4), ("x", -100.0)])
def test_the_reward_is_the_classs_own(client, how, reward):
    client.seed()
    client.post("/fight", json={"how": how})
    assert client.reward() == reward


def test_doing_nothing(client):
    client.seed()
    assert client.reward() == 0.0


def test_nobody_escapes_a_loss(client, row):
    """A policy may post anything to end an episode that it lost."""
    seed_and_lose(client, row)
    lost = {**row, "ground_truth": [{"id": 2}]}
    assert client.reward(row, [function_call("seed_session", "{}")]) == -100.0
    assert client.reward(lost) == -100.0
    client.seed(lost, 409)
    client.end()
    assert client.reward(row) == -100.0


def test_the_policy_that_seeds_cannot_ask_for_the_first_verdict(client):
    client.seed()
    client.post("/fight", json={"how": "parry"})
    assert client.reward() == 19.4
    assert client.reward(output=[function_call("seed_session", "{}")]) == -100.0


def test_closing_ends_an_episode_with_the_lowest_reward(client, row):
    seed_and_lose(client, row)
    client.end()
    assert client.reward() == -100.0


def test_an_episode_that_nobody_seeded(client):
    client.post("/fight", json={"how": "parry"})
    assert client.reward() == -100.0


def test_a_trajectory_that_is_too_long(client_of, row, verify_body):
    client = client_of(Duel, max_trajectory_bytes=20_000)
    seed_and_lose(client, row)
    body = verify_body(row, [function_call("fight", "x" * 30_000)])
    verdict = client.post("/verify", json=body).json()
    assert (verdict["reward"], verdict["mask_sample"]) == (-100.0, False)


@pytest.mark.parametrize("reward", [19.5, -100.1, float("nan"), "1", None])
def test_a_grade_outside_of_the_range_is_masked(client_of, monkeypatch, reward):
    monkeypatch.setattr(Duel, "reward", lambda self: reward)
    client = client_of(Duel)
    client.seed()
    verdict = client.verdict()
    assert verdict["mask_sample"] is True
    assert (
        "must return a number from -100 to 19.4, the class's reward_range, got "
        in verdict["failure_reason"]
    )


def test_a_verdict_has_the_grade_that_is_outside_of_the_range(client_of, monkeypatch):
    def graded(reward):
        monkeypatch.setattr(Duel, "reward", lambda self: reward)
        client = client_of(Duel)
        client.seed()
        return client.verdict()

    assert graded(93.5)["reward_outside_range"] == 93.5
    assert "reward_outside_range" not in graded(19.0)
    assert "reward_outside_range" not in graded(float("nan"))
    monkeypatch.setattr(Duel, "reward_range_estimated", True, raising=False)
    reason = graded(93.5)["failure_reason"]
    assert reason.endswith("got 93.5: the range is an estimate, so correct it")


class Penalty(Duel):
    """No reward is above 0.0, so 0.0 is not what nothing earns."""

    reward_range = (-100.0, 0.0)


def test_a_masked_sample_does_not_earn_the_highest_reward(client_of):
    client = client_of(Penalty)
    client.seed()
    client.post("/fight", json={"how": "parry"})
    verdict = client.verdict()
    assert (verdict["reward"], verdict["mask_sample"]) == (-100.0, True)


@pytest.mark.parametrize(
    "declared", [5, (1,), (0, 1, 2), (1, 0), (1, 1), ("a", "b"), (0, float("inf"))]
)
def test_a_range_that_is_none(server_of, monkeypatch, declared):
    monkeypatch.setattr(Duel, "reward_range", declared)
    with pytest.raises(ToolError, match="Duel.reward_range must be two numbers"):
        reward_range(Duel)
    with pytest.raises(GateError, match="Duel.reward_range must be two numbers"):
        check_class(Duel, type(server_of(Duel)))


# ---------------------------------------------------------------------- clients


def test_a_client_reads_the_range(gate_client, row, url):
    from env_runtime.evaluation.client import Client

    assert Client(url).reward_range() == (0.0, 1.0)
    client = gate_client(Duel)
    assert client.reward_range() == (-100.0, 19.4)
    for policy, reward in (("oracle", 19.4), ("noop", 0.0), ("garbage", -100.0)):
        fixed = fixed_policy(policy)
        assert play(client, client.tools(), row, fixed, 2)["reward"] == reward


def test_a_verdict_outside_of_the_range():
    check_verdict({"reward": -3}, (-5.0, 5.0))
    for reward in (-6, 6, None, "1"):
        with pytest.raises(
            RolloutError, match="returned the reward .*; expected -5 to 5"
        ):
            check_verdict({"reward": reward}, (-5.0, 5.0))
    with pytest.raises(RolloutError, match="returned the reward -3.*; expected 0 to 1"):
        check_verdict({"reward": -3})


def test_rollouts_outside_of_the_range_are_counted(
    gate_client, row, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(Duel, "reward_range", (-100.0, 15.0))
    monkeypatch.setenv("ENV_URL", gate_client(Duel).url)
    path = rows_file(tmp_path, row, row)
    assert command.main(play, None, ["--policy", "oracle", "--rows", path]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "rollout.py: 2 of 2 rows earned rewards from 19.4 to 19.4, outside the class's "
        "reward_range (-100, 15): correct it, or no policy learns from such an episode"
    )


def attempt(reward, repeat, oracle=None):
    counts: dict[str, Any] = {
        "turns": 1,
        "calls": 1,
        "errors": 0,
        "out_of_turns": False,
    }
    tokens: dict[str, Any] = {
        "input_tokens": None,
        "output_tokens": None,
        "metrics": {},
    }
    return RolloutStats(0, repeat, reward, **counts, **tokens, oracle_reward=oracle)


def test_an_attempt_passes_with_the_highest_reward_or_the_oracles():
    ones = [attempt(1.0, 0), attempt(0.5, 1)]
    assert pass_at(ones)[0] == {1: 0.5, 2: 1.0}
    assert pass_at(ones, 19.4)[0] == {1: 0.0, 2: 0.0}
    halves = [attempt(0.5, 0, 0.5), attempt(0.4, 1, 0.5)]
    assert pass_at(halves)[0] == {1: 0.5, 2: 1.0}
    assert pass_at([attempt(19.4, 0), attempt(19.0, 1)], 19.4)[0] == {1: 0.5, 2: 1.0}
    assert "  pass@1        0.500" in table(figures(halves))


def test_grades_outside_of_the_range_are_counted():
    masked = {"reward": 0.0, "mask_sample": True, "reward_outside_range": 93.5}
    rollouts = [measure(masked), measure(masked), measure({"reward": 1.0})]
    shown = table(figures(rollouts))
    assert "without a reward      2\n  outside reward_range  2\n" in shown
    assert "93.5" not in shown


def test_the_page_knows_the_range(tmp_path, monkeypatch):
    path, page = tmp_path / "rollouts.jsonl", tmp_path / "page.html"
    response = as_response("test", [], [])
    path.write_text(json.dumps({"reward": 19.4, "response": response}) + "\n")
    for domain, shown in ((Duel, '"range":[-100.0,19.4]'), (None, '"range":[0.0,1.0]')):

        def load(self, domain=domain):
            if domain is None:
                raise GateError("there is none")
            return domain

        monkeypatch.setattr(project.Project, "load_class", load)
        write_page([path], page)
        assert shown in page.read_text()


# ---------------------------------------------------------------------- gates


def test_the_rewards_of_a_row():
    assert (oracle_reward(Duel, {}), baseline_reward(Duel, {})) == (19.4, 0.0)
    row = {"oracle_reward": 5, "baseline_reward": -1}
    assert (oracle_reward(Duel, row), baseline_reward(Duel, row)) == (5.0, -1.0)

    class Above(Duel):
        reward_range = (1.0, 5.0)

    assert baseline_reward(Above, {}) == 1.0
    assert baseline_reward(Penalty, {}) == -100.0


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A manifest of the project, which says that rewards are from 0 to 1."""
    gym = tmp_path / "nemo_gym"
    folder = gym / "environments/my_env"
    folder.mkdir(parents=True)
    shutil.copytree(project.here().gym / "configs", gym / "configs")
    path = folder / "manifest.yaml"
    path.write_text("reward:\n  range: [0, 1.0]\ndeterminism: unknown\n")
    monkeypatch.setattr(project.Project, "gym", gym)
    return path


def test_the_rollout_gate(gate_client, row, tmp_path, manifest):
    client, path = gate_client(Duel), rows_file(tmp_path, row)
    with pytest.raises(GateError) as caught:
        rollout_gate(client, path)
    assert (
        "manifest.yaml does not have the class's reward_range, `range: [-100.0, 19.4]`"
        in str(caught.value)
    )
    openenv = tmp_path / "openenv/openenv.yaml"
    openenv.parent.mkdir()
    openenv.write_text("validation:\n  reward:\n    range: [0.0, 1.0]\n")
    for outdated, corrected in manifests.outdated_manifests(
        project.here().load_class()
    ):
        outdated.write_text(corrected)
    assert openenv.read_text().endswith("\n    range: [-100.0, 19.4]\n")
    corrected = manifest.read_text()
    assert "\n  range: [-100.0, 19.4]\n" in corrected
    line = "1 row: the oracle earns 19.4, noop and nonsense at most 0.0"
    assert rollout_gate(client, path) == line


def test_a_range_that_is_estimated_is_a_note(
    gate_client, row, tmp_path, manifest, monkeypatch
):
    manifest.unlink()
    path = rows_file(tmp_path, row)
    monkeypatch.setattr(Duel, "reward_range_estimated", True, raising=False)
    _, note = rollout_gate(gate_client(Duel), path).split("\n")
    assert note.startswith("reward_range (-100.0, 19.4) is an estimate: ")
    assert note.endswith("then remove `reward_range_estimated` from the class")
    monkeypatch.delattr(Duel, "oracle")
    _, open_question, same = rollout_gate(gate_client(Duel), path).split("\n")
    assert "nothing shows that 19.4 can be earned, or that no episode earns more" in (
        open_question
    )
    assert same == note


def test_a_grade_outside_of_the_range_fails_the_gate(
    gate_client, row, tmp_path, manifest, monkeypatch
):
    manifest.unlink()
    monkeypatch.setattr(Duel, "reward_range", (-100.0, 15.0))
    path = rows_file(tmp_path, row)
    with pytest.raises(GateError, match=r"row 1 of .*'oracle': .* got 19\.4"):
        rollout_gate(gate_client(Duel), path)


def test_a_usual_manifest_is_left_alone(manifest, generous, monkeypatch):
    monkeypatch.setattr(project.Project, "load_class", lambda self: generous)
    assert not list(manifests.outdated_manifests(project.here().load_class()))


def test_a_reward_for_nothing(gate_client, row, tmp_path, manifest, monkeypatch):
    client, path = gate_client(Duel), rows_file(tmp_path, row)
    manifest.unlink()
    monkeypatch.setattr(Duel, "reward", lambda self: self.points + 0.5)
    with pytest.raises(GateError) as caught:
        rollout_gate(client, path)
    text = str(caught.value)
    assert "the policy 'noop' earns 0.5, more than 0.0. Make the grade" in text
    assert "(it called nothing; task: " in text


def test_an_oracle_that_earns_less(gate_client, row, tmp_path, manifest):
    client = gate_client(Duel)
    manifest.unlink()
    path = rows_file(tmp_path, {**row, "oracle_reward": 19.0})
    with pytest.raises(GateError) as caught:
        rollout_gate(client, path)
    text = str(caught.value)
    assert "the policy 'oracle' earns 19.4, not 19.0 (it called " in text
    assert 'it called fight(how="parry"); the last call returned ' in text
