"""Tests of the local workspace: its isolation, its limits, and its remains."""

import asyncio
import ctypes
import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from env_runtime.workspace import bubblewrap, folder
from env_runtime.workspace import local as workspace

from my_env import MyEnv as EnvironmentClass

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


@pytest.fixture(params=["auto", "none"], autouse=True)
def isolation(request, monkeypatch):
    """Every test runs without bubblewrap and, if it works here, with it."""
    monkeypatch.setenv("SANDBOX_ISOLATION", request.param)
    if request.param == "bubblewrap" and workspace.isolation() != "bubblewrap":
        pytest.skip(workspace.isolation())
    return request.param


only_isolated = pytest.mark.parametrize("isolation", ["bubblewrap"], indirect=True)
only_without = pytest.mark.parametrize("isolation", ["none"], indirect=True)
only_once = pytest.mark.parametrize("isolation", ["auto"], indirect=True)


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """The workspace folders that exist at the moment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return lambda: list(tmp_path.glob("sandbox-*/home"))


def wait_until_gone(find):
    """Wait for a folder to go: a large folder is removed in the background."""
    deadline = time.monotonic() + 30
    while find():
        assert time.monotonic() < deadline, find()
        time.sleep(0.01)


# ---------------------------------------------------------------------- commands


def test_python_is_this_version_and_isolated(start):
    code = "import sys; print(sys.version_info[:2], sys.flags.isolated, '' in sys.path)"
    assert start().run_python(code) == f"{sys.version_info[:2]} 1 False"


def test_temporary_files_persist_and_are_private(start):
    first, second = start(), start()
    first.run_command("echo one > $TMPDIR/mine")
    assert first.run_command("cat $TMPDIR/mine") == "one"
    assert second.run_command("ls $TMPDIR") == "(no output)"


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


def test_commands_can_change_what_the_tools_wrote(start):
    episode = start(files={"given/file": "1\n"})
    episode.write_file("new/deep/file", "1\n")
    out = episode.run_command(
        "set -e; for d in given new/deep; do echo 2 >> $d/file; touch $d/other; done; "
        "cat given/file; rm -r given new; ls -A; echo end >> /dev/stdout"
    )
    assert out.split() == ["1", "2", "end"]


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


@only_without
@pytest.mark.parametrize("limit", range(600, 720, 7))
def test_a_cut_leaves_nothing_of_the_random_path(start, monkeypatch, limit):
    monkeypatch.setenv("SANDBOX_OUTPUT_BYTES", str(limit))
    script = 'for n in $(seq 99); do echo "$PWD/file"; done; cd ..; x'
    first, again = (start().run_command(script) for _ in range(2))
    assert first == again
    assert "sandbox-" not in first
    head, _, tail = first.partition("\n[truncated: ")
    assert head.startswith("~/file\n~/file\n")
    assert "\n~/file\ncommand.sh: line 1: x: " in tail


@only_without
def test_a_shell_finds_what_the_output_names(start):
    episode = start(files={"given/file": "1"})
    assert episode.run_command("cd given; pwd") == "~/given"
    assert episode.run_command("cd /; cat ~/given/file") == "1"
    assert episode.run_command("cd ~/..; pwd; ls") == "~/..\nhome\nscripts\ntmp"


# ---------------------------------------------------------------------- paths


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


# ---------------------------------------------------------------------- limits


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_no_processes_are_left(start):
    start().run_command("sleep 98765 & sleep 98765 & echo")
    show = ["ps", "-A", "-o", "args"]
    wait_until_gone(
        lambda: "sleep 98765" in subprocess.check_output(show, text=True).splitlines()
    )


@linux_only
def test_memory_is_limited(start, monkeypatch):
    monkeypatch.setenv("SANDBOX_MEMORY_MB", "200")
    assert "MemoryError" in start().run_python("x = bytearray(400 * 1024 * 1024)")


# ---------------------------------------------------------------------- the quota


@pytest.fixture
def quota(monkeypatch):
    """A quota of 4 MiB and 2000 files, which is measured often."""
    monkeypatch.setenv("SANDBOX_DISK_MB", "4")
    monkeypatch.setenv("SANDBOX_FILES", "2000")
    monkeypatch.setattr(workspace, "LOOK_SECONDS", 0.01)


FULL = "the workspace has more than 4 MiB or 2000 files"
FILL = {
    "bytes": "open(f'{n}', 'w').write('x' * 50_000)",
    "bytes in the temporary folder": (
        "open(os.environ['TMPDIR'] + f'/{n}', 'w').write('x' * 50_000)"
    ),
    "files": "open(f'{n}', 'w')",
    "folders": "os.mkdir(f'{n}')",
    "a deep tree": "os.mkdir('d' * 99); os.chdir('d' * 99)",
    "a folder that cannot be listed": (
        "os.makedirs('f', 0o300, exist_ok=True); open(f'f/{n}', 'w')"
    ),
    "a folder that cannot be entered": (
        "os.makedirs('f', exist_ok=True); os.chmod('f', 0o700); "
        "open(f'f/{n % 20}', 'w').write('x' * 500_000); os.chmod('f', 0o400)"
    ),
    "links": "os.symlink('/', f'{n}')",
}


def fill(what):
    """A program that never ends."""
    return (
        "import itertools, os, time\nprint('begun')\nfor n in itertools.count():\n"
        f"    time.sleep(0.0001)\n    {FILL[what]}"
    )


@pytest.mark.parametrize("filling", FILL)
def test_a_command_that_fills_the_workspace_is_killed(start, quota, filling):
    episode = start(expected_output="1")
    began = time.monotonic()
    output = episode.run_python(fill(filling))
    assert output.startswith(f"error: killed: {FULL}")
    assert output.endswith("\nbegun")
    assert time.monotonic() - began < 10
    with pytest.raises(ValueError, match="would have more than"):
        episode.write_file("one", "more")
    assert episode.infrastructure_failure is None
    episode.run_command("chmod -R u+rwx . ; rm -rf * $TMPDIR/*")
    episode.write_file("one", "more")
    assert episode.run_command("ls; ls $TMPDIR") == "one"


def test_a_workspace_is_measured_when_a_command_ends(start, quota, monkeypatch):
    monkeypatch.setattr(workspace, "LOOK_SECONDS", 60)
    episode = start()
    output = episode.run_python(
        "for n in range(3000): open(f'{n}', 'w')\nprint('made')"
    )
    assert output.startswith(f"error: {FULL}")
    assert output.endswith("\nmade")
    assert episode.run_command("rm 1*; echo removed") == "removed"


@linux_only
@pytest.mark.parametrize(
    "opened",
    ["open('f', 'wb', 0); os.unlink('f')", "os.fdopen(os.memfd_create('f'), 'wb', 0)"],
)
def test_deleted_files_that_are_open_count(start, quota, opened):
    """Otherwise they could fill the disk, and other episodes would be masked."""
    code = f"import os, time\nfile = {opened.partition(';')[0]}\n"
    code += f"{opened.partition('; ')[2]}\nprint('begun')\n"
    code += "while True: file.write(bytes(100_000)); time.sleep(0.001)"
    output = start().run_python(code)
    assert output.startswith(f"error: killed: {FULL}")
    assert output.endswith("\nbegun")


def test_nothing_runs_far_above_the_quota(start, quota, monkeypatch):
    """Otherwise each call could add what fits between two measurements."""
    monkeypatch.setattr(workspace, "LOOK_SECONDS", 60)
    episode = start()
    episode.run_python("for n in range(20_000): open(f'{n}', 'w')")
    with pytest.raises(ValueError, match="nothing more can run"):
        episode.run_command("rm -rf *")
    assert episode.infrastructure_failure is None


def test_written_files_count(start, quota):
    episode = start()
    for n in range(3):
        episode.write_file(f"{n}", "x" * 1_200_000)
    with pytest.raises(ValueError, match="would have more than 4 MiB or 2000 files"):
        episode.write_file("3", "x" * 1_200_000)
    assert episode.run_command("ls").split() == ["0", "1", "2"]


def test_a_task_above_the_quota_is_not_the_policys_fault(start, quota):
    episode = start(files={"a": "x" * 5_000_000})
    with pytest.raises(RuntimeError, match="unusable file"):
        episode.run_command("ls")


def test_what_is_outside_is_not_counted(start, quota, tmp_path):
    (tmp_path / "outside").mkdir()
    for n in range(3000):
        (tmp_path / f"outside/{n}").touch()
    assert (
        start().run_command(f"ln -s {tmp_path}/outside l; ln -s / m") == "(no output)"
    )


# ---------------------------------------------------------------------- isolation

# Prints what a command can do to the machine, a line for each.
ATTACKS = """
import os, pathlib, subprocess
ratelimit = pathlib.Path("/proc/sys/kernel/printk_ratelimit")
try:
    ratelimit.write_text(ratelimit.read_text())  # the same value
    print("wrote a sysctl")
