"""The workspace on NeMo Gym: its settings, its limits, and who is to blame."""

import ast
import asyncio
import os
import sys
import threading
import time

import pytest
from test_environment import provider, sandboxes, start

from plumbing.environment import EnvironmentClass

import workspace_backend

__all__ = ["provider", "sandboxes", "start"]

only_local = pytest.mark.skipif(
    os.environ.get("SANDBOX_PROVIDER", "local") != "local"
    or "SANDBOX_CONFIG" in os.environ,
    reason="looks into the folders of the local provider",
)


def settings():
    return workspace_backend._Settings.from_environment()


# ---------------------------------------------------------------------- settings


@pytest.fixture
def configured(sandboxes, monkeypatch, tmp_path):
    """Writes a file for SANDBOX_CONFIG."""

    def write(text):
        (tmp_path / "sandbox.yaml").write_text(text)
        monkeypatch.setenv("SANDBOX_CONFIG", str(tmp_path / "sandbox.yaml"))

    return write


@pytest.fixture
def named(sandboxes, monkeypatch):
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    return lambda name: monkeypatch.setenv("SANDBOX_PROVIDER", name)


def test_docker_is_the_default_and_offline(sandboxes, monkeypatch):
    monkeypatch.delenv("SANDBOX_PROVIDER", raising=False)
    monkeypatch.delenv("SANDBOX_CONFIG", raising=False)
    found = settings()
    assert found.provider == "docker"
    assert found.options["create"]["network"] == "none"
    assert found.options["create"]["cap_drop"] == ["ALL"]
    # What NeMo Gym's own file says stays.
    assert found.options["create"]["start_timeout_s"] == 600
    assert found.spec["image"] == "python:3.13-slim"
    assert found.spec["ttl_s"] == 3600
    assert found.spec["resources"] == {"memory_mib": 1024}


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("e2b", "allow_internet_access", False),
        ("daytona", "network_block_all", True),
    ],
)
def test_clouds_are_offline(named, monkeypatch, name, option, value):
    """Also where NeMo Gym's own file says otherwise."""
    monkeypatch.setenv("DAYTONA_API_KEY", "key")
    named(name)
    assert settings().options["create"][option] is value


def test_a_file_chooses_the_provider_its_options_and_its_image(configured, monkeypatch):
    monkeypatch.setenv("SANDBOX_PROVIDER", "local")
    monkeypatch.setenv("WHERE", "bridge")
    configured(
        "sandbox:\n"
        "  default_metadata: {team: mine}\n"
        "  docker: {create: {network: '${oc.env:WHERE}'}}\n"
        "sandbox_spec: {image: mine, ttl_s: 60, resources: {cpu: 2}}\n"
    )
    found = settings()
    assert found.provider == "docker"
    assert found.options["create"]["network"] == "bridge"
    assert found.options["create"]["cap_drop"] == ["ALL"]
    assert found.spec == {
        "image": "mine",
        "ttl_s": 60,
        "resources": {"memory_mib": 1024, "cpu": 2},
        "metadata": {"team": "mine"},
    }
    monkeypatch.setenv("SANDBOX_IMAGE", "other")
    assert settings().spec["image"] == "other"


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


def test_a_missing_file_is_named(sandboxes, monkeypatch):
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


@pytest.mark.parametrize("name", ["SANDBOX_SECONDS", "SANDBOX_MEMORY_MB"])
def test_a_wrong_number_is_not_the_policys_fault(start, monkeypatch, name):
    monkeypatch.setenv(name, "many")
    episode = start()
    with pytest.raises(RuntimeError, match=f"{name} must be a positive number"):
        episode.run_command("ls")
    assert name in episode.infrastructure_failure


# ---------------------------------------------------------------------- limits


