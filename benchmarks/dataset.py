"""The cost of make_rows.py over a dataset: seconds and memory for a million records.

    cd my_words/nemo_gym && uv run python TEMPLATE/benchmarks/dataset.py

`my_words` is an environment of `-d archetype=answer`. Makes rows of .jsonl files of
100,000 and of a million word problems, each in a process of its own, and copies the same
files line by line with json. Compare only the ratio, and the growth of memory.
"""

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SIZES = (100_000, 1_000_000)
TEXT = (
    "Ada has {} eggs and buys {} more at the market. On Friday she sells all of them to "
    "her neighbors, who pay two dollars for each. How many eggs does she sell?"
)


def write(path: Path, count: int) -> None:
    """Write a file of `count` word problems, as GSM8K has them."""
    rng = random.Random(0)
    with path.open("w") as file:
        for number in range(count):
            a, b = rng.randrange(10**6), rng.randrange(10**6)
            answer = f"She sells {a} + {b} eggs.\n#### {a + b}"
            record = {"id": number, "question": TEXT.format(a, b), "answer": answer}
            file.write(json.dumps(record) + "\n")


def example(record: dict[str, Any]) -> Any:
    from env_runtime.rows import Example

    expected = record["answer"].partition("#### ")[2]
    return Example(record["question"], {"expected_answer": expected})


def copy(source: Path, folder: Path) -> None:
    """The least that such a command can do: read each line, and write it."""
    with source.open() as lines, (folder / "copy.jsonl").open("w") as file:
        for line in lines:
            file.write(json.dumps(json.loads(line)) + "\n")


def make(source: Path, folder: Path) -> None:
    from env_runtime.rows import from_dataset

    assert from_dataset(example, source, 20, None, ["--output", str(folder)]) == 0


def measured(what: str, source: Path) -> tuple[float, float]:
    """The seconds and the MiB of memory, at most, of a process that makes or copies."""
    arguments = [sys.executable, __file__, what, source]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    seconds, mib = done.stdout.splitlines()[-1].split()
    return float(seconds), float(mib)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        source, grown = Path(name, "questions.jsonl"), []
        for count in SIZES:
            write(source, count)
            copied, _ = measured("copy", source)
            made, mib = measured("make", source)
            grown.append(mib)
            print(
                f"{count:,} records: {made:.0f} s, {made / copied:.1f} times a copy with "
                f"json; {mib:.0f} MiB"
            )
        more = (grown[1] - grown[0]) * 2**20 / (SIZES[1] - SIZES[0])
        print(
            f"memory grows by {grown[1] - grown[0]:.0f} MiB, {more:.0f} bytes a record"
        )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        with tempfile.TemporaryDirectory() as output:
            started = time.perf_counter()
            {"copy": copy, "make": make}[sys.argv[1]](Path(sys.argv[2]), Path(output))
            seconds = time.perf_counter() - started
        # macOS counts bytes, Linux KiB
        unit = 2**20 if sys.platform == "darwin" else 2**10
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(seconds, most)
