"""Make training data of task rows: what NeMo RL and other trainers read.

    uv run python prepare.py [ROWS] [--validation ROWS]

Takes data/example.jsonl, or the .jsonl files that are named; without --validation it
holds out some of the rows. Gives each row the tools that server.py has, and has NeMo
Gym check and collate them with the datasets of configs/*_train.yaml, which also name
the licence. Writes prepared/train.jsonl and prepared/validation.jsonl.
"""

import argparse
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from nemo_gym.openai_utils import NeMoGymResponseCreateParamsNonStreaming
from pydantic import BaseModel, Field, ValidationError

from gates import server_tools
from rollout import ROWS, RolloutError, Row, Tools, load_rows
from under_gym import HERE, agent_name, run_gym

PREPARED = HERE / "prepared"
SPLITS = PREPARED / "splits"
SPLIT_NAMES = ["train", "validation"]


class Task(BaseModel):
    """What NeMo Gym and this environment's /verify need of a row."""

    responses_create_params: NeMoGymResponseCreateParamsNonStreaming
    ground_truth: list[dict[str, Any]] = Field(min_length=1)


def read_rows(path: Path) -> list[Row]:
    """The rows of a .jsonl file. Raises RolloutError at one that is no task."""
    rows = []
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                Task.model_validate_json(line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "the row"
                problem = f"{where}: {first['msg']}"
                raise RolloutError(f"{path}, line {number}: {problem}") from None
            rows.append(json.loads(line))
    return rows


def hold_out(rows: list[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Rows to train on, and a random `share` of them, at least one, to validate on.

    The same rows are always split in the same way.
    """
    count = min(len(rows), max(1, int(len(rows) * share)))
    held = set(random.Random(0).sample(range(len(rows)), count))
    train = [row for number, row in enumerate(rows) if number not in held]
    return train, [rows[number] for number in sorted(held)]


def prepare(train: list[Row], validation: list[Row]) -> None:
    """Writes prepared/, anew. Raises RolloutError where NeMo Gym refuses the rows."""
    tools = server_tools()
    shutil.rmtree(PREPARED, ignore_errors=True)
    SPLITS.mkdir(parents=True)
    for name, rows in zip(SPLIT_NAMES, (train, validation), strict=True):
        _write(SPLITS / f"{name}.jsonl", [_with_tools(row, tools) for row in rows])
    [config] = HERE.glob("configs/*_train.yaml")
    [agent_config] = HERE.glob("configs/*_agent.yaml")
    # In this order: of two files that set the same key, the later one wins.
    configs = ["--config", str(agent_config), "--config", str(config)]
    output = ["--mode", "train_preparation", "--output-dir", str(PREPARED)]
    run_gym("dataset", "collate", *configs, *output)
    # NeMo Gym 0.7 names the rows' origin instead, and NeMo RL still wants the agent.
    agent = {"type": "responses_api_agents", "name": agent_name()}
    for name in SPLIT_NAMES:
        path = PREPARED / f"{name}.jsonl"
        _write(path, [{**row, "agent_ref": agent} for row in load_rows(path)])


def _with_tools(row: Row, tools: Tools) -> Row:
    params = {**row["responses_create_params"], "tools": tools}
    return {**row, "responses_create_params": params}


def _write(path: Path, rows: list[Row]) -> None:
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")


def share(text: str) -> float:
    try:
        if 0 < float(text) < 1:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("rows", type=Path, nargs="?", default=ROWS, metavar="ROWS", help="to train on")
    add("--validation", type=Path, metavar="ROWS", help="to validate on")
    add("--hold-out", type=share, default=0.1, metavar="SHARE", help="else (0.1)")
    options = parser.parse_args(arguments)
    try:
        train = read_rows(options.rows)
        if options.validation:
            validation = read_rows(options.validation)
        else:
            train, validation = hold_out(train, options.hold_out)
        if not train or not validation:
            raise RolloutError(f"{options.rows}: too few rows to make two splits of")
        prepare(train, validation)
    except (RolloutError, OSError) as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return 1
    print(f"{PREPARED / 'train.jsonl'}: {len(train)} rows")
    print(f"{PREPARED / 'validation.jsonl'}: {len(validation)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
