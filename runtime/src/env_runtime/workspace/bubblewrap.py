"""Bubblewrap: whether it works here, and is used, and the arguments for a command."""

from __future__ import annotations

import functools
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from ..facts import FRAMEWORKS, SECRETS
from ..project import PACKAGE, known
from . import WorkspaceError, WorkspaceSettings, refusal_text
from .disk import NOBODY, UNDER_BUBBLEWRAP, make_folders
from .folder import base_python

Isolation = Annotated[
    Literal["auto", "bubblewrap", "none"],
    Field(description="auto, bubblewrap or none"),
]

# Episodes that start at the same time, each in a thread, check and warn only once.
_once = threading.Lock()

# Tries whether a command in a sandbox can start, use its folders, and have a filter of
# system calls. A kernel that has such filters answers EFAULT if the filter is missing.
_TRIAL = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(22, 2, None) and ctypes.get_errno() == 14, "no seccomp filters"
for folder in ("{UNDER_BUBBLEWRAP.home}", "{UNDER_BUBBLEWRAP.temporary}"):
    open(folder + "/trial", "w").close()
"""


class IsolationSettings(WorkspaceSettings):
    """Whether bubblewrap is used. `auto` uses it if it works."""

    sandbox_isolation: Isolation = "auto"


def isolation() -> str:
    """Name the barrier before this machine: "bubblewrap", or "none: " and the reason.

    The first call tests bubblewrap, which takes a moment. Raises WorkspaceError if
    SANDBOX_ISOLATION has a wrong value.
    """
    if IsolationSettings.read().sandbox_isolation == "none":
        return "none: SANDBOX_ISOLATION=none"
    try:
        with _once:
            found = problem()
    except OSError as error:
        raise WorkspaceError(f"cannot try bubblewrap out: {error}") from error
    return "bubblewrap" if found is None else f"none: {found}"


def refusal() -> str | None:
    """Why not to serve untrusted policies on this machine, or None.

    None if bubblewrap works, or if SANDBOX_ISOLATION=none says that it is not needed.
    """
    try:
        current = isolation()
        choice = IsolationSettings.read().sandbox_isolation
    except WorkspaceError as error:
        return str(error)
    if current == "bubblewrap" or choice == "none":
        return None
    return refusal_text(
        current.removeprefix("none: "),
        "Install bubblewrap (apt-get install bubblewrap; Linux only)",
    )


def isolated() -> bool:
    """Whether commands run under bubblewrap.

    Raises WorkspaceError if they must, but cannot.
    """
    current = isolation()
    if current == "bubblewrap":
        return True
    if IsolationSettings.read().sandbox_isolation == "bubblewrap":
        raise WorkspaceError(
            f"SANDBOX_ISOLATION=bubblewrap, but the isolation is {current}"
        )
    with _once:
        _warn(current)
    return False


@functools.cache
def launcher() -> str:
    """The program that sets the limits of a command, and becomes it."""
    return resources.files(__package__).joinpath("launcher.py").read_text("utf-8")


def launching(
    root: Path,
    isolated: bool,
    started: int,
    limits: str,
    readable: Sequence[Path] = (),
    *,
    network: bool = False,
) -> list[str]:
    """The start of a command line, after which the command follows.

    A byte arrives at the descriptor `started` once the sandbox is set up. `readable` and
    `network` are those of arguments().
    """
    confined = arguments(root, readable, network=network) if isolated else []
    python = [base_python(), "-I", "-S", "-c", launcher()]
    return [*confined, *python, str(started), limits]


@functools.cache
def _warn(isolation: str) -> None:
    logging.getLogger(__name__).warning(
        "Commands run WITHOUT ISOLATION, as the user of this server (isolation: %s). "
        "SANDBOX_ISOLATION=bubblewrap refuses that.",
        isolation,
    )


@functools.cache
def problem() -> str | None:
    """Why bubblewrap cannot be used here, or None. The first call tries it out."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if shutil.which("bwrap") is None:
        return "bwrap is not installed"
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        return "this is root, and setpriv (util-linux) is not installed"
    with tempfile.TemporaryDirectory(prefix="sandbox-") as folder:
        root = Path(folder).resolve()
        make_folders(root, isolated=True)
        command = [*arguments(root), base_python(), "-I", "-S", "-c", _TRIAL]
        try:
            subprocess.run(
                command, capture_output=True, check=True, timeout=20, text=True
            )
        except subprocess.CalledProcessError as error:
            return f"bwrap does not work here ({error.stderr.strip()})"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"bwrap does not work here ({error})"
    return None


def arguments(
    root: Path, readable: Sequence[Path] = (), *, network: bool = False
) -> list[str]:
    """The arguments before a command that confine it to the workspace at `root`.

    It can also read the folders `readable`. With `network` it can reach any machine.
    """
    program = shutil.which("bwrap") or "bwrap"  # the commands have another PATH
    common = ["--die-with-parent", "--cap-drop", "ALL"]
    # These hide world-writable files, and sysctls if a command were root after all.
    kernel = ["--ro-bind", "/proc/sys", "/proc/sys"]
    kernel += ["--ro-bind-try", "/proc/pressure", "/proc/pressure"]
    mounts = [*_mounts(root), *_read_only(readable, network)]
    mounts += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if os.geteuid() != 0:
        own = ["--unshare-all", *user_namespace(), *common]
        own += ["--share-net"] if network else []
        return [*_leaving_processes(), program, *own, *mounts, *kernel, "--"]
    # A user namespace made by root maps to root, who owns the sysctls and whose processes
    # are not counted. So root only mounts, which also works for folders that only root
    # can reach. Then the user nobody makes the user namespace, in a second bubblewrap.
    outer = ["--unshare-ipc", "--unshare-pid", "--unshare-uts"]
    outer += ["--unshare-cgroup-try", *common]
    outer += [] if network else ["--unshare-net"]
    outer += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    inner = ["bwrap", *user_namespace(), *common, "--dev-bind", "/", "/", *kernel]
    drop += ["--", *_leaving_processes()]
    return [program, *outer, *mounts, "--", *drop, *inner, "--"]


