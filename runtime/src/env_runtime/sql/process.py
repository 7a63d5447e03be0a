"""The process that runs queries. It forks for each one, and sets limits in the child.

`python -I -S PATH` starts it. Its standard input is a socket, on which each byte brings a
descriptor: a socket with a request, which gets the answer. It ends with the server. A
handler of SQLite's could not stop all queries: to prepare nested CTEs, none is called.
"""

import json
import os
import resource
import signal
import socket
import sqlite3
import sys
import threading
from typing import Any

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}
READING |= {sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
# The address of code in this process, which a query could also replace; other programs
UNSAFE = {"fts3_tokenizer", "load_extension"}
LONGEST = 1_000_000  # the most bytes of a value
WALL_SECONDS = 60  # the most that a query takes beside many others


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so no child stays as a zombie
    control = socket.socket(fileno=0)
    while descriptors := socket.recv_fds(control, 1, 1)[1]:
        with socket.socket(fileno=descriptors[0]) as client:
            try:
                child = os.fork() == 0
            except OSError:
                continue  # the server sees that no answer began
            if child:
                control.close()
                serve(client)


def serve(client: socket.socket) -> None:
    """Answer one request, and end this process."""
    try:
        signal.alarm(WALL_SECONDS)
        lowest = (os.PRIO_PROCESS, os.getpid(), 19)  # short queries go first
        threading.Timer(0.05, os.setpriority, lowest).start()
        client.sendall(b"\n")  # the answer begins
        with client.makefile("rb") as stream:
            request, image = json.loads(stream.readline()), stream.read()
        answer: Any
        try:
            answer = found(request, image)
        except MemoryError:
            answer = "it takes too much memory"
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            answer = str(error)
        client.sendall(
            json.dumps(answer, default=lambda blob: {"blob": blob.hex()}).encode()
        )
    finally:
        os._exit(0)


def found(request: dict[str, Any], image: bytes) -> tuple[list[str], list[Any], bool]:
    """The columns and rows of a query, and whether there are more rows."""
    database = sqlite3.connect(request["address"], uri=True, isolation_level=None)
    if image:
        database.deserialize(image)
    database.text_factory = lambda text: text.decode(errors="replace")
    # Opens the file and virtual tables, which the authorizer would take for writes.
    database.execute("PRAGMA table_list").fetchall()
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("PRAGMA query_only = ON")
    # macOS does not bound the memory of a process, so SQLite does.
    database.execute(f"PRAGMA hard_heap_limit = {request['memory'] + len(image)}")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    database.set_authorizer(authorize)
    limit(request["seconds"], request["memory"])
    cursor = database.execute(request["sql"])
    if cursor.description is None:
        raise ValueError("it is empty")
    columns = [each[0] for each in cursor.description]
    rows, left = [], request["characters"] - sum(map(len, columns))
    for row in cursor:
        left -= sum(len(str(value)) for value in row)
        if left < 0 and not rows:
            raise ValueError("a row is too long: select less of it, as substr() does")
        if left < 0 or len(rows) == request["rows"]:
            return columns, rows, True
        rows.append(row)
    return columns, rows, False


def authorize(
    action: int, name: str | None, function: str | None, *_: str | None
) -> int:
    """Allow what only reads, and the one pragma that FTS5 asks for itself."""
    if function and function.lower() in UNSAFE:
        return sqlite3.SQLITE_DENY
    if action in READING or (action, name) == (sqlite3.SQLITE_PRAGMA, "data_version"):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def limit(seconds: int, memory: int) -> None:
    """Have the kernel refuse new files and bytes on a disk, and bound the rest."""
    limits = {"CORE": 0, "FSIZE": 0, "NOFILE": 0, "CPU": seconds}
    if sys.platform == "linux":
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[0])
        limits["AS"] = pages * resource.getpagesize() + memory
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


if __name__ == "__main__":
    main()
