"""The cost of make_rows.py over a dataset: time of a processor and memory for a million records.

    cd my_words/nemo_gym && uv run python TEMPLATE/benchmarks/dataset.py

`my_words` is an environment of `-d archetype=answer`. Makes rows of .jsonl files of
100,000 and of a million word problems, each in a process of its own: by the plan that
`env_runtime.rows` writes, and by a function. A plain loop reads the same files, finds each
answer, makes a digest of each row and writes it. Compare only the ratio, and the growth of
memory.
"""

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
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


def plain(source: Path, folder: Path) -> None:
    """The least that such a command can do."""
    digests = set()
    with source.open() as lines, (folder / "copy.jsonl").open("w") as file:
        for line in lines:
            record = json.loads(line)
            found = re.search(r"#### (.*)", record["answer"])
            message = {"role": "user", "content": record["question"]}
            params = {"input": [message], "tools": []}
            truth = [{"expected_answer": found[1] if found else ""}]
            row = {"responses_create_params": params, "ground_truth": truth}
            text = json.dumps(row) + "\n"
            digests.add(blake2b(text.encode(), digest_size=8).digest())
            file.write(text)


def prepared() -> None:
    """Load what a run needs once, however many records there are."""
    from env_runtime.checks.server import server_tools

    server_tools()


def by_plan(source: Path, folder: Path) -> None:
    from env_runtime.rows import Columns, from_dataset

    plan = Columns(
        prompt="{question}",
        expected="answer",
        grader="number",
        pattern=r"####\s*(.+)",
        needed=("question",),
    )
    assert from_dataset(plan, source, 20, None, ["--output", str(folder)]) == 0


def by_function(source: Path, folder: Path) -> None:
    from env_runtime.rows import from_dataset

    assert from_dataset(example, source, 20, None, ["--output", str(folder)]) == 0


WAYS = {"plain": plain, "by_function": by_function, "by_plan": by_plan}


def measured(what: str, source: Path) -> tuple[float, float]:
    """The seconds of a processor and the MiB of memory, at most, of a process."""
    arguments = [sys.executable, __file__, what, source]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    seconds, mib = done.stdout.splitlines()[-1].split()
    return float(seconds), float(mib)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        source, grown = Path(name, "questions.jsonl"), []
        for count in SIZES:
            write(source, count)
            least, _ = measured("plain", source)
            for how in ("by_function", "by_plan"):
                made, mib = measured(how, source)
                print(
                    f"{count:,} records {how}: {made:.0f} s, {made / count * 1e6:.0f} us a "
                    f"record, {made / least:.1f} times a plain loop; {mib:.0f} MiB"
                )
            grown.append(mib)
        more = (grown[1] - grown[0]) * 2**20 / (SIZES[1] - SIZES[0])
        print(
            f"memory grows by {grown[1] - grown[0]:.0f} MiB, {more:.0f} bytes a record"
        )


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        with tempfile.TemporaryDirectory() as output:
            if sys.argv[1] != "plain":
                prepared()
            started = time.process_time()
            WAYS[sys.argv[1]](Path(sys.argv[2]), Path(output))
            seconds = time.process_time() - started
        # macOS counts bytes, Linux KiB
        unit = 2**20 if sys.platform == "darwin" else 2**10
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(seconds, most)
