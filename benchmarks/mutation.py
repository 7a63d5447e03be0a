"""Mutation score of episodes, gates, rows and the server: which small changes no test notices.

    uv run --with mutmut==3.8.1 python benchmarks/mutation.py

mutmut makes the changes, one at a time, and runs the tests that reach each. Its settings
are in pyproject.toml. It wants the package in src/, so it works in a copy of this
repository. Without an argument it tries those mutants whose number ends with 3, which
takes an hour or more on two cores; any pattern of mutmut's names works. Prints the
figures, and each mutant that survived.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVERY_TENTH = "*__mutmut_*3"


def copy_repository(folder: Path) -> None:
    """Copy the files that git knows, with the package's source in src/, too."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    shutil.copytree(folder / "runtime/src", folder / "src")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)


def main(*patterns: str) -> None:
    mutmut = shutil.which("mutmut") or sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        copy_repository(folder)

        def run(*arguments: str) -> str:
            command = [mutmut, *arguments]
            return subprocess.check_output(command, cwd=folder, text=True)

        subprocess.run([mutmut, "run", *patterns], cwd=folder, check=True)
        run("export-cicd-stats")
        figures = json.loads((folder / "mutants/mutmut-cicd-stats.json").read_text())
        noticed = figures["killed"] + figures["timeout"]
        tried = noticed + figures["survived"] + figures["no_tests"]
        print(f"\nnoticed: {noticed} of {tried} mutants, {noticed / tried:.0%}")
        for line in run("results").splitlines():
            name, _, status = line.strip().partition(": ")
            if status in ("survived", "no tests"):
                print(run("show", name), flush=True)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [EVERY_TENTH]))
