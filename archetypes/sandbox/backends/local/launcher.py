"""The program that becomes a command, once its limits are set.

Its text runs inside the sandbox: `python -c TEXT DESCRIPTOR LIMITS COMMAND...`. The byte
that it writes tells a command that failed from a sandbox that did not start. It is not a
preexec_fn, which may deadlock in a process with threads.
"""

import os
import resource
import signal
import sys


def main() -> None:
    started, limits, *command = sys.argv[1:]
    os.chdir(os.environ["HOME"])
    for limit in limits.split():
        name, value = limit.split("=")
        lower(getattr(resource, name), int(value))
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    os.write(int(started), b"1")
    os.close(int(started))
    os.execv(command[0], command)


def lower(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
        pass  # macOS does not have all of them


if __name__ == "__main__":
    main()
