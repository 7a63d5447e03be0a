"""The domain through its public interface: tools, limits, isolation of episodes,
grading.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollout import environment_class

Sandbox = environment_class()

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "../data/example.jsonl")
    .read_text()
    .splitlines()
]
TASKS = [row["ground_truth"][0] for row in ROWS]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(params=["auto", "none"], autouse=True)
def isolation(request, monkeypatch) -> str:
    """Every test runs with bubblewrap, if it works here, and without."""
    monkeypatch.setenv("SANDBOX_ISOLATION", request.param)
    return request.param


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch) -> Callable[[], list[Path]]:
    """The workspace folders that exist at the moment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.glob("sandbox-*/home"))


@pytest.fixture
def start() -> Iterator[Callable[..., Sandbox]]:
    """Makes episodes, and closes them at the end."""
    episodes = []

    def make(**task) -> Sandbox:
        episodes.append(Sandbox(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        episode.close()


def perform(episode: Sandbox, calls: list[tuple[str, dict]]) -> list[str]:
    return [getattr(episode, name)(**arguments) for name, arguments in calls]


# --- tools --------------------------------------------------------------------------------------


def test_state_persists_between_calls(start):
    episode = start(files={"data/in.txt": "3\n4\n"})
    assert episode.read_file("data/in.txt") == "3\n4\n"
    assert (
        episode.run_command("cat data/in.txt > copy.txt; echo x > $TMPDIR/y")
        == "(no output)"
    )
    assert episode.run_python("print(open('copy.txt').read())").split() == ["3", "4"]
    episode.write_file("new/deep/file.txt", "short")
    episode.write_file("new/deep/file.txt", "s")
    assert episode.run_command("cat new/deep/file.txt $TMPDIR/y") == "sx"


def test_output_has_both_streams_and_the_exit_status(start):
    episode = start()
    assert (
        episode.run_command("echo out; echo err >&2; exit 3")
        == "out\nerr\n[exit status 3]"
    )
    assert episode.run_command("kill -9 $$") == "[exit status 137, SIGKILL]"
    assert episode.run_command("yes | head -n 1") == "y"
    failed = episode.run_python("print('before')\n1 / 0")
    assert failed.startswith("before")
    assert "line 2" in failed
    assert "ZeroDivisionError" in failed
    assert failed.endswith("[exit status 1]")


def test_python_is_this_version_and_isolated(start):
    code = "import sys; print(sys.version_info[:2], sys.flags.isolated, '' in sys.path)"
    assert start().run_python(code) == f"{sys.version_info[:2]} 1 False"


def test_long_scripts_run(start):
    episode = start()
    padding = "# padding\n" * 30_000
    assert episode.run_command(padding + "echo end") == "end"
    assert episode.run_python(padding + "print('end')") == "end"


def test_the_workspace_is_made_by_the_first_tool_call(start, folders):
    episode = start(files={"a": "b"})
    assert folders() == []
    episode.read_file("a")
    assert len(folders()) == 1


@pytest.mark.parametrize(
    "task", [{}, {"files": None, "expected_files": None, "expected_output": None}]
)
def test_missing_keys_are_harmless(start, task):
    episode = start(**task)
    assert episode.run_command("ls") == "(no output)"
    episode.submit("")
    assert not episode.solved()
    assert Sandbox.oracle(task)[-1][0] == "submit"


def test_two_episodes_share_nothing(start):
    one, two = start(files={"a": "1"}), start(files={"b": "2"})
    one.run_command("echo one > mine; echo one > $TMPDIR/mine")
    assert two.run_command("ls; ls $TMPDIR") == "b"
    one.close()
    assert two.read_file("b") == "2"


def test_episodes_run_at_the_same_time(start):
    episodes = [start(files={"n": str(n)}) for n in range(6)]
    results: dict[int, str] = {}

    def work(n: int) -> None:
        results[n] = episodes[n].run_command("cat n; echo; ls")

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: f"{n}\nn" for n in range(6)}


# --- paths --------------------------------------------------------------------------------------


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


def test_planted_links_lead_nowhere(start, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("secret")
    episode = start()
    episode.run_command(
        f"ln -s {outside} folder; ln -s {outside}/file file; ln -s {outside}/n n"
    )
    for path in ("folder/file", "file", "n"):
        with pytest.raises(ValueError, match="cannot open"):
            episode.read_file(path)
        with pytest.raises(ValueError, match="cannot open"):
            episode.write_file(path, "x")
    assert (outside / "file").read_text() == "secret"
    assert not (outside / "n").exists()


def test_only_regular_files_are_read_and_written(start):
    episode = start()
    episode.run_command("mkfifo pipe; mkdir folder; echo 1 > file")
    for path in ("pipe", "folder", "missing", "file/below"):
        with pytest.raises(ValueError, match=path):
            episode.read_file(path)
    for path in ("pipe", "folder", "file/below"):
        with pytest.raises(ValueError, match=path):
            episode.write_file(path, "x")


def test_a_locked_or_removed_folder_is_no_infrastructure_failure(start, isolation):
    episode = start(files={"a": "1"})
    episode.run_command("chmod 000 .")
    assert episode.read_file("a") == "1"
    episode.run_command('rm -rf "$HOME"')
    with pytest.raises(ValueError):
        episode.read_file("a")
    assert episode.infrastructure_failure is None


# --- limits -------------------------------------------------------------------------------------

# Holds a lock for as long as it lives. The shell goes on when the lock is taken.
HOLD_LOCK = """
python3 -c '
import fcntl, os, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)
open("ready", "w").write("x")
time.sleep(60)
' {redirect} &
while [ ! -s ready ]; do :; done
"""
# Waits for that lock; the time limit ends it if the holder lives on.
TAKE_LOCK = "import fcntl; fcntl.flock(open('lock', 'w'), fcntl.LOCK_EX); print('free')"


def test_the_time_limit_kills_the_whole_group(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "2")
    episode = start()
    out = episode.run_command("echo begun\n" + HOLD_LOCK.format(redirect="") + "wait")
    assert out == "error: killed after 2 seconds\nbegun"
    assert episode.run_python(TAKE_LOCK) == "free"
    assert episode.run_command("echo on").strip() == "on"


@pytest.mark.parametrize("redirect", ["", "> /dev/null 2>&1"])
def test_a_background_command_ends_with_its_call(start, redirect, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "10")
    episode = start()
    began = time.monotonic()
    assert episode.run_command(HOLD_LOCK.format(redirect=redirect) + "echo ok") == "ok"
    assert episode.run_python(TAKE_LOCK) == "free"
    assert time.monotonic() - began < 9


@linux_only
def test_a_daemon_ends_with_its_call(start):
    episode = start()
    daemon = HOLD_LOCK.format(redirect="").replace("python3", "setsid setsid python3")
    assert episode.run_command(daemon + "echo ok") == "ok"
    assert episode.run_python(TAKE_LOCK) == "free"


def test_long_output_loses_its_middle(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    episode = start()
    shown = episode.run_python("print('first'); print('x' * 5_000_000); print('last')")
    episode.run_python("open('big', 'w').write('first' + 'x' * 5_000_000 + 'last')")
    for text in (shown, episode.read_file("big")):
        assert len(text) < 1200
        assert text.startswith("first")
        assert text.endswith("last")
        assert "[truncated: " in text


def test_endless_output_and_large_files_are_stopped(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_FILE_MB", "1")
    episode = start()
    assert "SIGXFSZ" in episode.run_command("yes")
    assert "OSError" in episode.run_python("open('big', 'wb').write(b'x' * 3_000_000)")
    with pytest.raises(ValueError, match="limit"):
        episode.write_file("big", "x" * 3_000_000)


@linux_only
def test_memory_is_limited(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_MB", "200")
    assert "MemoryError" in start().run_python("x = bytearray(400 * 1024 * 1024)")


def test_the_environment_has_no_secrets(start, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("E2B_API_KEY", "e2b-secret")
    episode = start()
    seen = episode.run_command("env") + episode.run_python(
        "import os; print(dict(os.environ))"
    )
    assert "HOME" in seen
    assert "secret" not in seen


@linux_only
def test_bubblewrap_shows_nothing_of_the_machine(
    start, monkeypatch, tmp_path, isolation
):
    monkeypatch.setenv("SANDBOX_ISOLATION", "bubblewrap")
    (tmp_path / "answers").write_text("42")
    episode = start()
    try:
        out = episode.run_command(
            f"cat {tmp_path}/answers {__file__}; cat /proc/{os.getpid()}/environ; echo x > /new; "
            "tail -n +3 /proc/net/dev | cut -d: -f1"
        )
    except RuntimeError as error:
        pytest.skip(f"{error}")
    assert out.count("No such file") == 3
    assert "Read-only file system" in out
    assert out.split()[-1] == "lo"


# --- failures and the end -----------------------------------------------------------------------


def test_a_workspace_that_cannot_be_made_is_no_fault_of_the_policy(
    start, monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    episode = start(expected_output="1", expected_files={"a": "b"})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="workspace"):
            episode.run_command("ls")
    assert "workspace" in episode.infrastructure_failure
    episode.submit("1")
    assert not episode.solved()


def test_an_unusable_setting_or_task_is_no_fault_of_the_policy(
    start, monkeypatch, folders
):
    episode = start(files={"../a": "b"})
    with pytest.raises(RuntimeError, match="task"):
        episode.run_command("ls")
    assert episode.infrastructure_failure is not None
    assert folders() == []
    monkeypatch.setenv("SANDBOX_SECONDS", "soon")
    episode = start()
    with pytest.raises(RuntimeError, match="SANDBOX_SECONDS must be"):
        episode.run_command("ls")
    assert "SANDBOX_SECONDS" in episode.infrastructure_failure


def test_close_removes_everything_and_may_be_repeated(start, folders, tmp_path):
    episode = start()
    episode.run_command(
        "mkdir -p locked/below; echo 1 > locked/below/file; chmod 000 locked"
    )
    episode.run_python(
        "import os\nfor _ in range(1200):\n    os.mkdir('d' * 20)\n    os.chdir('d' * 20)"
    )
    episode.close()
    episode.close()
    assert list(tmp_path.glob("sandbox-*")) == []
    for call in (
        lambda: episode.run_command("ls"),
        lambda: episode.read_file("a"),
        lambda: episode.write_file("a", "b"),
        lambda: episode.submit("x"),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            call()
    assert episode.infrastructure_failure is None


def test_close_without_a_start(start, folders):
    episode = start()
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")
    assert folders() == []


def test_close_ends_a_running_call(start, folders, tmp_path):
    episode = start()
    failures = []

    def work() -> None:
        try:
            episode.run_command("echo x > ready; sleep 60")
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 10
    while not any((folder / "ready").exists() for folder in folders()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    episode.close()
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert failures == ["the workspace is closed"]
    assert list(tmp_path.glob("sandbox-*")) == []
    assert episode.infrastructure_failure is None


# --- grading ------------------------------------------------------------------------------------


def test_the_last_submission_counts(start):
    episode = start(expected_output="17\n")
    assert episode.submitted is None
    assert not episode.solved()
    episode.submit(" 17 ")
    assert episode.submitted == " 17 "
    assert episode.solved()
    episode.submit("18")
    assert not episode.solved()
    with pytest.raises(TypeError, match="string"):
        episode.submit(17)
    assert episode.submitted == "18"


def test_expected_files_have_to_be_there(start):
    episode = start(expected_output="x", expected_files={"out/a.txt": "1\n2\n"})
    episode.submit("x")
    assert not episode.solved()
    episode.write_file("out/a.txt", "1\n3\n")
    assert not episode.solved()
    episode.write_file("out/a.txt", "1\n2")
    assert episode.solved()


@pytest.mark.parametrize(
    "mess",
    [
        "mkdir out",
        "mkfifo out",
        "ln -s out out",
        "echo right > other; ln -s other out",
        "truncate -s 50M out || dd if=/dev/zero of=out bs=1048576 count=50",
        "printf '\\377\\000' > out",
        "echo right > out; chmod 000 out; rm -f out",
        "ln -s /dev/zero out",
        'rm -rf "$HOME"',
    ],
)
def test_a_mess_in_place_of_a_file_is_not_that_file(start, mess):
    episode = start(expected_output="x", expected_files={"out": "right"})
    episode.run_command(mess)
    episode.submit("x")
    assert episode.solved() is False
    assert episode.infrastructure_failure is None


def test_nothing_of_the_answers_is_in_the_workspace(start, tmp_path):
    episode = start(
        files={"a": "b"},
        expected_output="ANSWER",
        expected_files={"out": "ANSWER"},
        solution=[["run_command", {"command": "echo ANSWER"}]],
    )
    assert "ANSWER" not in episode.run_command("ls -aR; env")
    files = [path for path in tmp_path.glob("sandbox-*/**/*") if path.is_file()]
    assert {path.name for path in files} == {"a", "command.sh"}
    assert not any("ANSWER" in path.read_text() for path in files)


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_no_processes_are_left(start):
    start().run_command("sleep 98765 & sleep 98765 & echo")
    deadline = time.monotonic() + 5
    while (
        "sleep 98765"
        in subprocess.run(
            ["ps", "-A", "-o", "args"], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    ):
        assert time.monotonic() < deadline
        time.sleep(0.01)


# --- the rows -----------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["auto"], indirect=True)
@pytest.mark.parametrize("task", TASKS)
def test_the_oracle_solves_the_row(start, task):
    episode = start(**task)
    calls = Sandbox.oracle(task)
    assert calls[-1][0] == "submit"
    outputs = perform(episode, calls)
    # The answer is what the tools produced, not only what the row says.
    if task.get("solution"):
        assert outputs[-2].strip() == task["expected_output"].strip()
    assert episode.solved()


@pytest.mark.parametrize("isolation", ["auto"], indirect=True)
@pytest.mark.parametrize("row", ROWS)
def test_no_row_is_solved_without_work(start, row):
    task = row["ground_truth"][0]
    episode = start(**task)
    assert not episode.solved()
    episode.submit("")
    assert not episode.solved()
    if task.get("expected_files"):  # then no answer alone is enough
        return
    answer = task["expected_output"].strip()
    visible = {key: value for key, value in row.items() if key != "ground_truth"}
    assert answer not in json.dumps(visible)
    assert all(answer not in text for text in (task.get("files") or {}).values())
