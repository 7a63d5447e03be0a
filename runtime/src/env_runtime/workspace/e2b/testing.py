"""A stand-in for E2B's SDK, so that the tests of a project need no account.

It has the calls that workspace.py makes, with the names and the errors of
e2b-code-interpreter. A temporary folder is the machine's file system. It runs the
machine's commands here, so it needs Linux.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar


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
    """One machine. The folder `root` is its "/"."""

    made: ClassVar[list[Any]] = []
    folder: ClassVar[Path]  # the folder of all machines
    refuse: ClassVar[Exception | None] = None  # why no machine can be made

    options: tuple[str | None, int | None, bool | None]
    alive: bool
    root: Path
    files: FakeSandbox
    commands: FakeSandbox

    @classmethod
    def create(cls, template=None, timeout=None, *, allow_internet_access=None):
        if cls.refuse is not None:
            raise cls.refuse
        machine = cls()
        machine.options = (template, timeout, allow_internet_access)
        machine.alive = True
        machine.root = cls.folder / str(len(cls.made))
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
        path = f"{os.path.dirname(sys.executable)}:/usr/local/bin:/usr/bin:/bin"
        done = subprocess.run(
            ["/bin/bash", "-c", cmd],
            capture_output=True,
            env={"PATH": path, "HOME": str(self._at("/home/user")), **envs},
            check=False,
        )
        if done.returncode:
            raise CommandExitException(done.returncode)
        printed = done.stdout.replace(str(self.root).encode(), b"")
        return types.SimpleNamespace(stdout=printed.decode(errors="replace"))


def prepare_tests(monkeypatch: Any, folder: Path) -> None:
    """Replace the SDK with the stand-in. `FakeSandbox.made` has its machines.

    `monkeypatch` is pytest's, and `folder` is empty.
    """
    module = types.ModuleType("e2b_code_interpreter")
    names = {
        "CommandExitException": CommandExitException,
        "FileNotFoundException": FileNotFoundException,
        "FileType": FileType,
        "InvalidArgumentException": InvalidArgumentException,
        "NotEnoughSpaceException": NotEnoughSpaceException,
        "Sandbox": FakeSandbox,
    }
    module.__dict__.update(names)
    monkeypatch.setitem(sys.modules, "e2b_code_interpreter", module)
    monkeypatch.setenv("E2B_API_KEY", "e2b_secret")
    monkeypatch.setattr(FakeSandbox, "made", [])
    monkeypatch.setattr(FakeSandbox, "refuse", None)
    monkeypatch.setattr(FakeSandbox, "folder", folder, raising=False)