except OSError:
    pass
# What belongs to no process.
for top in os.listdir("/proc"):
    if top.isdigit() or top in ("self", "thread-self"):
        continue
    for folder, folders, files in os.walk(f"/proc/{top}"):
        for name in files:
            if os.access(f"{folder}/{name}", os.W_OK):
                print("may write", f"{folder}/{name}")
    if not os.path.isdir(f"/proc/{top}") and os.access(f"/proc/{top}", os.W_OK):
        print("may write", f"/proc/{top}")
for folder in ("/", "/usr", "/etc", "/run", "/dev", "/proc", "/sys", "/var"):
    if os.access(folder, os.W_OK):
        print("may write", folder)
if subprocess.run(["mount", "-t", "tmpfs", "x", "/tmp"], capture_output=True).returncode == 0:
    print("mounted")
for flag in (os.CLONE_NEWNS, os.CLONE_NEWNET, os.CLONE_NEWPID):
    try:
        os.unshare(flag)
        print("made namespace", flag)
    except OSError:
        pass
status = pathlib.Path("/proc/self/status").read_text().splitlines()
for line in status:
    if line.startswith(("CapPrm", "CapEff", "CapBnd", "CapAmb")) and line.split()[1].strip("0"):
        print(line)
if "NoNewPrivs:\t1" not in status:
    print("may gain privileges")