def test_long_output_and_files_lose_their_middle(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    episode = start()
    episode.run_python("open('big', 'w').write('first' + 'x' * 5_000_000 + 'last')")
    for text in (episode.run_command("cat big"), episode.read_file("big")):
        assert len(text) < 1200
        assert text.startswith("first")
        assert text.endswith("last")
        assert "[truncated: " in text


def test_endless_output_and_large_files_are_stopped(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_FILE_MB", "1")
    episode = start()
    assert "SIGXFSZ" in episode.run_command("yes")
    assert "File too large" in episode.run_python(
        "open('big', 'wb').write(b'x' * 3_000_000)"
    )
    with pytest.raises(ValueError, match="limit"):
        episode.write_file("big", "x" * 3_000_000)


def test_memory_is_limited(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_MB", "200")
    output = start().run_python("print(len(bytearray(400 * 1024 * 1024)))")
    assert "MemoryError" in output or "SIGKILL" in output


def test_long_scripts_and_files_are_whole(start):
    """They do not fit an argument, and go as a file."""
    episode = start()
    padding = "# padding\n" * 30_000
    assert episode.run_command(padding + "echo end") == "end"
    assert episode.run_python(padding + "print('end')") == "end"
    text = "é\0\U0001f600'\"\\\n" * 30_000
    episode.write_file("big", text)
    assert episode._workspace.read_whole("big", 1_000_000) == text
    left = episode.run_command("ls ..").split()
    assert sorted(left) == ["command.sh", "home", "program.py", "tmp"]


def test_odd_output_arrives(start):
    episode = start()
    assert episode.run_command("printf '\\377\\r\\n\\033[1mé'") == "\ufffd\r\n\x1b[1mé"
    assert episode.run_command("echo '{\"text\": 1}'; kill -9 $$").endswith(
        "[exit status 137, SIGKILL]"
    )


def test_what_a_command_prints_does_not_depend_on_the_place(start):
    one, two = start(), start()
    for run in ("run_command", "run_python"):
        first, second = (getattr(episode, run)("foo") for episode in (one, two))
        assert first == second
        assert "line 1" in first


# Holds a lock for as long as it lives. The shell goes on when the lock is taken.
HOLD_LOCK = """
{how} python3 -c '
import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("ready", "w").write("x")
time.sleep(60)
' &
while [ ! -s ready ]; do :; done
"""
# Waits for that lock; the time limit ends it if the holder lives on.
TAKE_LOCK = "import fcntl; fcntl.flock(open('lock', 'w'), fcntl.LOCK_EX); print('free')"


@pytest.mark.parametrize("how", ["", "setsid setsid"])
def test_what_a_command_started_ends_with_its_call(start, monkeypatch, how):
    if how and sys.platform != "linux":
        pytest.skip("needs Linux")
    monkeypatch.setenv("SANDBOX_SECONDS", "10")
    episode = start()
    began = time.monotonic()
    assert episode.run_command(HOLD_LOCK.format(how=how) + "echo ok") == "ok"
    assert episode.run_python(TAKE_LOCK) == "free"
    assert time.monotonic() - began < 9


# ---------------------------------------------------------------------- paths


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/passwd", "", ".", "a\0b", "\ud800"]
)
def test_paths_stay_inside(start, path):
    episode = start()
    with pytest.raises(ValueError):
        episode.read_file(path)
    with pytest.raises(ValueError):
        episode.write_file(path, "x")
    assert episode.infrastructure_failure is None


def test_only_regular_files_are_read_and_written(start):
    episode = start()
    episode.run_command(
        "mkfifo pipe; mkdir folder; echo 1 > file; ln -s file link; ln -s folder way"
    )
    for path in ("pipe", "folder", "file/below", "link", "way/file"):
        with pytest.raises(ValueError, match=path):
            episode.read_file(path)
        with pytest.raises(ValueError, match=path):
            episode.write_file(path, "x")
    with pytest.raises(ValueError, match="missing"):
        episode.read_file("missing")
    assert episode.infrastructure_failure is None


def test_a_locked_or_removed_folder_is_not_an_infrastructure_failure(start):
    episode = start(files={"a": "1"})
    episode.run_command("chmod 000 .")
    assert episode.read_file("a") == "1"
    episode.run_command('rm -rf "$HOME"')
    with pytest.raises(ValueError, match="removed the workspace folder"):
        episode.read_file("a")
    with pytest.raises(ValueError, match="removed the workspace folder"):
        episode.run_command("ls")
    assert episode.infrastructure_failure is None


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
    monkeypatch.setattr(workspace_backend, "_GRACE", 1)
    episode = start()
    output = episode.run_command("kill -STOP $PPID; sleep 60")
    assert output == "error: killed after 1 seconds"
    monkeypatch.setattr(workspace_backend, "_GRACE", 15)
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

    monkeypatch.setattr(episode._workspace._sandbox, "exec", fail)
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

    monkeypatch.setattr(episode._workspace._sandbox, "exec", hang)
    monkeypatch.setattr(episode._workspace, "_seconds", 0.1)
    monkeypatch.setattr(workspace_backend, "_GRACE", 0.1)
    monkeypatch.setattr(workspace_backend, "_LOST", 0.1)
    with pytest.raises(RuntimeError, match="the sandbox has failed"):
        episode.run_command("ls")
    assert given_up.wait(10)
    monkeypatch.setattr(workspace_backend, "_LOST", 120)


@only_local
def test_episodes_do_not_wait_for_each_other(start, monkeypatch, tmp_path):
    """By itself NeMo Gym's local provider runs 8 commands at once."""
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
    ast.parse(workspace_backend._HELPER, feature_version=(3, 7))
