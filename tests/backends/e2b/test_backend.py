"""Tests of the workspace on E2B: NeMo Gym's provider, with a double of E2B's SDK."""

import asyncio
import importlib.metadata
import sys
import types
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from env_runtime import gym_series
from env_runtime.workspace import e2b

from my_env import MyEnv as EnvironmentClass

NEWER = not importlib.metadata.version("nemo-gym").startswith("0.4.")


class SandboxException(Exception):
    pass


class CommandExitException(SandboxException):
    def __init__(self, exit_code, stdout, stderr):
        super().__init__(f"Command exited with code {exit_code}")
        self.exit_code, self.stdout, self.stderr = exit_code, stdout, stderr


class Machine:
    """One machine, whose commands run here. The folder `root` is its /tmp."""

    sandbox_id = "machine"

    def __init__(self, root, options):
        self.root, self.options, self.alive = root, options, True
        self.files = self.commands = self
        root.mkdir()

    async def kill(self, **_):
        self.alive = False
        return True

    async def write(self, path, data, **_):
        # The place is below /tmp/sandbox, whose real path the helper has answered.
        await asyncio.to_thread(Path(path).write_bytes, data)

    async def run(self, cmd, timeout, **_):
        if not self.alive:
            raise SandboxException("The sandbox was not found")
        process = await asyncio.create_subprocess_shell(
            cmd.replace("/tmp/sandbox", f"{self.root}/sandbox"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = (out.decode() for out in await process.communicate())

        async def wait():
            if process.returncode:
                raise CommandExitException(process.returncode, stdout, stderr)
            return types.SimpleNamespace(stdout=stdout, stderr=stderr, exit_code=0)

        return types.SimpleNamespace(pid=process.pid, wait=wait)


@pytest.fixture
def machines(monkeypatch, tmp_path):
    """The machines that were made."""
    if not NEWER:
        pytest.skip("needs nemo-gym 0.7")
    made = []

    class AsyncSandbox:
        refuse = None

        @classmethod
        async def create(cls, **options):
            if cls.refuse is not None:
                raise cls.refuse
            made.append(Machine(tmp_path / str(len(made)), options))
            return made[-1]

    sdk = types.ModuleType("e2b")
    sdk.__spec__ = ModuleSpec("e2b", None)
    sdk.AsyncSandbox, sdk.SandboxException = AsyncSandbox, SandboxException
    sdk.CommandExitException = CommandExitException
    provider = "nemo_gym.sandbox.providers.e2b.provider"
    monkeypatch.setitem(sys.modules, "e2b", sdk)
    monkeypatch.setattr(f"{provider}._require_e2b_sdk", lambda: sdk)
    monkeypatch.setenv("E2B_API_KEY", "e2b_secret")
    for name in ("SANDBOX_PROVIDER", "SANDBOX_CONFIG", "SANDBOX_IMAGE"):
        monkeypatch.delenv(name, raising=False)
    return made


def test_a_machine_plays_an_episode(start, machines):
    episode = start(files={"data/in.txt": "3\n"})
    assert machines == []
    assert episode.read_file("data/in.txt") == "3\n"
    long = "# padding\n" * 30_000
    assert episode.run_command(f"{long}cat data/in.txt; exit 3") == (
        "3\n[exit status 3]"
    )
    assert len(machines) == 1


def test_the_machine_has_no_network_and_a_lifetime(start, machines, monkeypatch):
    monkeypatch.setenv("SANDBOX_LIFETIME_SECONDS", "120")
    monkeypatch.setenv("SANDBOX_IMAGE", "my-template")
    start().run_command("ls")
    [options] = (machine.options for machine in machines)
    assert options["allow_internet_access"] is False
    assert options["timeout"] == 120
    assert options["template"] == "my-template"


def test_closing_an_episode_ends_its_machine(start, machines):
    episode = start()
    episode.run_command("ls")
    assert machines[0].alive
    episode.close()
    assert not machines[0].alive


def test_untrusted_policies_are_served(machines):
    assert EnvironmentClass.refuse_to_serve() is None
    assert "e2b" in EnvironmentClass.notice()


def test_what_is_missing_is_not_the_policys_fault(start, machines, monkeypatch):
    assert e2b.missing() is None
    monkeypatch.setitem(sys.modules, "e2b", None)
    assert "`uv add e2b`" in e2b.missing()
    monkeypatch.delenv("E2B_API_KEY")
    assert "E2B_API_KEY is not set" in EnvironmentClass.missing_requirement()
    episode = start()
    with pytest.raises(RuntimeError, match="E2B_API_KEY is not set"):
        episode.run_command("ls")
    assert "E2B_API_KEY" in episode.infrastructure_failure


def test_a_refused_machine_is_not_the_policys_fault(start, machines, monkeypatch):
    sdk = sys.modules["e2b"]
    refused = SandboxException("out of quota")
    monkeypatch.setattr(sdk.AsyncSandbox, "refuse", refused)
    episode = start()
    with pytest.raises(RuntimeError, match="out of quota"):
        episode.run_command("ls")
    assert "out of quota" in episode.infrastructure_failure


def test_a_machine_that_is_lost_when_there_are_no_others(start, machines, monkeypatch):
    episode = start()
    episode.run_command("ls")
    machines[0].alive = False
    refused = SandboxException("out of quota")
    monkeypatch.setattr(sys.modules["e2b"].AsyncSandbox, "refuse", refused)
    with pytest.raises(RuntimeError, match="not found"):
        episode.run_command("ls")
    assert "not found" in episode.infrastructure_failure


def test_another_provider_can_be_named(machines, monkeypatch):
    monkeypatch.setenv("SANDBOX_PROVIDER", "docker")
    assert "docker" in EnvironmentClass.notice()


def test_an_older_nemo_gym_is_one_clear_line(monkeypatch):
    if NEWER:  # then the import fails, as it does on 0.4
        monkeypatch.setitem(sys.modules, "nemo_gym.sandbox.providers.local", None)
        monkeypatch.delitem(vars(gym_series), "LocalProvider", raising=False)
    problem = str(EnvironmentClass.missing_requirement())
    assert problem.startswith("install nemo-gym 0.7, which needs Python 3.13.14")
    assert "\n" not in problem
