"""The game under Prime Intellect's verifiers, as configs/my_env_eval.toml configures it."""

import json
import re
import shutil

import pytest
from chat_model import playing

from nights import ONE_SERIES
from projects import UVX, run

KEY = "a-key"
ROWS = 4

# The calls that solve each row.
ORACLE = """
import json
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.rows import load_rows
rows = load_rows()
print(json.dumps([solve(row, row["responses_create_params"]["tools"]) for row in rows]))
"""


@pytest.mark.nightly  # by day, the class under verifiers
@ONE_SERIES
def test_verifiers_gives_each_row_its_reward(generate, tmp_path):
    """The folder has the same file, and rows that the model can tell apart."""
    environment = generate(archetype="game")
    oracle = json.loads(environment.run("-c", ORACLE))
    text = (environment.folder / "data/example.jsonl").read_text()
    rows = [json.loads(line) for line in text.splitlines()[:ROWS]]
    plans = []
    for number, row in enumerate(rows):
        row["responses_create_params"]["input"][-1]["content"] += (
            f" This is row {number}."
        )
        calls = oracle[number] if number % 2 == 0 else []
        plans.append((calls, row["ground_truth"][0]["target"]))
    (tmp_path / "data").mkdir()
    numbered = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "data/example.jsonl").write_text(numbered)
    shutil.copy(environment.folder / "configs/my_env_eval.toml", tmp_path)

    command = [*UVX, "--from", "verifiers==0.4.0", "vf-eval", "@", "my_env_eval.toml"]

    def plan_of(messages):
        return plans[int(re.search(r"row (\d+)", str(messages[0]))[1])]

    with environment.serving() as url, playing(plan_of) as model:
        urls = ["--client.base-url", model.url, "--env.taskset.task.resources-url", url]
        printed = run([*command, *urls], tmp_path, OPENAI_API_KEY=KEY).stdout
    assert model.keys == {f"Bearer {KEY}"}

    [traces] = tmp_path.glob("results/verifiers/*/traces.jsonl")
    rewards = {}
    for line in traces.read_text().splitlines():
        episode = json.loads(line)
        [trace] = episode["traces"]
        assert not trace["errors"], printed
        rewards[episode["task"]["data"]["idx"]] = trace["rewards"]["nemo_gym"]["score"]
    assert rewards == {0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0}