"""


@only_isolated
def test_no_door_to_the_machine_is_open(start):
    assert start().run_python(ATTACKS) == "(no output)"


# Tries the accesses that no namespace blocks, and prints each that works.
BESIDE_NAMESPACES = """
import ctypes, os, pathlib, socket
libc = ctypes.CDLL(None, use_errno=True)
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
for keyring in (-1, -2, -3, -4, -5):
    if libc.syscall(add_key, b"user", b"answer", b"42", 2, keyring) != -1:
        print("made a key in keyring", keyring)
if "answer" in pathlib.Path("/proc/keys").read_text():
    print("sees a key")
for family in (socket.AF_VSOCK, socket.AF_ALG):
    try:
        socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_SEQPACKET)
        print("made a socket", family)
    except OSError:
        pass
# What the kernel counts for a user: bpf, fanotify_init, io_setup, perf_event_open,
# and io_uring_setup. A call that a filter refuses says "function not implemented".
calls = {"x86_64": (321, 300, 206, 298, 425), "aarch64": (280, 262, 0, 241, 425)}
for call in calls[os.uname().machine]:
    if libc.syscall(call, 0, 0, 0, 0, 0) != -1 or ctypes.get_errno() != 38:
        print("system call", call)
socket.socketpair(), socket.socket(), socket.socket(socket.AF_INET6)
"""


@only_isolated
def test_doors_beside_the_namespaces_are_closed(start):
    assert start().run_python(BESIDE_NAMESPACES) == "(no output)"


@only_isolated
def test_the_disk_cannot_be_taken_before_it_is_looked_at(start):
    """fallocate takes 10 GiB in 18 ms. The C library writes zeros instead of it."""
    take = "import os; fd = os.open('big', os.O_RDWR | os.O_CREAT); "
    take += "os.posix_fallocate(fd, 0, 1 << 20); print(os.fstat(fd).st_size)"
    assert start().run_python(take) == "1048576"
    kind = "libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(1 << 20))"
    libc = f"import ctypes; libc = ctypes.CDLL(None, use_errno=True); print({kind}, ctypes.get_errno())"
    assert start().run_python(take + "; " + libc).splitlines()[-1] == "-1 95"


@linux_only
def test_a_command_gives_way_to_the_server(start):
    assert start().run_command("nice; ulimit -n -q").split()[0] == "19"


# Puts a key into the session keyring, or finds one there.
KEYS = """
import ctypes, os
libc = ctypes.CDLL(None)
add_key, keyctl = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
"""
STORE_KEY = KEYS + "libc.syscall(add_key, b'user', b'answer', b'42', 2, -3)"
FIND_KEY = KEYS + "print(libc.syscall(keyctl, 10, -3, b'user', b'answer', 0) != -1)"


@linux_only
def test_a_kernel_key_of_one_call_is_unknown_to_the_next(start):
    """Otherwise all episodes would share the session keyring of the server."""
    libc, join = ctypes.CDLL(None), {"x86_64": 250, "aarch64": 219}
    assert libc.syscall(join[os.uname().machine], 1, None) > 0  # as a login does
    assert start().run_python(STORE_KEY) == "(no output)"
    assert start().run_python(FIND_KEY) == "False"


@linux_only
def test_a_command_goes_before_the_server_if_memory_runs_out(start):
    assert start().run_command("cat /proc/self/oom_score_adj") == "1000"


@only_isolated
def test_a_command_is_not_root(start, folders):
    """It is not root as it sees itself, nor as the kernel sees it from outside."""
    episode = start()
    user = os.geteuid() or 65534
    assert episode.run_command("touch mine; id -u").strip() == str(user)
    [home] = folders()
    assert (home / "mine").stat().st_uid == user


@only_isolated
def test_no_further_user_namespaces(start):
    if "--disable-userns" not in bubblewrap.user_namespace():
        pytest.skip("this bubblewrap is older than 0.8")
    code = "import os\nos.unshare(os.CLONE_NEWUSER)"
    assert "No space left on device" in start().run_python(code)


@only_isolated
def test_no_user_namespaces_with_an_old_bubblewrap(start, monkeypatch):
    """The kernel counts them for the server's user: none left means no sandbox."""
    monkeypatch.setattr(bubblewrap, "user_namespace", lambda: ("--unshare-user",))
    code = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True)\n"
    code += "print(libc.syscall(435, bytes(88), 88), ctypes.get_errno())  # clone3\n"
    code += "clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
    code += "for flags in (1 << 28, 1 << 28 | 17): print(libc.syscall(clone, flags, 0, 0, 0, 0))\n"
    code += "os.unshare(os.CLONE_NEWUSER)"
    output = start().run_python(code)
    assert output.startswith("-1 38\n-1\n-1\n")
    assert "No space left on device" in output


