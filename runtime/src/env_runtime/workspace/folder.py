"""The folder of a workspace, on its own machine: files, outputs, processes.

`local` calls these functions. `nemo_gym` sends the text of this file into its sandboxes,
so it needs nothing but the standard library of Python 3.7. There it is a program,
`python -c TEXT REQUEST`, which answers one request with one line of JSON. A request is
JSON in base64, or "@" and the name of a file with the base64 text.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

# The folder of the workspace in a sandbox that has nothing else.
ROOT = "/tmp/sandbox"

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# O_NONBLOCK, because opening a fifo must not wait for its other end.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
# Failures of the machine rather than of the path that a policy named.
MACHINE_ERRORS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, *FULL_DISK)

# How long to go on killing processes that start new processes, in seconds.
_KILL_SECONDS = 2


def steps(path: str) -> list[str]:
    """The names in a relative path. Raises ValueError if it could lead out or nowhere."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"path {path!r} has characters that no file name has"
        ) from None
    names = [name for name in path.split("/") if name not in ("", ".")]
    if path.startswith("/") or ".." in names or "\0" in path or not names:
        raise ValueError(
            f"path {path!r} must name a file relative to the working directory, without "
            "'..'"
        )
    return names


def base_python() -> str:
    """The interpreter below this interpreter's virtual environment, if there is one."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = os.path.join(sys.base_prefix, "bin", version)
    return os.path.realpath(base if os.path.exists(base) else sys.executable)


def unlock(home: str) -> None:
    """Undo what a command can do to the working directory itself.

    Raises ValueError if it is gone.
    """
    try:
        is_folder = stat.S_ISDIR(os.lstat(home).st_mode)
    except FileNotFoundError:
        is_folder = False
    if not is_folder:
        raise ValueError(
            "a command has removed the workspace folder; nothing more can run"
        )
    os.chmod(home, 0o700)


def open_file(
    home: str, path: str, flags: int, give: Callable[[int], None] | None = None
) -> int:
    """The descriptor of a regular file in the folder `home`.

    Every step starts at the folder opened before it and follows no link, so no link
    leads out, not even a link that is made meanwhile. With O_CREAT in `flags`, missing
    folders are made, and `give` is called with the descriptor of each folder and of the
    file. Raises ValueError, or OSError for a failure of the machine.
    """
    unlock(home)
    *parents, name = steps(path)
    create = flags & os.O_CREAT
    try:
        folder = os.open(home, FOLDER)
        try:
            for parent in parents:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(parent, dir_fd=folder)
                below = os.open(parent, FOLDER, dir_fd=folder)
                os.close(folder)
                folder = below
                if create and give:
                    give(folder)
            file = os.open(name, flags | _FILE, 0o644, dir_fd=folder)
        finally:
            os.close(folder)
    except OSError as error:
        if error.errno in MACHINE_ERRORS:
            raise
        raise ValueError(
            f"cannot open {path!r}: {error.strerror}; it must be a regular file below the "
            "working directory, and links are not followed"
        ) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ValueError(f"{path!r} is not a regular file; look at it with run_command")
    if create and give:
        give(file)
    return file


def replace(file: int, data: bytes) -> None:
    """Write the whole content of an open file, and close it."""
    with open(file, "wb") as stream:
        stream.truncate()
        stream.write(data)


def whole(file: int, path: str, limit: int) -> str:
    """The text of an open file. Raises ValueError if it has more than `limit` bytes."""
    with open(file, "rb") as stream:
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{path!r} has more than {limit} bytes")
    return data.decode(errors="replace")


def shown_paths(root: str, script: str) -> list[tuple[bytes, bytes]]:
    """Paths of a workspace at a random place, each with the text that replaces it.

    So the same commands print the same text in every episode. A shell finds the folders
    under the names that are shown. `script` is the path of the file that runs.
    """
    pairs = [(script, os.path.basename(script)), (f"{root}/home", "~"), (root, "~/..")]
    return [(path.encode(), shown.encode()) for path, shown in pairs]


def clipped(file: int, limit: int, paths: Sequence[tuple[bytes, bytes]] = ()) -> str:
    """The text of an open file, or only its two ends if it is over `limit` bytes.

    `paths` comes from `shown_paths`.
    """
    size = os.fstat(file).st_size
    if size <= limit:
        return _text(os.pread(file, size, 0), paths)
    # The last of the paths is the beginning of the others.
    root = paths[-1][0] if paths else b""
    first = _beside(file, limit // 2, root)
    last = _beside(file, size - limit // 2, root)
    head = _text(os.pread(file, first, 0), paths)
    tail = _text(os.pread(file, size - last, last), paths)
    return f"{head}\n[truncated: {last - first} of {size} bytes left out]\n{tail}"


def _beside(file: int, at: int, path: bytes) -> int:
    """The offset `at`, or the start of a path that a cut there would split."""
    if not path:
        return at
    start = max(0, at - len(path) + 1)
    found = os.pread(file, at + len(path) - 1 - start, start).find(path)
    return at if found < 0 else start + found


def _text(data: bytes, paths: Sequence[tuple[bytes, bytes]]) -> str:
    for path, shown in paths:
        data = data.replace(path, shown)
    return data.decode(errors="replace")


def kill_group(leader: int) -> None:
    """Kill a process group that may be gone."""
    # macOS says "not permitted" when only zombies are left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def kill_all(session: int, mark: str) -> None:
    """Kill the process group `session` and, on Linux, the processes that left it.

    They are found by their session, or by the variable `mark` in their environment.
    """
    kill_group(session)
    deadline = time.monotonic() + _KILL_SECONDS
    while time.monotonic() < deadline:
        left = [pid for pid in _processes() if _belongs(pid, session, mark.encode())]
        if not left:
            return
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []  # macOS


def _belongs(pid: int, session: int, mark: bytes) -> bool:
    if pid == os.getpid():
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            if file.read().rpartition(b") ")[2][:1] in b"ZX":
                return False  # it is dead
        if os.getsid(pid) == session:
            return True
        with open(f"/proc/{pid}/environ", "rb") as file:
            return mark in file.read().split(b"\0")
    except OSError:
        return False


def variables(home: str, temporary: str, own: dict[str, str] | None = None) -> dict:
    """The environment of a command. `own` has a sandbox's own variables.

    Without a sandbox, nothing is inherited: the variables are the server's.
    """
    if own is None:
        folder = os.path.dirname(base_python())
        own = {"PATH": folder + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    fixed = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {"LANG": "C.UTF-8", **own, "HOME": home, "TMPDIR": temporary, **fixed}


# ------------------------------------------------------ the program in a sandbox


def answer(request: str) -> dict[str, Any]:
    """The answer to a request. Its `text` is a string, or its `error`."""
    if request.startswith("@"):
        with open(request[1:]) as file:
            text = file.read()
        os.unlink(request[1:])
        request = text
    named = json.loads(base64.b64decode(request).decode())
    actions = {"make": _make, "run": _run, "write": _write, "read": _read}
    try:
        return actions[named.pop("action")](**named)
    except (OSError, ValueError) as error:
        return {"error": str(error)}


def _make(local: bool) -> dict[str, Any]:
    """Make the folders of a workspace. The answer's text is their place."""
    root = os.getcwd() if local else ROOT
    if not local:
        try:
            os.mkdir(root, 0o700)
        except FileExistsError:  # the provider shares /tmp
            root = tempfile.mkdtemp(prefix="sandbox-")
    for name in ("home", "tmp"):
        os.mkdir(root + "/" + name)
    return {"text": root}