def _read_only(folders: Sequence[Path], network: bool) -> list[str]:
    """The arguments that show further files and folders, and with `network` what it needs."""
    options = []
    # A folder that another one hides, such as a venv beside the rows, comes after it.
    for folder in sorted(folders, key=lambda each: len(each.parts)):
        options += _below_folders(folder)
        for path in (*secrets_in(folder), *_rows_in(folder)):
            hide = ["--tmpfs"] if path.is_dir() else ["--ro-bind", str(EMPTY)]
            options += [*hide, str(path)]
            options += ["--remount-ro", str(path)] if path.is_dir() else []
    for name in ("hosts", "nsswitch.conf", "resolv.conf", "ssl") if network else ():
        options += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return options


# No sandbox shows a file or a folder with keys, nor all settings of a user whose home has
# the program.
_HIDDEN = (re.escape(name).replace(r"\*", "[^/]*") for name in (*SECRETS, ".config"))
HIDDEN = re.compile(rf"(?:.*/)?(?:{'|'.join(_HIDDEN)})", re.DOTALL)
EMPTY = PACKAGE / "py.typed"  # shown in place of a file: a loader of .env reads nothing
DEEPEST = 3  # so many folders below one that is shown
INSTALLED = {"node_modules", ".venv", "site-packages", ".git", "__pycache__"}


@functools.cache
def secrets_in(folder: Path) -> list[Path]:
    """The files and folders in `folder` that hold the user's keys, by their names."""
    found: list[Path] = []
    for place, folders, files in os.walk(folder):
        here = Path(place)
        paths = (here / name for name in (*folders, *files))
        hidden = [path for path in paths if _holds_keys(path)]
        found += hidden
        deep = len(here.relative_to(folder).parts) >= DEEPEST
        left_out = INSTALLED | {path.name for path in hidden}
        folders[:] = [] if deep else [n for n in folders if n not in left_out]
    return found


def _holds_keys(path: Path) -> bool:
    """Whether a file or folder has the name of one with keys, and is not known better.

    A venv may be called .env, and programs need the certificates of authorities.
    """
    if not HIDDEN.fullmatch(str(path)) or (path / "pyvenv.cfg").is_file():
        return False
    with suppress(OSError):
        return path.suffix != ".pem" or b"PRIVATE KEY" in path.read_bytes()
    return True


def _rows_in(folder: Path) -> list[Path]:
    """The folders of loaded projects in `folder` that hold rows, with their answers."""
    names = ("nemo_gym", *FRAMEWORKS)
    found = [project.root / name for project in known() for name in names]
    return sorted(
        each
        for each in found
        if each.is_dir() and each != folder and each.is_relative_to(folder)
    )


def _below_folders(path: Path) -> list[str]:
    """The arguments that show a file or a folder, which is in other folders."""
    options = []
    # Bubblewrap would make the folders above it accessible to their owner only.
    for above in [*path.parents][-2::-1]:
        options += ["--dir", str(above)]
    return [*options, "--ro-bind", str(path), str(path)]


@functools.cache
def _leaving_processes() -> tuple[str, ...]:
    """The start of a command that leaves a quarter of its user's processes to others.

    A user namespace keeps the limit that its maker has, and counts for its maker. So no
    number of sandboxes keeps the server from starting a thread.
    """
    if shutil.which("prlimit") is None:
        return ()
    values = [resource.getrlimit(resource.RLIMIT_NPROC)[0]]
    for name in ("pid_max", "threads-max"):
        with suppress(OSError):
            values.append(int(Path(f"/proc/sys/kernel/{name}").read_text()))
    most = min((value for value in values if value > 0), default=None)
    return () if most is None else ("prlimit", f"--nproc={most * 3 // 4}")


@functools.cache
def user_namespace() -> tuple[str, ...]:
    """Options for a user namespace. From bubblewrap 0.8 on, it cannot be nested."""
    manual = subprocess.run(
        ["bwrap", "--help"], capture_output=True, check=False
    ).stdout
    own = ("--unshare-user",)
    return (*own, "--disable-userns") if b"--disable-userns" in manual else own


def _mounts(root: Path) -> list[str]:
    """The arguments for bubblewrap that say what a command sees."""
    home, temporary, scripts = UNDER_BUBBLEWRAP
    arguments = ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--bind", f"{root}/tmp", temporary]
    arguments += ["--bind", f"{root}/tmp", "/dev/shm"]
    for path in ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(path):
            arguments += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            arguments += ["--ro-bind", path, path]
    arguments += ["--dir", "/etc"]
    for name in ("alternatives", "group", "ld.so.cache", "localtime", "passwd"):
        arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    prefix = os.path.realpath(sys.base_prefix)
    if not Path(prefix).is_relative_to("/usr"):
        arguments += _below_folders(Path(prefix))
    # The data of a project holds the answers, and it may well be below /usr
    # (/usr/src/app).
    for answers in sorted(project.root for project in known()):
        if any(answers.is_relative_to(folder) for folder in ("/usr", prefix)):
            arguments += ["--tmpfs", str(answers), "--remount-ro", str(answers)]
    arguments += ["--ro-bind", f"{root}/scripts", scripts]
    return [*arguments, "--bind", f"{root}/home", home]
