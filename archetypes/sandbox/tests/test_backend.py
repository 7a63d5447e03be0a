"""The local workspace: its isolation, its limits, and what it leaves behind."""

import asyncio
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import time

import httpx
import pytest

from plumbing.environment import EnvironmentClass

import workspace_backend

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(params=["auto", "none"], autouse=True)
def isolation(request, monkeypatch):
    """Every test runs with bubblewrap, if it works here, and without."""
    monkeypatch.setenv("SANDBOX_ISOLATION", request.param)
    return request.param


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The workspace folders that exist at the moment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.glob("sandbox-*/home"))


@pytest.fixture
def start():
    """Makes episodes of the given tasks, and closes them at the end."""
    episodes = []

    def make(**task):
        episodes.append(EnvironmentClass(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        episode.close()


# ---------------------------------------------------------------------- commands


def test_output_tells_a_signal(start):
    episode = start()
    assert episode.run_command("kill -9 $$") == "[exit status 137, SIGKILL]"
    assert episode.run_command("yes | head -n 1") == "y"
    assert "line 2" in episode.run_python("\n1 / 0")


def test_python_is_this_version_and_isolated(start):
    code = "import sys; print(sys.version_info[:2], sys.flags.isolated, '' in sys.path)"
    assert start().run_python(code) == f"{sys.version_info[:2]} 1 False"


def test_long_scripts_run(start):
    episode = start()
    padding = "# padding\n" * 30_000
    assert episode.run_command(padding + "echo end") == "end"
    assert episode.run_python(padding + "print('end')") == "end"


def test_temporary_files_persist_and_are_private(start):
    one, two = start(), start()
    one.run_command("echo one > $TMPDIR/mine")
    assert one.run_command("cat $TMPDIR/mine") == "one"
    assert two.run_command("ls $TMPDIR") == "(no output)"


def test_the_workspace_is_made_by_the_first_call(start, folders):
    episode = start(files={"a": "b"})
    assert folders() == []
    episode.read_file("a")
    assert len(folders()) == 1


def test_nothing_of_the_answers_is_on_disk(start, tmp_path):
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


def test_a_call_that_hangs_delays_no_other_session(server, tools, monkeypatch):
    if "run_command" not in [tool["name"] for tool in tools]:
        pytest.skip("the server does not expose run_command")
    monkeypatch.setenv("SANDBOX_SECONDS", "5")
    finished = []

    async def call(transport, name, command):
        async with httpx.AsyncClient(
            transport=transport, base_url="http://server", timeout=60
        ) as client:
            await client.post("/seed_session", json={"ground_truth": []})
            answer = await client.post("/run_command", json={"command": command})
            await client.post("/close_session", json={})
            finished.append(name)
            return answer.json()["output"]

    async def main():
        transport = httpx.ASGITransport(server.setup_webserver())
        hanging = asyncio.create_task(call(transport, "hanging", "sleep 1000"))
        others = [call(transport, n, f"echo {n}") for n in range(20)]
        return await asyncio.gather(*others, hanging)

    *outputs, hung = asyncio.run(main())
    assert [output.strip() for output in outputs] == [str(n) for n in range(20)]
    assert hung.startswith("error: ")
    assert finished[-1] == "hanging"


# ---------------------------------------------------------------------- paths


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_names_that_no_file_has_are_refused(start, path):
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


def test_a_locked_or_removed_folder_is_not_an_infrastructure_failure(start):
    episode = start(files={"a": "1"})
    episode.run_command("chmod 000 .")
    assert episode.read_file("a") == "1"
    episode.run_command('rm -rf "$HOME"')
    with pytest.raises(ValueError):
        episode.read_file("a")
    assert episode.infrastructure_failure is None


# ---------------------------------------------------------------------- limits

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


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_no_processes_are_left(start):
    start().run_command("sleep 98765 & sleep 98765 & echo")
    show = ["ps", "-A", "-o", "args"]
    deadline = time.monotonic() + 5
    while "sleep 98765" in subprocess.check_output(show, text=True).splitlines():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_long_file_loses_its_middle(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    episode = start()
    episode.run_python("open('big', 'w').write('first' + 'x' * 5_000_000 + 'last')")
    shown = episode.read_file("big")
    assert len(shown) < 1200
    assert shown.startswith("first")
    assert shown.endswith("last")


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


@linux_only
def test_bubblewrap_shows_nothing_of_the_machine(start, monkeypatch, tmp_path):
    monkeypatch.setenv("SANDBOX_ISOLATION", "bubblewrap")
    (tmp_path / "answers").write_text("42")
    episode = start()
    try:
        out = episode.run_command(
            f"cat {tmp_path}/answers {__file__}; cat /proc/{os.getpid()}/environ; "
            "echo x > /new; tail -n +3 /proc/net/dev | cut -d: -f1"
        )
    except RuntimeError as error:
        pytest.skip(f"{error}")
    assert out.count("No such file") == 3
    assert "Read-only file system" in out
    assert out.split()[-1] == "lo"


# ---------------------------------------------------------------------- failures


def test_a_workspace_that_cannot_be_made_is_an_infrastructure_failure(
    start, monkeypatch, tmp_path
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    episode = start(expected_output="1", expected_files={"a": "b"})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="cannot make a workspace"):
            episode.run_command("ls")
    assert "workspace" in episode.infrastructure_failure
    episode.submit("1")
    assert episode.reward() == 0.0


class FullFile:
    """Stands for open(): takes a write, and fails to put it on the disk."""

    code = 0

    def __init__(self, descriptor, mode):
        self.descriptor = descriptor

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.descriptor)
        raise OSError(self.code, os.strerror(self.code))

    def truncate(self):
        pass

    def write(self, data):
        pass


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    "place", ["workspace", "files of the task", "write_file", "run_command"]
)
def test_a_full_disk_is_an_infrastructure_failure(
    start, monkeypatch, folders, place, code
):
    def full(*_, **__):
        raise OSError(code, os.strerror(code))

    workspace_backend.isolation()  # before the disk is full: it is tried out once
    episode = start(files={"a": "b"})
    if place in ("write_file", "run_command"):
        episode.read_file("a")
    if place == "workspace":
        monkeypatch.setattr(workspace_backend, "_make_folders", full)
    elif place == "run_command":
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
    else:
        monkeypatch.setattr(workspace_backend, "open", FullFile, raising=False)
        monkeypatch.setattr(FullFile, "code", code)
    with pytest.raises(RuntimeError, match=os.strerror(code)):
        if place == "write_file":
            episode.write_file("c", "d")
        else:
            episode.run_command("ls")
    assert os.strerror(code) in episode.infrastructure_failure
    monkeypatch.undo()
    episode.close()
    assert folders() == []


def test_close_removes_everything(start, tmp_path):
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
    assert episode.infrastructure_failure is None


def test_close_without_a_call(start, folders):
    episode = start()
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")
    assert folders() == []


# ---------------------------------------------------------------------- the grader


@pytest.mark.parametrize(
    "mess", ["echo right > out; chmod 000 out; rm -f out", 'rm -rf "$HOME"']
)
def test_a_file_that_is_gone_is_not_an_infrastructure_failure(start, mess):
    episode = start(expected_output="x", expected_files={"out": "right"})
    episode.run_command(mess)
    episode.submit("x")
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure is None