# Four processes register as many watches of epoll as they can. A watch belongs to a
# file and a number, so one file under many numbers has many. Prints how many they have.
WATCHES = """
import os, select
counts, own = os.pipe()
for _ in range(4):
    if not os.fork():
        count = 0
        epolls = [select.epoll() for _ in range(20)]
        files = [file for _ in range(10) for file in os.pipe()]
        for number in range(200, 220):
            for file in files:
                os.dup2(file, number)
                for epoll in epolls:
                    try:
                        epoll.register(number)
                        count += 1
                    except OSError as error:
                        os.write(1, os.strerror(error.errno).encode() + b"\\n")
                        os.write(own, b"%6d" % count)
                        os.read(os.pipe()[0], 1)  # hold them
        os.write(own, b"%6d" % count)
        os.read(os.pipe()[0], 1)
print(sum(int(os.read(counts, 6)) for _ in range(4)))
"""


@pytest.fixture
def most_watches(monkeypatch):
    """The most that a command may register, which is far less than the machine allows."""
    of_machine = int(Path("/proc/sys/fs/epoll/max_user_watches").read_text())
    sessions = min(of_machine // 2 // 1000, 1000)
    monkeypatch.setenv("MAX_SESSIONS", str(sessions))
    return of_machine // 2 // sessions


@only_isolated
def test_watches_of_epoll_are_limited(start, most_watches):
    """The kernel counts them for a user. Without any left, the server itself aborts."""
    *errors, count = start().run_python(WATCHES).splitlines()
    assert {*errors} == {"No space left on device"}
    assert most_watches - 100 < int(count) <= most_watches


@pytest.fixture
def as_ordinary_user():
    """Run a program as a user without root rights. Returns what it printed."""
    closed = []
    if os.geteuid() == 0:  # the folders above the packages may be root's alone
        files = [Path(name).absolute() for name in (sys.executable, *sys.path)]
        above = {place for file in files for place in file.parents}
        closed = [
            place
            for place in above
            if place.is_dir() and not place.stat().st_mode & 0o001
        ]

    def run(code, *arguments):
        own = {"user": 1234, "group": 1234, "extra_groups": []}
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            os.chmod(folder, 0o777)
            done = subprocess.run(
                [sys.executable, "-c", code, *arguments],
                capture_output=True,
                check=False,
                text=True,
                env={**os.environ, "TMPDIR": folder, "HOME": folder},
                cwd=folder,
                **(own if os.geteuid() == 0 else {}),
            )
        if "Permission denied" in done.stderr or "does not work here" in done.stderr:
            pytest.skip(f"no ordinary user can run this: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    for place in closed:
        place.chmod(place.stat().st_mode | 0o001)
    yield run
    for place in closed:
        place.chmod(place.stat().st_mode & ~0o001)


@only_isolated
def test_watches_of_an_ordinary_servers_commands_are_limited(
    most_watches, as_ordinary_user
):
    """The same for a server without root rights, who has the same user as commands."""
    code = (
        "import sys; from env_runtime.workspace.local import Workspace; w = Workspace()"
    )
    count = as_ordinary_user(f"{code}\nprint(w.run_python(sys.argv[1]))", WATCHES)
    assert most_watches - 100 < int(count.split()[-1]) <= most_watches


# Finds the process that counts, tries to reach into it, kills it, and takes its place.
COUNTER = """
import ctypes, os, pathlib, select, struct
libc = ctypes.CDLL(None, use_errno=True)
select.epoll().register(os.pipe()[0])
[pid] = [int(path.parent.name) for path in pathlib.Path("/proc").glob("[0-9]*/comm")
         if path.read_text() == "epoll watches\\n"]
reach = {
    "fd": lambda: os.listdir(f"/proc/{pid}/fd"),
    "mem": lambda: open(f"/proc/{pid}/mem"),
    "ptrace": lambda: libc.ptrace(16, pid, 0, 0) and os.strerror("x"),
    "pidfd_getfd": lambda: os.close(libc.syscall(438, os.pidfd_open(pid), 3, 0)),
}
for name, attempt in reach.items():
    try:
        attempt()
        print("reached its", name)
    except (OSError, TypeError):
        pass
try:
    while True: os.wait()  # it is no child of the command
except ChildProcessError:
    os.kill(pid, 9)
while pathlib.Path(f"/proc/{pid}").exists(): pass
allow = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
pointer = struct.pack("HxxxxxxP", 1, ctypes.addressof(allow))
seccomp = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
print(libc.syscall(seccomp, 1, 8, pointer), os.strerror(ctypes.get_errno()))
try:
    select.epoll().register(os.pipe()[0])
except OSError as error:
    print(os.strerror(error.errno))
"""


@only_isolated
def test_the_process_that_counts_watches_cannot_be_replaced(start):
    assert start().run_python(COUNTER).splitlines() == [
        "-1 Device or resource busy",
        "Function not implemented",
    ]


@only_isolated
def test_without_the_count_there_is_no_epoll_and_asyncio_works(start, monkeypatch):
    """Before Linux 5.5, or if something else answers a filter."""
    text = bubblewrap.launcher()
    broken = text.replace("NEW_LISTENER = 1, 8", "NEW_LISTENER = 1, 1 << 20")
    assert broken != text
    monkeypatch.setattr(bubblewrap, "launcher", lambda: broken)
    code = "import asyncio, select\n"
    code += "run = asyncio.create_subprocess_exec('echo', 'on')\n"
    code += "async def main(): return await (await run).wait()\n"
    code += "print(asyncio.run(main()))\nselect.epoll()"
    output = start().run_python(code)
    assert output.startswith("on\n0\n")
    assert "Function not implemented" in output


NODE = """
const server = require("http").createServer((request, answer) => answer.end("on"));
server.listen(0, "127.0.0.1", () => require("http").get(
  {host: "127.0.0.1", port: server.address().port}, answer =>
    answer.on("data", data => {
      console.log(String(data));
      require("child_process").exec("echo child", (error, out) => {
        console.log(out);
        server.close();
      });
    })));
"""


@only_isolated
@pytest.mark.skipif(
    shutil.which("node", path="/usr/bin:/bin") is None, reason="no node"
)
def test_node_works(start):
    episode = start(files={"server.js": NODE})
    assert episode.run_command("node server.js").split() == ["on", "child"]


FORK = """
import os, time
children = []
try:
    for _ in range({}):
        children.append(os.fork())
        if children[-1] == 0:
            time.sleep({})
            os._exit(0)
except BlockingIOError:
    pass
print(len(children), flush=True)
open("forked", "w")
for child in children:
    os.waitpid(child, 0)
"""


@only_isolated
def test_processes_are_limited_and_counted_per_episode(start, monkeypatch, folders):
    """The limit holds for root, too, whom the kernel exempts outside a namespace."""
    monkeypatch.setenv("SANDBOX_PROCESSES", "20")
    one = start()
    busy = threading.Thread(target=one.run_python, args=[FORK.format(15, 1)])
    busy.start()
    while not any((home / "forked").exists() for home in folders()):
        assert busy.is_alive()
        time.sleep(0.01)
    made = int(start().run_python(FORK.format(60, 0.1)))
    assert busy.is_alive()
    busy.join()
    assert 15 <= made < 20


# A server that may have few processes, with a command that starts all that it can.
FEW_PROCESSES = """
import os, resource, subprocess, sys, threading, time
from env_runtime.workspace.local import Workspace
others = subprocess.check_output(["ps", "-L", "-o", "pid=", "-u", str(os.getuid())])
most = len(others.splitlines()) + 80
resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
workspace = Workspace()
attack = threading.Thread(target=lambda: print(workspace.run_python(sys.argv[1])))
attack.start()
while not os.path.exists(f"{workspace._home}/forked"):
    assert attack.is_alive()
    time.sleep(0.01)
threading.Thread(target=print).start()
print(subprocess.check_output(["echo", "on"], text=True))
attack.join()
workspace.close()
"""


@only_isolated
@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
def test_commands_leave_processes_to_an_ordinary_server(as_ordinary_user):
    """Otherwise it could start no thread: the kernel counts the commands with it."""
    assert "on" in as_ordinary_user(FEW_PROCESSES, FORK.format(300, 2)).split()


@pytest.fixture
def secret():
    """A process of this user, with a key in its environment."""
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, "KEY": "sk-secret"})
    yield process
    process.kill()
    process.wait()


