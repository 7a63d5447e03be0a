"""Measure the time to a checked environment, with this template and other scaffolds.

    python benchmarks/first_green.py [NAME...] [--rounds 2]

Needs uv, and an interpreter that nemo-gym 0.7 allows: UV_PYTHON, if it is set. Each
scaffold writes its example into an empty folder, installs what that needs, and runs the
checks that come with it. uv's cache is warm from the second round on, so only the last
round is printed. A check that fails ends its scaffold, and the table says so.

The CPU seconds of all processes depend less on the load of the machine. The scaffolds
do not do the same work: the last column says what each of them has checked.
"""

import argparse
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
UV = os.environ.get("UV") or shutil.which("uv") or "uv"
UVX = [UV, "tool", "run"]
PYTHON = os.environ.get("UV_PYTHON") or sys.executable


class Scaffold(NamedTuple):
    package: str
    commands: list[list[str]]  # its checks come last
    proven: str  # what is proven once all commands have passed


def in_venv(packages: list[str]) -> list[list[str]]:
    return [
        [UV, "venv", "--quiet", "--python", PYTHON],
        [UV, "pip", "install", "--quiet", *packages],
    ]


OPENENV = [*UVX, "--python", PYTHON, "--from", "openenv==0.10.0", "openenv"]
SCAFFOLDS = {
    "this template": Scaffold(
        "nemo-gym 0.7.0",
        [
            ["env", f"UV_PYTHON={PYTHON}", *UVX, "copier", "copy", "--quiet"]
            + ["--trust", "--defaults", str(ROOT), "my_env"],
            [UV, "run", "--directory", "my_env/nemo_gym", "python", "gates.py"],
        ],
        "24 rows over HTTP: in each the oracle earns 1.0, noop and nonsense 0.0; the "
        "tool takes a fitting call and refuses a malformed one",
    ),
    "gym env init": Scaffold(
        "nemo-gym 0.7.0",
        [
            *in_venv(["nemo-gym==0.7.0", "pytest"]),
            [".venv/bin/gym", "env", "init", "--environment", "my_env"]
            + ["--profile", "custom-gym-verifier"],
            [".venv/bin/gym", "env", "validate", "my_env"],
            [".venv/bin/gym", "env", "test", "my_env"],
        ],
        "three bodies of /verify, in process: right, wrong, malformed",
    ),
    "openenv init": Scaffold(
        "openenv 0.10.0",
        [
            [*OPENENV, "init", "my_env"],
            [UV, "sync", "--quiet", "--python", PYTHON, "--directory", "my_env"],
            [*OPENENV, "validate", "my_env", "--level", "static"],
        ],
        "its files are in order; nothing was played",
    ),
    "vf-init": Scaffold(
        "verifiers 0.4.0",
        [
            *in_venv(["verifiers==0.4.0"]),
            [".venv/bin/vf-init", "my-env"],
            [UV, "pip", "install", "--quiet", "-e", "environments/my_env"],
            [".venv/bin/vf-validate", "my-env", "--runtime.type", "subprocess"],
        ],
        "gold and noop of each task",
    ),
    "orwd init": Scaffold(
        "openreward 0.1.167",
        [
            *in_venv(["openreward==0.1.167", "uvicorn", "fastapi"]),
            [".venv/bin/orwd", "init", "my-env"],
            ["env", "PYTHONPATH=my-env", ".venv/bin/python", "-c", "import server"],
        ],
        "server.py imports; it brings no check",
    ),
}


def variables() -> dict[str, str]:
    """The environment of the commands.

    NeMo Gym's tests take the interpreter from PATH, and must not see UV_PYTHON. Bytecode
    is kept, as on most machines.
    """
    hidden = ("UV_PYTHON", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT", "PYTHONPATH")
    hidden += ("UV_INTERNAL__PARENT_INTERPRETER", "UV_RUN_RECURSION_DEPTH")
    hidden += ("PYTHONDONTWRITEBYTECODE",)
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    path = os.pathsep.join([str(Path(PYTHON).parent), kept["PATH"]])
    return {**kept, "PATH": path, "UV_PYTHON_PREFERENCE": "only-system"}


def cpu_seconds() -> float:
    """The CPU time of all child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(scaffold: Scaffold, log: Path) -> str:
    """Run all commands. Returns the end of a row: both seconds, and what was proven."""
    started, used = time.monotonic(), cpu_seconds()
    proven = scaffold.proven
    with tempfile.TemporaryDirectory() as folder, log.open("w") as output:
        for command in scaffold.commands:
            begun = time.monotonic()
            done = subprocess.run(
                command,
                cwd=folder,
                env=variables(),
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
            words = " ".join(Path(word).name for word in command[:8])
            print(f"  {time.monotonic() - begun:6.1f} s  {words}", flush=True)
            if done.returncode:
                last = log.read_text().strip().splitlines()[-1]
                proven = f"nothing: {Path(command[0]).name} failed, {last[:60]}"
                break
    seconds = time.monotonic() - started
    return f"{seconds:.0f} | {cpu_seconds() - used:.0f} | {proven} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SCAFFOLDS))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    rows, load = [], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as logs:
        for name in options.names or SCAFFOLDS:
            scaffold, end = SCAFFOLDS[name], ""
            for _ in range(options.rounds):
                print(name, flush=True)
                end = measure(scaffold, Path(logs, "log"))
            rows.append(f"| `{name}` | {scaffold.package} | {end}")
    where = f"{os.cpu_count()} cores, {platform.machine()}"
    print(f"\n{date.today()}, {where}, load {load:.1f} to {os.getloadavg()[0]:.1f}")
    print("| scaffold | package | seconds | CPU seconds | proven at the end |")
    print("| --- | --- | --- | --- | --- |")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
