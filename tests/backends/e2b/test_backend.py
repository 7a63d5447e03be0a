"""Tests of the workspace on E2B, with the stand-in for E2B's SDK."""

import pytest
from env_runtime.workspace.e2b.testing import FakeSandbox, SandboxException
from test_environment import backend

from my_env import MyEnv as EnvironmentClass

__all__ = ["backend"]


@pytest.fixture
def machines(backend):
    """The machines that were made."""
    return FakeSandbox.made


def test_the_machine_is_made_by_the_first_tool_call_without_network(
    start, machines, monkeypatch
):
    monkeypatch.setenv("SANDBOX_LIFETIME_SECONDS", "120")
    episode = start(files={"data/in.txt": "3\n"})
    assert machines == []
    assert episode.read_file("data/in.txt") == "3\n"
    assert [machine.options for machine in machines] == [(None, 120, False)]


def test_closing_an_episode_ends_its_machine(start, machines):
    episode = start()
    episode.run_command("ls")
    assert machines[0].alive
    episode.close()
    assert not machines[0].alive


def test_untrusted_policies_are_served():
    assert EnvironmentClass.refuse_to_serve() is None


def test_the_environment_has_no_secrets(start):
    assert "secret" not in start().run_command("env")


def test_a_missing_key_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY")
    episode = start()
    with pytest.raises(RuntimeError, match="E2B_API_KEY is not set"):
        episode.run_command("ls")
    assert "E2B_API_KEY" in episode.infrastructure_failure


def test_a_refused_machine_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.setattr(FakeSandbox, "refuse", SandboxException("out of quota"))
    episode = start()
    with pytest.raises(RuntimeError, match="out of quota"):
        episode.run_command("ls")
    assert "out of quota" in episode.infrastructure_failure


def test_ending_the_shell_is_the_policys_own_doing(start):
    episode = start()
    assert episode.run_command(
        "kill -9 $(ps -o ppid= $$ | xargs ps -o ppid=)"
    ).startswith("error: the command ended the shell")
    assert episode.infrastructure_failure is None