@only_isolated
def test_what_a_policy_can_read_with_bubblewrap(start, secret, tmp_path):
    """It reads the system and its own workspace, but no user, process or project."""
    other = start(files={"mine": "x"})
    other.read_file("mine")
    [mine] = tmp_path.glob("sandbox-*/home/mine")
    hidden = [
        *("data", "../data", "server.py", "vendor"),
        *(mine, mine.parent, "/root", "/home", "/var", "/sys", "/etc/shadow"),
        *(f"/proc/{secret.pid}/environ", f"/proc/{os.getpid()}/environ"),
    ]
    # This file is in nemo_gym/tests.
    hidden = [os.path.join(os.path.dirname(__file__), "..", path) for path in hidden]
    hidden = [os.path.abspath(path) for path in hidden]
    # The interpreter may be below /root.
    hidden = [path for path in hidden if not sys.base_prefix.startswith(f"{path}/")]
    episode = start()
    seen = episode.run_python(
        "import os\n"
        "def read(path):\n"
        "    try:\n"
        "        return os.listdir(path) if os.path.isdir(path) else open(path).read()\n"
        "    except OSError:\n"
        "        return None\n"
        f"for path in {hidden}:\n"
        "    if read(path):\n"
        "        print(path, read(path))\n"
        "assert read('/usr') and read('/etc/passwd')\n"
        "print(sorted(os.listdir('/etc')))\n"
        "print([p for p in os.listdir('/proc') if p.isdigit() and int(p) > 9])"
    )
    *leaks, etc, processes = seen.splitlines()
    assert leaks == []
    assert {*eval(etc)} <= {
        "alternatives",
        "group",
        "ld.so.cache",
        "localtime",
        "passwd",
    }
    assert eval(processes) == []
    out = episode.run_command("echo x > /new; tail -n +3 /proc/net/dev | cut -d: -f1")
    assert "Read-only file system" in out
    assert out.split()[-1] == "lo"


