"""Axolotl's own calls of NeMo Gym's agent, on prepared rows, with a scripted model.

    cd my_env/nemo_gym && uv run python -m env_runtime.prepare
    .venv/bin/python TEMPLATE/benchmarks/axolotl_rollouts.py . simple_agent AXOLOTL_PYTHON

AXOLOTL_PYTHON is an interpreter that has axolotl 0.19. Its nemo_gym plugin finds the
agent of the running servers, reads the rows and asks for a rollout of each. Without a
GPU, this does not test what the plugin does with the tokens. The model plays the oracle
in every other row. Prints the rewards, and how many rows the plugin can tell apart.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.argv[1] = str(Path(sys.argv[1]).resolve())

from nemo_rl import scripted_rows, serving

PLUGIN = """
import asyncio, json, sys
from axolotl.integrations.nemo_gym.dataset import load_nemo_gym_datasets
from axolotl.integrations.nemo_gym.multi_turn import _call_agents
from axolotl.integrations.nemo_gym.server import get_agent_servers, get_server_configs

folder, port = sys.argv[1:]
agents = get_agent_servers(get_server_configs(head_port=int(port)))
dataset = load_nemo_gym_datasets(folder, [{"path": "rows.jsonl"}])
known = {row["prompt"][-1]["content"] for row in dataset}
rows = sorted((row["verify_extra"] for row in dataset), key=lambda row: row["_rowidx"])
results = asyncio.run(_call_agents(rows, agents, timeout=60))
rewards = [result["reward"] for result in results]
print(json.dumps({"agents": list(agents), "rewards": rewards, "known": len(known)}))
"""


def main() -> None:
    rows, plans = scripted_rows()
    with tempfile.TemporaryDirectory() as folder, serving(plans) as head:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        Path(folder, "rows.jsonl").write_text(lines)
        done = subprocess.run(
            [sys.argv[3], "-c", PLUGIN, folder, str(head.port)],
            env={**os.environ, "AXOLOTL_DO_NOT_TRACK": "1"},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
    print(done.stdout)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
