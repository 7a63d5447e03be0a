"""The cost of make_rows.py over data sets: time of a processor and memory.

    cd my_words/nemo_gym && uv run python TEMPLATE/benchmarks/dataset.py

`my_words` is an environment of `-d archetype=answer`. Makes rows of 20,000 records of each
kind: numbers, options and short texts. Word problems are a million, too, and come by a
function as well as by the plan that `env_runtime.rows` writes. Each run is a process of its
own. A plain loop reads the same file, makes a digest of each row and writes it. Compare only
the ratio, and the growth of memory.
"""

import json
import random
import re
import resource
import runpy
import subprocess
import sys
import tempfile
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

RECORDS, MANY = 20_000, 1_000_000
PROBLEM = (
    "Ada has {} eggs and buys {} more at the market. On Friday she sells all of them to "
    "her neighbors, who pay two dollars for each. How many eggs does she sell?"
)


def numbers(rng: random.Random) -> dict[str, Any]:
    """A word problem, as GSM8K has them."""
    a, b = rng.randrange(10**6), rng.randrange(10**6)
    answer = f"She sells {a} + {b} eggs.\n#### {a + b}"
    return {"question": PROBLEM.format(a, b), "answer": answer}


def options(rng: random.Random) -> dict[str, Any]:
    """A question with four options, as MMLU has them."""
    cities = {letter: f"City {rng.randrange(10**6)}" for letter in "ABCD"}
    question = f"Which city is the capital of country {rng.random()}?"
    return {"question": question, **cities, "answer": rng.choice("ABCD")}


def texts(rng: random.Random) -> dict[str, Any]:
    """A question with a short answer."""
    question = f"Who wrote the book {rng.random()} of the library?"
    return {"question": question, "answer": f"Author {rng.randrange(10**6)} the Elder"}


def plan_of(kind: str) -> Any:
    """Return the plan that `env_runtime.rows` writes for the records of a kind."""
    from env_runtime.rows import Columns, Options

    about: dict[str, Any] = {
        "numbers": {"grader": "number", "pattern": r"####\s*(.+)"},
        "options": {
            "grader": "choice",
            "options": Options(kind="columns", paths=tuple("ABCD")),
            "names": tuple("ABCD"),
        },
        "texts": {"grader": "text"},
    }[kind]
    return Columns("{question}", "answer", needed=("question",), **about)


def example(record: dict[str, Any]) -> Any:
    """The row of a word problem, by a function."""
    from env_runtime.rows import Example

    expected = record["answer"].partition("#### ")[2]
    return Example(record["question"], {"expected_answer": expected})


def plain(source: Path, folder: Path) -> None:
    """The least that such a command can do."""
    digests = set()
    with source.open() as lines, (folder / "copy.jsonl").open("w") as file:
        for line in lines:
            record = json.loads(line)
            found = re.search(r"#### (.*)|$", record["answer"])
            message = {"role": "user", "content": record["question"]}
            params = {"input": [message], "tools": []}
            truth = [{"expected_answer": (found and found[1]) or record["answer"]}]
            row = {"responses_create_params": params, "ground_truth": truth}
            text = json.dumps(row) + "\n"
            digests.add(blake2b(text.encode(), digest_size=8).digest())
            file.write(text)


def prepared(kind: str, by: str) -> Any:
    """Load the class that `env_runtime.rows` writes. Return the plan, or the function."""
    from env_runtime import project
    from env_runtime.rows.source import class_source

    plan = plan_of(kind)
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(class_source(plan, "Quiz", "Questions"))
        file.flush()
        domain_class = runpy.run_path(file.name, run_name="quiz")["Quiz"]
    project.of_loaded[domain_class] = project.here()
    project.Project.load_class = lambda self: domain_class
    return plan if by == "plan" else example


def measured(kind: str, by: str, source: Path) -> tuple[float, float]:
    """The seconds of a processor and the MiB of memory, at most, of a process."""
    arguments = [sys.executable, __file__, kind, by, source]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    seconds, mib = done.stdout.splitlines()[-1].split()
    return float(seconds), float(mib)


def main() -> None:
    grown = {}
    runs: list[tuple[str, int, tuple[str, ...]]] = []
    runs += [(kind, RECORDS, ("plan",)) for kind in KINDS]
    runs += [("numbers", count, ("function", "plan")) for count in (MANY // 10, MANY)]
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "questions.jsonl")
        for kind, count, ways in runs:
            rng = random.Random(0)
            with source.open("w") as file:
                file.writelines(
                    f"{json.dumps(KINDS[kind](rng))}\n" for _ in range(count)
                )
            least, _ = measured(kind, "loop", source)
            for by in ways:
                made, mib = measured(kind, by, source)
                grown[count] = mib
                print(
                    f"{count:,} {kind} by a {by}: {made:.1f} s, {made / count * 1e6:.0f} us a "
                    f"record, {made / least:.1f} times a plain loop; {mib:.0f} MiB"
                )
    more = (grown[MANY] - grown[MANY // 10]) * 2**20 / (0.9 * MANY)
    print(f"memory grows by {more:.0f} bytes a record")


KINDS = {"numbers": numbers, "options": options, "texts": texts}

if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        kind, by, source = sys.argv[1:]
        with tempfile.TemporaryDirectory() as output:
            made = prepared(kind, by) if by != "loop" else None
            started = time.process_time()
            if made:
                from env_runtime.rows import from_dataset

                options_given = ["--output", output]
                assert from_dataset(made, Path(source), 20, None, options_given) == 0
            else:
                plain(Path(source), Path(output))
            seconds = time.process_time() - started
        # macOS counts bytes, Linux KiB
        unit = 2**20 if sys.platform == "darwin" else 2**10
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(seconds, most)