@linux_only
@only_without
def test_what_a_policy_can_read_without_isolation(start, secret):
    """It reads all that the server's user can: answers, and other processes' keys."""
    rows = os.path.join(os.path.dirname(__file__), "../data/example.jsonl")
    with open(rows) as file:
        assert file.readline()[-99:-1] in start().run_command(f"cat {rows}")
    assert "sk-secret" in start().run_command(
        f"cat /proc/{secret.pid}/environ | tr '\\0' ' '"
    )


# ---------------------------------------------------------------------- serving


def test_trusted_code_runs_without_isolation(start, monkeypatch):
    """Gates and tests play the oracle: they need no bubblewrap."""
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap is not installed")
    assert start().run_command("echo on") == "on"


@pytest.mark.parametrize("isolation", ["auto", "bubblewrap"], indirect=True)
def test_without_bubblewrap_policies_are_not_served(monkeypatch):
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap is not installed")
    reason = EnvironmentClass.refuse_to_serve()
    for words in (
        "bwrap is not installed",
        "apt-get install bubblewrap",
        "SANDBOX_ISOLATION=none",
    ):
        assert words in reason


@only_without
def test_policies_are_served_without_bubblewrap_if_that_is_said(monkeypatch):
    monkeypatch.setattr(bubblewrap, "problem", lambda: "bwrap is not installed")
    assert EnvironmentClass.refuse_to_serve() is None


@only_isolated
def test_policies_are_served_with_bubblewrap(monkeypatch):
    assert EnvironmentClass.refuse_to_serve() is None
    monkeypatch.setenv("SANDBOX_ISOLATION", "auto")
    assert EnvironmentClass.refuse_to_serve() is None


