"""Give the configurations of docs/training.md to the trainers' own parsers.

    cd TEMPLATE/benchmarks
    uv run --no-project --with trl --with torch python trainer_configs.py trl
    uv run --no-project --with axolotl==0.19.0 python trainer_configs.py axolotl
    uv run --no-project --python 3.12 --with verifiers==0.4.0 \
        --with CHECKOUT/packages/prime-rl-configs python trainer_configs.py prime-rl
    uv run --no-project --with hydra-core python trainer_configs.py nemo-rl CHECKOUT

CHECKOUT is a checkout of the trainer's repository: prime-rl and NeMo RL are not in any
package index. No parser needs a GPU. Axolotl's own requirements are large: its parser
also runs without most of them, if the package is installed with --no-deps.

Each block is also parsed once with a key that does not exist. A parser that accepts it
proves nothing. Axolotl drops such a key, so its result must have all other keys.
"""

import argparse
import ast
import importlib.util
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs/training.md"
WRONG = "no_such_key"


def block(language: str, text: str) -> str:
    """The block of the page in this language that holds `text`."""
    fences = re.findall(
        rf"^```{language}\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    [found] = [fence for fence in fences if text in fence]
    return found


def trl(checkout: Path | None) -> tuple[Any, Callable[[Any], Any]]:
    from trl import GRPOConfig

    call = next(
        node
        for node in ast.walk(ast.parse(block("python", "environment_factory=")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "GRPOConfig"
    )
    given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    folder = tempfile.mkdtemp()

    def parse(settings: dict[str, Any]) -> Any:
        return GRPOConfig(output_dir=folder, use_cpu=True, bf16=False, **settings)

    return given, parse


def axolotl(checkout: Path | None) -> tuple[Any, Callable[[Any], Any]]:
    os.environ["AXOLOTL_DO_NOT_TRACK"] = "1"
    import yaml
    from axolotl.integrations.base import PluginManager
    from axolotl.utils.config import validate_config
    from axolotl.utils.dict import DictDefault

    given = yaml.safe_load(block("yaml", "NemoGymPlugin"))
    for name in given["plugins"]:  # without register(), which looks for the servers
        PluginManager.get_instance().register(name)
    machine = {"bf16": True, "n_gpu": 2, "n_node": 1, "compute_capability": "sm_90"}

    def parse(settings: dict[str, Any]) -> Any:
        kept = validate_config(
            DictDefault(settings),
            capabilities=machine,
            env_capabilities={"torch_version": "2.11.0"},
        )
        lost = [key for key in settings if key not in kept]
        lost += [f"trl.{key}" for key in settings["trl"] if key not in kept["trl"]]
        if lost:
            raise ValueError(f"Axolotl dropped {', '.join(lost)}")
        return {key: kept[key] for key in settings}

    return given, parse


def prime_rl(checkout: Path | None) -> tuple[Any, Callable[[Any], Any]]:
    import tomllib

    import tomli_w
    from prime_rl.configs.rl import RLConfig
    from pydantic_config import cli

    given = tomllib.loads(block("toml", "orchestrator.train.source"))

    def parse(settings: dict[str, Any]) -> Any:
        with tempfile.NamedTemporaryFile("wb", suffix=".toml") as file:
            tomli_w.dump(settings, file)
            file.flush()
            return cli(RLConfig, args=["@", file.name]).orchestrator.train.source

    return given, parse


def nemo_rl(checkout: Path | None) -> tuple[Any, Callable[[Any], Any]]:
    if checkout is None:
        raise SystemExit("nemo-rl needs a CHECKOUT")
    # Loaded by its path: the package's __init__ and other modules need torch and Ray.
    place = checkout / "nemo_rl/utils/config.py"
    spec = importlib.util.spec_from_file_location("nemo_rl_config", place)
    assert spec and spec.loader
    loader = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loader)
    loader.register_omegaconf_resolvers()
    command = block("sh", "run_grpo_nemo_gym.py").replace("$NEMO_GYM_EXTRA_ROOTS", "/g")
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    config = checkout / words[words.index("--config") + 1]
    overrides = words[words.index("--config") + 2 :]
    given = dict(each.split("=", 1) for each in overrides)

    def parse(settings: dict[str, Any]) -> Any:
        pairs = [f"{key}={value}" for key, value in settings.items()]
        whole = loader.parse_hydra_overrides(loader.load_config(str(config)), pairs)
        return {"data": whole.data.train, "config_paths": whole.env.nemo_gym}

    return given, parse


PARSERS = {"trl": trl, "axolotl": axolotl, "prime-rl": prime_rl, "nemo-rl": nemo_rl}


def main() -> None:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("trainer", choices=PARSERS)
    parser.add_argument("checkout", nargs="?", type=Path)
    options = parser.parse_args()
    given, parse = PARSERS[options.trainer](options.checkout)
    print(parse(given))
    try:
        parse({**given, WRONG: 1})
    except BaseException as error:
        if WRONG not in str(error).replace("-", "_"):
            raise
        print(f"PASS {options.trainer}: it knows {', '.join(given)}")
    else:
        sys.exit(f"FAIL {options.trainer}: it takes any key, and so it proves nothing")


if __name__ == "__main__":
    main()