def _run(
    root: str,
    local: bool,
    command: list[str],
    script: str,
    name: str,
    seconds: float,
    file_bytes: int,
    memory_bytes: int,
    output_bytes: int,
) -> dict[str, Any]:
    """Run `command` with a file that holds `script`. Its output is the answer's text."""
    home, path = root + "/home", root + "/" + name
    unlock(home)
    with open(path, "wb") as file:
        file.write(script.encode())
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": file_bytes}
    if memory_bytes:
        limits["RLIMIT_AS"] = memory_bytes

    def lower_limits() -> None:
        for kind, value in limits.items():
            with suppress(OSError, ValueError):  # macOS does not have all of them
                resource.setrlimit(getattr(resource, kind), (value, value))

    # Unlike a pipe, a file has a size limit, and no process can keep it open.
    with tempfile.TemporaryFile(dir=root) as output:
        process = subprocess.Popen(
            command + [path],
            cwd=home,
            env=variables(home, root + "/tmp", None if local else dict(os.environ)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lower_limits,  # noqa: PLW1509 (this process has one thread)
        )
        try:
            process.wait(seconds)
            killed = False
        except subprocess.TimeoutExpired:
            killed = True
        kill_all(process.pid, "HOME=" + home)
        process.wait()
        paths = shown_paths(root, path)
        if root == ROOT:  # only the script's path differs between episodes
            paths = paths[:1]
        text = clipped(output.fileno(), output_bytes, paths)
    return {"text": text, "status": process.returncode, "killed": killed}


def _write(root: str, path: str, content: str) -> dict[str, Any]:
    file = open_file(root + "/home", path, os.O_WRONLY | os.O_CREAT)
    replace(file, content.encode())
    return {"text": ""}


def _read(root: str, path: str, limit: int, cut: bool) -> dict[str, Any]:
    """The text of a file; if it is longer than `limit`, cut or refused."""
    file = open_file(root + "/home", path, os.O_RDONLY)
    if not cut:
        return {"text": whole(file, path, limit)}
    with open(file, "rb"):
        return {"text": clipped(file, limit)}


if __name__ == "__main__":
    print(json.dumps(answer(sys.argv[1])))
