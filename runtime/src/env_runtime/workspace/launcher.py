"""The program that becomes a command, once its limits are set.

Its text runs inside the sandbox: `python -c TEXT DESCRIPTOR LIMITS COMMAND...`. It
writes a byte, which distinguishes a command that failed from a sandbox that did not
start. It is not a preexec_fn, which may deadlock in a process with threads.
"""

import ctypes
import errno
import fcntl
import os
import resource
import signal
import struct
import sys


# Classes, because the import of typing or collections would delay each command.
class X86_64:
    """An architecture: its number in a filter, and its numbers of system calls."""

    number = 0xC000003E
    keyctl = 250
    keys = (248, 249, 250)  # all that reach keys
    counted = (321, 300, 206, 298)  # bpf, fanotify_init, io_setup, perf_event_open
    socket = 41
    fallocate = 285
    clone, unshare = 56, 272
    epoll_ctl, epoll_create = 233, (213, 291)
    seccomp = 317


class Aarch64:
    """The same for this architecture."""

    number = 0xC00000B7
    keyctl = 219
    keys = (217, 218, 219)
    counted = (280, 262, 0, 241)
    socket = 198
    fallocate = 47
    clone, unshare = 220, 97
    epoll_ctl, epoll_create = 21, (20,)
    seccomp = 277


Arch = type[X86_64] | type[Aarch64]
ARCHES: dict[str, Arch] = {"x86_64": X86_64, "aarch64": Aarch64}
# On both architectures. io_uring can make sockets, too. The flags of clone3 are in memory,
# where no filter sees them. Programs use clone instead.
REFUSED = (425, 426, 427, 435)
FAMILIES = (1, 2, 10, 16)  # allowed families of sockets: unix, IPv4, IPv6, netlink
NEW_USER, ADD = 0x10000000, 1  # flag of clone and unshare, operation of epoll_ctl

# prctl, keyctl, seccomp
GET_NO_NEW_PRIVS, JOIN_SESSION_KEYRING = 39, 1
SET_DUMPABLE, SET_NAME = 4, 15
SET_FILTER, NEW_LISTENER = 1, 8

# The answers of a filter
ALLOW, ASK, ERROR = 0x7FFF0000, 0x7FC00000, 0x50000
NO_SUCH_CALL, NO_SUCH_FAMILY = ERROR | 38, ERROR | 97
NOT_SUPPORTED = ERROR | 95  # the C library writes zeros instead
NO_SPACE, BUSY = ERROR | 28, ERROR | 16
# The requests of a process that a filter asks, and its answer "go on"
RECEIVE, SEND, CONTINUE = 0xC0502100, 0xC0182101, 1

# The comparisons of a filter
EQUAL, AT_LEAST, HAS_BIT = 0x15, 0x35, 0x45


def main() -> None:
    started, limits, *command = sys.argv[1:]
    os.chdir(os.environ["HOME"])
    values = dict(limit.split("=") for limit in limits.split())
    watches = values.pop("EPOLL_WATCHES", None)
    for name, value in values.items():
        if hasattr(resource, name):  # macOS does not have all of them
            lower(getattr(resource, name), int(value))
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    os.nice(19)  # the server's own work goes first
    if sys.platform == "linux":
        raise_oom_score()
        confine(watches)
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
        pass  # macOS does not lower all of its limits


