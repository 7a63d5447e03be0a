"""Tests of the workspace that every backend provides: limits, paths and errors.

They run in a generated project, for the backend that it has.
"""

import importlib
import sys
import time

import pytest
from env_runtime.testing import verify_body
from test_environment import backend, player, row, task

import my_env
from my_env import MyEnv as EnvironmentClass

__all__ = ["backend", "player", "row", "task"]


# The module of the backend that the project has.
workspace = importlib.import_module(my_env.Workspace.__module__)
LOCAL = workspace.__name__.endswith(".local")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
remote = pytest.mark.skipif(LOCAL, reason="nothing but this machine can be lost")


@pytest.fixture(params=["auto", "none"] if LOCAL else ["one"], autouse=True)
def isolation(request, monkeypatch):
    """With `local`, tests run without bubblewrap and, if it works here, with it."""
    if LOCAL:
        monkeypatch.setenv("SANDBOX_ISOLATION", request.param)


# ---------------------------------------------------------------------- commands


def test_output_tells_a_signal(start):
    episode = start()
    assert episode.run_command("kill -9 $$") == "[exit status 137, SIGKILL]"
    assert episode.run_command("yes | head -n 1") == "y"
    assert "line 2" in episode.run_python("\n1 / 0")


def test_odd_output_arrives(start):
    episode = start()
    assert episode.run_command("printf '\\377\\r\\n\\033[1mé'") == "\ufffd\r\n\x1b[1mé"
    assert episode.run_command("echo '{\"text\": 1}'; kill -9 $$").endswith(
        "[exit status 137, SIGKILL]"
    )


def test_long_scripts_run(start):
    episode = start()
    padding = "# padding\n" * 30_000
    assert episode.run_command(padding + "echo end") == "end"
    assert episode.run_python(padding + "print('end')") == "end"


def test_long_files_are_whole(start):
    episode = start()
    text = "é\0\U0001f600'\"\\\n" * 30_000
    episode.write_file("big", text)
    assert episode._workspace.read_whole("big", 1_000_000) == text
    with pytest.raises(ValueError, match="big"):
        episode._workspace.read_whole("big", 1000)


def test_a_task_makes_no_workspace_before_the_first_call(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "many")
    episode = start(files={"a": "b"})
    monkeypatch.delenv("SANDBOX_SECONDS")
    assert episode.read_file("a") == "b"


# ---------------------------------------------------------------------- limits