@only_once
def test_a_wrong_isolation_is_not_served(monkeypatch):
    monkeypatch.setenv("SANDBOX_ISOLATION", "bwrap")
    assert "SANDBOX_ISOLATION must be" in EnvironmentClass.refuse_to_serve()


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
    """A stand-in for open() that takes a write, but fails to put it on the disk."""

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

    workspace.isolation()  # tested only once, so before the disk is full
    episode = start(files={"a": "b"})
    if place in ("write_file", "run_command"):
        episode.read_file("a")
    if place == "workspace":
        monkeypatch.setattr(workspace, "make_folders", full)
    elif place == "run_command":
        monkeypatch.setattr(tempfile, "TemporaryFile", full)
    else:
        monkeypatch.setattr(folder, "open", FullFile, raising=False)
        monkeypatch.setattr(FullFile, "code", code)
    with pytest.raises(RuntimeError, match=os.strerror(code)):
        if place == "write_file":
            episode.write_file("c", "d")
        else:
            episode.run_command("ls")
    assert os.strerror(code) in episode.infrastructure_failure
    monkeypatch.undo()
    episode.close()
    wait_until_gone(folders)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_filled_by_this_workspace_is_the_policys_fault(
    start, quota, monkeypatch, code
):
    def full(*_, **__):
        raise OSError(code, os.strerror(code))

    episode = start(expected_output="1")
    episode.run_python(fill("files"))
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(ValueError, match=os.strerror(code)):
        episode.run_command("ls")
    assert episode.infrastructure_failure is None


def test_close_does_not_wait_for_a_large_workspace(start, monkeypatch, tmp_path):
    episode = start()
    episode.run_python("import os\nfor n in range(5000): os.mkdir(str(n))")
    monkeypatch.setattr(workspace, "CLOSE_SECONDS", 0)
    episode.close()
    assert list(tmp_path.glob("sandbox-*")) != []
    wait_until_gone(lambda: list(tmp_path.glob("sandbox-*")))


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
    wait_until_gone(lambda: list(tmp_path.glob("sandbox-*")))
    assert episode.infrastructure_failure is None


def test_close_without_a_call(start, folders):
    episode = start()
    episode.close()
    with pytest.raises(RuntimeError, match="closed"):
        episode.run_command("ls")
    assert folders() == []


@only_without
@pytest.mark.parametrize(
    "mess",
    [
        "rm -rf ../scripts",
        "rm -rf ../scripts; ln -s / ../scripts",
        "rm -rf ../scripts; touch ../scripts",
        "rm ../scripts/command.sh; mkdir ../scripts/command.sh",
    ],
)
def test_a_folder_that_a_command_spoiled_masks_no_episode(start, mess):
    episode = start(expected_output="x")
    episode.run_command(mess)
    with pytest.raises(
        ValueError, match="command may have changed the workspace's own"
    ):
        episode.run_command("ls")
    assert episode.reward() == 0.0
    assert episode.infrastructure_failure is None


# What a command can do to the workspace's own folders.
MESSES = {
    "locked": "chmod 000 ~/..",
    "read only": "chmod 500 ~/.. ~ ../scripts",
    "moved": "mv ~/.. ~/../../moved",
    "moved, a file in its place": "cd /; r=$(dirname $HOME); mv $r $r-; touch $r",
    "moved, a link in its place": "cd /; r=$(dirname $HOME); mv $r $r-; ln -s $r $r",
    "removed": "cd /; rm -rf ~/..",
    "no home": "rm -rf ~; touch ~",
    "no temporary folder": "rm -rf $TMPDIR; ln -s loop $TMPDIR",
    "a home without rights": "chmod 000 ~ $TMPDIR",
}
CALLS = {
    "read_file": lambda episode: episode.read_file("a"),
    "write_file": lambda episode: episode.write_file("b/c", "d"),
    "run_command": lambda episode: episode.run_command("ls"),
    "run_python": lambda episode: episode.run_python("1"),
    "reward": lambda episode: episode.reward(),
}


@only_without
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("mess", MESSES)
def test_no_damage_by_a_command_masks_an_episode(start, mess, call):
    """The next call works or ends with an error, whichever tool it is."""
    episode = start(files={"a": "1"}, expected_output="x", expected_files={"a": "2"})
    episode.submit("x")
    episode.run_command(MESSES[mess])
    with suppress(ValueError):
        CALLS[call](episode)
    assert episode.infrastructure_failure is None
    assert episode.reward() == 0.0
    episode.close()
    assert episode.infrastructure_failure is None


# A process that the end of its call does not find: another session and environment.
ESCAPED = """
setsid setsid env -i python3 -c '
import os, sys
home = sys.argv[1]
print("away", file=open(home + "/away", "w"))
while os.path.isdir(home):
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{process}/cmdline").read()
            if home in open(f"/proc/{process}/environ").read():
                os.kill(int(process), 9)
        except OSError:
            pass
' "$HOME" &
while [ ! -s away ]; do :; done
"""


