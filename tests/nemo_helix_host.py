"""The Gym host of a NeMo Helix job, without Helix, for one package.

    python nemo_helix_host.py PACKAGE PLAN

PACKAGE has environment/ and dataset/, and PLAN is a .jsonl file: each line is a row of the
dataset with a plan, the calls that the model makes. The servers get venvs of their own,
from the package's wheels, and the model is a script that answers like vLLM. Prints
{"run_examples": [...], "eval": [...], "changed": [...]}: the rewards in the order of the
rows, played in two ways, and what the host's second installation changed in the venvs.

It needs a network for nothing but 127.0.0.1, which it brings up.
"""

import asyncio
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

PACKAGE, PLAN = Path(sys.argv[1]), Path(sys.argv[2])
ENVIRONMENT, WHEELS = PACKAGE / "environment", PACKAGE / "environment/wheels"
os.environ |= {
    "NEMO_GYM_EXTRA_ROOTS": str(ENVIRONMENT),
    "UV_FIND_LINKS": str(WHEELS),
    "UV_NO_CONFIG": "1",
    "TRUSTED_POLICY": "1",
}

import ray
import yaml
from env_runtime.evaluation.scripted_model import ScriptedModel, _Handler, running
from nemo_gym.cli.env import RunHelper
from nemo_gym.global_config import GlobalConfigDictParserConfig
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.server_utils import HEAD_SERVER_KEY_NAME, BaseServerConfig
from omegaconf import DictConfig
from packaging.utils import parse_wheel_filename

VENVS = Path("venvs").resolve()
HEAD = BaseServerConfig(host="127.0.0.1", port=21011)


def bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(some, 0x8914, request)  # SIOCSIFFLAGS


class Model(ScriptedModel):
    """A scripted model with vLLM's token ids. The last message of a prompt names a row."""

    def chunk(self, request: dict) -> dict:
        texts = [one["content"] for one in request["messages"] if one["role"] == "user"]
        [number] = (text[4:] for text in map(flat, texts) if text.startswith("row "))
        answer = super().chunk({**request, "model": number})
        [choice] = answer["choices"]
        tokens = {"prompt_token_ids": [1], "generation_token_ids": [2]}
        said = {"content": None, **choice.pop("delta"), "generation_log_probs": [0.0]}
        choice["message"] = said | tokens
        return answer | {"object": "chat.completion", "model": request["model"]}


def flat(content: object) -> str:
    """The text of a message, which may have parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return str(content)


class WholeAnswers(_Handler):
    """Sends the one chunk of a stream as a whole answer: vllm_model reads no stream."""

    def _send(self, text: str, kind: str = "application/json") -> None:
        super()._send(text.removeprefix("data: ").partition("\n\n")[0])


async def run_examples(rows: list[dict]) -> list[float]:
    rewards = {}
    helper = RolloutCollectionHelper()
    numbered = [{**row, "_rowidx": number} for number, row in enumerate(rows)]
    for task in helper.run_examples(numbered, head_server_config=HEAD):
        row, result = await task
        rewards[row["_rowidx"]] = result["reward"]
    return [rewards[number] for number in range(len(rows))]


def eval_run(rows: list[dict]) -> list[float]:
    """The rewards of `gym eval run`, against the servers that run already."""
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    gym = Path(sys.executable).with_name("gym")
    head = ["++head_server.host=127.0.0.1", f"++head_server.port={HEAD.port}"]
    options = ["--input", "rows.jsonl", "--output", "rollouts.jsonl"]
    subprocess.run(
        [gym, "eval", "run", "--no-serve", *options, *head], check=True, stdout=2
    )
    played = map(json.loads, Path("rollouts.jsonl").read_text().splitlines())
    found = {one["_ng_task_index"]: one["reward"] for one in played}
    return [found[number] for number in range(len(rows))]


def install_all() -> list[str]:
    """Do the host's second installation, twice. Returns what it changed in any venv.

    It may add packages the first time: those that only other servers need.
    """
    names = {parse_wheel_filename(wheel.name)[0] for wheel in WHEELS.glob("*.whl")}
    changed = []
    for venv in [*VENVS.glob("resources_servers/*"), *VENVS.glob("*_agents/*")]:
        pip = [venv / ".venv/bin/python", "-m", "pip"]
        install = [*pip, "install", "--quiet", "--no-index", f"--find-links={WHEELS}"]
        states = []
        for number in range(3):
            if number:
                subprocess.run([*install, *sorted(names)], check=True, stdout=2)
            listed = subprocess.check_output(
                [*pip, "list", "--format=freeze"], text=True
            )
            states.append({*listed.split()})
        changed += sorted(states[0] - states[1]) + sorted(states[1] ^ states[2])
    return changed


def main() -> None:
    bring_up_loopback()
    lines = [json.loads(line) for line in PLAN.read_text().splitlines()]
    rows = []
    for number, line in enumerate(lines):
        params = line["row"]["responses_create_params"]
        if isinstance(prompt := params["input"], str):
            params["input"] = prompt = [{"role": "user", "content": prompt}]
        prompt.append({"role": "user", "content": f"row {number}"})
        rows.append(line["row"])
    ray.init(address="local", include_dashboard=False, log_to_driver=False)
    helper, model = RunHelper(), Model([line["plan"] for line in lines])
    manifest = yaml.safe_load((ENVIRONMENT / "nemo-environment.yaml").read_text())
    with running(model):
        model.RequestHandlerClass = WholeAnswers
        settings = {
            "config_paths": manifest["config_paths"],
            "policy_model_name": "scripted",
            "policy_api_key": "none",
            "policy_base_url": model.url,
            "default_host": "127.0.0.1",
            "ray_head_node_address": ray.get_runtime_context().gcs_address,
            HEAD_SERVER_KEY_NAME: {"host": HEAD.host, "port": HEAD.port},
            "uv_venv_dir": str(VENVS),
        }
        helper.start(
            global_config_dict_parser_config=GlobalConfigDictParserConfig(
                initial_global_config_dict=DictConfig(settings), skip_load_from_cli=True
            )
        )
        try:
            found = {"run_examples": asyncio.run(run_examples(rows))}
            found["eval"] = eval_run(rows)
            found["changed"] = install_all()
        finally:
            helper.shutdown()
    Path("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