def test_long_output_and_files_lose_their_middle(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    episode = start()
    episode.run_python("open('big', 'w').write('first' + 'x' * 5_000_000 + 'last')")
    for text in (episode.run_command("cat big"), episode.read_file("big")):
        assert len(text) < 1200
        assert text.startswith("first")
        assert text.endswith("last")
        assert "[truncated: 4999009 of 5000009 bytes left out]" in text


def test_endless_output_and_large_files_are_stopped(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_FILE_MB", "1")
    episode = start()
    assert "SIGXFSZ" in episode.run_command("yes")
    big = "open('big', 'wb').write(b'x' * 3_000_000)"
    assert "File too large" in episode.run_python(big)
    with pytest.raises(ValueError, match="limit"):
        episode.write_file("big", "x" * 3_000_000)


# Holds a lock for as long as it lives. The shell goes on when the lock is taken.
HOLD_LOCK = """
{how} python3 -c '
import fcntl, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("ready", "w").write("x")
time.sleep(60)
' {redirect} &
while [ ! -s ready ]; do :; done
"""
# Waits for that lock; the time limit ends it if the holder lives on.
TAKE_LOCK = "import fcntl; fcntl.flock(open('lock', 'w'), fcntl.LOCK_EX); print('free')"


@pytest.mark.parametrize(
    ("how", "redirect"),
    [
        ("", ""),
        ("", "> /dev/null 2>&1"),
        pytest.param("setsid setsid", "", marks=linux_only),
    ],
)
def test_what_a_command_started_ends_with_its_call(start, monkeypatch, how, redirect):
    monkeypatch.setenv("SANDBOX_SECONDS", "10")
    episode = start()
    began = time.monotonic()
    hold = HOLD_LOCK.format(how=how, redirect=redirect)
    assert episode.run_command(hold + "echo ok") == "ok"
    assert episode.run_python(TAKE_LOCK) == "free"
    assert time.monotonic() - began < 9


def test_the_time_limit_kills_the_whole_group(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "2")
    episode = start()
    hold = HOLD_LOCK.format(how="", redirect="")
    output = episode.run_command(f"echo begun\n{hold}wait")
    assert output == "error: killed after 2 seconds\nbegun"
    assert episode.run_python(TAKE_LOCK) == "free"
    assert episode.infrastructure_failure is None


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


def test_only_regular_files_are_read(start):
    episode = start()
    episode.run_command("mkfifo pipe; mkdir folder; ln -s folder link")
    for path in ("pipe", "folder", "link", "missing"):
        with pytest.raises(ValueError, match=path):
            episode.read_file(path)
    with pytest.raises(ValueError, match="folder"):
        episode.write_file("folder", "x")
    assert episode.infrastructure_failure is None


def test_only_regular_files_are_written_and_links_lead_nowhere(start):
    episode = start()
    episode.run_command(
        "mkfifo pipe; echo 1 > file; mkdir folder; ln -s file link; ln -s folder way"
    )
    for path in ("pipe", "file/below", "link", "way/file"):
        with pytest.raises(ValueError, match=path):
            episode.read_file(path)
        with pytest.raises(ValueError, match=path):
            episode.write_file(path, "x")
    assert episode.infrastructure_failure is None


def test_a_locked_or_removed_folder_is_not_an_infrastructure_failure(start):
    episode = start(files={"a": "1"})
    episode.run_command("chmod 000 .")
    assert episode.read_file("a") == "1"
    episode.run_command('rm -rf "$HOME"')
    with pytest.raises(ValueError):
        episode.read_file("a")
    if workspace.isolation() != "bubblewrap":  # under it, a command can only empty it
        with pytest.raises(ValueError, match="removed the workspace folder"):
            episode.run_command("ls")
    assert episode.infrastructure_failure is None


# ---------------------------------------------------------------------- who is to blame


@pytest.mark.parametrize("name", ["SANDBOX_SECONDS", "SANDBOX_FILE_MB"])
@pytest.mark.parametrize("value", ["many", "0", "-1", "nan", "inf"])
def test_a_wrong_number_is_not_the_policys_fault(start, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    episode = start()
    message = f"{name} must be a positive number, got {value!r}"
    with pytest.raises(RuntimeError, match=message):
        episode.run_command("ls")
    assert message in episode.infrastructure_failure


@remote
@pytest.mark.parametrize(
    "call",
    [
        lambda episode: episode.run_command("ls"),
        lambda episode: episode.read_file("a"),
        lambda episode: episode.write_file("a", "b"),
    ],
)
def test_a_machine_that_is_lost_with_all_others(start, call, monkeypatch):
    """Nothing works here any more, so it is not the policy's fault."""
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")
    assert episode.reward() == 1.0
    episode._workspace.close()
    monkeypatch.setattr(workspace.Workspace, "__init__", no_machine)
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure
    with pytest.raises(RuntimeError, match="not found|the provider has failed"):
        call(episode)


def no_machine(self):
    raise workspace.WorkspaceError("there is no machine left")


@remote
def test_a_machine_that_a_command_may_have_ended(start):
    """Another one works. A mask would spare the policy a bad grade."""
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")
    episode._workspace.close()
    with pytest.raises(ValueError, match="a command may have ended it"):
        episode.run_command("ls")
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure is None


@remote
def test_a_lost_machine_masks_the_sample(server, player, row, task, monkeypatch):
    """NeMo Gym 0.7 leaves a masked sample out of its scores."""
    player.post("/submit", json={"answer": task["expected_output"]})
    [session] = server.sessions.values()
    session.environment._workspace.close()
    monkeypatch.setattr(workspace.Workspace, "__init__", no_machine)
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer["reward"] == 0.0
    assert answer["mask_sample"] is True
    assert (
        "not found" in answer["failure_reason"] or "failed" in answer["failure_reason"]
    )


# ---------------------------------------------------------------------- the package


def test_the_six_names():
    names = ["Workspace", "WorkspaceError", "isolation", "missing", "refusal"]
    for name in [*names, "prepare_tests"]:
        assert hasattr(workspace, name)
    assert EnvironmentClass.missing_requirement() is None


def test_the_tests_need_no_account(monkeypatch, tmp_path):
    monkeypatch.delenv("E2B_API_KEY", raising=False)
    workspace.prepare_tests(monkeypatch, tmp_path / "more")
    assert workspace.missing() is None