@linux_only
@only_without
def test_an_escaped_process_that_kills_the_next_command_masks_no_episode(start):
    episode = start()
    episode.run_command(ESCAPED)
    for _ in range(5):
        with suppress(ValueError):
            episode.run_command("ls")
    assert episode.infrastructure_failure is None
    episode.close()


@only_without
def test_a_first_command_that_does_not_start_is_not_the_policys_fault(
    start, monkeypatch
):
    monkeypatch.setattr(bubblewrap, "launcher", lambda: "raise SystemExit('broken')")
    episode = start(files={"a": "1"})
    with pytest.raises(RuntimeError, match="the sandbox did not start: broken"):
        episode.run_command("ls")
    assert "broken" in episode.infrastructure_failure


@only_without
@pytest.mark.parametrize("left", ["mkfifo {}", "ln -s ~/mine {}"])
def test_what_a_command_left_in_place_of_the_script(start, left):
    """A fifo would hang the thread for ever, and a link would lead out."""
    episode = start()
    episode.run_command(f"touch mine; rm $0; {left.format('$0')}")
    assert episode.run_command("echo on") == "on"
    assert episode.run_command("cat mine") == "(no output)"


# ---------------------------------------------------------------------- remains

# A server that is aborted in the middle of an episode, once its standard input ends.
ABORTED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from env_runtime.workspace.local import Workspace
workspace = Workspace()
workspace.run_command("mkdir -p a/b; echo 1 > a/b/c; chmod 000 a .")
print("made", flush=True)
sys.stdin.read()
os.abort()
"""


@pytest.fixture
def aborted(tmp_path):
    """A function that starts a server with a workspace; closing its input aborts it."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", ABORTED],
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout.readline() == b"made\n"
        return process

    yield start
    for process in started:
        process.stdin.close()
        process.stdout.close()
        process.wait()


def abort(process):
    process.stdin.close()
    assert process.wait() == -signal.SIGABRT


def test_the_workspaces_of_an_aborted_server_go_at_the_next_start(
    start, tmp_path, aborted
):
    dead = aborted()
    [left] = tmp_path.glob("sandbox-*")
    live = aborted()
    [kept] = {*tmp_path.glob("sandbox-*")} - {left}
    abort(dead)
    assert left.exists()
    episode = start(files={"a": "1"})
    episode.read_file("a")
    wait_until_gone(left.exists)
    assert kept.exists()
    assert live.poll() is None
    assert episode.read_file("a") == "1"
    episode.close()
    abort(live)
    assert kept.exists()


def test_only_own_folders_of_dead_servers_are_removed(start, tmp_path, aborted):
    """No link is followed, and a folder without a lock may be a live server's."""
    dead = aborted()
    [left] = tmp_path.glob("sandbox-*")
    abort(dead)
    [lock] = tmp_path.glob(".sandbox-*")
    mark = lock.name[1:]
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (tmp_path / f"{mark}-link").symlink_to(outside)
    (left / "home").chmod(0o700)
    (left / "home/link").symlink_to(outside)
    os.mkfifo(tmp_path / ".sandbox-fifo")
    (tmp_path / ".sandbox-link").symlink_to(outside / "file")
    (tmp_path / "sandbox-unknown").mkdir()
    kept = [outside / "file", tmp_path / f"{mark}-link", tmp_path / "sandbox-unknown"]
    if os.geteuid() == 0:
        other = tmp_path / f"{mark}-other"
        other.mkdir()
        os.chown(other, 1234, 1234)
        kept.append(other)
        (tmp_path / ".sandbox-other").touch()
        os.chown(tmp_path / ".sandbox-other", 1234, 1234)
        (tmp_path / "sandbox-other-1").mkdir()
        kept.append(tmp_path / "sandbox-other-1")
    episode = start(files={"a": "1"})
    episode.read_file("a")
    wait_until_gone(left.exists)
    wait_until_gone(lock.exists)
    for path in kept:
        assert path.exists(), path


def test_a_temporary_folder_that_cannot_be_listed_is_used(start, tmp_path):
    tmp_path.chmod(0o300)
    episode = start(files={"a": "1"})
    assert episode.read_file("a") == "1"
    tmp_path.chmod(0o700)


def test_a_server_that_ends_leaves_nothing(tmp_path):
    code = (
        "from env_runtime.workspace.local import Workspace; w = Workspace(); w.close()"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    assert [path.name for path in tmp_path.iterdir()] == []


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
