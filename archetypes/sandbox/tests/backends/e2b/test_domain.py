"""The domain on the E2B backend, against a stand-in for its SDK that runs on this
machine.

The stand-in has the calls that workspace_backend.py makes, under the names and with the errors
of e2b-code-interpreter, and a temporary folder for the machine's file system.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import ClassVar

import pytest

from rollout import environment_class

Sandbox = environment_class()

if sys.platform != "linux":
    pytest.skip(
        "the stand-in runs the machine's Linux commands", allow_module_level=True
    )

ROWS = [
    json.loads(line)
    for line in (Path(__file__).parent / "../data/example.jsonl")
    .read_text()
    .splitlines()
]
TASKS = [row["ground_truth"][0] for row in ROWS]


class SandboxException(Exception):
    pass


class FileNotFoundException(SandboxException):
    pass


class InvalidArgumentException(SandboxException):
    pass


class NotEnoughSpaceException(SandboxException):
    pass


class CommandExitException(SandboxException):
    def __init__(self, exit_code: int) -> None:
        super().__init__(f"Command exited with code {exit_code}")
        self.exit_code = exit_code


class FileType(Enum):
    FILE = "file"
    DIR = "dir"
    SYMLINK = "symlink"


class FakeSandbox:
    """One machine; `root` stands for its "/"."""

    made: ClassVar[list[FakeSandbox]] = []
    root_of_next: Path
    refuse: Exception | None = None

    @classmethod
    def create(cls, template=None, timeout=None, *, allow_internet_access=None):
        if cls.refuse is not None:
            raise cls.refuse
        machine = cls()
        machine.options = (template, timeout, allow_internet_access)
        machine.alive = True
        machine.root = cls.root_of_next / str(len(cls.made))
        (machine.root / "tmp").mkdir(parents=True)
        (machine.root / "home/user").mkdir(parents=True)
        machine.files = machine.commands = machine
        cls.made.append(machine)
        return machine

    def kill(self) -> bool:
        self.alive = False
        return True

    def _at(self, path: str) -> Path:
        if not self.alive:
            raise SandboxException("The sandbox was not found")
        return self.root / path.lstrip("/")

    def make_dir(self, path: str) -> bool:
        self._at(path).mkdir(parents=True)
        return True

    def write(self, path: str, data: bytes) -> None:
        place = self._at(path)
        if place.is_dir():
            raise InvalidArgumentException(f"path is a directory: {path}")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)

    def read(self, path: str, format: str) -> bytearray:
        assert format == "bytes"
        return bytearray(self._at(path).read_bytes())

    def get_info(self, path: str):
        place = self._at(path)
        if place.is_symlink():
            kind = FileType.SYMLINK
        elif place.is_dir():
            kind = FileType.DIR
        elif place.is_file():
            kind = FileType.FILE
        elif place.exists():
            kind = None
        else:
            raise FileNotFoundException(f"path not found: {path}")
        return types.SimpleNamespace(type=kind, size=place.lstat().st_size)

    def run(self, cmd: str, *, envs: dict[str, str], timeout: float):
        cmd = re.sub("/home/user|/tmp", lambda folder: str(self._at(folder[0])), cmd)
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/bash", "-c", cmd],
            capture_output=True,
            env={"PATH": path, **envs},
            check=False,
        )
        if done.returncode:
            raise CommandExitException(done.returncode)
        return types.SimpleNamespace(stdout=done.stdout.decode(errors="replace"))


@pytest.fixture(autouse=True)
def sandboxes(tmp_path, monkeypatch) -> list[FakeSandbox]:
    """The machines that were made."""
    module = types.ModuleType("e2b_code_interpreter")
    for thing in (
        CommandExitException,
        FileNotFoundException,
        FileType,
        InvalidArgumentException,
        NotEnoughSpaceException,
    ):
        setattr(module, thing.__name__, thing)
    module.Sandbox = FakeSandbox
    monkeypatch.setitem(sys.modules, "e2b_code_interpreter", module)
    monkeypatch.setenv("E2B_API_KEY", "e2b_secret")
    monkeypatch.setattr(FakeSandbox, "made", [])
    monkeypatch.setattr(FakeSandbox, "refuse", None)
    monkeypatch.setattr(FakeSandbox, "root_of_next", tmp_path, raising=False)
    return FakeSandbox.made


@pytest.fixture
def start(sandboxes) -> Iterator[Callable[..., Sandbox]]:
    """Makes episodes, and checks at the end that closing them ends their machines."""
    episodes = []

    def make(**task) -> Sandbox:
        episodes.append(Sandbox(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        episode.close()
        episode.close()
    assert not any(machine.alive for machine in sandboxes)


def test_the_machine_is_made_by_the_first_tool_call_without_network(
    start, sandboxes, monkeypatch
):
    monkeypatch.setenv("SANDBOX_LIFETIME_SECONDS", "120")
    episode = start(files={"data/in.txt": "3\n"})
    assert sandboxes == []
    assert episode.read_file("data/in.txt") == "3\n"
    assert [machine.options for machine in sandboxes] == [(None, 120, False)]


def test_state_persists_between_calls(start):
    episode = start(files={"in.txt": "3\n4\n"})
    assert episode.run_command("cat in.txt > copy.txt") == "(no output)"
    assert episode.run_python("print(open('copy.txt').read())").split() == ["3", "4"]
    episode.write_file("new/deep/file.txt", "s")
    assert episode.run_command("cat new/deep/file.txt") == "s"


def test_output_has_both_streams_and_the_exit_status(start):
    episode = start()
    assert (
        episode.run_command("echo out; echo err >&2; exit 3")
        == "out\nerr\n[exit status 3]"
    )
    assert "[exit status 137, SIGKILL]" in episode.run_command("kill -9 $$")
    assert "ZeroDivisionError" in episode.run_python("1 / 0")


def test_limits(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_SECONDS", "1")
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", "1000")
    monkeypatch.setenv("SANDBOX_FILE_MB", "1")
    episode = start()
    assert episode.run_command("echo begun; sleep 60 & sleep 60") == (
        "error: killed after 1 seconds\nbegun"
    )
    episode.run_python("open('big', 'w').write('first' + 'x' * 100_000 + 'last')")
    for text in (episode.run_command("cat big"), episode.read_file("big")):
        assert len(text) < 1200
        assert text.startswith("first")
        assert text.endswith("last")
        assert "[truncated: " in text
    with pytest.raises(ValueError, match="limit"):
        episode.write_file("big", "x" * 2_000_000)
    assert "File too large" in episode.run_python(
        "open('b', 'wb').write(b'x' * 2_000_000)"
    )


def test_a_background_command_does_not_hold_up_its_call(start):
    assert start().run_command("sleep 60 & echo ok") == "ok"


def test_the_environment_has_no_secrets(start):
    assert "secret" not in start().run_command("env")


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


def test_a_missing_key_is_no_fault_of_the_policy(start, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY")
    episode = start()
    with pytest.raises(RuntimeError, match="E2B_API_KEY is not set"):
        episode.run_command("ls")
    assert "E2B_API_KEY" in episode.infrastructure_failure


def test_a_refused_machine_is_no_fault_of_the_policy(start, monkeypatch):
    monkeypatch.setattr(FakeSandbox, "refuse", SandboxException("out of quota"))
    episode = start()
    with pytest.raises(RuntimeError, match="out of quota"):
        episode.run_command("ls")
    assert "out of quota" in episode.infrastructure_failure


@pytest.mark.parametrize(
    "call",
    [
        lambda episode: episode.run_command("ls"),
        lambda episode: episode.read_file("a"),
        lambda episode: episode.write_file("a", "b"),
    ],
)
def test_a_lost_machine_is_no_fault_of_the_policy(start, sandboxes, call):
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")
    assert episode.solved()
    sandboxes[0].kill()
    assert not episode.solved()
    assert "not found" in episode.infrastructure_failure
    with pytest.raises(RuntimeError, match="not found"):
        call(episode)


def test_ending_the_shell_is_the_policys_own_doing(start):
    episode = start()
    assert episode.run_command(
        "kill -9 $(ps -o ppid= $$ | xargs ps -o ppid=)"
    ).startswith("error: the command ended the shell")
    assert episode.infrastructure_failure is None


@pytest.mark.parametrize(
    "mess", ["mkdir out", "mkfifo out", "ln -s /dev/zero out", "rm -rf ~+"]
)
def test_a_mess_in_place_of_a_file_is_not_that_file(start, mess):
    episode = start(expected_output="x", expected_files={"out": "right"})
    episode.run_command(mess)
    episode.submit("x")
    assert episode.solved() is False
    assert episode.infrastructure_failure is None


def test_tools_are_refused_after_close(start):
    episode = start()
    episode.run_command("ls")
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")


@pytest.mark.parametrize("task", TASKS)
def test_the_oracle_solves_the_row(start, task):
    episode = start(**task)
    outputs = [getattr(episode, name)(**args) for name, args in Sandbox.oracle(task)]
    # The answer is what the tools produced, not only what the row says.
    if len(outputs) > 1:
        assert outputs[-2].strip() == task["expected_output"].strip()
    assert episode.solved()


@pytest.mark.parametrize("row", ROWS)
def test_no_row_is_solved_without_work(start, row):
    task = row["ground_truth"][0]
    episode = start(**task)
    episode.submit("")
    assert not episode.solved()
    visible = {key: value for key, value in row.items() if key != "ground_truth"}
    assert task["expected_output"].strip() not in json.dumps(visible)
