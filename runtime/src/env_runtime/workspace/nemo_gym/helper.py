"""The program that runs in a sandbox: it answers one request with one line of JSON.

`python -c` gets the text of folder.py and then the text of this file, so it needs
nothing but the standard library of Python 3.7. A request is JSON in base64, or "@" and
the name of a file with the base64 text.
"""

import base64
import json
import os
import resource
import subprocess
import sys
import tempfile

try:
    from ..folder import (
        clipped,
        kill_all,
        open_file,
        replace,
        shown_paths,
        unlock,
        whole,
    )
except ImportError:
    pass  # in a sandbox, the text of folder.py is above

ROOT = "/tmp/sandbox"


def main(request):
    if request.startswith("@"):
        with open(request[1:]) as file:
            text = file.read()
        os.unlink(request[1:])
        request = text
    request = json.loads(base64.b64decode(request).decode())
    actions = {"make": make, "run": run, "write": write, "read": read}
    try:
        return actions[request.pop("action")](**request)
    except (OSError, ValueError) as error:
        return {"error": str(error)}


def make(local):
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


def run(
    root, local, command, script, name, seconds, file_bytes, memory_bytes, output_bytes
):
    """Run `command` with a file that holds `script`. Its output is the answer's text."""
    home, path = root + "/home", root + "/" + name
    unlock(home)
    with open(path, "wb") as file:
        file.write(script.encode())
    limits = {"RLIMIT_CORE": 0, "RLIMIT_FSIZE": file_bytes}
    if memory_bytes:
        limits["RLIMIT_AS"] = memory_bytes

    def lower_limits():
        for kind, value in limits.items():
            try:
                resource.setrlimit(getattr(resource, kind), (value, value))
            except (OSError, ValueError):
                pass  # macOS does not have all of them

    # Unlike a pipe, a file has a size limit, and no process can keep it open.
    with tempfile.TemporaryFile(dir=root) as output:
        process = subprocess.Popen(
            command + [path],
            cwd=home,
            env=variables(root, local),
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


def variables(root, local):
    """The environment of a command."""
    environment = dict(os.environ)
    if local:  # these variables are the server's
        folder = os.path.dirname(sys.executable)
        environment = {"PATH": folder + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
    environment.setdefault("LANG", "C.UTF-8")
    environment.update(
        HOME=root + "/home",
        TMPDIR=root + "/tmp",
        PYTHONUNBUFFERED="1",
        PYTHONDONTWRITEBYTECODE="1",
    )
    return environment


def write(root, path, content):
    file = open_file(root + "/home", path, os.O_WRONLY | os.O_CREAT)
    replace(file, content.encode())
    return {"text": ""}


def read(root, path, limit, cut):
    """The text of a file; if it is longer than `limit`, cut or refused."""
    file = open_file(root + "/home", path, os.O_RDONLY)
    if not cut:
        return {"text": whole(file, path, limit)}
    with open(file, "rb"):
        return {"text": clipped(file, limit)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