def raise_oom_score() -> None:
    """Have the kernel end a command before the server if memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def confine(watches: str | None) -> None:
    """Take from the command what no namespace covers.

    All episodes would share the server's session keyring, so the command joins a new
    one. Under bubblewrap, filters refuse what the kernel counts for a user, who is the
    server's: see docs/internals/kernel-limits.md. They also refuse sockets of families
    without namespaces, every call with the numbers of another architecture, and
    fallocate, which takes gigabytes of the disk before the quota is checked.
    """
    name = os.uname().machine
    if name not in ARCHES:
        return
    arch, libc = ARCHES[name], ctypes.CDLL(None, use_errno=True)
    libc.syscall(arch.keyctl, JOIN_SESSION_KEYRING, None)
    if libc.prctl(GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        return  # without bubblewrap, sudo must still work
    install(libc, arch, filtered(arch))
    if watches is None:
        return
    try:
        # If the command could kill the process that counts and then listen itself, it
        # would be the one that is asked.
        asks = [load(0), rule(arch.epoll_ctl, ASK, 1, ADD)]
        asks += [rule(arch.seccomp, BUSY, 1, NEW_LISTENER, HAS_BIT), answer(ALLOW)]
        listener = install(libc, arch, b"".join(asks), NEW_LISTENER)
        start_to_count(libc, listener, int(watches))
        libc.epoll_ctl(-1, ADD, -1, None)
        counted = ctypes.get_errno() != errno.ENOSYS
    except OSError:
        counted = False
    if not counted:  # Linux before 5.5, or something else answers a filter here
        refused = [rule(number, NO_SUCH_CALL) for number in arch.epoll_create]
        install(libc, arch, b"".join([load(0), *refused, answer(ALLOW)]))


def install(libc: ctypes.CDLL, arch: Arch, code: bytes, flags: int = 0) -> int:
    """Install a filter. Returns the descriptor of those whom it asks, if it does."""
    lines = ctypes.create_string_buffer(code, len(code))
    pointer = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(lines))
    result = libc.syscall(arch.seccomp, SET_FILTER, flags, pointer)
    if result == -1:
        raise OSError(ctypes.get_errno(), "the kernel refused the seccomp filter")
    return result


def start_to_count(libc: ctypes.CDLL, listener: int, watches: int) -> None:
    """Start the process that counts watches. It is not a child of the command."""
    libc.prctl(SET_DUMPABLE, 0, 0, 0, 0)  # the command must not reach into it
    if child := os.fork():
        os.close(listener)
        os.waitpid(child, 0)
    elif os.fork():
        os._exit(0)
    else:
        try:
            os.setsid()
            libc.prctl(SET_NAME, b"epoll watches", 0, 0, 0)
            os.closerange(0, listener)
            os.closerange(listener + 1, 1024)
            count(listener, watches)
        finally:
            os._exit(1)


def count(listener: int, left: int) -> None:
    """Let the command register `left` watches with epoll, and refuse more.

    If this process is killed, the kernel refuses all.
    """
    while True:
        request = bytearray(80)
        try:
            fcntl.ioctl(listener, RECEIVE, request)
            left -= 1
            error, flags = (0, CONTINUE) if left >= 0 else (-errno.ENOSPC, 0)
            fcntl.ioctl(
                listener, SEND, struct.pack("8sqiI", request[:8], 0, error, flags)
            )
        except FileNotFoundError:
            pass  # a signal has ended the call


def load(offset: int) -> bytes:
    return struct.pack("HBBI", 0x20, 0, 0, offset)


def skip(value: int, if_so: int, if_not: int, compare: int = EQUAL) -> bytes:
    return struct.pack("HBBI", compare, if_so, if_not, value)


def answer(value: int) -> bytes:
    return struct.pack("HBBI", 0x06, 0, 0, value)


def rule(
    call: int,
    result: int,
    argument: int | None = None,
    value: int = 0,
    compare: int = EQUAL,
) -> bytes:
    """The answer to a system call, or only to those that have `value` as an argument."""
    if argument is None:
        return skip(call, 0, 1) + answer(result)
    at = load(16 + 8 * argument)
    found = skip(value, 0, 1, compare) + answer(result)
    return skip(call, 0, 4) + at + found + load(0)


def filtered(arch: Arch) -> bytes:
    """A filter of system calls as BPF code: load, compare and skip, return."""
    lines = [load(4), skip(arch.number, 1, 0), answer(NO_SUCH_CALL), load(0)]
    lines += [skip(1 << 30, 0, 1, AT_LEAST), answer(NO_SUCH_CALL)]  # x32
    for number in (*arch.keys, *arch.counted, *REFUSED):
        lines += [rule(number, NO_SUCH_CALL)]
    lines += [rule(arch.fallocate, NOT_SUPPORTED)]
    for call in (arch.clone, arch.unshare):
        lines += [rule(call, NO_SPACE, 0, NEW_USER, HAS_BIT)]
    lines += [skip(arch.socket, 1, 0), answer(ALLOW), load(16)]
    lines += [rule(family, ALLOW) for family in FAMILIES]
    return b"".join([*lines, answer(NO_SUCH_FAMILY)])


if __name__ == "__main__":
    main()
