"""The program that becomes a command, once its limits are set.

Its text runs inside the sandbox: `python -c TEXT DESCRIPTOR LIMITS COMMAND...`. It
writes a byte, which distinguishes a command that failed from a sandbox that did not
start. It is not a preexec_fn, which may deadlock in a process with threads.
"""

import ctypes
import os
import resource
import signal
import struct
import sys

# For each machine: its number in a filter, and the numbers of the system calls keyctl,
# all that reach keys, socket, and fallocate.
MACHINES = {
    "x86_64": (0xC000003E, 250, (248, 249, 250), 41, 285),
    "aarch64": (0xC00000B7, 219, (217, 218, 219), 198, 47),
}
IO_URING = (425, 426, 427)  # io_uring can make sockets, too
FAMILIES = (1, 2, 10, 16)  # allowed families of sockets: unix, IPv4, IPv6, netlink

# prctl, keyctl, and the answers of a filter
GET_NO_NEW_PRIVS, SET_SECCOMP, FILTER, JOIN_SESSION_KEYRING = 39, 22, 2, 1
ALLOW, NO_SUCH_CALL, NO_SUCH_FAMILY = 0x7FFF0000, 0x50000 | 38, 0x50000 | 97
NOT_SUPPORTED = 0x50000 | 95  # the C library writes zeros instead


def main() -> None:
    started, limits, *command = sys.argv[1:]
    os.chdir(os.environ["HOME"])
    for limit in limits.split():
        name, value = limit.split("=")
        if hasattr(resource, name):  # macOS does not have all of them
            lower(getattr(resource, name), int(value))
    for ignored_by_python in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored_by_python, signal.SIG_DFL)
    os.nice(19)  # the server's own work goes first
    if sys.platform == "linux":
        be_the_first_to_go()
        leave_the_servers_kernel()
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


def be_the_first_to_go() -> None:
    """Have the kernel end a command before the server if memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass


def leave_the_servers_kernel() -> None:
    """Take from the command what no namespace covers: kernel keys, and vsock.

    All episodes would share the server's session keyring, so the command joins a new
    one. Under bubblewrap, a filter refuses keys, io_uring, sockets of families without
    namespaces, and every call with another machine's numbers. It also refuses
    fallocate, which takes gigabytes of the disk before the quota is checked.
    """
    if os.uname().machine not in MACHINES:
        return
    machine, keyctl, keys, socket, fallocate = MACHINES[os.uname().machine]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(keyctl, JOIN_SESSION_KEYRING, None)
    if libc.prctl(GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        return  # without bubblewrap, sudo must still work
    program = filtered(machine, (*keys, *IO_URING), socket, fallocate)
    code = ctypes.create_string_buffer(program, len(program))
    pointer = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if libc.prctl(SET_SECCOMP, FILTER, pointer, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused the seccomp filter")


def filtered(machine: int, refused: tuple, socket: int, fallocate: int) -> bytes:
    """A filter of system calls as BPF code: load, compare and skip, return."""

    def load(offset: int) -> bytes:
        return struct.pack("HBBI", 0x20, 0, 0, offset)

    def skip(value: int, if_so: int, if_not: int, compare: int = 0x15) -> bytes:
        return struct.pack("HBBI", compare, if_so, if_not, value)

    def answer(value: int) -> bytes:
        return struct.pack("HBBI", 0x06, 0, 0, value)

    lines = [load(4), skip(machine, 1, 0), answer(NO_SUCH_CALL), load(0)]
    lines += [skip(1 << 30, 0, 1, compare=0x35), answer(NO_SUCH_CALL)]  # x32
    for number in refused:
        lines += [skip(number, 0, 1), answer(NO_SUCH_CALL)]
    lines += [skip(fallocate, 0, 1), answer(NOT_SUPPORTED)]
    lines += [skip(socket, 1, 0), answer(ALLOW), load(16)]
    for family in FAMILIES:
        lines += [skip(family, 0, 1), answer(ALLOW)]
    return b"".join([*lines, answer(NO_SUCH_FAMILY)])


if __name__ == "__main__":
    main()
