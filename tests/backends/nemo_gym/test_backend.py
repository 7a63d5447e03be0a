"""Tests of the workspace on NeMo Gym: its settings, its helper, and its errors."""

import ast
import asyncio
import base64
import importlib.metadata
import json
import os
import subprocess
import sys
import threading

import pytest
from env_runtime import gym_series
from env_runtime.workspace import nemo_gym as module
from env_runtime.workspace.nemo_gym import Provider, prepare_tests

from my_env import MyEnv as EnvironmentClass

NEWER = not importlib.metadata.version("nemo-gym").startswith("0.4.")


@pytest.fixture(autouse=True)
def prepared(monkeypatch, tmp_path):
    prepare_tests(monkeypatch, tmp_path)


@pytest.fixture
def backend(prepared):
    """Skips a test that needs sandboxes if this machine cannot have them."""
    if problem := EnvironmentClass.missing_requirement():
        pytest.skip(problem)


@pytest.fixture
def start(backend, start):
    return start


only_local = pytest.mark.skipif(
    os.environ.get("SANDBOX_PROVIDER", "local") != "local"
    or "SANDBOX_CONFIG" in os.environ,
    reason="looks into the folders of the local provider",
)


# ---------------------------------------------------------------------- NeMo Gym


@pytest.mark.skipif(not NEWER, reason="needs nemo-gym 0.7")
def test_nemo_gym_has_all_that_its_local_provider_needs(monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    monkeypatch.setenv("SANDBOX_PROVIDER", "local")
    assert EnvironmentClass.missing_requirement() is None


def test_an_older_nemo_gym_is_one_clear_line(monkeypatch):
    if NEWER:  # then the import fails, as it does on 0.4
        monkeypatch.setitem(sys.modules, "nemo_gym.sandbox.providers.local", None)
        monkeypatch.delitem(vars(gym_series), "LocalProvider", raising=False)
    for text in (
        str(EnvironmentClass.missing_requirement()),
        str(EnvironmentClass.refuse_to_serve()),
        EnvironmentClass.notice(),
    ):
        assert "install nemo-gym 0.7" in text
        assert "Python 3.13.14" in text
    episode = EnvironmentClass({})
    with pytest.raises(RuntimeError, match=r"install nemo-gym 0\.7"):
        episode.run_command("ls")
    assert "nemo-gym 0.7" in str(episode.infrastructure_failure)


def test_a_provider_that_nemo_gym_does_not_have_is_named(backend, monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    monkeypatch.setenv("SANDBOX_PROVIDER", "cloud9")
    assert "'cloud9'" in str(EnvironmentClass.missing_requirement())
    episode = EnvironmentClass({})
    with pytest.raises(RuntimeError, match="cloud9"):
        episode.run_command("ls")
    assert "cloud9" in str(episode.infrastructure_failure)


# ---------------------------------------------------------------------- settings


@pytest.fixture
def configured(backend, monkeypatch, tmp_path):
    """Writes a file for SANDBOX_CONFIG."""

    def write(text):
        (tmp_path / "sandbox.yaml").write_text(text)
        monkeypatch.setenv("SANDBOX_CONFIG", str(tmp_path / "sandbox.yaml"))

    return write


@pytest.fixture
def named(backend, monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    return lambda name: monkeypatch.setenv("SANDBOX_PROVIDER", name)


def test_docker_is_the_default_and_offline(backend, monkeypatch):
    monkeypatch.delenv("SANDBOX_PROVIDER", raising=False)
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    provider = Provider.configured()
    assert provider.name == "docker"
    assert provider.options["create"]["network"] == "none"
    assert provider.options["create"]["cap_drop"] == ["ALL"]
    # What NeMo Gym's own file says stays.
    assert provider.options["create"]["start_timeout_s"] == 600
    assert provider.spec["image"] == "python:3.13-slim"
    assert provider.spec["ttl_s"] == 3600
    assert provider.spec["resources"] == {"memory_mib": 1024}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("e2b", "allow_internet_access", False),
        ("daytona", "network_block_all", True),
    ],
)
def test_clouds_are_offline(named, monkeypatch, name, option, value):
    """They are offline even if NeMo Gym's own file says otherwise."""
    monkeypatch.setenv("DAYTONA_API_KEY", "key")
    named(name)
    assert Provider.configured().options["create"][option] is value


def test_a_file_chooses_the_provider_its_options_and_its_image(configured, monkeypatch):
    monkeypatch.setenv("SANDBOX_PROVIDER", "local")
    monkeypatch.setenv("WHERE", "bridge")
    configured(
        "sandbox:\n"
        "  default_metadata: {team: mine}\n"
        "  docker: {create: {network: '${oc.env:WHERE}'}}\n"
        "sandbox_spec: {image: mine, ttl_s: 60, resources: {cpu: 2}}\n"
    )
    provider = Provider.configured()
    assert provider.name == "docker"
    assert provider.options["create"]["network"] == "bridge"
    assert provider.options["create"]["cap_drop"] == ["ALL"]
    assert provider.spec == {
        "image": "mine",
        "ttl_s": 60,
        "resources": {"memory_mib": 1024, "cpu": 2},
        "metadata": {"team": "mine"},
    }
    monkeypatch.setenv("SANDBOX_IMAGE", "other")
    assert Provider.configured().spec["image"] == "other"


@pytest.mark.parametrize(
    "text",
    ["nothing: {}", "sandbox: {docker: {}, local: {}}", "sandbox: {a: '${oc.env:NO}'}"],
)
def test_a_file_that_cannot_be_used_is_named(configured, text):
    configured(text)
    for problem in (
        EnvironmentClass.missing_requirement(),
        EnvironmentClass.refuse_to_serve(),
    ):
        assert "sandbox.yaml" in problem


def test_a_missing_file_is_named(backend, monkeypatch):
    monkeypatch.setenv("SANDBOX_CONFIG", "missing.yaml")
    assert "missing.yaml" in EnvironmentClass.missing_requirement()


def test_local_is_for_trusted_policies_only(named, configured, monkeypatch):
    monkeypatch.delenv("SANDBOX_ISOLATION")
    named("local")
    for _ in range(2):
        assert "NONE" in EnvironmentClass.notice().upper()
        refusal = EnvironmentClass.refuse_to_serve()
        assert "commands would run as this server's user" in refusal
        assert "Set SANDBOX_ISOLATION=none if you trust the policies" in refusal
        configured("sandbox: {local: {}}")
    monkeypatch.setenv("SANDBOX_ISOLATION", "none")
    assert EnvironmentClass.refuse_to_serve() is None


def test_other_providers_serve_untrusted_policies(named, monkeypatch):
    monkeypatch.delenv("SANDBOX_ISOLATION")
    named("docker")
    assert EnvironmentClass.refuse_to_serve() is None
    assert "docker" in EnvironmentClass.notice()


# ---------------------------------------------------------------------- limits


def test_memory_is_limited(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_MB", "200")
    output = start().run_python("print(len(bytearray(400 * 1024 * 1024)))")
    assert "MemoryError" in output or "SIGKILL" in output


def test_what_is_uploaded_is_removed(start):
    """Long scripts and files do not fit an argument, so they are sent as files."""
    episode = start()
    padding = "# padding\n" * 30_000
    assert episode.run_command(padding + "echo end") == "end"
    assert episode.run_python(padding + "print('end')") == "end"
    episode.write_file("big", padding)
    left = episode.run_command("ls ..").split()
    assert sorted(left) == ["command.sh", "home", "program.py", "tmp"]


# ---------------------------------------------------------------------- paths


@only_local
def test_a_closed_workspace_leaves_nothing(start, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    episode = start(files={"a": "b"})
    assert list(tmp_path.iterdir()) == []
    episode.read_file("a")
    assert [path.name for path in tmp_path.rglob("a")] == ["a"]
    episode.write_file("big", "x" * 1_000_000)
    episode.close()
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- who is to blame


def test_ending_what_runs_it_is_the_commands_own_doing(start):
    episode = start()
    output = episode.run_command("kill -9 $PPID; sleep 1")
    assert output.startswith("error: the command ended what ran it")
    assert episode.run_command("echo on") == "on"
    assert episode.infrastructure_failure is None


def test_stopping_what_runs_it_is_a_timeout(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "1")
    monkeypatch.setattr(module, "GRACE", 1)
    episode = start()
    output = episode.run_command("kill -STOP $PPID; sleep 60")
    assert output == "error: killed after 1 seconds"
    monkeypatch.setattr(module, "GRACE", 15)
    assert episode.run_command("echo on") == "on"
    assert episode.infrastructure_failure is None


@only_local
@pytest.mark.parametrize(
    "forged",
    ['{"text": 1}', "[]", "[" * 30_000, '{"text": "' + "x" * 200_000 + '"}'],
)
def test_a_forged_answer_is_the_commands_own_doing(start, forged):
    """A command can reach what the helper prints to; here it ends the helper, too."""
    episode = start()
    output = episode.run_python(
        "import os, signal\n"
        "with open(f'/proc/{os.getppid()}/fd/1', 'w') as pipe:\n"
        f"    pipe.write({forged!r})\n"
        "os.kill(os.getppid(), signal.SIGKILL)"
    )
    assert output.startswith("error: the command ended what ran it")
    assert len(output) < 1000
    assert episode.infrastructure_failure is None


class Result:
    stdout, stderr, return_code = None, "connection refused", 125

    def __init__(self, error_type):
        self.error_type = error_type


@pytest.mark.parametrize("outage", ["timeout", "sandbox", TimeoutError(), OSError("x")])
def test_an_outage_is_not_the_policys_fault(start, monkeypatch, outage):
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")

    async def fail(*_, **__):
        if isinstance(outage, Exception):
            raise outage
        return Result(outage)

    monkeypatch.setattr(type(episode._workspace._sandbox), "exec", fail)
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure
    with pytest.raises(RuntimeError):
        episode.run_command("ls")


def test_a_provider_that_hangs_is_given_up(start, monkeypatch):
    episode = start()
    episode.run_command("true")
    given_up = threading.Event()

    async def hang(*_, **__):
        try:
            await asyncio.sleep(60)
        finally:
            given_up.set()

    monkeypatch.setattr(type(episode._workspace._sandbox), "exec", hang)
    monkeypatch.setenv("SANDBOX_SECONDS", "0.1")  # of a new one, which hangs, too
    limits = episode._workspace._limits.model_copy(update={"sandbox_seconds": 0.1})
    monkeypatch.setattr(episode._workspace, "_limits", limits)
    monkeypatch.setattr(module, "GRACE", 0.1)
    monkeypatch.setattr(module, "LOST_SECONDS", 0.1)
    with pytest.raises(RuntimeError, match="the sandbox has failed"):
        episode.run_command("ls")
    assert given_up.wait(10)
    monkeypatch.setattr(module, "LOST_SECONDS", 120)


@only_local
def test_episodes_do_not_wait_for_each_other(start, monkeypatch, tmp_path):
    """By default, NeMo Gym's local provider runs only 8 commands at a time."""
    monkeypatch.setenv("SANDBOX_SECONDS", "20")
    meet = (
        f"import os, time\nopen({str(tmp_path)!r} + '/' + open('n').read(), 'w')\n"
        f"while len(os.listdir({str(tmp_path)!r})) < 10: time.sleep(0.05)\nprint('met')"
    )
    outputs = {}

    def play(n):
        outputs[n] = start(files={"n": str(n)}).run_python(meet)

    players = [threading.Thread(target=play, args=(n,)) for n in range(10)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    assert outputs == dict.fromkeys(range(10), "met")


def test_the_helper_is_python_that_old_images_have():
    ast.parse(module._program(), feature_version=(3, 7))


def test_the_helper_needs_nothing_but_the_standard_library():
    """In a sandbox it is a program, and nothing of this package is there."""
    request = base64.b64encode(
        b'{"action": "read", "root": "/missing", "path": "a", "limit": 1, "cut": true}'
    )
    helper = [sys.executable, "-I", "-S", "-c", module._program(), request]
    done = subprocess.run(helper, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["error"]
