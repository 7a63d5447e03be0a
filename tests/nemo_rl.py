"""The calls of NeMo RL's Ray actor for NeMo Gym, on prepared rows.

    python nemo_rl.py NEMO_GYM_FOLDER AGENT

This follows nemo_rl/environments/nemo_gym.py of NeMo RL, August 2026, except that a
scripted model replaces vLLM, and that the servers share one venv. Prints
{"rewards": [...]}; the model plays the oracle in every other row.
"""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

FOLDER, AGENT = Path(sys.argv[1]), sys.argv[2]
sys.path.append(str(FOLDER.parent))

import ray
from env_runtime.evaluation.policies import solve
from env_runtime.evaluation.rows import load_rows
from env_runtime.evaluation.scripted_model import scripted_model
from env_runtime.gym.processes import free_port
from env_runtime.project import here
from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig
from omegaconf import DictConfig

ROWS = 4


def share_venv(folder: Path) -> None:
    [own] = FOLDER.glob("resources_servers/*/server.py")
    for server in (
        f"resources_servers/{own.parent.name}",
        f"responses_api_agents/{AGENT}",
        "responses_api_models/openai_model",
        "environment_servers/legacy_agent",  # NeMo Gym 0.7 puts one before an agent
    ):
        (folder / server).mkdir(parents=True)
        (folder / server / ".venv").symlink_to(sys.prefix)


async def rollouts(rows: list[dict], head: BaseServerConfig) -> list[float]:
    rewards = {}
    for task in RolloutCollectionHelper().run_examples(rows, head_server_config=head):
        row, result = await task
        assert row["agent_ref"]["name"].endswith(AGENT)
        rewards[row["_rowidx"]] = result["reward"]
    return [rewards[number] for number in range(len(rows))]


def scripted_rows() -> tuple[list[dict], list]:
    """The first rows, and the calls that the model makes in each."""
    rows = load_rows(FOLDER / "prepared" / "train.jsonl")[:ROWS]
    plans = []
    for number, row in enumerate(rows):
        tools = row["responses_create_params"]["tools"]
        plans.append(solve(row, tools) if number % 2 == 0 else [])
        row["responses_create_params"]["metadata"] = {"row": str(number)}
        row["_rowidx"] = number
    return rows, plans


@contextlib.contextmanager
def serving(plans: list) -> Generator[BaseServerConfig]:
    """NeMo Gym's servers, which run in the with block. Yields the head's address."""
    [config] = FOLDER.glob("configs/*_agent.yaml")
    ray.init(include_dashboard=False, log_to_driver=False)
    port = free_port()
    helper = RunHelper()
    with tempfile.TemporaryDirectory() as venvs, scripted_model(plans) as model:
        share_venv(Path(venvs))
        settings = {
            "config_paths": [
                "responses_api_models/openai_model/configs/openai_model.yaml",
                f"configs/{config.name}",
            ],
            "policy_model_name": "scripted",
            "policy_api_key": "dummy_key",
            "policy_base_url": model.url,
            "default_host": "127.0.0.1",
            "ray_head_node_address": ray.get_runtime_context().gcs_address,
            HEAD_SERVER_KEY_NAME: {"host": "127.0.0.1", "port": port},
            "uv_venv_dir": venvs,
            "skip_venv_if_present": True,
        }
        helper.start(
            global_config_dict_parser_config=GlobalConfigDictParserConfig(
                dotenv_path=Path("nemo_gym_env.yaml").resolve(),
                initial_global_config_dict=DictConfig(settings),
                skip_load_from_cli=True,
            )
        )
        try:
            yield BaseServerConfig(host="127.0.0.1", port=port)
        finally:
            helper.shutdown()


def main() -> None:
    here(FOLDER)
    rows, plans = scripted_rows()
    with serving(plans) as head:
        rewards = asyncio.run(rollouts(rows, head))
    print(json.dumps({"rewards": rewards}))


if __name__ == "__main__":
    main()
