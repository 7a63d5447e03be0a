"""The sandbox on E2B, its grader and its rows, with a stand-in for E2B's SDK.

The stand-in has the calls that workspace_backend.py makes, under the names and with the
errors of e2b-code-interpreter, and a temporary folder for the machine's file system.
"""

import json
import os
import re
import subprocess
import sys
import types
from enum import Enum
from pathlib import Path
from typing import ClassVar

import pytest

from conftest import verify_body
from plumbing.environment import EnvironmentClass

if sys.platform != "linux":
    pytest.skip(
        "the stand-in runs the machine's Linux commands", allow_module_level=True
    )


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

    made: ClassVar[list] = []
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
def sandboxes(tmp_path, monkeypatch):
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
def start(sandboxes):
    """Makes episodes, and checks at the end that closing them ends their machines."""
    episodes = []

    def make(**task):
        episodes.append(EnvironmentClass(task))
        return episodes[-1]

    yield make
    for episode in episodes:
        episode.close()
        episode.close()
    assert not any(machine.alive for machine in sandboxes)


# ---------------------------------------------------------------------- the tools


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


# ---------------------------------------------------------------------- failures


def test_a_missing_key_is_not_the_policys_fault(start, monkeypatch):
    monkeypatch.delenv("E2B_API_KEY")
    episode = start()
    with pytest.raises(RuntimeError, match="E2B_API_KEY is not set"):
        episode.run_command("ls")
    assert "E2B_API_KEY" in episode.infrastructure_failure


@pytest.mark.parametrize(
    "call",
    [
        lambda episode: episode.run_command("ls"),
        lambda episode: episode.read_file("a"),
        lambda episode: episode.write_file("a", "b"),
    ],
)
def test_a_lost_machine_is_not_the_policys_fault(start, sandboxes, call):
    episode = start(expected_output="x", expected_files={"a": "b"}, files={"a": "b"})
    episode.submit("x")
    episode.run_command("true")
    assert episode.reward() == 1.0
    sandboxes[0].kill()
    assert episode.reward() == 0.0
    assert "not found" in episode.infrastructure_failure
    with pytest.raises(RuntimeError, match="not found"):
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
def player(client, tools, row):
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


def test_a_lost_machine_masks_the_sample(player, sandboxes, row):
    """NeMo Gym 0.7 leaves a masked sample out of its scores."""
    write_expected_files(player, row)
    sandboxes[0].kill()
    answer = player.post("/verify", json=verify_body(row)).json()
    assert answer["reward"] == 0.0
    assert answer["mask_sample"] is True
    assert "not found" in answer["failure_reason"]


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


def test_no_row_gives_its_answer_away(rows):
    for row in rows:
        task = row["ground_truth"][0]
        if task.get("expected_files"):  # then no answer alone is enough
            continue
        answer = task["expected_output"].strip()
        assert answer not in json.dumps(row["responses_create_params"])
        assert all(answer not in text for text in (task.get("files") or {}).values())
