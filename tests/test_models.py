"""Models that a class asks, under NeMo Gym's own loop."""

import json

import pytest
from scripted_judge import serving

from projects import printing

# A policy that answers the first rows with their samples, until its input ends. Every
# second row is written in NeMo Gym's native format.
POLICY = """
import sys
from pathlib import Path
from env_runtime.evaluation.policies import solution_for
from env_runtime.evaluation.rows import load_rows, write_rows
from env_runtime.evaluation.scripted_model import scripted_model
rows = load_rows()[:4]
for number, row in enumerate(rows):
    row["responses_create_params"]["metadata"] = {"row": str(number)}
    if number % 2:
        row |= row.pop("ground_truth")[0]
write_rows(Path(sys.argv[1]), rows)
with scripted_model([solution_for(row, []) for row in rows]) as model:
    print(model.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def judge():
    with serving() as server:
        yield server


def with_gym_command(environment):
    """A venv that borrows its packages lacks their commands."""
    command = environment.python.with_name("gym")
    code = "import sys; from nemo_gym.cli.main import main; sys.exit(main())"
    command.write_text(f"#!{environment.python}\n{code}\n")
    command.chmod(0o755)


@pytest.mark.nightly
def test_nemo_gym_s_own_loop_asks_the_judge(variant, series, judge, tmp_path):
    """A row whose judge was down is left out, and on 0.7 graded later."""
    environment = variant(archetype="answer", backend="judge")
    with_gym_command(environment)
    example = (environment.folder / "data/example.jsonl").read_text().splitlines()
    questions = [json.loads(row)["ground_truth"][0]["question"] for row in example]
    # It is down for the first row, also for a harmless question.
    others = questions[1:]
    judge.say = lambda text: "MET" if any(q in text for q in others) else 401
    variables = {"JUDGE_MODEL": "scripted", "JUDGE_BASE_URL": judge.url}
    rows, output = tmp_path / "rows.jsonl", tmp_path / "rollouts.jsonl"
    command = ["-m", "env_runtime.under_gym"]
    with printing(environment, POLICY, rows) as url:
        options = ["--model", "scripted", "--model-url", url]
        options += ["--rows", str(rows), "--output", str(output)]
        printed = environment.run(*command, *options, **variables)
    rollouts = [json.loads(line) for line in output.read_text().splitlines()]
    for rollout in rollouts:
        assert (rollout["reward"], rollout["mask_sample"]) == (1.0, False)
        assert (len(rollout["model_calls"]), rollout["judge_tokens"]) == (3, 45)
    assert len(rollouts) == 3
    assert "1 of 4 rows wait for a model that the class asks" in printed
    failures = output.with_name("rollouts_failures.jsonl")
    [failed] = map(json.loads, failures.read_text().splitlines())
    assert (failed["_ng_task_index"], failed["failure_kind"]) == (0, "judge_failed")
    if series == "0.4":
        return
    judge.say = lambda text: "MET"
    asked = len(judge.requests)
    command += ["--reverify", str(output), "--judge-failed-only"]
    again = environment.run(*command, **variables)
    assert [f"row {number}: reward 1.0" for number in (1, 2, 3, 4)] == (
        again.splitlines()[:4]
    )
    assert len(judge.requests) == asked + 3  # nobody else was graded again
