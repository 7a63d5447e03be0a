"""Run a command of every environment below a folder, and print a table of the results.

    python -m {package}.shelf gates [-- --quick --strict]
    python -m {package}.shelf pytest [-- -x]
    python -m {package}.shelf update [-- --vcs-ref v0.9.0]

What follows `--` is passed on. An environment is a folder with an answers file
(.copier-answers*.yml) and nemo_gym/. Gates and tests run in its own venv, which uv makes
if it is missing.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from .command_line import exit_status, new_parser, positive
from .errors import FixableError, ProjectError, one_line
from .project import SETTINGS, Project
from .settings import ToolSettings

ANSWERS = ".copier-answers*.yml"
COMMANDS = ["gates", "pytest", "update"]
# The start of the lines in which gates and pytest say what is wrong
WRONG = re.compile(r"^(?:FAIL|FAILED|ERROR) .*", re.MULTILINE)
WEAK = re.compile(r"^WEAK .*", re.MULTILINE)


class Outcome(NamedTuple):
    """How a command ended in one environment."""

    name: str
    result: str  # passed, weak or failed
    seconds: float = 0.0
    line: str = ""  # the line that says why it is weak, or failed
    output: str = ""


def main(arguments: list[str] | None = None) -> int:
    """The command. Returns 1 if it fails in an environment."""
    given = sys.argv[1:] if arguments is None else arguments
    cut = given.index("--") if "--" in given else len(given)
    parser = new_parser(__doc__)
    add = parser.add_argument
    add("command", choices=COMMANDS, help="what to run in each environment")
    text = "the folder above the environments (default: the current one)"
    add("--folder", type=Path, default=Path(), metavar="FOLDER", help=text)
    text = "run at most N at once (default: one for each core)"
    cores = os.cpu_count() or 1
    add("--jobs", type=positive, default=cores, metavar="N", help=text)
    options = parser.parse_args(given[:cut])
    return exit_status("shelf", lambda: _run(options, given[cut + 1 :]))


def _run(options: argparse.Namespace, further: list[str]) -> int:
    roots = environments(options.folder)
    if not roots:
        raise ProjectError(
            f"no environment in {options.folder.absolute()}, or below: no folder there has "
            f"{ANSWERS} and {SETTINGS}. Name another folder with --folder"
        )
    # An update looks for what it could not merge in the whole repository.
    jobs = 1 if options.command == "update" else options.jobs
    outcomes = []
    for outcome in _run_each(roots, [options.command, *further], jobs):
        outcomes.append(outcome)
        print(f"{outcome.name}: {outcome.result}", flush=True)
        if outcome.result == "failed":
            print(outcome.output, flush=True)
    print(f"\n{table(sorted(outcomes))}")
    return int(any(each.result == "failed" for each in outcomes))


def environments(folder: Path) -> dict[str, Path]:
    """The environments in `folder` and below it, by their paths from there.

    Venvs, node_modules and folders whose names begin with a dot are not searched.
    """
    found = {}
    for place, folders, _ in os.walk(folder):
        root = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or name == "node_modules")
            and not (root / name / "pyvenv.cfg").exists()
        )
        # Another template's answers may stand there. A conflict must not stop the search.
        settings = root / SETTINGS
        text = settings.read_text(encoding="utf-8") if settings.is_file() else ""
        if "[tool.environment]" in text and any(root.glob(ANSWERS)):
            found[root.relative_to(folder).as_posix()] = root
    return found


def _run_each(roots: dict[str, Path], words: list[str], jobs: int) -> Iterator[Outcome]:
    """Run a command in at most `jobs` environments at once. Yields each when it ends."""
    with ThreadPoolExecutor(jobs) as pool:
        pending = [pool.submit(_outcome, *each, words) for each in roots.items()]
        try:
            for ended in as_completed(pending):
                yield ended.result()
        finally:  # after Ctrl-C, no other begins
            pool.shutdown(wait=False, cancel_futures=True)


def _outcome(name: str, root: Path, words: list[str]) -> Outcome:
    """Run a command in one environment."""
    started = time.monotonic()
    try:
        command = _command(root, *words)
    except (FixableError, ValueError) as error:  # its settings cannot be read
        return Outcome(name, "failed", line=str(error), output=str(error))
    # Else uv warns of this process's venv, or fills it.
    hidden = ("VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT")
    done = subprocess.run(
        command,
        cwd=root,
        env={key: text for key, text in os.environ.items() if key not in hidden},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    seconds, output = time.monotonic() - started, done.stdout
    if done.returncode == 0:
        weak = WEAK.search(output)
        result, line = ("weak", weak[0]) if weak else ("passed", "")
        return Outcome(name, result, seconds, line)
    wrong = WRONG.search(output) or WEAK.search(output)  # of gates.py --strict
    last = output.rstrip().rpartition("\n")[2] or f"exit status {done.returncode}"
    return Outcome(name, "failed", seconds, wrong[0] if wrong else last, output)


def _command(root: Path, command: str, *further: str) -> list[str]:
    """Return the program that runs a command of this module in one environment."""
    uv = ToolSettings.read().uv
    if command == "update":
        _, *words = shlex.split(Project.read(root).update_command())  # uvx copier ...
        return [uv, "tool", "run", *words, *further]
    program = ["python", "gates.py"] if command == "gates" else ["pytest"]
    return [uv, "run", "--directory", "nemo_gym", *program, *further]


def table(outcomes: list[Outcome]) -> str:
    """A line for each environment: its name, the result, the seconds, and why."""
    rows = [("environment", "result", "seconds", "line")]
    rows += [
        (each.name, each.result, f"{each.seconds:.0f}", one_line(each.line, 160))
        for each in outcomes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        f"{name:{widths[0]}}  {result:{widths[1]}}  {seconds:>{widths[2]}}  {line}".rstrip()
        for name, result, seconds, line in rows
    )


if __name__ == "__main__":
    sys.exit(main())
